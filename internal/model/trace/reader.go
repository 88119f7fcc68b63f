package trace

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// Reader reads a trace Get by Get. It holds one frame and the block table, and
// never allocates by what a damaged file claims. Not safe for concurrent use.
type Reader struct {
	in      io.Reader
	decoder *zstd.Decoder
	ahead   <-chan frameRead // nil: frames are read when they are needed
	header  Header
	totals  Totals // so far
	blocks  []cachesim.Block
	frame   int // being read
	ended   bool

	stored, raw, rest []byte
	left              uint64 // Gets of the frame still to come
}

func newFrames(in io.Reader) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxFrameBytes))
	if err != nil {
		return nil, fmt.Errorf("trace: make a decompressor: %w", err)
	}
	return &Reader{in: in, decoder: decoder}, nil
}

// NewReader reads the header. in should be buffered.
func NewReader(in io.Reader) (*Reader, error) {
	r, err := newFrames(in)
	if err != nil {
		return nil, err
	}

	var start [len(magic)]byte
	if _, err := io.ReadFull(in, start[:]); err != nil || string(start[:]) != magic {
		return nil, fmt.Errorf("this is not a trace: it does not begin with %s (statelab trace "+
			"makes one of a database)", magic)
	}

	kind, header, err := r.readFrame(nil)
	if err != nil {
		return nil, r.damage(err)
	}

	if kind != headerFrame {
		return nil, r.damage(fmt.Errorf("a frame of kind %q where the header belongs", kind))
	}

	if err := json.Unmarshal(header, &r.header); err != nil {
		return nil, r.damage(fmt.Errorf("read header: %w", err))
	}

	if r.header.Schema != schema.Trace {
		return nil, r.damage(fmt.Errorf("schema %q, this program reads %s", r.header.Schema,
			schema.Trace))
	}

	r.frame++
	return r, nil
}

// newWhole is NewReader for a trace that is no part of another.
func newWhole(in io.Reader) (*Reader, error) {
	r, err := NewReader(bufio.NewReaderSize(in, 1<<20))
	if err != nil {
		return nil, err
	}

	if p := r.header.Part; p.Of > 0 {
		return nil, fmt.Errorf("trace: this is part %d/%d of a trace: put the parts together "+
			"first (statelab trace --merge)", p.Number, p.Of)
	}

	return r, nil
}

// Header says what the trace is of.
func (r *Reader) Header() Header { return r.header }

// Blocks are the blocks defined so far, by number. Every number that Next
// returns is among them. The slice grows with Next.
func (r *Reader) Blocks() []cachesim.Block { return r.blocks }

// Totals are the counts so far, of the whole trace after Next returned io.EOF.
func (r *Reader) Totals() Totals { return r.totals }

// Next appends the block numbers of the next Get to dst[:0]. After the last it
// returns io.EOF, having checked the footer. A trace that was cut or changed is
// a DamageError: the Gets returned so far are good.
func (r *Reader) Next(dst []uint32) (numbers []uint32, found bool, err error) {
	dst = dst[:0]
	for r.left == 0 {
		if r.ended {
			return dst, false, io.EOF
		}

		if err := r.nextFrame(); err != nil {
			return dst, false, r.damage(err)
		}
	}

	head, err := r.uvarint()
	if err != nil {
		return dst, false, r.damage(err)
	}

	count := head >> 1
	if count > maxGetAccesses {
		return dst, false, r.damage(fmt.Errorf("a Get of %d accesses", count))
	}

	// not through r: this loop is most of reading a trace
	rest, known := r.rest, uint64(len(r.blocks))
	for range count {
		number, width := binary.Uvarint(rest)
		if width <= 0 {
			return dst, false, r.damage(errShort)
		}

		rest = rest[width:]
		if number >= known {
			return dst, false, r.damage(fmt.Errorf("access to block %d of %d", number, known))
		}

		dst = append(dst, uint32(number))
	}

	r.rest = rest
	r.left--
	if r.left == 0 && len(r.rest) > 0 {
		return dst, false, r.damage(fmt.Errorf("%d bytes behind the last Get", len(r.rest)))
	}

	found = head&1 == 1
	if r.totals.Gets++; found {
		r.totals.Found++
	}

	r.totals.Accesses += count
	if r.left == 0 {
		r.frame++
	}

	return dst, found, nil
}

// nextFrame reads frames until one has Gets or the trace ended.
func (r *Reader) nextFrame() error {
	read := r.nextRead()
	if read.err != nil {
		return read.err
	}

	r.raw, r.rest = read.raw, read.raw
	var err error
	switch read.kind {
	case getsFrame:
		if err := r.readBlocks(); err != nil {
			return err
		}

		if r.left, err = r.uvarint(); err != nil {
			return err
		}

		if r.left > uint64(len(r.rest)) {
			claimed := r.left
			r.left = 0
			return fmt.Errorf("%d Gets in %d bytes", claimed, len(r.rest))
		}

		if r.left == 0 {
			r.frame++
		}

		return nil
	case footerFrame:
		return r.readFooter()
	}

	return fmt.Errorf("a frame of kind %q", read.kind)
}

