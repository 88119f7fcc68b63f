// Package kvlog reads logs of what a program asked of its key-value store, operation by operation,
// and keeps them in one form, in which runs play their Gets and databases are built from their
// writes.
//
// Goals: logs of billions of operations as a stream; what is wrong in a log is named with its line.
// Non-goals: values, of which only the sizes are kept; what blocks access of a state (package
// accesses).
//
// Read in this order: traffic.go, gethlog.go, tally.go, apply.go.
package kvlog

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
)

// Kind of an operation.
type Kind byte

// Kinds of operations, as logs store them.
const (
	Block       Kind = 'b' // a block of the chain begins
	Get         Kind = 'g' // a value is read
	Has         Kind = 'h' // looks whether a key is there, which costs what a Get costs
	Put         Kind = 'p' // a value is written
	Delete      Kind = 'd' // a key is deleted
	BatchPut    Kind = 'P' // into the batch that the next Commit writes
	BatchDelete Kind = 'D' // from the batch that the next Commit writes
	Commit      Kind = 'c' // the batch is written
	Scan        Kind = 's' // an iterator is made
	Next        Kind = 'n' // and moved

	// end is the last record of a file of our own: it has the number of the operations before it,
	// and the CRC-32C of their bytes.
	end Kind = 'e'
)

// Op is one operation.
type Op struct {
	Kind Kind
	Key  []byte // of a Scan: where it begins; valid until the next operation is read
	// Number is the size of a Put's value in bytes, or the number of a Block.
	Number uint64
}

// keyed tells whether operations of a kind have a key, numbered whether they have a number.
func (k Kind) keyed() bool {
	return k == Get || k == Has || k == Put || k == Delete || k == BatchPut || k == BatchDelete ||
		k == Scan
}
func (k Kind) numbered() bool { return k == Block || k == Put || k == BatchPut }

// Info is what a log says of itself.
type Info struct {
	Form       string `json:"form"`             // what it was made from
	Provenance string `json:"provenance"`       // as text
	Client     string `json:"client,omitempty"` // whose keys they are, where that is known
	// NotChecked are sentences on what its form cannot show of its completeness.
	NotChecked []string `json:"not_checked,omitempty"`
}

// Doubtful is a source that, read to its end, says what it has found to be missing or could not
// check, beside what its Info says.
type Doubtful interface{ Doubts() []string }

// Source yields operations in order. io.EOF ends them; after any error it is finished.
type Source interface {
	Info() Info
	Next(*Op) error
	Close() error
}

// Limits of every form: what exceeds them is damage.
const (
	MaxKeyBytes   = 1 << 16
	MaxValueBytes = 1 << 30
	maxWindow     = 128 << 20 // that a compressed file may ask for
)

// Logged stands where runs name a key scheme: the file has the keys themselves.
const Logged = "logged"

// header is the first line of a file of our own, which zstd has compressed: JSON. After it come the
// operations. Each is its kind, then the key behind its length, then the number; lengths and
// numbers are varints.
type header struct {
	Schema string `json:"schema"`
	Info
}

// Decompressed reads what gzip or zstd has compressed, or else the bytes themselves.
func Decompressed(in io.Reader) (out *bufio.Reader, err error) {
	const bufferBytes = 1 << 20
	out = bufio.NewReaderSize(in, bufferBytes)
	switch magic, _ := out.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(out)
		return bufio.NewReaderSize(unzipped, bufferBytes), err
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err := zstd.NewReader(out, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxWindow))
		return bufio.NewReaderSize(unpacked, bufferBytes), err
	}

	return out, nil
}

// Write writes all of from in our own form; told hears now and then how many operations are
// written, and its error ends the work.
func Write(to io.Writer, from Source, info Info, told func(ops uint64) error) error {
	packed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("make a compressor: %w", err)
	}

	out := bufio.NewWriterSize(packed, 1<<16)
	if err := json.NewEncoder(out).Encode(header{schema.Traffic, info}); err != nil {
		return err
	}

	var record []byte
	ops, sum := uint64(0), uint32(0)
	err = each(from, told, func(op *Op) error {
		ops++
		record = op.append(record[:0])
		sum = crc32.Update(sum, castagnoli, record)
		_, err := out.Write(record)
		return err
	})

	if err == nil {
		record = binary.AppendUvarint([]byte{byte(end)}, ops)
		_, err = out.Write(binary.AppendUvarint(record, uint64(sum)))
	}

	return errors.Join(err, out.Flush(), packed.Close())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append is the operation as a file of our own has it.
