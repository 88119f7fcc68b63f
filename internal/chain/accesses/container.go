package accesses

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/internal/base/schema"
)

// A list of our own is lines of JSON, compressed by zstd: a header, then a block a line. An access
// is text: "a", "s" or "c", "w" where it is a write, then the transaction's position, the address
// and the slot, without 0x and the slot without leading zeros:
//
//	{"number": 7, "root": "0x..", "accesses": ["aw 0 5b38..", "s 0 5b38.. 2a"], "after": [..]}

const (
	maxLineBytes = MaxBlockBytes
)

type header struct {
	Schema string `json:"schema"`
	Info
}

type line struct {
	Number   uint64   `json:"number"`
	Hash     *Word    `json:"hash,omitempty"`
	Parent   *Word    `json:"parent,omitempty"`
	Root     *Word    `json:"root,omitempty"`
	Accesses []string `json:"accesses"`
	Before   []Values `json:"before,omitempty"`
	After    []Values `json:"after,omitempty"`
	End      *ending  `json:"end,omitempty"` // of the last line alone: it is no block
}

// ending counts what is before it.
type ending struct {
	Blocks   uint64 `json:"blocks"`
	Accesses uint64 `json:"accesses"`
}

// Writer writes a list.
type Writer struct {
	to    *zstd.Encoder
	text  *json.Encoder
	wrote ending
}

// NewWriter writes the header.
func NewWriter(to io.Writer, info Info) (*Writer, error) {
	packed, err := zstd.NewWriter(to)
	if err != nil {
		return nil, fmt.Errorf("make a compressor: %w", err)
	}
	w := &Writer{to: packed, text: json.NewEncoder(packed)}
	return w, w.text.Encode(header{schema.Accesses, info})
}

// Add writes the next block.
func (w *Writer) Add(b *Block) error {
	l := line{
		Number:   b.Number,
		Hash:     b.Hash,
		Parent:   b.Parent,
		Root:     b.Root,
		Before:   b.Before,
		After:    b.After,
		Accesses: make([]string, len(b.Accesses)),
	}

	for i, a := range b.Accesses {
		l.Accesses[i] = a.text()
	}

	w.wrote.Blocks++
	w.wrote.Accesses += uint64(len(l.Accesses))
	return w.text.Encode(l)
}

// Close ends the list.
func (w *Writer) Close() error {
	return errors.Join(w.text.Encode(struct {
		End *ending `json:"end"`
	}{&w.wrote}), w.to.Close())
}

func (a Access) text() string {
	text := []byte{byte(a.Kind)}
	if a.Write {
		text = append(text, 'w')
	}

	text = strconv.AppendUint(append(text, ' '), uint64(a.Tx), 10)
	text = hex.AppendEncode(append(text, ' '), a.Address[:])
	if a.Kind != Slot {
		return string(text)
	}

	slot := strings.TrimLeft(hex.EncodeToString(a.Slot[:]), "0")
	if slot == "" {
		slot = "0"
	}

	return string(append(append(text, ' '), slot...))
}

func parseAccess(text string) (a Access, err error) {
	parts := strings.Split(text, " ")
	bad := func() (Access, error) { return a, fmt.Errorf("%.200q is not an access", text) }
	kind, write := strings.CutSuffix(parts[0], "w")
	if len(kind) != 1 || len(parts) < 3 {
		return bad()
	}

	a.Kind, a.Write = Kind(kind[0]), write
	switch {
	case a.Kind == Slot && len(parts) == 4:
		if err := a.Slot.UnmarshalText([]byte("0x" + parts[3])); err != nil {
			return bad()
		}
	case (a.Kind == Account || a.Kind == Code) && len(parts) == 3:
	default:
		return bad()
	}

	tx, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil || a.Address.UnmarshalText([]byte("0x"+parts[2])) != nil {
		return bad()
	}

	a.Tx = uint32(tx)
	return a, nil
}

// Container reads a list of our own.
type Container struct {
	name   string
	in     *bufio.Reader
	unpack *zstd.Decoder
	closer io.Closer
	info   Info
	order  order
	line   []byte
	read   ending
	ended  bool // the list has counted its blocks
}

