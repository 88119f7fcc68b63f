//go:build cgo

package rocksdb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// Shape sums the live tables by level: of the families that Gets go to, and under Tables of
// each that is open. What is inside the files comes from their properties; RocksDB tells
// sizes of filters and indexes before compression.
func (d *db) Shape() (engine.Shape, error) {
	var own engine.Shape
	live := d.liveTables()
	for i, f := range d.families {
		t, err := d.tableOf(f, live[f.name])
		if err != nil {
			return own, err
		}

		if i < len(d.asked()) {
			own.Bytes += t.Bytes
			own.Files += t.Files
			own.Levels = plus(own.Levels, t.Levels)
			own.Values = own.Values.Plus(t.Values)
		}

		own.Tables = append(own.Tables, t)
	}

	d.warnOfOldFilters()
	if len(own.Tables) == 1 {
		own.Tables = nil // the database
	}

	return own, nil
}

// plus sums levels by their numbers.
func plus(levels, more []engine.Level) []engine.Level {
	for _, l := range more {
		at, have := slices.BinarySearchFunc(levels, l.Level, func(l engine.Level, number int) int {
			return l.Level - number
		})
		if have {
			levels[at] = levels[at].Plus(l)
			levels[at].FilterConsulted = levels[at].FilterConsulted || l.FilterConsulted
		} else {
			levels = slices.Insert(levels, at, l)
		}
	}

	return levels
}

// tableOf describes a family by its live tables.
func (d *db) tableOf(f family, live []liveTable) (engine.Table, error) {
	t := engine.Table{Name: unit.Printable(f.name), Files: len(live)}
	var levels [engine.MaxLevels]engine.Level
	for _, file := range live {
		if file.Level >= engine.MaxLevels {
			return t, engine.Fail(engine.CodeUnsupported, "rocksdb: a table is on level %d, and "+
				"only levels below %d are counted", file.Level, engine.MaxLevels).
				WithRemedy("let the program that owns the database write a copy with fewer levels")
		}

		t.Bytes += file.bytes
		levels[file.Level].Files++
		levels[file.Level].Bytes += file.bytes
	}

	if files := d.propertyOf(f, "rocksdb.num-blob-files"); files > 0 {
		t.Values = &engine.Values{
			Files: int(files),
			Bytes: d.propertyOf(f, "rocksdb.live-blob-file-size"),
		}
		t.Files, t.Bytes = t.Files+t.Values.Files, t.Bytes+t.Values.Bytes
	}

	outside := spansOf(live).outside()
	for number := range levels {
		l := &levels[number]
		if l.Files == 0 {
			continue
		}

		l.Level, l.Sublevels, l.Outside = number, 1, outside[number]
		if number == 0 {
			l.Sublevels = l.Files // each table of level 0 may hold any key
		}

		describe(l,
			parseProperties(d.property(f,
				fmt.Sprintf("rocksdb.aggregated-table-properties-at-level%d", number))))
		d.withoutOldFilters(f, l)
		l.FilterConsulted = l.FilterConsulted && d.kept.usesFilters(f.name, d.settings.layout)
		t.Keys += l.Keys
		t.Levels = append(t.Levels, *l)
	}

	return t, nil
}

// withoutOldFilters takes filters out of a level that RocksDB asks before 7.0 alone: properties
// tell their size, and not their kind.
func (d *db) withoutOldFilters(f family, l *engine.Level) {
	if !d.settings.foreign || l.FilterBytes == 0 {
		return
	}

	if d.oldFilters == nil {
		d.oldFilters = map[string]map[int][]blockbased.Written{}
		// Tables that cannot be looked into keep what RocksDB tells.
		families, err := blockbased.ReadTableProperties(d.settings.dir)
		for _, of := range families {
			levels := map[int][]blockbased.Written{}
			for _, t := range of.Tables {
				if t.OldFilterBytes > 0 && err == nil {
					levels[t.Level] = append(levels[t.Level], t)
				}
			}
			d.oldFilters[of.Name] = levels
		}
	}

	tables := d.oldFilters[f.name][l.Level]
	for _, t := range tables {
		l.FilterBytes = max(0, l.FilterBytes-t.OldFilterBytes)
		l.FilterKeys = max(0, l.FilterKeys-t.Keys)
	}

	if l.FilterBytes == 0 {
		l.FilterConsulted, l.FilterKeys = false, 0
	}
}

// warnOfOldFilters names the families whose tables have filters that this version ignores.
func (d *db) warnOfOldFilters() {
	var of []string
	for _, f := range d.families {
		n := 0
		for _, tables := range d.oldFilters[f.name] {
			n += len(tables)
		}

		if n > 0 {
			of = append(of, fmt.Sprintf("%s (%s)", unit.Printable(f.name), unit.Plural(n, "table")))
		}
	}

	if len(of) == 0 {
		return
	}

	version, _ := load()
	d.warn(blockbased.OldFiltersWarning(of, version))
}

// describe fills in what the properties of a level's tables tell.
func describe(l *engine.Level, p map[string]int64) {
	l.Keys = p["# entries"] // live files tell those of some tables only, where few may be open
	l.DataBlocks, l.DataBytes = p["# data blocks"], p["data block size"]
	l.RawKeyBytes, l.RawValueBytes = p["raw key size"], p["raw value size"]
	l.FilterBytes, l.FilterConsulted = p["filter block size"], p["filter block size"] > 0
	l.FilterKeys = p["# entries for filter"]
	l.TopIndexBytes = p["top-level index size"]
	l.IndexBytes = p["index block size"] - l.TopIndexBytes
	l.IndexBlocks = p["# index partitions"]
	if l.IndexBlocks == 0 {
		l.SingleIndexes, l.SingleIndexBytes = int64(l.Files), l.IndexBytes
	}
}

// parseProperties reads whole numbers out of "name=1; name (remark)=2; name=N/A".
func parseProperties(text string) map[string]int64 {
	found := map[string]int64{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, is := strings.Cut(part, "=")
		if !is {
			continue
		}

		if before, _, remarked := strings.Cut(name, "("); remarked {
			name = before
		}

		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
			found[strings.TrimSpace(name)] = n
		}
	}

	return found
}
