package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/probe"
)

// tableOf has one data block at 0, of 1,000 bytes, and a filter behind it.
func tableOf(t *testing.T, number uint64) *table {
	t.Helper()
	blocks, err := blockio.NewBlockMap([]blockio.Block{{Type: engine.Data, Offset: 0, Length: 1000}, {Type: engine.Filter, Offset: 1005, Length: 100}}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	return &table{number: number, anatomy: &blockio.Anatomy{Map: blocks}}
}

// A Get that read a block of a table that a compaction has replaced since, missed the block of that type which it asks
// for in the tables of the end; a block that it asks for besides it did not miss.
func TestReadsOfReplacedTables(t *testing.T) {
	live, gone := tableOf(t, 8), tableOf(t, 7)
	gets := []get{
		{keyEnd: 1, reads: []read{{table: live, offset: 0}}},
		{keyEnd: 2, reads: []read{{table: gone, offset: 0}}}, // another block of the same keys
		{keyEnd: 3},
	}
	trace := &cachesim.Trace{}
	for _, offset := range []uint64{0, 2000, 3000} {
		trace.BeginGet()
		for _, b := range []cachesim.Block{{File: 8, Offset: 1005, Bytes: 100, Type: engine.Filter}, {File: 8, Offset: offset, Bytes: 1000, Type: engine.Data}} {
			if err := trace.Touch(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := analysis{collector: &collector{gets: gets, keys: []byte("abc")}}
	firsts := a.accessed(trace, []int{0, 1, 2})
	want := []first{{0, 0, false}, {0, 100, true}, {1, 1100, true}, {2, 2100, false}}
	if diff := cmp.Diff(want, firsts, cmp.AllowUnexported(first{})); diff != "" {
		t.Errorf("first accesses (-want +got):\n%s", diff)
	}
	if a.w.ReplacedReads != 1 {
		t.Errorf("%d reads of tables that are gone, not 1", a.w.ReplacedReads)
	}
}

// Of a process with several databases, the Gets count whose handle reads tables of the one that is watched.
func TestGetsOfAnotherDatabaseAreLeftOut(t *testing.T) {
	c := &collector{pending: map[probe.GetID][]read{}, ours: map[uint64]bool{}, errors: map[uint64]int{}, histogram: measure.NewHistogram(),
		second: measure.NewHistogram()}
	const ours, other = 0xa000, 0xb000
	for i, g := range []struct {
		key      string
		database uint64
		reads    []read
	}{{"one", other, nil}, {"three", ours, nil}, {"seven", ours, []read{{table: tableOf(t, 7)}}}, {"eleven", other, nil}} {
		id := probe.GetID{Goroutine: 1, Start: uint64(i)}
		if g.reads != nil {
			c.pending[id] = g.reads
		}
		c.Get(&probe.Get{ID: id, Key: []byte(g.key), KeyBytes: len(g.key), Found: true, Database: g.database, End: 5})
	}
	c.choose()
	var keys []string
	for i := range c.gets {
		keys = append(keys, string(c.key(i)))
	}
	if diff := cmp.Diff([]string{"three", "seven"}, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if n := c.histogram.N(); n != 2 {
		t.Errorf("%d latencies, not 2", n)
	}
}
