package main

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/blockreads"
)

// TestReads: block reads vary so little that a test can have a limit for them.
func TestReads(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if err := run(dir, &out); err != nil {
		t.Fatal(err)
	}

	t.Log(out.String())
	l, err := open(dir, 64<<20) // the cache holds all blocks
	if err != nil {
		t.Fatal(err)
	}

	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()

	first, err := l.reads(3 * gets)
	if err != nil {
		t.Fatal(err)
	}

	// What Gets read again and again is read once: a few blocks are left that none has read before.
	if perGet := float64(first.Total().Count) / (3 * gets); perGet > 0.01 {
		t.Errorf("%.3f block reads per Get with a cache for all blocks:\n%v", perGet, first)
	}
}

// BenchmarkGet reports block reads beside time: unlike time, they hardly depend on the machine.
func BenchmarkGet(b *testing.B) {
	dir := b.TempDir()
	if err := load(dir); err != nil {
		b.Fatal(err)
	}

	l, err := open(dir, cacheBytes)
	if err != nil {
		b.Fatal(err)
	}

	defer func() {
		if err := l.close(); err != nil {
			b.Error(err)
		}
	}()

	if _, err := l.reads(gets); err != nil { // which warms the cache up
		b.Fatal(err)
	}

	before := l.counter.Snapshot()
	for b.Loop() {
		if err := l.get(); err != nil {
			b.Fatal(err)
		}
	}

	reads := l.counter.Snapshot().Sub(before)
	b.ReportMetric(float64(reads.Total().Count)/float64(b.N), "block-reads/op")
	b.ReportMetric(float64(reads.Reads.Type(blockreads.Data).Count)/float64(b.N), "data-reads/op")
}
