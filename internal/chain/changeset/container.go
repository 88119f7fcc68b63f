package changeset

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/schema"
)

// The container: a set in one file, read in order or from any version.
//
//	file    = magic frame(header) frame(changes)* frame(footer) trailer
//	trailer = footerOffset(8) crc32c of it(4) endMagic
//	header  = JSON: schema, order, root_rule, provenance
//	changes = record*
//	record  = 0|store<<3 keyBytes valueBytes key value  set
//	          1|store<<3 keyBytes key                   delete
//	          2|again<<3 version                        a version begins, or goes on in this frame
//	          3|known<<3 [roots] changes                it ends; the count of its changes
//	          4 nameBytes name                          the next store number has this name
//	roots   = root n root*n                             combined, then by store
//	root    = bytes root                                0 bytes: unknown
//	footer  = n (name sets deletes keyBytes valueBytes)*n  versions changes roots first last
//	          m (again|(version-previous)<<1 frameBytes)*m
//
// Frames are those of internal/base/frames; the trailer is little-endian, everything inside is a
// uvarint. A frame is closed at targetFrameBytes, so it holds many small versions
// or a part of a large one, and begins with the version that it holds first: any
// frame can be read without those before it, given the names from the footer.
// Without a footer (a writer was killed, a copy was cut) the frames are walked
// once and read up to the last version that is whole.
const (
	magic    = "SLCHSET1"
	endMagic = "SLCHEND1"

	headerFrame  byte = 'H'
	changesFrame byte = 'C'
	footerFrame  byte = 'F'

	frameHeadBytes   = frames.HeadBytes
	trailerBytes     = 8 + 4 + len(endMagic)
	targetFrameBytes = 256 << 10
	// maxFrameBytes bounds what is allocated because a file says so: the largest
	// change behind a frame that is nearly full, all names, the roots of a version.
	maxFrameBytes = targetFrameBytes + MaxKeyBytes + MaxValueBytes +
		MaxStores*(MaxNameBytes+MaxRootBytes+8) + 1<<10
	maxHeaderBytes = 1 << 20
	maxFooterBytes = 1 << 28
)

// Record tags, below the number that shares their varint.
const (
	setTag = iota
	deleteTag
	beginTag
	endTag
	nameTag
	tagBits = 3
)

// header is the header frame's JSON.
type header struct {
	Schema     string `json:"schema"`
	Order      string `json:"order"`
	RootRule   string `json:"root_rule,omitempty"`
	Provenance string `json:"provenance,omitempty"`
	// NotChecked is what the format that the set was imported from cannot show.
	NotChecked []string `json:"not_checked,omitempty"`
}

// indexEntry is one frame of changes.
type indexEntry struct {
	version int64 // the first with a record in it
	again   bool  // which began in a frame before
	offset  int64
	bytes   int64
}

func parseOrder(name string) (Order, error) {
	for o, known := range orderNames {
		if name == known {
			return Order(o), nil
		}
	}
	return OrderUnknown, fmt.Errorf("order %q is none that is known", name)
}

// What a container says of itself: its header, its footer, or, where the footer is
// lost, what walking the frames shows.

func (c *Container) readHeader() error {
	start := make([]byte, min(int64(len(magic)), c.size))
	if err := c.readAt(start, 0); err != nil {
		return err
	}

	if string(start) != magic {
		return fmt.Errorf("this is not a file of change sets: it does not begin with %s", magic)
	}

	kind, n, err := c.readFrame(int64(len(magic)), maxHeaderBytes)
	if err != nil {
		return err
	}

	if kind != headerFrame {
		return fmt.Errorf("a frame of kind %q where the header belongs", kind)
	}

	var h header
	if err := json.Unmarshal(c.raw, &h); err != nil {
		return fmt.Errorf("read header: %w", err)
	}

	if h.Schema != schema.ChangeSet {
		return fmt.Errorf("schema %q, this program reads %s", h.Schema, schema.ChangeSet)
	}

	order, err := parseOrder(h.Order)
	if err != nil {
		return err
	}

	c.begins = int64(len(magic)) + n
	c.info = Info{
		Format:     FormatContainer,
		Order:      order,
		RootRule:   h.RootRule,
		Provenance: h.Provenance,
		NotChecked: h.NotChecked,
		Complete:   true,
	}

	return nil
}

