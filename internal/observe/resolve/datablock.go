package resolve

import (
	"bytes"

	pebble2 "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/sstable/rowblk"

	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// entry is an entry of the key looked for; kind follow.None: the search went past
// it.
type entry struct {
	kind   lsmtail.Entry
	seqNum uint64
	// end: the block ended before an entry that is not below the key.
	end bool
}

// dataBlock searches data blocks for one key at a time. The zero value is
// ready. Not safe for concurrent use.
type dataBlock struct {
	buffer buffer
	key    []byte

	columnar bool
	rows     rowblk.Iter
	columns  columns
}

// load makes data block i of t the one to search for key.
func (d *dataBlock) load(t *table, i int, key []byte) error {
	content, err := t.decode(t.Data[i], &d.buffer)
	if err != nil {
		return err
	}

	d.key, d.columnar = key, t.columnar
	if t.columnar {
		d.columns.load(content, t.hidesObsolete)
		return nil
	}

	// That values may have a prefix does not matter: no value is looked at.
	return d.rows.Init(
		pebble2.DefaultComparer.Compare, pebble2.DefaultComparer.ComparePointSuffixes,
		pebble2.DefaultComparer.Split,
		content, block.IterTransforms{HideObsoletePoints: t.hidesObsolete})
}

// seek goes to the first entry that is not below the key.
func (d *dataBlock) seek() entry {
	if d.columnar {
		return d.columns.seek(d.key)
	}
	if kv := d.rows.SeekGE(d.key, 0); kv != nil {
		return d.row(kv.K)
	}
	return entry{end: true}
}

// first goes to the first entry.
func (d *dataBlock) first() entry {
	if d.columnar {
		return d.columns.first(d.key)
	}
	if kv := d.rows.First(); kv != nil {
		return d.row(kv.K)
	}
	return entry{end: true}
}

// next goes to the entry behind one of the key.
func (d *dataBlock) next() entry {
	if d.columnar {
		return d.columns.next()
	}
	if kv := d.rows.Next(); kv != nil {
		return d.row(kv.K)
	}
	return entry{end: true}
}

func (d *dataBlock) row(k pebble2.InternalKey) entry {
	if !bytes.Equal(k.UserKey, d.key) {
		return entry{}
	}
	return entry{kind: kindOf(uint8(k.Kind())), seqNum: uint64(k.SeqNum())}
}

func kindOf(kind uint8) lsmtail.Entry {
	switch pebble2.InternalKeyKind(kind) {
	case pebble2.InternalKeyKindSet, pebble2.InternalKeyKindSetWithDelete:
		return lsmtail.Set
	case pebble2.InternalKeyKindDelete, pebble2.InternalKeyKindSingleDelete,
		pebble2.InternalKeyKindDeleteSized:
		return lsmtail.Delete
	}
	return lsmtail.Merge // whatever else there is
}

// columns is a columnar data block of Pebble's default key schema, whose first
// column is the whole key.
type columns struct {
	block         colblk.BlockDecoder
	keys          colblk.PrefixBytes
	trailers      colblk.UnsafeUints
	newKey        colblk.Bitmap // set where a row's key differs from the one before
	obsolete      colblk.Bitmap
	hidesObsolete bool
	row           int
}

// Where data blocks keep what: a header of four bytes, the columns of the key
// schema (prefix, suffix), then Pebble's own.
const (
	dataHeaderBytes = 4
	keyColumn       = 0
	trailerColumn   = 2
	newKeyColumn    = 3
	obsoleteColumn  = 6
)

func (c *columns) load(content []byte, hidesObsolete bool) {
	c.block.Init(content, dataHeaderBytes)
	c.keys = c.block.PrefixBytes(keyColumn)
	c.trailers = c.block.Uints(trailerColumn)
	c.newKey = c.block.Bitmap(newKeyColumn)
	c.obsolete = c.block.Bitmap(obsoleteColumn)
	c.hidesObsolete = hidesObsolete
}

func (c *columns) seek(key []byte) entry {
	row, equal := c.keys.Search(key)
	c.row = row
	return c.visible(equal)
}

func (c *columns) first(key []byte) entry {
	row, equal := c.keys.Search(key)
	c.row = 0
	return c.visible(equal && row == 0)
}

func (c *columns) next() entry {
	c.row++
	return c.visible(c.row < c.block.Rows() && !c.newKey.At(c.row))
}

// visible is the entry at the row, or the next that is not hidden; equal says
// whether the row's key is the key looked for.
func (c *columns) visible(equal bool) entry {
	rows := c.block.Rows()
	for c.hidesObsolete && c.row < rows && c.obsolete.At(c.row) {
		c.row++
		equal = equal && c.row < rows && !c.newKey.At(c.row)
	}

	if c.row >= rows {
		return entry{end: true}
	}

	if !equal {
		return entry{}
	}

	trailer := c.trailers.At(c.row)
	return entry{kind: kindOf(uint8(trailer)), seqNum: trailer >> 8}
}
