package blocktable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/getpath"
)

// unflushed is what the write-ahead logs hold: what the engine replays into memory when it opens the
// database for reading only.
type unflushed struct {
	newest     map[string]logged
	tombstones []getpath.Tombstone
}

// logged is the newest entry of a key, and under a merge operand the older ones.
type logged struct {
	kind   entryKind
	seqNum uint64
	older  *logged
}

// readLogs reads the logs that may hold something of the family, oldest first.
func readLogs(dir string, family *Family) (*unflushed, error) {
	u := &unflushed{newest: map[string]logged{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		digits, is := strings.CutSuffix(e.Name(), ".log")
		if number, err := strconv.ParseUint(digits, 10, 64); is && err == nil && number >= family.firstLog {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		name := fmt.Sprintf("%06d.log", number)
		log, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		err = eachRecord(log, number, func(record []byte) error { return u.read(record, family.Number) })
		// The torn end of a log in use is where the engine's replay ends, too.
		if err != nil && !errors.Is(err, errCut) {
			return nil, fmt.Errorf("log %s: %w", name, err)
		}
	}
	u.tombstones = getpath.Disjoint(u.tombstones)
	return u, nil
}

// Entries of a batch that no table has, by number. Those of other families have the family's number
// in front.
const (
	kindLogData       = 3
	kindOfFamily      = 4 // deletion, value and merge of a family: 4, 5, 6
	kindSingleFamily  = 8
	kindNothing       = 13
	kindRangeOfFamily = 14
	kindRange         = 15
)

// read reads a batch: a sequence number, a count, and entries.
func (u *unflushed) read(batch []byte, family uint32) error {
	if len(batch) < batchHeadBytes {
		return errors.New("damaged batch")
	}
	seqNum := binary.LittleEndian.Uint64(batch)
	return eachEntry(batch, func(of uint32, kind byte, key, end []byte) {
		if of == family {
			u.add(kind, key, end, seqNum)
		}
		seqNum++
	})
}

const batchHeadBytes = 12

// eachEntry visits the entries of a batch: its family, its kind as of the first family, its key, and a value or the end of a range.
func eachEntry(batch []byte, visit func(family uint32, kind byte, key, end []byte)) error {
	if len(batch) < batchHeadBytes {
		return errors.New("damaged batch")
	}
	f := &fields{rest: batch[batchHeadBytes:]}
	for len(f.rest) > 0 && f.err == nil {
		kind := f.rest[0]
		f.rest = f.rest[1:]
		of := uint32(0)
		switch kind {
		case kindOfFamily, kindOfFamily + 1, kindOfFamily + 2:
			of, kind = uint32(f.number()), kind-kindOfFamily
		case kindSingleFamily:
			of, kind = uint32(f.number()), kindSingleDelete
		case kindRangeOfFamily:
			of, kind = uint32(f.number()), kindRange
		}
		var key, end []byte
		switch kind {
		case kindValue, kindMerge, kindRange:
			key, end = f.bytes(), f.bytes()
		case kindDelete, kindSingleDelete:
			key = f.bytes()
		case kindLogData:
			f.bytes()
			continue
		case kindNothing:
			continue
		default:
			return engine.Fail(engine.CodeUnsupported, "it holds an entry of kind %d, which is not supported", kind)
		}
		if f.err == nil {
			visit(of, kind, key, end)
		}
	}
	return f.err
}

func (u *unflushed) add(kind byte, key, end []byte, seqNum uint64) {
	if kind == kindRange {
		u.tombstones = append(u.tombstones, getpath.Tombstone{Start: bytes.Clone(key), End: bytes.Clone(end), SeqNum: seqNum})
		return
	}
	e := logged{kind: kindOf(kind), seqNum: seqNum}
	if before, is := u.newest[string(key)]; is && e.kind == mergeEntry {
		e.older = &before
	}
	u.newest[string(key)] = e
}

// find tells what a Get meets in memory: the newest entry that counts, a merge operand only where
// everything older is in the tables. gone: a range deletion hides what lies below.
func (u *unflushed) find(key []byte) (kind entryKind, gone bool) {
	if len(u.newest)+len(u.tombstones) == 0 {
		return noEntry, false
	}
	deletedAt, gone := getpath.CoveredBy(u.tombstones, key)
	newest, is := u.newest[string(key)]
	if !is || gone && newest.seqNum < deletedAt {
		return noEntry, gone
	}
	if newest.kind != mergeEntry {
		return newest.kind, gone
	}
	for e := newest.older; e != nil; e = e.older {
		if gone && e.seqNum < deletedAt || e.kind != mergeEntry {
			return setEntry, gone // a merge ends at what is not one
		}
	}
	if gone {
		return setEntry, gone
	}
	return mergeEntry, gone
}
