package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// ForeignBlocks says by what the blocks of a trace cannot be of the database in dir; "": they can.
// The database may have been written to since: tables that are gone, and newer ones, say nothing.
// A table that is still there has the blocks it had, since tables never change and their numbers
// are not given twice.
func ForeignBlocks(
	dir string, version cachesim.PebbleVersion, blocks []cachesim.Block,
) (why string, err error) {
	kept, err := dbformat.ReadKeptByPebble(dir)
	if err != nil {
		return "", err
	}

	found, err := listAlone(dir, version)
	if err != nil {
		return "", err
	}

	newest, err := newestFile(dir)
	if err != nil {
		return "", err
	}

	traced := map[uint64][]cachesim.Block{} // data blocks, by table
	for _, b := range blocks {
		if b.File > newest {
			return fmt.Sprintf("its Gets read table %06d, and the newest file of the database has "+
				"the number %06d", b.File, newest), nil
		}

		if b.Type == engine.Data {
			traced[b.File] = append(traced[b.File], b)
		}
	}

	// A few tables decide it. Indexes of small ones are quickly read.
	slices.SortFunc(found.tables, func(a, b lsmtail.Facts) int {
		return cmp.Compare(a.Bytes, b.Bytes)
	})

	const enough = 4
	looked := 0
	for _, facts := range found.tables {
		of := traced[facts.File]
		if len(of) == 0 {
			continue
		}

		offsets, err := dataBlocks(dir, facts, kept)
		if errors.Is(err, fs.ErrNotExist) {
			continue // compacted meanwhile
		}

		if err != nil {
			return "", err
		}

		for _, b := range of {
			if _, is := slices.BinarySearch(offsets, b.Offset); !is {
				return fmt.Sprintf("its Gets read a block at %d of table %06d, where no block of "+
					"that table begins", b.Offset, facts.File), nil
			}
		}

		if looked++; looked == enough {
			break
		}
	}

	return "", nil
}

// fileNumber is in the name of a file of Pebble: 000012.sst, MANIFEST-000013.
var fileNumber = regexp.MustCompile(`^(?:[A-Z]+-)?([0-9]{6,})(?:\.[a-z]+)?$`)

// newestFile is the largest number of a file in dir. All kinds of files share one count.
func newestFile(dir string) (newest uint64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if m := fileNumber.FindStringSubmatch(filepath.Base(e.Name())); m != nil {
			if n, wrong := strconv.ParseUint(m[1], 10, 64); wrong == nil {
				newest = max(newest, n)
			}
		}
	}
	return newest, err
}

// dataBlocks are the offsets of the data blocks of a table, in order.
func dataBlocks(
	dir string, facts lsmtail.Facts, kept dbformat.KeptByPebble,
) (offsets []uint64, err error) {
	t := &table{Table: lookuppath.Table{Facts: facts}}
	if t.Opened, err = facts.Open(dir); err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, t.Opened.Close()) }()
	reader, err := sstable.NewReader(context.Background(), readable{t},
		pebble2fs.TableOptions(kept))
	if err != nil {
		return nil, fmt.Errorf("table %06d: %w", facts.File, err)
	}

	defer func() { err = errors.Join(err, reader.Close()) }()
	layout, err := reader.Layout()
	if err != nil {
		return nil, fmt.Errorf("table %06d: read layout: %w", facts.File, err)
	}

	for _, data := range layout.Data {
		offsets = append(offsets, data.Offset)
	}

	slices.Sort(offsets)
	return offsets, nil
}
