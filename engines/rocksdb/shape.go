//go:build cgo

package rocksdb

// #include "capi.h"
import "C"

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// ownFamily is the only column family that is opened.
const ownFamily = "default"

// Shape sums the live tables by level. What is inside them comes from their
// properties; RocksDB tells sizes of filters and indexes before compression.
func (d *db) Shape() (engine.Shape, error) {
	var levels [engine.MaxLevels]engine.Level
	files := C.rocks_livefiles(d.rocks)
	defer C.rocks_livefiles_destroy(files)
	var shape engine.Shape
	for i := range C.rocks_livefiles_count(files) {
		if C.GoString(C.rocks_livefiles_column_family_name(files, i)) != ownFamily {
			continue
		}
		level := int(C.rocks_livefiles_level(files, i))
		if level >= engine.MaxLevels {
			return shape, fmt.Errorf("rocksdb: a table of level %d: this program tells %d levels apart", level, engine.MaxLevels)
		}
		bytes := int64(C.rocks_livefiles_size(files, i))
		shape.Files++
		shape.Bytes += bytes
		l := &levels[level]
		l.Files++
		l.Bytes += bytes
	}
	for number := range levels {
		l := &levels[number]
		if l.Files == 0 {
			continue
		}
		l.Level, l.Sublevels = number, 1
		if number == 0 {
			l.Sublevels = l.Files // each table of level 0 may hold any key
		}
		describe(l, parseProperties(d.property(fmt.Sprintf("rocksdb.aggregated-table-properties-at-level%d", number))))
		shape.Levels = append(shape.Levels, *l)
	}
	return shape, nil
}

// describe fills in what the properties of a level's tables tell.
func describe(l *engine.Level, p map[string]int64) {
	l.Keys = p["# entries"] // live files tell those of some tables only, where few may be open
	l.DataBlocks, l.DataBytes = p["# data blocks"], p["data block size"]
	l.FilterBytes, l.FilterConsulted = p["filter block size"], p["filter block size"] > 0
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
