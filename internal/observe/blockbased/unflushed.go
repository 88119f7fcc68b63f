package blockbased

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// listLogs are the numbers of the logs in dir, oldest first. They are to be listed before the
// manifest is read: what a log holds that its owner deletes after that is in no table of this
// manifest, and would be missing without a trace.
func listLogs(dir string) (numbers []uint64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		digits, is := strings.CutSuffix(e.Name(), ".log")
		if number, err := strconv.ParseUint(digits, 10, 64); is && err == nil {
			numbers = append(numbers, number)
		}
	}

	slices.Sort(numbers)
	return numbers, err
}

// readLogs reads those of the logs that may hold something of the family.
func readLogs(dir string, numbers []uint64, family *Family) (*lookuppath.Unflushed, error) {
	u := new(lookuppath.Unflushed)
	for _, number := range numbers {
		if number < family.firstLog {
			continue
		}

		name := fmt.Sprintf("%06d.log", number)
		log, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}

		err = eachRecord(log, number, func(batch []byte) error {
			return replay(batch, family.Number, u)
		})
		// The torn end of a log in use is where the engine's replay ends, too.
		if err != nil && !errors.Is(err, errCut) {
			return nil, fmt.Errorf("log %s: %w", name, err)
		}
	}

	u.Finish()
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

// replay adds the entries of a family.
func replay(batch []byte, family uint32, to *lookuppath.Unflushed) error {
	return entries(batch, func(of uint32, entry lsmtail.Entry, key, end []byte) {
		if of == family {
			to.Wrote(entry, key, end)
		}
	})
}

// visitor is told an entry of a family: of a deleted range also the end.
type visitor = func(family uint32, entry lsmtail.Entry, key, end []byte)

// entries visits those of a batch.
func entries(batch []byte, visit visitor) error {
	return eachEntry(batch, func(family uint32, kind byte, key, end []byte) {
		entry := kindOf(kind)
		if kind == kindRange {
			entry = lsmtail.Range
		}
		visit(family, entry, key, end)
	})
}

// A batch begins with a sequence number and a count.
const batchHeadBytes = 12

// eachEntry visits the entries of a batch: its family, its kind as of the first family, its key,
// and a value or the end of a range.
func eachEntry(batch []byte, visit func(family uint32, kind byte, key, end []byte)) error {
	if len(batch) < batchHeadBytes {
		return errors.New("damaged batch")
	}

	f := &lsmtail.Fields{Rest: batch[batchHeadBytes:]}
	for len(f.Rest) > 0 && f.Err == nil {
		kind := f.Rest[0]
		f.Rest = f.Rest[1:]
		of := uint32(0)
		switch kind {
		case kindOfFamily, kindOfFamily + 1, kindOfFamily + 2:
			of, kind = uint32(f.Number()), kind-kindOfFamily
		case kindSingleFamily:
			of, kind = uint32(f.Number()), kindSingleDelete
		case kindRangeOfFamily:
			of, kind = uint32(f.Number()), kindRange
		}

		var key, end []byte
		switch kind {
		case kindValue, kindMerge, kindRange:
			key, end = f.Text(), f.Text()
		case kindDelete, kindSingleDelete:
			key = f.Text()
		case kindLogData:
			f.Text()
			continue
		case kindNothing:
			continue
		default:
			return engine.Fail(engine.CodeUnsupported,
				"it holds an entry of kind %d, which is not supported", kind)
		}

		if f.Err == nil {
			visit(of, kind, key, end)
		}
	}

	return f.Err
}