// frameRead is what reading a frame gave.
type frameRead struct {
	kind byte
	raw  []byte
	err  error
}

func (r *Reader) nextRead() frameRead {
	if r.ahead != nil {
		return <-r.ahead
	}
	kind, raw, err := r.readFrame(r.raw)
	return frameRead{kind, raw, err}
}

// readAhead decompresses the next frames while the Gets of one are read, on another processor if
// there is one. It ends with the last frame, or soon after stop.
func (r *Reader) readAhead() (stop func()) {
	ahead, done := make(chan frameRead, 1), make(chan struct{})
	r.ahead = ahead
	go func() {
		for more := true; more; {
			kind, raw, err := r.readFrame(nil)
			more = err == nil && kind == getsFrame
			select {
			case ahead <- frameRead{kind, raw, err}:
			case <-done:
				return
			}
		}
	}()

	return func() { close(done) }
}

// minBlockBytes is the least a definition takes.
const minBlockBytes = 6

func (r *Reader) readBlocks() error {
	n, err := r.uvarint()
	if err != nil {
		return err
	}

	if n > uint64(len(r.rest)/minBlockBytes) {
		return fmt.Errorf("%d blocks in %d bytes", n, len(r.rest))
	}

	file := uint64(0)
	for range n {
		if len(r.rest) < 2 {
			return errShort
		}

		level, known := levelOf(r.rest[0])
		b := cachesim.Block{
			Level: level,
			Type:  engine.BlockType(r.rest[1] & 15),
			Marks: cachesim.Marks(r.rest[1] >> 4),
		}

		r.rest = r.rest[2:]
		step, width := binary.Varint(r.rest)
		if width <= 0 {
			return errShort
		}

		r.rest = r.rest[width:]
		file += uint64(step)
		b.File = file
		var fields [3]uint64
		for i := range fields {
			if fields[i], err = r.uvarint(); err != nil {
				return err
			}
		}

		if !known || b.Type >= engine.NumBlockTypes || !b.Marks.Known() ||
			fields[1] > math.MaxInt32 || fields[2] > math.MaxInt32 {
			return fmt.Errorf("block %d: impossible level %d, type %d or size", len(r.blocks),
				b.Level, b.Type)
		}

		if len(r.blocks) == math.MaxUint32 {
			return fmt.Errorf("more than %d blocks", uint32(math.MaxUint32))
		}

		b.Offset, b.DiskBytes, b.Bytes = fields[0], int32(fields[1]), int32(fields[2])
		r.blocks = append(r.blocks, b)
		r.totals.Blocks++
	}

	return nil
}

// footer is what the frame says that is the footer.
func (r *Reader) footer() (said Totals, err error) {
	for _, n := range []*uint64{&said.Offered, &said.Gets, &said.Found, &said.Accesses,
		&said.Blocks} {
		if *n, err = r.uvarint(); err != nil {
			return said, err
		}
	}
	return said, nil
}

func (r *Reader) readFooter() error {
	said, err := r.footer()
	if err != nil {
		return err
	}

	r.totals.Offered = said.Offered
	if said != r.totals || said.Offered < said.Gets || len(r.rest) > 0 {
		return fmt.Errorf("the footer counts %+v, the frames hold %+v", said, r.totals)
	}

	if n, err := r.in.Read(make([]byte, 1)); n > 0 {
		return errors.New("bytes behind the footer")
	} else if err != nil && err != io.EOF {
		return fmt.Errorf("read behind the footer: %w", err)
	}

	r.ended = true
	return nil
}

var errShort = errors.New("it ends inside a number")

func (r *Reader) uvarint() (uint64, error) {
	v, width := binary.Uvarint(r.rest)
	if width <= 0 {
		return 0, errShort
	}
	r.rest = r.rest[width:]
	return v, nil
}

// readFrame reads, checks and decompresses the next frame, into memory that it may be given.
func (r *Reader) readFrame(into []byte) (kind byte, raw []byte, err error) {
	var head frames.Head
	if n, err := io.ReadFull(r.in, head[:]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return 0, nil, fmt.Errorf("cut short: %d of the %d bytes that begin a frame", n,
				len(head))
		}
		return 0, nil, fmt.Errorf("read: %w", err)
	}

	storedBytes, rawBytes := head.Sizes()
	if storedBytes > maxFrameBytes || rawBytes > maxFrameBytes {
		return 0, nil, fmt.Errorf("damaged: %d bytes, %d decompressed, where at most %d are "+
			"written", storedBytes, rawBytes, maxFrameBytes)
	}

	r.stored = slices.Grow(r.stored[:0], int(storedBytes))[:storedBytes]
	if n, err := io.ReadFull(r.in, r.stored); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return 0, nil, fmt.Errorf("cut short: %d of %d bytes", n, storedBytes)
		}
		return 0, nil, fmt.Errorf("read: %w", err)
	}

	raw, err = head.Open(r.stored, into, r.decoder)
	return head.Kind(), raw, err
}

