package blockbased

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// ReadShape describes the RocksDB database in dir by its manifest, its newest OPTIONS file and the
// properties of its tables, without opening it: the default column family, and all under Tables
// where there are several. What is in the write-ahead logs alone is not counted.
func ReadShape(dir string) (shape engine.Shape, warnings []engine.Warning, err error) {
	var families []WrittenFamily
	var values map[string]*engine.Values
	err = livedir.Retry(dir, func() (err error) {
		if families, err = look(dir); err != nil {
			return err
		}
		values, err = valueFiles(dir)
		return err
	})
	if err != nil {
		return shape, nil, err
	}

	var old []string
	for _, f := range families {
		name := cmp.Or(f.Name, defaultFamily)
		t, err := f.table(values[f.Name])
		if err != nil {
			return shape, nil, fmt.Errorf("%s: column family %s: %w", dir, t.Name, err)
		}

		if n := f.oldFilters(); n > 0 {
			old = append(old, fmt.Sprintf("%s (%s)", t.Name, unit.Plural(n, "table")))
		}

		own, _, _, err := readOptions(dir, name, dir)
		if err != nil {
			return shape, nil, err
		}

		reading, err := own.Reading()
		if err != nil {
			return shape, nil, fmt.Errorf("%s: column family %s: %w", dir, t.Name, err)
		}

		for i := range t.Levels {
			t.Levels[i].FilterConsulted = t.Levels[i].FilterConsulted && reading.Filters
		}

		if name == defaultFamily {
			shape.Bytes, shape.Files = t.Bytes, t.Files
			shape.Levels, shape.Values = t.Levels, t.Values
		}
		shape.Tables = append(shape.Tables, t)
	}

	if len(shape.Tables) == 1 {
		shape.Tables = nil // the database
	}

	if len(old) > 0 {
		warnings = append(warnings, OldFiltersWarning(old, "7.0 and newer"))
	}

	return shape, warnings, nil
}

// OldFiltersWarning says that RocksDB of a version ignores the filters of the families of, each
// with its number of tables.
func OldFiltersWarning(of []string, version string) engine.Warning {
	return engine.Warning{
		Code: "old_filters",
		Text: fmt.Sprintf("column family %s: the tables have block-based filters, one for each "+
			"data block, which only RocksDB before 7.0 consults; RocksDB %s, and so this answer, "+
			"ignores them, and a Get reads more blocks than with an older version",
			strings.Join(of, ", "), version),
		Remedy: "rewrite the tables with RocksDB 7.0 or newer: a full compaction, such as " +
			"ldb --db=DIR compact",
	}
}

// oldFilters is how many tables have filters for each data block.
func (f *WrittenFamily) oldFilters() (tables int) {
	for _, t := range f.Tables {
		if t.OldFilterBytes > 0 {
			tables++
		}
	}
	return tables
}

// valueFiles are the blob files of each column family that has some.
func valueFiles(dir string) (map[string]*engine.Values, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}

	all := map[string]*engine.Values{}
	for _, f := range m.families {
		v := new(engine.Values)
		for _, number := range slices.Sorted(maps.Keys(f.blobs)) {
			// The manifest does not say when a file has no value left and is removed.
			info, err := os.Stat(filepath.Join(dir, fmt.Sprintf("%06d.blob", number)))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}

			if err != nil {
				return nil, err
			}

			v.Files, v.Bytes = v.Files+1, v.Bytes+info.Size()
		}

		if v.Files > 0 {
			all[f.Name] = v
		}
	}

	return all, nil
}

// table sums up the tables of a family by level.
func (f *WrittenFamily) table(values *engine.Values) (engine.Table, error) {
	t := engine.Table{
		Name:   unit.Printable(cmp.Or(f.Name, defaultFamily)),
		Files:  len(f.Tables),
		Values: values,
	}

	var spans []lsmtail.Span
	levels := map[int]*engine.Level{}
	for _, w := range f.Tables {
		if w.Level >= engine.MaxLevels {
			return t, engine.Fail(engine.CodeUnsupported, "a table is on level %d, and only "+
				"levels below %d are counted", w.Level, engine.MaxLevels)
		}

		spans = append(spans, lsmtail.Span{
			Bounds:  w.Bounds,
			Level:   w.Level,
			Entries: uint64(w.Keys),
		})

		if levels[w.Level] == nil {
			levels[w.Level] = &engine.Level{Level: w.Level, Sublevels: 1}
		}

		w.addTo(levels[w.Level])
		t.Bytes, t.Keys = t.Bytes+w.Bytes, t.Keys+w.Keys
	}

	outside := lsmtail.Outside(spans)
	for _, number := range slices.Sorted(maps.Keys(levels)) {
		l := levels[number]
		l.Outside = outside[number]
		if number == 0 {
			l.Sublevels = l.Files // each table of level 0 may hold any key
		}
		t.Levels = append(t.Levels, *l)
	}

	if values != nil {
		t.Files, t.Bytes = t.Files+values.Files, t.Bytes+values.Bytes
	}

	return t, nil
}

// addTo adds a table to its level.
func (w *Written) addTo(l *engine.Level) {
	l.Files++
	l.Bytes += w.Bytes
	l.Keys += w.Keys
	l.DataBlocks, l.DataBytes = l.DataBlocks+w.DataBlocks, l.DataBytes+w.DataBytes
	l.RawKeyBytes += w.RawBytes - w.RawValueBytes
	l.RawValueBytes += w.RawValueBytes
	l.FilterBytes, l.FilterKeys = l.FilterBytes+w.FilterBytes, l.FilterKeys+w.FilterKeys
	l.FilterConsulted = l.FilterConsulted || w.FilterBytes > 0
	l.TopIndexBytes += w.TopIndexBytes
	l.IndexBytes += w.IndexBytes - w.TopIndexBytes
	l.IndexBlocks += w.IndexParts
	if w.IndexParts == 0 {
		l.SingleIndexes, l.SingleIndexBytes = l.SingleIndexes+1, l.SingleIndexBytes+w.IndexBytes
	}
}