// OpenContainer reads the header. Errors name the file name.
func OpenContainer(in io.ReadCloser, name string) (*Container, error) {
	unpack, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, fmt.Errorf("make a decompressor: %w", err)
	}

	c := &Container{name: name, in: bufio.NewReaderSize(unpack, 1<<16), unpack: unpack, closer: in}
	var h header
	if err := c.decode(&h); err != nil {
		unpack.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%s: it ends before its first block: the file is incomplete, "+
				"import or generate it again", name)
		}

		return nil, fmt.Errorf("%s: not an access list of statelab: %w (statelab accesses import "+
			"makes one)", name, err)
	}

	if h.Schema != schema.Accesses {
		unpack.Close()
		return nil, fmt.Errorf("%s: schema %.80q, this version reads %s", name, h.Schema,
			schema.Accesses)
	}

	c.info = h.Info
	return c, nil
}

// Info implements Source.
func (c *Container) Info() Info { return c.info }

// Close implements Source.
func (c *Container) Close() error {
	c.unpack.Close()
	return c.closer.Close()
}

// Next implements Source.
func (c *Container) Next(b *Block) error {
	var l line
	err := c.decode(&l)
	if err == io.EOF {
		return io.EOF
	}

	if err == nil && l.End != nil {
		if err = c.end(*l.End); err == nil {
			return io.EOF
		}
	}

	if err != nil {
		return c.damage(c.order.number+1, err)
	}

	c.read.Blocks++
	c.read.Accesses += uint64(len(l.Accesses))
	*b = Block{
		Number:   l.Number,
		Hash:     l.Hash,
		Parent:   l.Parent,
		Root:     l.Root,
		Before:   l.Before,
		After:    l.After,
		Accesses: b.Accesses[:0],
	}

	if len(l.Accesses) > MaxAccesses {
		return c.damage(b.Number, fmt.Errorf("%d accesses in a block", len(l.Accesses)))
	}

	for _, text := range l.Accesses {
		a, err := parseAccess(text)
		if err != nil {
			return c.damage(b.Number, err)
		}
		b.Accesses = append(b.Accesses, a)
	}

	markFirst(b.Accesses)
	if err := c.order.add(b); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}

	return nil
}

// end checks the counts behind the last block.
func (c *Container) end(counted ending) error {
	if counted != c.read {
		return fmt.Errorf("its end counts %d blocks with %d accesses, and %d with %d are before it",
			counted.Blocks, counted.Accesses, c.read.Blocks, c.read.Accesses)
	}

	if _, err := c.in.ReadByte(); err != io.EOF {
		return cmp.Or(err, errors.New("something follows its end"))
	}

	c.ended = true
	return nil
}

// Doubts are sentences on what a list that was read to its end does not show of its completeness.
func (c *Container) Doubts() []string {
	if c.ended {
		return nil
	}
	return []string{"the list does not count its blocks, as lists of this version do: blocks " +
		"that are missing at its end cannot be seen; import or generate it again"}
}

func (c *Container) damage(number uint64, err error) error {
	return fmt.Errorf("%s: block %d: %w: the file is damaged or incomplete, import or generate "+
		"it again", c.name, number, err)
}

// order is that of blocks: the newest one.
type order struct {
	any    bool
	number uint64
	hash   *Word
}

// add tells whether a block can come after those before it.
func (o *order) add(b *Block) error {
	if o.any && b.Number <= o.number {
		return fmt.Errorf("block %d comes after block %d: blocks must ascend", b.Number, o.number)
	}

	if o.any && b.Number == o.number+1 && o.hash != nil && b.Parent != nil && *o.hash != *b.Parent {
		return fmt.Errorf("block %d has the parent %v, and block %d of this list is %v: the "+
			"chain was reorganised between them; fetch both again",
			b.Number, *b.Parent, o.number, *o.hash)
	}

	*o = order{true, b.Number, b.Hash}
	return nil
}

var errLongLine = fmt.Errorf("a line of more than %d bytes", maxLineBytes)

