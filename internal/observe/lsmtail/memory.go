package lsmtail

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sort"
	"time"

	"github.com/statelab/statelab/engine"
)

// Entry is what an entry of a key says.
type Entry uint8

// Values of Entry.
const (
	None Entry = iota
	Set
	Delete
	Merge
	Range // the deletion of a range of keys
)

// Memory is which keys a database had in memory at every time, by its logs. Keys are told apart by
// hashes.
type Memory struct {
	Logs    []*Log
	entries int
}

// Log is a write-ahead log, whose keys are in memory until they are in a table.
type Log struct {
	Number      uint64
	From, Until time.Duration // Until 0: still

	keys       []writtenKey
	tombstones []writtenRange
}

// writtenKey is an entry of a log.
type writtenKey struct {
	hash   uint64
	at     time.Duration
	number uint32 // among the entries of all logs
	entry  Entry
}

type writtenRange struct {
	start, end string
	at         time.Duration
	number     uint32
}

const maxWrittenKeys = 20_000_000

func (m *Memory) next() (number uint32, err error) {
	if m.entries++; m.entries > maxWrittenKeys {
		return 0, engine.Fail(engine.CodeUnsupported, "more than %d keys were written while it "+
			"was watched: watch for a shorter time", maxWrittenKeys)
	}
	return uint32(m.entries), nil
}

// log is the one of a number, which began at a time.
func (m *Memory) log(number uint64, from time.Duration) *Log {
	for _, l := range slices.Backward(m.Logs) {
		if l.Number == number {
			return l
		}
	}
	m.Logs = append(m.Logs, &Log{Number: number, From: from})
	return m.Logs[len(m.Logs)-1]
}

// wrote adds an entry of a log. A deleted range begins with key, and end is behind it.
func (m *Memory) wrote(to *Log, at time.Duration, entry Entry, key, end []byte) error {
	number, err := m.next()
	if entry == Range {
		to.tombstones = append(to.tombstones, writtenRange{string(key), string(end), at, number})
	} else {
		to.keys = append(to.keys, writtenKey{hashOf(key), at, number, entry})
	}
	return err
}

// Sort has to be called before Find, when nothing is added any more.
func (m *Memory) Sort() {
	for _, l := range m.Logs {
		slices.SortStableFunc(l.keys, func(a, b writtenKey) int {
			return cmp.Compare(a.hash, b.hash)
		})
	}
	slices.SortStableFunc(m.Logs, func(a, b *Log) int { return cmp.Compare(a.Number, b.Number) })
}

var seed = maphash.MakeSeed()

func hashOf(key []byte) uint64 { return maphash.Bytes(seed, key) }

// MemoryAt is what was in memory at a time.
type MemoryAt struct {
	Memory *Memory
	At     time.Duration
}

// Find is that of the Memory at that time.
func (t *MemoryAt) Find(key []byte) (newest Entry, gone bool) { return t.Memory.Find(key, t.At) }

// Find tells what a Get meets in memory at a time: the newest entry that counts, a merge operand
// only where everything older is in the tables. gone: a range deletion hides what lies below.
func (m *Memory) Find(key []byte, when time.Duration) (newest Entry, gone bool) {
	hash := hashOf(key)
	for _, l := range slices.Backward(m.Logs) {
		if l.Until > 0 && l.Until <= when {
			continue
		}

		deleted := uint32(0) // entries with lower numbers are
		for _, t := range l.tombstones {
			if t.at <= when && t.start <= string(key) && string(key) < t.end {
				deleted = max(deleted, t.number)
			}
		}

		after := sort.Search(len(l.keys), func(i int) bool {
			return l.keys[i].hash > hash || l.keys[i].hash == hash && l.keys[i].at > when
		})
		for i := after - 1; i >= 0 && l.keys[i].hash == hash && l.keys[i].number > deleted; i-- {
			entry := l.keys[i].entry
			switch {
			case newest == Merge && entry != Merge:
				return Set, deleted > 0 // a merge ends at what is not one
			case entry != Merge:
				return entry, deleted > 0
			}

			newest = entry
		}

		if deleted > 0 && newest == Merge {
			return Set, true // it ends there, too
		}

		if deleted > 0 {
			return newest, true
		}
	}

	return newest, false
}
