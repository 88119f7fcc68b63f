package blockbased

import (
	"bytes"
	"errors"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

// Families are the column families of a database in use as it is now; one of LevelDB has one.
func Families(dir string) ([]*Family, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return m.families, nil
}

// Table is a table by itself, whatever database it is of. It is for one goroutine.
type Table struct {
	*table
	in buffer
}

// OpenTable opens the table at path.
func OpenTable(path string) (*Table, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	t := &table{Table: lookuppath.Table{Opened: opened}}
	info, err := opened.Stat()
	if err == nil {
		t.Bytes = info.Size()
		_, err = t.readFooter() // whose format says whether it is LevelDB's
	}

	if err == nil {
		err = t.open(&Reading{Filters: true, places: true, Level: t.format == 0})
	}

	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}

	return &Table{table: t}, nil
}

// Close closes it.
func (t *Table) Close() error { return t.Opened.Close() }

// Blocks are what lies where in it.
func (t *Table) Blocks() (blocks []blockio.Block) {
	t.number()
	for number := range t.FirstData + uint32(len(t.Data)) {
		if b, h := t.Describe(number); h.Bytes > 0 {
			blocks = append(blocks, blockio.Block{
				Type:   b.Type,
				Offset: h.Offset,
				Length: uint64(h.Bytes),
			})
		}
	}

	for _, h := range t.others {
		blocks = append(blocks, blockio.Block{
			Type:   engine.Meta,
			Offset: h.Offset,
			Length: uint64(h.Bytes),
		})
	}

	return blocks
}

// DataBlocks is how many there are.
func (t *Table) DataBlocks() int { return len(t.Data) }

// Keys are those of a data block, as users know them. buffered are the bytes that it fills when it
// is read: of one that is not compressed also its trailer.
func (t *Table) Keys(block int) (keys [][]byte, buffered int, err error) {
	at := t.Data[block]
	err = t.eachRow(at, &t.in, func(key, _ []byte) error {
		if len(key) < 8 {
			return t.Damaged(at, "damaged key")
		}
		keys = append(keys, bytes.Clone(key[:len(key)-8]))
		return nil
	})

	if err == nil && len(keys) == 0 {
		err = t.Damaged(at, "no keys")
	}

	if buffered = len(t.in.content); err == nil && t.in.stored[at.Bytes] == notCompressed {
		buffered = int(at.Bytes) + lookuppath.TrailerBytes
	}

	return keys, buffered, err
}

// Index is the index, or of several the top one: where it is, and how large decompressed.
func (t *Table) Index() (offset uint64, bytes int, err error) {
	content, err := t.decode(t.Root, &t.in)
	return t.Root.Offset, len(content), err
}

// Learn tells what lies where in a table. It is a blockio.LayoutReader, but tells no sizes.
func Learn(path string) (_ *blockio.TableLayout, err error) {
	t, err := OpenTable(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	layout, err := blockio.NewBlockMap(t.Blocks(), t.Bytes)
	return &blockio.TableLayout{Map: layout, TableBytes: t.Bytes}, err
}
