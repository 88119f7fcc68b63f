package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Written is what a table holds, as it was written, whatever it is read with.
type Written struct {
	File                    uint64 // the larger the newer
	Level                   int
	Bytes                   int64
	Keys                    int64 // deletions and older versions among them
	DataBlocks              int64 // 0: not known for tables that keep values elsewhere
	RawBytes, RawValueBytes int64 // of keys and values, before keys share prefixes
	FilterBytes             int64 // 0: it has none
}

// ReadTableProperties tells what the tables of the database in dir hold, by the properties of each.
func ReadTableProperties(dir string, version cachesim.PebbleVersion) (all []Written, err error) {
	kept, err := dbformat.ReadKeptByPebble(dir)
	if err != nil {
		return nil, err
	}

	err = livedir.Retry(dir, func() error { // tables vanish while another process compacts them
		found, err := list(dir, version, kept)
		if err = errors.Join(err, found.unresolved); err == nil {
			all, err = lsmtail.EachTable(found.tables, func(facts lsmtail.Facts) (Written, error) {
				return written(dir, facts, kept)
			})
		}

		return err
	})

	return all, err
}

// written reads the properties of a table.
func written(dir string, facts lsmtail.Facts, kept dbformat.KeptByPebble) (w Written, err error) {
	t := &table{Table: lookuppath.Table{Facts: facts}}
	if t.Opened, err = facts.Open(dir); err != nil {
		return w, err
	}

	defer func() { err = errors.Join(err, t.Opened.Close()) }()
	reader, err := sstable.NewReader(context.Background(), readable{t},
		pebble2fs.TableOptions(kept))
	if err != nil {
		return w, fmt.Errorf("table %06d: %w", facts.File, err)
	}

	defer func() { err = errors.Join(err, reader.Close()) }()
	p, err := reader.ReadPropertiesBlock(context.Background(), nil)
	w = Written{t.File, t.Level, t.Bytes, int64(p.NumEntries), int64(p.NumDataBlocks),
		int64(p.RawKeySize + p.RawValueSize), int64(p.RawValueSize),
		int64(p.FilterSize)}
	if p.ValueBlocksSize > 0 || p.NumValuesInBlobFiles > 0 {
		w.DataBlocks = 0
	}

	return w, err
}
