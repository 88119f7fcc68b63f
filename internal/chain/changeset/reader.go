package changeset

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/internal/base/frames"
)

// Container reads a container. It holds one frame and the index.
type Container struct {
	in      io.ReaderAt
	size    int64
	name    string // of the file, for errors
	closer  io.Closer
	decoder *zstd.Decoder

	info    Info
	index   []indexEntry
	begins  int64 // offset of the first frame of changes
	named   bool  // Info.Stores is complete
	walking bool  // the index is being made
	whole   int64 // versions above it are not to be begun: damage

	// Position.
	at          int64 // offset of the next frame
	frameAt     int64 // of the frame in raw
	stored, raw []byte
	pos         int   // in raw
	sought      bool  // a seek went to at
	partial     bool  // and into the open version, which is before the one sought
	version     int64 // open, or the last
	open        bool
	changes     uint64 // of the open version so far
	done        error
}

// OpenContainer reads the header and the footer of the size bytes of in; errors
// name the file name. Without a usable footer it walks the frames and Info.Damage
// says so; a damaged header is an error.
func OpenContainer(in io.ReaderAt, size int64, name string) (*Container, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxFooterBytes))
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}

	c := &Container{in: in, size: size, name: name, decoder: decoder, whole: math.MaxInt64}
	if err := c.readHeader(); err != nil {
		decoder.Close()
		return nil, c.damage(0, err)
	}

	if err := c.readFooter(); err != nil {
		c.info.Damage = err
		c.walk()
	}

	c.rewind()
	return c, nil
}

// Info implements Source.
func (c *Container) Info() Info { return c.info }

// Close implements Source.
func (c *Container) Close() error {
	c.decoder.Close()
	if c.closer != nil {
		return c.closer.Close()
	}
	return nil
}

// SeekVersion implements Seeker.
func (c *Container) SeekVersion(version int64) error {
	c.rewind()
	frame := sort.Search(len(c.index), func(i int) bool {
		e := c.index[i]
		return e.version > version || e.version == version && e.again
	})

	if frame > 0 {
		c.at, c.sought = c.index[frame-1].offset, true
	}

	for {
		if err := c.toVersion(); err == io.EOF {
			return nil // Next says so
		} else if err != nil {
			return err
		}

		if c.version >= version {
			return nil
		}

		if err := c.skipVersion(); err != nil {
			return err
		}
	}
}

// rewind goes to the first version.
func (c *Container) rewind() {
	c.at, c.raw, c.pos = c.begins, c.raw[:0], 0
	c.version, c.open, c.sought, c.partial, c.done = 0, false, false, false, nil
}

// skipVersion reads to the end of the open version.
func (c *Container) skipVersion() error {
	skipped := Batch{}
	for {
		if err := c.Next(&skipped); err != nil {
			return err
		}

		if skipped.Last {
			return nil
		}
	}
}

// Next implements Source. An error within a version leaves that version without
// an end: what its batches held must not be used.
func (c *Container) Next(b *Batch) error {
	if err := c.toVersion(); err != nil {
		return err
	}
	b.begin(c.version)
	if err := c.fill(b); err != nil {
		return c.end(c.damage(c.frameAt, err))
	}
	return nil
}

// toVersion reads up to the beginning of a version, if none is open.
func (c *Container) toVersion() error {
	if c.done != nil {
		return c.done
	}

	for !c.open {
		_, err := c.record(nil)
		if err == io.EOF {
			if c.info.Damage != nil {
				err = c.info.Damage
			}
			return c.end(err)
		}

		if err != nil {
			return c.end(c.damage(c.frameAt, err))
		}

		if c.open && c.version > c.whole {
			return c.end(c.info.Damage)
		}
	}

	return nil
}

func (c *Container) end(err error) error {
	c.done = err
	return err
}

func (c *Container) readName() error {
	text, err := c.bytes(MaxNameBytes, "a name")
	if err != nil {
		return err
	}

	if c.named {
		return nil
	}

	if err := checkName(string(text)); err != nil {
		return err
	}

	if len(c.info.Stores) == MaxStores {
		return fmt.Errorf("more than %d stores", MaxStores)
	}

	c.info.Stores = append(c.info.Stores, string(text))
	return nil
}

