package resolve

import (
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

	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// readLogs reads the logs, oldest first, of so many entries. Both versions write the same records.
func readLogs(paths []string) (u *lookuppath.Unflushed, entries uint64, err error) {
	u = new(lookuppath.Unflushed)
	for _, path := range paths {
		err := readLog(path, func(batch []byte) error {
			return eachEntry(batch, func(kind pebble2.InternalKeyKind, key, value []byte) error {
				entries++
				entry, known := entryOf(kind)
				if !known {
					return fmt.Errorf("it holds an entry of kind %v, which is not supported", kind)
				}

				if entry != lsmtail.None {
					u.Wrote(entry, key, value)
				}

				return nil
			})
		})
		if err != nil {
			return nil, 0, fmt.Errorf("read log %s: %w", filepath.Base(path), err)
		}
	}

	u.Finish()
	return u, entries, nil
}

func readLog(path string, visit func(batch []byte) error) (err error) {
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

		if err := visit(batch); err != nil {
			return err
		}
	}
}

// numbered calls open with number in Pebble's own type, which has no public
// name.
func numbered[N ~uint64](
	open func(io.Reader, N) *record.Reader, in io.Reader, number uint64,
) *record.Reader {
	return open(in, N(number))
}

// eachEntry visits the entries of a batch. The value of the deletion of a range is its end.
func eachEntry(
	batch []byte, visit func(kind pebble2.InternalKeyKind, key, value []byte) error,
) error {
	for entries := batchrepr.Read(batch); ; {
		kind, key, value, more, err := entries.Next()
		if !more || err != nil {
			return err
		}

		if err := visit(kind, key, value); err != nil {
			return err
		}
	}
}

// entryOf is what a kind of entry says of its key; follow.None if no Get sees it.
func entryOf(kind pebble2.InternalKeyKind) (entry lsmtail.Entry, known bool) {
	switch kind {
	case pebble2.InternalKeyKindSet, pebble2.InternalKeyKindSetWithDelete,
		pebble2.InternalKeyKindDelete, pebble2.InternalKeyKindSingleDelete,
		pebble2.InternalKeyKindDeleteSized, pebble2.InternalKeyKindMerge:
		return kindOf(uint8(kind)), true
	case pebble2.InternalKeyKindRangeDelete:
		return lsmtail.Range, true
	case pebble2.InternalKeyKindLogData, pebble2.InternalKeyKindRangeKeySet,
		pebble2.InternalKeyKindRangeKeyUnset, pebble2.InternalKeyKindRangeKeyDelete:
		return lsmtail.None, true
	}

	return lsmtail.None, false
}
