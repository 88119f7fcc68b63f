package watch

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blocktable"
	"github.com/statelab/statelab/internal/observe/follow"
	"github.com/statelab/statelab/internal/observe/getpath"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/observe/resolve"
)

// following is a database that is followed while its owner writes into it.
type following interface {
	Look(at time.Duration)
	Correct(all []follow.Seen)
	Changes(memTableBytes int64, wrote bool) (changes []follow.Change, held int64)
	Came() map[uint64]bool
	Level(file uint64) (level int, known bool)
	Close() error
	// source resolves Gets of some column families, each at its moment, if nothing is followed any more.
	source(families []string) (source, error)
}

type source interface {
	getpath.Source
	Identity() string
}

// oneTree is a database without column families.
type oneTree struct{ *resolve.Following }

func (f oneTree) source([]string) (source, error) { return f.Moments() }

// blockTables is a database with column families, whose number begins a key.
type blockTables struct{ *blocktable.Following }

func (f blockTables) source(families []string) (source, error) { return f.Source(families) }

// followed is a database that is followed in the background while its Gets are watched.
type followed struct {
	following
	names   *probe.Names
	stop    chan struct{}
	running sync.WaitGroup
	err     error // why it is not followed
}

// lookEach is how often the database is looked at: what is found then can be older by as much.
const lookEach = 10 * time.Millisecond

func followDatabase(layout Layout) *followed {
	f := &followed{stop: make(chan struct{})}
	if f.names, f.err = probe.Appeared(layout.Folders); f.err != nil {
		return f
	}
	if f.following, f.err = layout.Follow(f.names.Next); f.err != nil {
		f.following, f.err = nil, errors.Join(f.err, f.names.Close())
		return f
	}
	f.running.Go(func() {
		each := time.NewTicker(lookEach)
		defer each.Stop()
		for ended := false; !ended; {
			select {
			case <-each.C:
			case <-f.stop:
				ended = true
			}
			f.Look(probe.Now())
		}
	})
	return f
}

// end looks once more, and no more.
func (f *followed) end() error {
	if f.following == nil {
		return nil
	}
	close(f.stop)
	f.running.Wait()
	return f.names.Close()
}

// record writes the block accesses of the Gets of some numbers, each at its own moment.
func (a *analysis) record(ctx context.Context, wanted []int, header trace.Header, next func() ([]byte, bool, bool), out io.Writer) (err error) {
	var seen []follow.Seen
	for _, i := range wanted {
		for _, r := range a.gets[i].reads {
			seen = append(seen, follow.Seen{File: r.table.number, At: a.gets[i].start})
		}
	}
	a.follow.Correct(seen)
	families := a.families
	if families == nil {
		families = []string{""}
	}
	source, err := a.follow.source(families)
	if err != nil {
		return err
	}
	header.Database, header.Filled = source.Identity(), a.hasRead
	if of, is := source.(interface{ CacheKeys() map[uint64][2]uint64 }); is {
		header.CacheKeys = of.CacheKeys()
	}
	header.Events, _ = a.events(wanted, a.cache.Bytes)
	return record(ctx, source, next, uint64(len(wanted)), header, out)
}

// events are the changes of the database as they come between the Gets, for a cache of a size, and what memtables took of it at first.
func (a *analysis) events(wanted []int, cacheBytes int64) (events []cachesim.Event, reserved int64) {
	memTable, wrote := int64(predict.OpenReserve), a.cache.MemTable != nil
	if wrote {
		memTable = a.cache.MemTable(cacheBytes)
	}
	before := func(at time.Duration) int {
		return sort.Search(len(wanted), func(i int) bool { return a.gets[wanted[i]].start > at })
	}
	changes, reserved := a.follow.Changes(memTable, wrote)
	for _, c := range changes {
		events = append(events, cachesim.Event{Get: before(c.At), Came: c.Came, Gone: c.Gone, Held: c.Held})
	}
	events = append(events, a.passes(len(wanted), before)...)
	slices.SortStableFunc(events, func(a, b cachesim.Event) int { return cmp.Compare(a.Get, b.Get) })
	return events, reserved
}

// mostPasses bounds the events of compactions, whose single reads do not matter.
const mostPasses = 20_000

// passes are how far compactions had come in tables.
func (a *analysis) passes(gets int, before func(time.Duration) int) (events []cachesim.Event) {
	each := 1 + gets/mostPasses
	type pass struct {
		get  int
		file uint64
	}
	last := map[pass]int{}
	for _, p := range a.passed {
		key := pass{(before(p.at) + each - 1) / each * each, p.table.number}
		if i, known := last[key]; known {
			events[i].Offset = max(events[i].Offset, uint64(p.offset))
			continue
		}
		last[key] = len(events)
		events = append(events, cachesim.Event{Get: key.get, Passed: key.file, Offset: uint64(p.offset)})
	}
	return events
}