func (c *Container) readBegin(again uint64) error {
	number, err := c.number()
	if err != nil {
		return err
	}

	if number == 0 || number > math.MaxInt64 || int64(number) < c.version {
		return fmt.Errorf("version %d after version %d", number, c.version)
	}

	version := int64(number)
	if c.walking && c.index[len(c.index)-1].version == 0 {
		e := &c.index[len(c.index)-1]
		e.version, e.again = version, again == 1
	}

	switch {
	case again == 0 && version == c.version:
		return fmt.Errorf("version %d twice", version)
	case again == 1 && (c.open && version == c.version):
		return nil
	case again == 1 && c.sought && c.version == 0:
		c.partial = true
	case again != 0 || c.open:
		return fmt.Errorf("version %d where version %d goes on", version, c.version)
	}

	c.version, c.open, c.changes = version, true, 0
	return nil
}

// fill copies changes of the open version until the batch is full or it ends.
// The loop is what replaying waits for: it allocates nothing.
func (c *Container) fill(b *Batch) error {
	for c.open {
		if full, err := c.record(b); err == io.EOF {
			return fmt.Errorf("the changes end inside version %d", c.version)
		} else if err != nil || full {
			return err
		}
	}
	return nil
}

// record reads the next one. A change of the open version is copied into a batch, if that is not
// full.
func (c *Container) record(b *Batch) (full bool, err error) {
	if c.pos == len(c.raw) {
		return false, c.nextFrame()
	}

	rest := c.raw[c.pos:]
	tag, at := uvarint(rest)
	if at <= 0 {
		return false, badVarint(at)
	}

	kind, store := tag&(1<<tagBits-1), tag>>tagBits
	if !c.open || kind != setTag && kind != deleteTag {
		c.pos += at
		return false, c.mark(tag, b)
	}

	keyBytes, n := uvarint(rest[at:])
	if n <= 0 {
		return false, badVarint(n)
	}

	at += n
	valueBytes := uint64(0)
	if kind == setTag {
		if valueBytes, n = uvarint(rest[at:]); n <= 0 {
			return false, badVarint(n)
		}
		at += n
	}

	if err := checkKey(keyBytes); err != nil {
		return false, err
	}

	if err := checkValue(valueBytes); err != nil {
		return false, err
	}

	if keyBytes+valueBytes > uint64(len(rest)-at) {
		return false, errShort
	}

	if stores := len(c.info.Stores); store >= uint64(stores) {
		return false, fmt.Errorf("store %d of %d", store, stores)
	}

	value := at + int(keyBytes)
	end := value + int(valueBytes)
	if !b.offer(int(store), rest[at:value], rest[value:end], kind == deleteTag) {
		return true, nil
	}

	c.pos += end
	c.changes++
	return false, nil
}

// mark reads a record that is no change of the open version.
func (c *Container) mark(tag uint64, b *Batch) error {
	switch kind, number := tag&(1<<tagBits-1), tag>>tagBits; {
	case kind == nameTag:
		return c.readName()
	case kind == beginTag:
		return c.readBegin(number)
	case !c.open:
		return fmt.Errorf("record %#x outside of a version", tag)
	case kind == endTag:
		return c.readEnd(number, b)
	default:
		return fmt.Errorf("a record of kind %d", kind)
	}
}

// readEnd reads what closes a version into b.
func (c *Container) readEnd(known uint64, b *Batch) error {
	var roots Roots
	switch known {
	case 0:
	case 1:
		var err error
		if roots, err = c.readRoots(b); err != nil {
			return err
		}
	default:
		return fmt.Errorf("an end of kind %d", known)
	}

	changes, err := c.number()
	if err != nil {
		return err
	}

	if changes != c.changes && !c.partial {
		return fmt.Errorf("%d changes, written as %d", c.changes, changes)
	}

	b.Last, b.Roots, c.open, c.partial = true, roots, false, false
	return nil
}

