package blockbased

import (
	"errors"
	"fmt"
	"strings"

	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

// Written is what a table holds, as it was written, whatever it is read with.
type Written struct {
	Facts
	Keys, DataBlocks    int64
	RawBytes            int64 // of keys and values, before keys share prefixes
	RawValueBytes       int64
	DataBytes           int64 // stored
	FilterBytes         int64 // 0: it has none
	FilterKeys          int64 // keys and prefixes in it; 0: not known
	FilterParted        bool
	IndexBytes          int64 // before compression
	IndexParts          int64 // 0: an index of one block
	TopIndexBytes       int64 // of IndexBytes, of the block that finds the parts
	WholeKeys, Prefixes bool  // what its filters hold
	OldFilterBytes      int64 // of filters for each data block, which RocksDB asks before 7.0 alone
}

// WrittenFamily is a column family and its tables, by level; those of level 0 from the newest.
type WrittenFamily struct {
	Name   string
	Tables []Written
}

// ReadTableProperties tells what the tables of all column families hold, by the manifest and the
// properties of each table: three small reads a table.
func ReadTableProperties(dir string) (families []WrittenFamily, err error) {
	// tables vanish while another process compacts them
	err = livedir.Retry(dir, func() (err error) {
		families, err = look(dir)
		return err
	})
	return families, err
}

func look(dir string) (families []WrittenFamily, err error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", dir, err)
	}

	for _, f := range m.families {
		of := WrittenFamily{Name: f.Name}
		for _, facts := range f.Tables {
			w, err := lookAt(dir, facts)
			if err != nil {
				return nil, fmt.Errorf("look into %s: table %06d: %w", dir, facts.File, err)
			}
			of.Tables = append(of.Tables, w)
		}

		families = append(families, of)
	}

	return families, nil
}

func lookAt(dir string, facts Facts) (w Written, err error) {
	t := &table{Table: lookuppath.Table{Facts: facts}}
	if t.Opened, err = facts.Open(dir); err != nil {
		return w, err
	}

	defer func() { err = errors.Join(err, t.Opened.Close()) }()
	at, err := t.readFooter()
	if err != nil {
		return w, err
	}

	meta, err := t.readMetaindex(at)
	if err != nil {
		return w, err
	}

	if err := t.readProperties(meta["rocksdb.properties"]); err != nil {
		return w, err
	}

	number := func(name string) int64 { return int64(t.count(name)) }
	w = Written{
		Facts:         facts,
		Keys:          number("rocksdb.num.entries"),
		DataBlocks:    number("rocksdb.num.data.blocks"),
		DataBytes:     number("rocksdb.data.size"),
		RawBytes:      number("rocksdb.raw.key.size") + number("rocksdb.raw.value.size"),
		RawValueBytes: number("rocksdb.raw.value.size"),
		IndexBytes:    number("rocksdb.index.size"),
		IndexParts:    number("rocksdb.index.partitions"),
		TopIndexBytes: number("rocksdb.top-level.index.size"),
		WholeKeys:     t.properties["rocksdb.block.based.table.whole.key.filtering"] != "0",
		Prefixes:      t.properties["rocksdb.block.based.table.prefix.filtering"] != "0",
	}

	for name := range meta {
		whole, parted := strings.HasPrefix(name, "fullfilter."),
			strings.HasPrefix(name, "partitionedfilter.")
		if strings.HasPrefix(name, "filter.") {
			w.OldFilterBytes = number("rocksdb.filter.size")
		}
		if whole || parted {
			w.FilterBytes, w.FilterParted = number("rocksdb.filter.size"), parted
			// an older version's
			if w.FilterKeys = number("rocksdb.num.filter_entries"); w.FilterKeys == 0 &&
				w.WholeKeys && !w.Prefixes {
				w.FilterKeys = w.Keys
			}
		}
	}

	return w, nil
}