func (r *Reader) damage(err error) error {
	return &DamageError{Frame: r.frame, Gets: r.totals.Gets, Err: err}
}

// Load reads a whole trace into memory, 4 bytes an access. With a DamageError
// comes the trace up to the damage. One that holds a sample of the blocks is a sample here, too:
// replaying it tells its error.
func Load(in io.Reader) (*cachesim.Trace, Header, error) {
	counted := countAhead(in)
	r, err := newWhole(in)
	if err != nil {
		return nil, Header{}, err
	}

	if r.header.SampledBlocks > 1 {
		s := cachesim.NewSampler(0, r.header.WarmupGets)
		err = r.each(func(numbers []uint32) error { return s.Get(numbers, r.blocks) })
		return s.Trace(), r.header, err
	}

	t := &cachesim.Trace{
		WarmupGets: r.header.WarmupGets,
		Events:     r.header.Events,
		Filled:     r.header.Filled,
		CacheKeys:  r.header.CacheKeys,
	}

	t.Gets, t.Accesses = make([]uint32, 0, counted.Gets), make([]uint32, 0, counted.Accesses)
	r.blocks = make([]cachesim.Block, 0, counted.Blocks)
	err = r.each(func(numbers []uint32) error {
		if len(t.Accesses)+len(numbers) > math.MaxUint32 {
			return fmt.Errorf("trace: more than %d accesses: simulate a sample of its blocks",
				uint32(math.MaxUint32))
		}

		t.Gets = append(t.Gets, uint32(len(t.Accesses)))
		// doubling copies less than append's growth
		if cap(t.Accesses)-len(t.Accesses) < len(numbers) {
			t.Accesses = slices.Grow(t.Accesses, len(t.Accesses)+len(numbers))
		}

		t.Accesses = append(t.Accesses, numbers...)
		return nil
	})

	t.Blocks = r.blocks
	return t, r.header, err
}

// maxExpansion is more than Gets expand when they are decompressed, about 3 times.
const maxExpansion = 64

// countAhead returns what the footer of a trace counts, so that its accesses can be read to where
// they stay: a slice that grows copies gigabytes. Nothing for a stream, or a file that is damaged;
// never more than frames of the file's size hold.
func countAhead(in io.Reader) (counted Totals) {
	file, ok := in.(io.ReadSeeker)
	if !ok {
		return Totals{}
	}

	start, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return Totals{} // a pipe
	}

	defer func() {
		if _, err := file.Seek(start, io.SeekStart); err != nil {
			counted = Totals{} // NewReader finds no trace there, and says so
		}
	}()

	var footer int64
	var head frames.Head
	raw := uint64(0)
	for at := start + int64(len(magic)); ; {
		if _, err := file.Seek(at, io.SeekStart); err != nil {
			return Totals{}
		}

		if _, err := io.ReadFull(file, head[:]); err == io.EOF {
			break
		} else if err != nil {
			return Totals{}
		}

		footer = at
		stored, claimed := uint64(binary.LittleEndian.Uint32(head[1:])),
			uint64(binary.LittleEndian.Uint32(head[5:]))
		at += frames.HeadBytes + int64(stored)
		raw += min(claimed, maxFrameBytes, maxExpansion*stored)
	}

	if _, err := file.Seek(footer, io.SeekStart); err != nil || head[0] != footerFrame {
		return Totals{}
	}

	r, err := newFrames(file)
	if err != nil {
		return Totals{}
	}

	if _, r.rest, err = r.readFrame(nil); err != nil {
		return Totals{}
	}

	if counted, err = r.footer(); err != nil || counted.Accesses > raw || counted.Gets > raw ||
		counted.Blocks > raw/minBlockBytes {
		return Totals{}
	}

	return counted
}

// LoadSample reads the accesses to one of 2^shift blocks into memory, and 44
// bytes of every block. With a DamageError comes what was before the damage.
func LoadSample(in io.Reader, shift int) (*cachesim.Trace, Header, error) {
	r, err := newWhole(in)
	if err != nil {
		return nil, Header{}, err
	}
	s := cachesim.NewSampler(shift, r.header.WarmupGets)
	err = r.each(func(numbers []uint32) error { return s.Get(numbers, r.blocks) })
	return s.Trace(), r.header, err
}

// each visits all Gets.
func (r *Reader) each(visit func(numbers []uint32) error) error {
	defer r.readAhead()()
	var numbers []uint32
	for {
		var err error
		if numbers, _, err = r.Next(numbers); err == io.EOF {
			return nil
		}

		if err == nil {
			err = visit(numbers)
		}

		if err != nil {
			return err
		}
	}
}