func (c *Container) readRoots(b *Batch) (Roots, error) {
	combined, err := c.root(b)
	if err != nil {
		return Roots{}, err
	}

	n, err := c.number()
	if err != nil {
		return Roots{}, err
	}

	if n > uint64(len(c.info.Stores)) {
		return Roots{}, fmt.Errorf("roots of %d stores, the set has %d", n, len(c.info.Stores))
	}

	roots := Roots{Combined: combined, Stores: make([][]byte, n)}
	for i := range roots.Stores {
		if roots.Stores[i], err = c.root(b); err != nil {
			return Roots{}, err
		}
	}

	return roots, nil
}

func (c *Container) root(b *Batch) ([]byte, error) {
	root, err := c.bytes(MaxRootBytes, "a root")
	if err != nil || len(root) == 0 {
		return nil, err
	}
	return b.keep(root), nil
}

func (c *Container) number() (uint64, error) {
	v, n := uvarint(c.raw[c.pos:])
	if n <= 0 {
		return 0, badVarint(n)
	}
	c.pos += n
	return v, nil
}

func (c *Container) bytes(limit uint64, what string) ([]byte, error) {
	n, err := c.number()
	if err != nil {
		return nil, err
	}

	if n > limit {
		return nil, fmt.Errorf("%s of %d bytes, at most %d are believed", what, n, limit)
	}

	if n > uint64(len(c.raw)-c.pos) {
		return nil, errShort
	}

	b := c.raw[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b, nil
}

// nextFrame loads the next frame of changes; io.EOF is the footer.
func (c *Container) nextFrame() error {
	c.frameAt = c.at
	kind, n, err := c.readFrame(c.at, maxFrameBytes)
	if err != nil {
		return err
	}

	switch kind {
	case footerFrame:
		c.raw, c.pos = c.raw[:0], 0
		return io.EOF
	case changesFrame:
		if c.walking {
			c.index = append(c.index, indexEntry{offset: c.at, bytes: n})
		}
		c.at += n
		c.pos = 0
		return nil
	}

	return fmt.Errorf("a frame of kind %q", kind)
}

// readFrame reads, checks and decompresses the frame at offset into c.raw.
func (c *Container) readFrame(offset, limit int64) (kind byte, n int64, err error) {
	var head frames.Head
	if c.size-offset < frameHeadBytes {
		return 0, 0, fmt.Errorf("cut short: %d of the %d bytes that begin a frame",
			max(c.size-offset, 0), frameHeadBytes)
	}

	if err := c.readAt(head[:], offset); err != nil {
		return 0, 0, err
	}

	storedBytes, rawBytes := head.Sizes()
	if head.Kind() == footerFrame {
		limit = maxFooterBytes
	}

	if rawBytes > limit || storedBytes > limit+limit>>4 {
		return 0, 0, fmt.Errorf("damaged: a frame of %d bytes, %d decompressed, where at most %d "+
			"are written", storedBytes, rawBytes, limit)
	}

	if left := c.size - offset - frameHeadBytes; storedBytes > left {
		return 0, 0, fmt.Errorf("cut short: %d of the %d bytes of a frame", left, storedBytes)
	}

	c.stored = grow(c.stored, int(storedBytes))
	if err := c.readAt(c.stored, offset+frameHeadBytes); err != nil {
		return 0, 0, err
	}

	raw, err := head.Open(c.stored, c.raw, c.decoder)
	if err != nil {
		return 0, 0, err
	}

	c.raw = raw
	return head.Kind(), frameHeadBytes + storedBytes, nil
}

func (c *Container) readAt(b []byte, offset int64) error {
	if n, err := c.in.ReadAt(b, offset); n < len(b) {
		return fmt.Errorf("read %d bytes: %w", len(b), err)
	}
	return nil
}

func (c *Container) damage(offset int64, err error) error {
	return &DamageError{File: c.name, Offset: offset, Version: c.version, Err: err}
}

// uvarint is binary.Uvarint with its commonest case inlined.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

func badVarint(n int) error {
	if n == 0 {
		return errShort
	}
	return errVarint
}

// grow returns n bytes, of b if it is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
