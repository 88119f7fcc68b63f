package watch

import (
	"cmp"
	"maps"
	"time"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/result"
)

// live counts what a watch sees, for whoever scrapes it meanwhile. A nil one counts nothing.
type live struct {
	result.WatchCounts
	client clients.Client
	told   func(result.WatchCounts)
	// cache is the size of the block cache, 0 if it is not known; nil: not to be asked. A process
	// that opens its database has not written it yet.
	cache func() int64
	asked int
}

// cacheAsked is how many seconds a watch asks for the size of the cache, for its metrics.
const cacheAsked = 10

// newLive counts of a process with a database of an engine; nil if nobody is to be told.
func newLive(t *probe.Target, dir, engine string, told func(result.WatchCounts)) *live {
	if told == nil {
		return nil
	}

	return &live{
		told:   told,
		client: dbformat.Client(dir, dbformat.Found{Engine: engine}, nil),
		WatchCounts: result.WatchCounts{
			PID:      t.PID,
			Process:  t.Name,
			Engine:   engine,
			Database: dir,
			Gets:     map[string]result.WatchKeyCounts{},
			Reads:    map[string]uint64{},
		},
	}
}

// allKeys are those of a program whose kinds of keys are not known.
const allKeys = "all keys"

// get counts one of a column family; "": it is not known, or the engine has none. timed: its time
// is not that of another one in its batch.
func (l *live) get(g *probe.Get, family string, timed bool) {
	if l == nil {
		return
	}

	kind := dbformat.Section(l.client, g.Key)
	switch {
	case kind != "":
	case family != "":
		name := unit.Printable(family)
		kind = cmp.Or(dbformat.TableWords(l.client, name), "column family "+name)
	default:
		kind = allKeys
	}

	counts := l.Gets[kind]
	counts.Gets++
	if timed {
		counts.Seconds += (g.End - g.Start).Seconds()
	}
	if !g.Found {
		counts.Absent++
	}

	l.Gets[kind] = counts
}

func (l *live) seek() {
	if l != nil {
		l.Seeks++
	}
}

func (l *live) read(purpose string) {
	if l != nil {
		l.Reads[purpose]++
	}
}

// tell hands on a copy, after so much time in which every Get was seen.
func (l *live) tell(observed time.Duration) {
	if l == nil {
		return
	}

	if l.cache != nil && l.CacheBytes == 0 && l.asked < cacheAsked {
		l.CacheBytes, l.asked = l.cache(), l.asked+1
	}

	// The open window is measured by another clock than closed ones, and counters only grow.
	l.ObservedSeconds = max(l.ObservedSeconds, observed.Seconds())
	l.Memory = host.MemoryOf(l.PID)
	counts := l.WatchCounts
	counts.Gets, counts.Reads = maps.Clone(l.Gets), maps.Clone(l.Reads)
	l.told(counts)
}
