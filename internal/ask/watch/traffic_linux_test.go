package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/result"
)

// tableOf has one data block at 0, of 1,000 bytes, and a filter behind it.
func tableOf(t *testing.T, number uint64) *table {
	t.Helper()
	blocks, err := blockio.NewBlockMap([]blockio.Block{
		{Type: engine.Data, Offset: 0, Length: 1000},
		{Type: engine.Filter, Offset: 1005, Length: 100},
	}, 2000)
	if err != nil {
		t.Fatal(err)
	}

	return &table{number: number, anatomy: &blockio.TableLayout{Map: blocks}}
}

// A read belongs to the access of its Get to that block; what a Get read without being worked out
// to ask for it is counted. No cache had a block of a table that came while it was watched.
func TestFirstAccesses(t *testing.T) {
	table := tableOf(t, 8)
	gets := []get{
		{keyEnd: 1, reads: []read{{table: table, offset: 0}}},
		{keyEnd: 2, reads: []read{{table: tableOf(t, 7), offset: 0}}},
		{keyEnd: 3},
	}

	trace := &cachesim.Trace{}
	for _, offset := range []uint64{0, 2000, 3000} {
		trace.BeginGet()
		for _, b := range []cachesim.Block{
			{File: 8, Offset: 1005, Bytes: 100, Type: engine.Filter},
			{File: 8, Offset: offset, Bytes: 1000, Type: engine.Data},
		} {
			if err := trace.Touch(b); err != nil {
				t.Fatal(err)
			}
		}
	}

	a := analysis{collector: &collector{gets: gets, keys: []byte("abc"), follow: &followed{}}}
	firsts := a.accessed(trace, []int{0, 1, 2})
	want := []first{
		{get: 0, kind: engine.Filter},
		{get: 0, kind: engine.Data, before: 100, read: true},
		{get: 1, kind: engine.Data, before: 1100},
		{get: 2, kind: engine.Data, before: 2100},
	}

	if diff := cmp.Diff(want, firsts, cmp.AllowUnexported(first{})); diff != "" {
		t.Errorf("first accesses (-want +got):\n%s", diff)
	}

	if a.w.UnexplainedReads != 1 {
		t.Errorf("%d reads that were not asked for, not 1", a.w.UnexplainedReads)
	}

	// In a larger cache it is not known whether the block was that was read; one of a new table was
	// not.
	a.cache.Bytes = 1 << 20
	for _, fresh := range []bool{false, true} {
		low, high := a.bounds(0, []first{{read: true, fresh: fresh}}, 2<<20, 0)
		if want := map[bool]int64{false: 0, true: 1}[fresh]; low != want || high != 1 {
			t.Errorf("fresh %v: %d to %d reads", fresh, low, high)
		}
	}
}

// TestFirstAccessesOfOtherGets: what other Gets than those of the process access first is in its
// cache for certain never, and surely not if its table is new or if more than the cache came since
// the watch began.
func TestFirstAccessesOfOtherGets(t *testing.T) {
	a := analysis{collector: &collector{}, cache: Cache{}}
	a.cache.Bytes = 1000
	for _, c := range []struct {
		of                 first
		low, high, guessed int64
	}{
		{first{other: true}, 0, 1, 0},
		{first{other: true, read: true}, 0, 1, 1},
		{first{other: true, fresh: true}, 1, 1, 0},
		{first{other: true, before: 900}, 1, 1, 0}, // of 1000, memtables have 100
	} {
		all := []first{c.of}
		low, high := a.bounds(0, all, 1000, 100)
		if guessed := guessedReads(all, 900); low != c.low || high != c.high ||
			guessed != c.guessed {
			t.Errorf("%+v: %d to %d reads, %d guessed", c.of, low, high, guessed)
		}
	}

	if guessed := guessedReads([]first{{read: true}}, 900); guessed >= 0 {
		t.Errorf("reads of the process are no guess: %d", guessed)
	}
}

// Of a process with several databases, the Gets count whose handle reads tables of the one that is
// watched.
func TestGetsOfAnotherDatabaseAreLeftOut(t *testing.T) {
	c := &collector{
		pending:   map[probe.GetID][]read{},
		ours:      map[uint64]bool{},
		errors:    map[uint64]int{},
		histogram: measure.NewHistogram(),
		second:    seconds{latency: measure.NewHistogram()},
	}

	const ours, other = 0xa000, 0xb000
	for i, g := range []struct {
		key      string
		database uint64
		reads    []read
	}{
		{"one", other, nil},
		{"three", ours, nil},
		{"seven", ours, []read{{table: tableOf(t, 7)}}},
		{"eleven", other, nil},
	} {
		id := probe.GetID{Goroutine: 1, Start: uint64(i)}
		if g.reads != nil {
			c.pending[id] = g.reads
		}

		c.Get(&probe.Get{
			ID:       id,
			Key:      []byte(g.key),
			KeyBytes: len(g.key),
			Found:    true,
			Database: g.database,
			End:      5,
		})
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

// The ranges of other sizes are as much wider as the simulation of the present one was wrong, and a
// larger cache reads no more than what was seen.
func TestRangesOfOtherSizes(t *testing.T) {
	simulated := func(bytes int64, low, reads, high float64) result.WatchSimulated {
		return result.WatchSimulated{CacheBytes: bytes, Low: low, BlockReadsPerGet: reads,
			High: high, Seen: 0.25}
	}

	for _, c := range []struct {
		name                 string
		present, other, want result.WatchSimulated
	}{
		{"right", simulated(4, 0.25, 0.25, 0.25), simulated(8, 0.1, 0.1, 0.2),
			simulated(8, 0.1, 0.1, 0.2)},
		{"too low", simulated(4, 0.125, 0.125, 0.125), simulated(8, 0, 0.0625, 0.0625),
			simulated(8, 0, 0.0625, 0.1875)},
		{"too low, and a smaller one", simulated(4, 0.125, 0.125, 0.125),
			simulated(2, 0.125, 0.125, 0.5), simulated(2, 0.25, 0.25, 0.625)},
		{"too high", simulated(4, 0.5, 0.5, 0.5), simulated(8, 0.375, 0.375, 0.375),
			simulated(8, 0.125, 0.25, 0.25)},
	} {
		if widen(&c.other, c.present); c.other != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.other, c.want)
		}
	}
}

// The sizes that are simulated reach one that holds all blocks, so that the verdict does not change
// when somebody asks for that size, too.
func TestSizesReachTheWorkingSet(t *testing.T) {
	for _, c := range []struct {
		workingSet, memory int64
		want               []int64
	}{
		{10, 1000, []int64{4, 16, 32}},
		{33, 1000, []int64{4, 16, 32, 64}},
		{200, 1000, []int64{4, 16, 32, 64, 128, 256}},
		{200, 100, []int64{4, 16, 32, 64}},
	} {
		if diff := cmp.Diff(c.want, otherSizes(8, c.workingSet, c.memory)); diff != "" {
			t.Errorf("%d in %d (-want +got):\n%s", c.workingSet, c.memory, diff)
		}
	}
}
