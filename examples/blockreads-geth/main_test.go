package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEqualsCacheMisses: run fails if the counts differ.
func TestEqualsCacheMisses(t *testing.T) {
	for version, open := range map[string]opener{"v1": openV1, "v2": openV2} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(t.TempDir(), version, open, &out)
			t.Log(out.String())
			if err != nil {
				t.Fatal(err)
			}

			for _, column := range []string{" data ", " index "} {
				if !strings.Contains(out.String(), column) {
					t.Errorf("no%sblocks were read: nothing was compared", column)
				}
			}
		})
	}
}

// BenchmarkGet reports block reads beside time, as any benchmark of go-ethereum can whose database
// openV2 opens. benchstat compares them as it compares times.
func BenchmarkGet(b *testing.B) {
	dir := b.TempDir()
	if err := load(dir, openV2); err != nil {
		b.Fatal(err)
	}

	db, c, err := openV2(dir, "benchmark/", true)
	if err != nil {
		b.Fatal(err)
	}

	defer func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	}()

	random := rand.New(rand.NewPCG(1, 1))
	get := func() {
		if _, err := db.Get(key(random.IntN(accounts))); err != nil {
			b.Fatal(err)
		}
	}

	for range gets { // which warms the cache up
		get()
	}

	before := c.Snapshot()
	for b.Loop() {
		get()
	}

	reads := c.Snapshot().Sub(before).Total().Count
	b.ReportMetric(float64(reads)/float64(b.N), "block-reads/op")
}