func (op *Op) append(record []byte) []byte {
	record = append(record, byte(op.Kind))
	if op.Kind.keyed() {
		record = append(binary.AppendUvarint(record, uint64(len(op.Key))), op.Key...)
	}

	if op.Kind.numbered() {
		record = binary.AppendUvarint(record, op.Number)
	}

	return record
}

// each visits all operations.
func each(from Source, told func(ops uint64) error, visit func(*Op) error) error {
	const tellEvery = 1 << 16
	var op Op
	for n := uint64(0); ; n++ {
		err := from.Next(&op)
		if err == io.EOF {
			return told(n)
		}

		if err == nil {
			err = visit(&op)
		}

		if err == nil && n%tellEvery == 0 {
			err = told(n)
		}

		if err != nil {
			return err
		}
	}
}

// File reads a file of our own.
type File struct {
	name   string
	in     *bufio.Reader
	closer io.Closer
	info   Info
	key    []byte
	ops    uint64
	record []byte
	sum    uint32 // of the operations so far
	ended  bool   // there was a count of the operations, and it is right
}

// IsLog tells whether a file is one of ours; not why it is none.
func IsLog(path string) bool {
	f, err := Open(path)
	return err == nil && f.Close() == nil
}

// Open reads the header.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	in, err := Decompressed(file)
	var h header
	if err == nil {
		var line []byte
		if line, err = in.ReadSlice('\n'); err == nil {
			err = json.Unmarshal(line, &h)
		}
	}

	if err == nil && h.Schema != schema.Traffic {
		err = fmt.Errorf("schema %.80q, this version reads %s", h.Schema, schema.Traffic)
	}

	if err != nil {
		return nil, errors.Join(engine.Fail(engine.CodeUnsupported, "%s: not key traffic of "+
			"statelab: %w (statelab accesses import --from makes it)", path, err), file.Close())
	}

	return &File{name: path, in: in, closer: file, info: h.Info}, nil
}

// Info implements Source.
func (f *File) Info() Info { return f.info }

// Close implements Source.
func (f *File) Close() error { return f.closer.Close() }

// Doubts implements Doubtful.
func (f *File) Doubts() []string {
	if f.ended {
		return nil
	}
	return []string{"the file does not count its operations, as files of this version do: " +
		"operations that are missing cannot be seen; import the log again"}
}

// Next implements Source.
func (f *File) Next(op *Op) error {
	kind, err := f.in.ReadByte()
	if err == io.EOF {
		return io.EOF
	}

	if err == nil && Kind(kind) == end {
		if err = f.readEnd(); err == nil {
			return io.EOF
		}
		return f.damage(f.ops, err)
	}

	*op = Op{Kind: Kind(kind)}
	if err == nil && op.Kind.keyed() {
		op.Key, err = f.readKey()
	} else if err == nil && !op.Kind.numbered() && op.Kind != Commit && op.Kind != Next {
		err = fmt.Errorf("an operation of kind %q", kind)
	}

	if err == nil && op.Kind.numbered() {
		op.Number, err = binary.ReadUvarint(f.in)
	}

	if err != nil {
		return f.damage(f.ops+1, err)
	}

	f.ops++
	f.record = op.append(f.record[:0])
	f.sum = crc32.Update(f.sum, castagnoli, f.record)
	return nil
}

func (f *File) damage(op uint64, err error) error {
	return engine.Fail(engine.CodeDamaged, "%s: operation %d: %w: the file is damaged or "+
		"incomplete, import it again", f.name, op, err)
}

// readEnd checks the count behind the last operation.
func (f *File) readEnd() error {
	counted, err := binary.ReadUvarint(f.in)
	if err != nil {
		return err
	}

	sum, err := binary.ReadUvarint(f.in)
	switch {
	case err != nil:
		return err
	case counted != f.ops:
		return fmt.Errorf("its end counts %d operations, and %d are before it", counted, f.ops)
	case sum != uint64(f.sum):
		return errors.New("the checksum of its operations is wrong: they were changed, or have " +
			"changed places")
	}

	if _, err := f.in.ReadByte(); err != io.EOF {
		return cmp.Or(err, errors.New("something follows its end"))
	}

	f.ended = true
	return nil
}

func (f *File) readKey() ([]byte, error) {
	n, err := binary.ReadUvarint(f.in)
	if err == nil && n > MaxKeyBytes {
		err = fmt.Errorf("a key of %d bytes", n)
	}

	if err != nil {
		return nil, err
	}

	f.key = append(f.key[:0], make([]byte, n)...)
	_, err = io.ReadFull(f.in, f.key)
	return f.key, err
}
