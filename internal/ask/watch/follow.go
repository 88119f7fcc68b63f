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
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/observe/resolve"
)

// followed is a database that is followed in the background while its Gets are watched.
type followed struct {
	*resolve.Following
	names   *probe.Names
	stop    chan struct{}
	running sync.WaitGroup
	err     error // why it is not followed
}

// lookEach is how often the database is looked at: what is found then can be older by as much.
const lookEach = 10 * time.Millisecond

func follow(dir string, layout Layout) *followed {
	f := &followed{stop: make(chan struct{})}
	if layout.Follow == nil {
		return f
	}
	if f.names, f.err = probe.Appeared(resolve.Folders(dir)); f.err != nil {
		return f
	}
	if f.Following, f.err = layout.Follow(f.names.Next); f.err != nil {
		f.Following, f.err = nil, errors.Join(f.err, f.names.Close())
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
	if f.Following == nil {
		return nil
	}
	close(f.stop)
	f.running.Wait()
	return f.names.Close()
}

// record writes the block accesses of the Gets of some numbers, each at its own moment.
func (a *analysis) record(ctx context.Context, wanted []int, header trace.Header, next func() ([]byte, bool, bool), out io.Writer) (err error) {
	if a.follow.Following == nil {
		return a.layout.Record(ctx, a.families, next, uint64(len(wanted)), header, out)
	}
	var seen []resolve.Seen
	for _, i := range wanted {
		for _, r := range a.gets[i].reads {
			seen = append(seen, resolve.Seen{File: r.table.number, At: a.gets[i].start})
		}
	}
	a.follow.Correct(seen)
	moments, err := a.follow.Moments()
	if err != nil {
		return err
	}
	header.Database, header.Filled = moments.Identity(), a.hasRead
	header.Events, _ = a.events(wanted, a.cache.Bytes)
	return record(ctx, moments, next, uint64(len(wanted)), header, out)
}

// events are the changes of the database as they come between the Gets, for a cache of a size, and what memtables took of it at first.
func (a *analysis) events(wanted []int, cacheBytes int64) (events []cachesim.Event, reserved int64) {
	memTable, wrote := int64(predict.OpenReserve), a.cache.MemTable != nil
	if wrote {
		memTable = a.cache.MemTable(cacheBytes)
	}
	if a.follow.Following == nil {
		return nil, memTable
	}
	before := func(at time.Duration) int {
		return sort.Search(len(wanted), func(i int) bool { return a.gets[wanted[i]].start > at })
	}
	changes, reserved := a.follow.Changes(memTable, wrote)
	for _, c := range changes {
		events = append(events, cachesim.Event{Get: before(c.At), Gone: c.Gone, Held: c.Held})
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
