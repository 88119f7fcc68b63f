package blocktable

import (
	"errors"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Families are the column families of a database in use as it is now; one of LevelDB has one.
func Families(dir string) ([]*Family, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return m.families, nil
}

// Learn tells what lies where in a table. It is a blockio.Learner, but tells no sizes.
func Learn(path string) (_ *blockio.Anatomy, err error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	t := &table{Facts: Facts{Bytes: info.Size()}, opened: opened}
	if _, err := t.readFooter(); err != nil { // whose format says whether it is LevelDB's
		return nil, err
	}
	if err := t.open(&Reading{Filters: true, Level: t.format == 0}); err != nil {
		return nil, err
	}
	var blocks []blockio.Block
	for number := range uint32(t.number(0)) {
		if b, h := t.describe(number); h.bytes > 0 {
			blocks = append(blocks, blockio.Block{Type: b.Type, Offset: h.offset, Length: uint64(h.bytes)})
		}
	}
	for _, h := range t.others {
		blocks = append(blocks, blockio.Block{Type: engine.Meta, Offset: h.offset, Length: uint64(h.bytes)})
	}
	layout, err := blockio.NewBlockMap(blocks, t.Bytes)
	return &blockio.Anatomy{Map: layout, TableBytes: t.Bytes}, err
}