// decode reads a line. A list ends with a whole line.
func (c *Container) decode(into any) error {
	c.line = c.line[:0]
	for {
		part, err := c.in.ReadSlice('\n')
		if len(c.line)+len(part) > maxLineBytes {
			return errLongLine
		}

		c.line = append(c.line, part...)
		switch {
		case err == nil:
			decoder := json.NewDecoder(bytes.NewReader(c.line))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(into); err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					err = errors.New("it ends early")
				}
				return err
			}

			if _, err := decoder.Token(); err != io.EOF {
				return errors.New("something follows the block in its line")
			}

			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(c.line) == 0:
			return io.EOF
		case err == io.EOF:
			return errors.New("it ends early")
		default:
			return err
		}
	}
}

// Program reads the list that another program writes to its standard output in our own form. What
// the program says on standard error when it fails, with exit status 1, is the error. A program
// that ends otherwise has crashed, as it does over a file that asks for more memory than it may
// have.
type Program struct {
	*Container
	command *exec.Cmd
	said    strings.Builder
}

// OpenProgram starts a program, which ends with ctx, and reads the header of its list.
func OpenProgram(ctx context.Context, program string, args ...string) (*Program, error) {
	p := &Program{command: exec.CommandContext(ctx, program, args...)}
	p.command.Stderr = &p.said
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}

	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}

	if p.Container, err = OpenContainer(out, program); err != nil {
		return nil, p.end(out, err)
	}

	return p, nil
}

// Next implements Source.
func (p *Program) Next(b *Block) error {
	err := p.Container.Next(b)
	if err != nil {
		err = p.end(p.closer, err)
	}
	return err
}

// Close implements Source. It ends a program that has not written all of its list.
func (p *Program) Close() error {
	p.unpack.Close()
	if p.command.ProcessState != nil {
		return nil
	}
	err := p.command.Process.Kill()
	p.end(p.closer, nil) // that it was killed is no failure
	return err
}

// end waits for the program, after closing what it writes to, and returns why the list ended.
func (p *Program) end(out io.Closer, why error) error {
	out.Close() // a program that still writes ends
	err := p.command.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return cmp.Or(err, why)
	}

	said := strings.TrimSpace(p.said.String())
	if exit.ExitCode() == 1 && said != "" {
		return errors.New(said)
	}

	status, _ := exit.Sys().(syscall.WaitStatus)
	if crashed := exit.ExitCode() == crashStatus || status.Signal() == syscall.SIGKILL; !crashed &&
		why != io.EOF {
		return why // it was ended here
	}

	args := p.command.Args
	return fmt.Errorf("%s: %s failed over it (%w): the file is incomplete or damaged, fetch it "+
		"again", args[len(args)-1], filepath.Base(args[0]), err)
}

// crashStatus is the exit status of a Go program that had not enough memory, or panicked.
const crashStatus = 2

// OpenAny opens a file or a folder of any form that is not ours. Tables are read by a program.
func OpenAny(
	ctx context.Context, file string, parquet func() (program string, err error),
) (Source, error) {
	fsys, name := os.DirFS(filepath.Dir(file)), filepath.Base(file)
	switch tables, err := hasTables(fsys, name); {
	case err != nil:
		return nil, err
	case !tables:
		return OpenFolder(fsys, name)
	}

	program, err := parquet()
	if err != nil {
		return nil, err
	}

	return OpenProgram(ctx, program, file)
}

// hasTables tells whether there is a Parquet file under a name, which may be one.
func hasTables(fsys fs.FS, name string) (found bool, err error) {
	err = fs.WalkDir(fsys, name, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(file) == ".parquet" {
			found = true
			return fs.SkipAll
		}
		return err
	})
	return found, err
}

// OpenFile opens a list of statelab's own.
func OpenFile(path string) (*Container, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	c, err := OpenContainer(file, path)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return c, nil
}

// Write writes from as a list of statelab's own; told hears how many blocks are written, and its
// error ends the work.
func Write(to io.Writer, from Source, info Info, told func(blocks uint64) error) error {
	w, err := NewWriter(to, info)
	if err != nil {
		return err
	}

	n := uint64(0)
	err = Each(from, func(b *Block) error {
		n++
		return errors.Join(w.Add(b), told(n))
	})
	if err != nil {
		return err
	}

	return w.Close()
}
