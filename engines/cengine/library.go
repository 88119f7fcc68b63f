//go:build cgo

package cengine

/*
#cgo CFLAGS: -I${SRCDIR}/../../native
#include "calls.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib"
)

const (
	abi    = C.STATELAB_ENGINE_ABI
	header = "statelab_engine.h"
)

// library is a loaded table of functions that has been checked. It stays loaded
// until the process ends: threads of the library may still be running in it.
type library struct {
	path  string
	table *C.statelab_engine

	name, version, licence, durability string
	capabilities                       []engine.Capability
	stored                             []string // settings that a database keeps
}

// declarable are the capabilities that the table of functions has room for.
var declarable = [...]engine.Capability{engine.CanReadBlocks, engine.CanTraceAccesses,
	engine.CanDirect, engine.CanBudget,
	engine.SharesReads, engine.UsesPageCache, engine.IsVolatile, engine.HasNoCache,
	engine.HasNoHandles}

func load(path string) (*library, error) {
	if path == "" {
		return nil, fmt.Errorf("no library is named: write --set %s=/path/to/engine.so or set %s",
			LibraryOption, LibraryEnv)
	}

	contract := sharedlib.Contract{
		Noun:       "an engine",
		Header:     header,
		Entry:      "statelab_engine_v1",
		ABI:        abi,
		TableBytes: unsafe.Sizeof(C.statelab_engine{}),
	}

	path, table, err := contract.Load(path)
	if err != nil {
		return nil, err
	}

	l := &library{path: path, table: (*C.statelab_engine)(table)}
	return l, l.examine()
}

// examine checks the table before anything in it is called.
func (l *library) examine() error {
	if missing := C.incomplete(l.table); missing != nil {
		return fmt.Errorf("%s: %s is NULL in its table: every member must be set", l.path,
			C.GoString(missing))
	}

	l.name, l.version = text(l.table.name), text(l.table.version)
	l.licence, l.durability = text(l.table.licence), text(l.table.durability)
	for _, word := range strings.Fields(text(l.table.capabilities)) {
		if name, stored := strings.CutPrefix(word, "stores="); stored {
			l.stored = append(l.stored, name)
			continue
		}

		c := engine.Capability(word)
		if !slices.Contains(declarable[:], c) {
			return fmt.Errorf("%s declares the capability %q, which a library cannot have: use "+
				"some of %v", l.path, word, declarable)
		}

		l.capabilities = append(l.capabilities, c)
	}

	return nil
}

// check asks the library what is wrong with o.
func (l *library) check(o engine.Options) []error {
	var memory sharedlib.Arena
	defer memory.Free()
	options := newOptions(&memory, o)
	return sharedlib.Check(func(e *C.statelab_error) C.int32_t {
		return C.call_check(l.table, options, e)
	})
}

// newOptions are engine.Options in C memory.
func newOptions(memory *sharedlib.Arena, o engine.Options) *C.statelab_options {
	c := (*C.statelab_options)(memory.Zeroed(1, unsafe.Sizeof(C.statelab_options{})))
	c.directory = (*C.char)(memory.String(o.Dir))
	c.create, c.read_only = flag(o.Create), flag(o.ReadOnly)
	c.direct, c.trace_accesses = flag(o.Direct), flag(o.TraceAccesses)
	c.cache_bytes, c.memory_bytes, c.handles = C.int64_t(o.CacheBytes), C.int64_t(o.MemoryBytes),
		C.int64_t(o.Handles)
	own := settingsOf(o)
	c.settings_count, c.settings = C.size_t(len(own)), (*C.statelab_setting)(memory.Settings(own))
	return c
}

func flag(on bool) C.int32_t { return C.int32_t(sharedlib.Flag(on)) }

func text(c *C.char) string { return sharedlib.Text(c) }

// Counters are the library's. One that cannot be true is left out, and told by
// Warnings.
func (d *db) Counters() engine.Counters {
	if d.isClosed() {
		return engine.Counters{}
	}
	return counters(d.stats.dropNonMonotonic(d.readStats))
}

func (d *db) readStats() []sharedlib.Stat {
	return sharedlib.Stats(func(into *C.statelab_stat, capacity C.size_t) C.size_t {
		return C.call_stats(d.library.table, d.c, into, capacity)
	})
}

// stats remembers what the library told that cannot be.
type stats struct {
	totals sharedlib.Totals
	mutex  sync.Mutex
	broken map[string]bool // groups that are believed no more
	warned []engine.Warning
}

// examine refuses counters that are wrong from the start.
func (s *stats) examine(read func() []sharedlib.Stat, capabilities []engine.Capability) error {
	told := read()
	if err := sharedlib.ExamineStats(told, header, isKnown); err != nil {
		return err
	}

	for _, t := range told {
		if partner := partnerOf(t.Name); partner != "" &&
			!slices.ContainsFunc(told, func(t sharedlib.Stat) bool { return t.Name == partner }) {
			return fmt.Errorf("the counter %s is reported without %s", t.Name, partner)
		}
	}

	if slices.Contains(capabilities, engine.CanReadBlocks) && counters(told).Reads == nil {
		return fmt.Errorf("the capability %s is declared, but no counter reads.TYPE is reported",
			engine.CanReadBlocks)
	}

	// The next look is compared with it.
	s.dropNonMonotonic(func() []sharedlib.Stat { return told })
	return nil
}

func isKnown(name string) bool {
	_, _, err := cellOf(name)
	return err == nil || field(new(engine.Counters), name) != nil
}

// partnerOf is the counter that must be there, too: a count means little without
// its bytes.
func partnerOf(name string) string {
	group, _, _ := strings.Cut(name, ".")
	partner := map[string]string{
		"reads":                 "read_bytes",
		"read_bytes":            "reads",
		"background_reads":      "background_read_bytes",
		"background_read_bytes": "background_reads",
	}[group]

	if partner == "" {
		return ""
	}

	return partner + strings.TrimPrefix(name, group)
}

// gauges may fall.
func isGauge(name string) bool {
	return name == "cache_used_bytes" || name == "memtable_bytes" || name == "cache_reserved_bytes"
}

// dropNonMonotonic drops what is negative or has fallen, for good. Counters that are
// summed up are dropped together: a sum without one of them would be wrong.
func (s *stats) dropNonMonotonic(read func() []sharedlib.Stat) []sharedlib.Stat {
	told, falls := s.totals.Read(read)
	falls = slices.DeleteFunc(falls, func(f sharedlib.CounterRegression) bool {
		return isGauge(f.Name) && f.To >= 0
	})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.broken == nil {
		s.broken = map[string]bool{}
	}

	for _, f := range falls {
		if group := groupOf(f.Name); !s.broken[group] {
			s.broken[group] = true
			s.warned = append(s.warned, engine.Warning{
				Code:   "native_counter",
				Text:   fmt.Sprintf("%v: %s is left out", f, group),
				Remedy: "correct the library: counters are totals since open and never decrease",
			})
		}
	}

	return slices.DeleteFunc(told, func(t sharedlib.Stat) bool { return s.broken[groupOf(t.Name)] })
}

// groupOf is the figure that a counter is a part of.
func groupOf(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return strings.Replace(first, "read_bytes", "reads", 1)
}

func (s *stats) warnings() []engine.Warning {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.warned)
}

// counters are what was told, in the words of the contract.
func counters(told []sharedlib.Stat) engine.Counters {
	var c engine.Counters
	for _, t := range told {
		if to := field(&c, t.Name); to != nil {
			*to = &t.Value
			continue
		}

		cell, group, err := cellOf(t.Name)
		switch {
		case err != nil: // examine has refused it
		case group == "accesses":
			if c.Accesses == nil {
				c.Accesses = new([engine.NumBlockTypes]int64)
			}
			c.Accesses[cell.kind] = t.Value
		case group == "background_reads" || group == "background_read_bytes":
			if c.BackgroundReads == nil {
				c.BackgroundReads = new(engine.Tally)
			}
			addTo(c.BackgroundReads, group == "background_reads", t.Value)
		default:
			if c.Reads == nil {
				c.Reads = new(engine.BlockReads)
			}
			addTo(&c.Reads[cell.level][cell.kind], group == "reads", t.Value)
		}
	}

	return c
}

func addTo(t *engine.Tally, count bool, value int64) {
	if count {
		t.Count += value
	} else {
		t.Bytes += value
	}
}

// field is where a counter of one figure goes; nil for other names.
func field(c *engine.Counters, name string) **int64 {
	return map[string]**int64{
		"direct_bytes":         &c.DirectBytes,
		"table_opens":          &c.TableOpens,
		"cache_hits":           &c.CacheHits,
		"cache_misses":         &c.CacheMisses,
		"filter_negative":      &c.FilterNegative,
		"filter_positive":      &c.FilterPositive,
		"table_cache_hits":     &c.TableCacheHits,
		"table_cache_misses":   &c.TableCacheMisses,
		"cache_used_bytes":     &c.CacheUsedBytes,
		"memtable_bytes":       &c.MemtableBytes,
		"cache_reserved_bytes": &c.CacheReservedBytes,
		"user_write_bytes":     &c.UserWriteBytes,
		"wal_bytes":            &c.WALBytes,
		"flush_bytes":          &c.FlushBytes,
		"compact_bytes":        &c.CompactBytes,
		"write_stalls":         &c.Stalls,
		"write_stall_ns":       &c.StallNanos,
	}[name]
}

// cell is where reads are counted.
type cell struct {
	level int
	kind  engine.BlockType
}

// cellOf takes "reads.data.L3" apart. An engine that tells no levels has all its
// files in level 0.
func cellOf(name string) (at cell, group string, err error) {
	if name == "background_reads" || name == "background_read_bytes" {
		return cell{}, name, nil
	}

	parts := strings.Split(name, ".")
	unknown := fmt.Errorf("unknown counter %q", name)
	if len(parts) < 2 || len(parts) > 3 ||
		!slices.Contains([]string{"reads", "read_bytes", "accesses"}, parts[0]) {
		return cell{}, "", unknown
	}

	kind := slices.IndexFunc(engine.BlockTypes(), func(t engine.BlockType) bool {
		return t.String() == parts[1]
	})
	if kind < 0 {
		return cell{}, "", unknown
	}

	at.kind = engine.BlockType(kind)
	if len(parts) == 3 {
		number, is := strings.CutPrefix(parts[2], "L")
		if at.level, err = strconv.Atoi(number); err != nil || !is || at.level < 0 ||
			at.level >= engine.MaxLevels || parts[0] == "accesses" {
			return cell{}, "", unknown
		}
	}

	return at, parts[0], nil
}
