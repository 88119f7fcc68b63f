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
)

// entryKind is what an entry of a key says.
type entryKind uint8

const (
	noEntry entryKind = iota
	setEntry
	deleteEntry
	mergeEntry
)

// readLogs returns the newest entry of each key in the logs, which Pebble
// replays into memory at open. Both versions write the same records.
func readLogs(paths []string) (map[string]entryKind, error) {
	newest := map[string]entryKind{}
	for _, path := range paths {
		if err := readLog(path, newest); err != nil {
			return nil, fmt.Errorf("read log %s: %w", filepath.Base(path), err)
		}
	}
	return newest, nil
}

func readLog(path string, newest map[string]entryKind) (err error) {
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
		if err := readBatch(batch, newest); err != nil {
			return err
		}
	}
}

// numbered calls open with number in Pebble's own type, which has no public
// name.
func numbered[N ~uint64](open func(io.Reader, N) *record.Reader, in io.Reader, number uint64) *record.Reader {
	return open(in, N(number))
}

func readBatch(batch []byte, newest map[string]entryKind) error {
	entries := batchrepr.Read(batch)
	for {
		kind, key, _, more, err := entries.Next()
		if !more || err != nil {
			return err
		}
		switch kind {
		case pebble2.InternalKeyKindSet, pebble2.InternalKeyKindSetWithDelete:
			newest[string(key)] = setEntry
		case pebble2.InternalKeyKindDelete, pebble2.InternalKeyKindSingleDelete, pebble2.InternalKeyKindDeleteSized:
			newest[string(key)] = deleteEntry
		case pebble2.InternalKeyKindLogData:
		default:
			return fmt.Errorf("it holds an entry of kind %v, which is not supported", kind)
		}
	}
}
