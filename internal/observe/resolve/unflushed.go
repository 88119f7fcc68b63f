package resolve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"

	"github.com/statelab/statelab/internal/observe/follow"
	"github.com/statelab/statelab/internal/observe/getpath"
)

// entryKind is what an entry of a key says.
type entryKind = follow.Entry

const (
	noEntry     = follow.None
	setEntry    = follow.Set
	deleteEntry = follow.Delete
	mergeEntry  = follow.Merge
)

// unflushed is what the logs hold: what Pebble replays into memory at open.
type unflushed struct {
	newest     map[string]logged
	tombstones []getpath.Tombstone // in the order written, then disjoint; numbered by entry
	entries    uint64              // so far
}

// logged is the newest entry of a key, and under a merge operand the older ones.
type logged struct {
	kind   entryKind
	number uint64 // among the entries of the logs
	older  *logged
}

// readLogs reads the logs, oldest first. Both versions write the same records.
func readLogs(paths []string) (*unflushed, error) {
	u := &unflushed{newest: map[string]logged{}}
	for _, path := range paths {
		if err := readLog(path, u); err != nil {
			return nil, fmt.Errorf("read log %s: %w", filepath.Base(path), err)
		}
	}
	u.tombstones = getpath.Disjoint(u.tombstones)
	return u, nil
}

// find tells what a Get meets in memory: the newest entry that counts, a merge
// operand only where everything older is in the tables. gone: a range deletion hides
// what lies below.
func (u *unflushed) find(key []byte) (kind entryKind, gone bool) {
	deletedAt, gone := getpath.CoveredBy(u.tombstones, key)
	newest, is := u.newest[string(key)]
	if !is || gone && newest.number < deletedAt {
		return noEntry, gone
	}
	if newest.kind != mergeEntry {
		return newest.kind, gone
	}
	for e := newest.older; e != nil && !(gone && e.number < deletedAt); e = e.older {
		if e.kind != mergeEntry {
			return setEntry, gone // a merge ends at what is not one
		}
	}
	return mergeEntry, gone
}

func readLog(path string, into *unflushed) (err error) {
	digits, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".log"), "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	records := numbered(record.NewReader, file, number)
	for {
		next, err := records.Next()
		var batch []byte
		if err == nil {
			batch, err = io.ReadAll(next)
		}
		if err == io.EOF || record.IsInvalidRecord(err) {
			return nil // the torn end of a log in use is where replay ends, too
		}
		if err != nil {
			return err
		}
		if err := into.read(batch); err != nil {
			return err
		}
	}
}

// numbered calls open with number in Pebble's own type, which has no public
// name.
func numbered[N ~uint64](open func(io.Reader, N) *record.Reader, in io.Reader, number uint64) *record.Reader {
	return open(in, N(number))
}

func (u *unflushed) read(batch []byte) error {
	entries := batchrepr.Read(batch)
	for {
		kind, key, value, more, err := entries.Next()
		if !more || err != nil {
			return err
		}
		u.entries++
		e := logged{number: u.entries}
		switch kind {
		case pebble2.InternalKeyKindSet, pebble2.InternalKeyKindSetWithDelete:
			e.kind = setEntry
		case pebble2.InternalKeyKindDelete, pebble2.InternalKeyKindSingleDelete, pebble2.InternalKeyKindDeleteSized:
			e.kind = deleteEntry
		case pebble2.InternalKeyKindMerge:
			e.kind = mergeEntry
			if before, is := u.newest[string(key)]; is {
				e.older = &before
			}
		case pebble2.InternalKeyKindRangeDelete: // the value is the end
			u.tombstones = append(u.tombstones, getpath.Tombstone{Start: bytes.Clone(key), End: bytes.Clone(value), SeqNum: u.entries})
			continue
		case pebble2.InternalKeyKindLogData, pebble2.InternalKeyKindRangeKeySet, pebble2.InternalKeyKindRangeKeyUnset, pebble2.InternalKeyKindRangeKeyDelete:
			continue // no Get sees it
		default:
			return fmt.Errorf("it holds an entry of kind %v, which is not supported", kind)
		}
		u.newest[string(key)] = e
	}
}
