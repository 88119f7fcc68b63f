package blockbased

import (
	"bytes"
	"errors"
	"os"
	"sort"

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

// Version is an entry of a table: a key as users know it, and its sequence number.
type Version struct {
	Key    []byte
	SeqNum uint64
}

// Versions are the entries of a data block. buffered are the bytes that it fills when it
// is read: of one that is not compressed also its trailer.
func (t *Table) Versions(block int) (entries []Version, buffered int, err error) {
	at := t.Data[block]
	err = t.eachRow(at, &t.in, func(key, _ []byte) error {
		if len(key) < 8 {
			return t.Damaged(at, "damaged key")
		}
		user := key[:len(key)-8]
		entries = append(entries, Version{bytes.Clone(user), le64(key[len(user):]) >> 8})
		return nil
	})

	if err == nil && len(entries) == 0 {
		err = t.Damaged(at, "no keys")
	}

	if buffered = len(t.in.content); err == nil && t.in.stored[at.Bytes] == notCompressed {
		buffered = int(at.Bytes) + lookuppath.TrailerBytes
	}

	return entries, buffered, err
}

// Newest is the sequence number of the newest entry of key, deletions included. It asks no filter.
func (t *Table) Newest(key []byte) (seqNum uint64, found bool, err error) {
	for block := seek(&t.Separators, t.beyond, key); block < len(t.Data); block++ {
		entries, _, err := t.Versions(block)
		if err != nil {
			return 0, false, err
		}

		at := sort.Search(len(entries), func(i int) bool {
			return bytes.Compare(entries[i].Key, key) >= 0
		})
		if at < len(entries) {
			return entries[at].SeqNum, bytes.Equal(entries[at].Key, key), nil
		}
	}

	return 0, false, nil
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