// readFooter reads the index and the totals.
func (c *Container) readFooter() error {
	at := c.size - int64(trailerBytes)
	if at < c.begins {
		return c.damage(c.size, errors.New("cut short: no footer"))
	}

	trailer := make([]byte, trailerBytes)
	if err := c.readAt(trailer, at); err != nil {
		return c.damage(at, err)
	}

	if string(trailer[12:]) != endMagic ||
		frames.Checksum(trailer[:8]) != binary.LittleEndian.Uint32(trailer[8:]) {
		return c.damage(c.size, errors.New("cut short: no footer"))
	}

	offset := binary.LittleEndian.Uint64(trailer)
	if offset < uint64(c.begins) || offset > uint64(at) {
		return c.damage(at, fmt.Errorf("the footer is at %d, outside of the file", offset))
	}

	kind, n, err := c.readFrame(int64(offset), maxFooterBytes)
	if err == nil && (kind != footerFrame || int64(offset)+n != at) {
		err = fmt.Errorf("a frame of kind %q and %d bytes where the footer belongs", kind, n)
	}

	if err == nil {
		err = c.parseFooter(int64(offset))
	}

	if err != nil {
		return c.damage(int64(offset), err)
	}

	return nil
}

func (c *Container) parseFooter(footerOffset int64) error {
	c.pos = 0
	stores, err := c.number()
	if err != nil {
		return err
	}

	if stores > MaxStores {
		return fmt.Errorf("%d stores, at most %d are believed", stores, MaxStores)
	}

	info := c.info
	totals := &Totals{Stores: make([]StoreTotals, stores)}
	for i := range totals.Stores {
		name, err := c.bytes(MaxNameBytes, "a name")
		if err != nil {
			return err
		}

		if err := checkName(string(name)); err != nil {
			return err
		}

		info.Stores = append(info.Stores, string(name))
		t := &totals.Stores[i]
		if err := c.counts(&t.Sets, &t.Deletes, &t.KeyBytes, &t.ValueBytes); err != nil {
			return err
		}
	}

	var frames int64
	if err := c.counts(&totals.Versions, &totals.Changes, &totals.Roots, &info.First, &info.Last,
		&frames); err != nil {
		return err
	}

	if frames > int64(len(c.raw)-c.pos)/2 {
		return fmt.Errorf("%d frames in %d bytes", frames, len(c.raw)-c.pos)
	}

	index, offset, version := make([]indexEntry, frames), c.begins, int64(0)
	for i := range index {
		var step, bytes int64
		if err := c.counts(&step, &bytes); err != nil {
			return err
		}

		version += step >> 1
		index[i] = indexEntry{version: version, again: step&1 == 1, offset: offset, bytes: bytes}
		if offset += bytes; bytes < frameHeadBytes || offset > footerOffset || version > info.Last {
			return fmt.Errorf("frame %d: version %d of %d, to offset %d of %d", i, version,
				info.Last, offset, footerOffset)
		}
	}

	if offset != footerOffset || c.pos != len(c.raw) {
		return fmt.Errorf("the index ends at %d, the frames at %d", offset, footerOffset)
	}

	info.Totals = totals
	c.info, c.index, c.named = info, index, true
	return nil
}

func (c *Container) counts(to ...*int64) error {
	for _, n := range to {
		v, err := c.number()
		if err != nil {
			return err
		}

		if v > math.MaxInt64>>1 {
			return fmt.Errorf("a count of %d", v)
		}

		*n = int64(v)
	}

	return nil
}

// walk finds names, totals, index and the last whole version in the frames.
func (c *Container) walk() {
	damage := c.info.Damage
	c.info.Damage, c.walking = nil, true
	c.rewind()
	tally, b := Tally{}, Batch{}
	err := Each(c, &b, func(b *Batch) error {
		tally.Add(b)
		return nil
	})
	if err != nil {
		damage = fmt.Errorf("%w (%w)", err, damage)
	}

	for i := range c.index {
		if e := &c.index[i]; e.version == 0 { // names only, or damaged before its first version
			e.version, e.again = c.version, true
		}
	}

	totals := tally.Totals(len(c.info.Stores))
	c.info.Totals, c.info.First, c.info.Last = &totals, tally.First, tally.Last
	c.info.Damage, c.named, c.whole, c.walking = damage, true, tally.Last, false
}
