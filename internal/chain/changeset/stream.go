package changeset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/statelab/statelab/engine"
)

// stream reads records of a foreign file and knows where it is. Every length that
// it is asked for has been checked by the caller.
type stream struct {
	file   string
	reader *bufio.Reader
	offset int64 // in what is read, decompressed
	open   []io.Closer
}

const streamBufferBytes = 128 << 10

// openStream opens a file, through unpack if it is not nil.
func openStream(fsys fs.FS, file string, unpack func(io.Reader) (io.Reader, error)) (*stream, error) {
	f, err := fsys.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open change set: %w", err)
	}
	s := &stream{file: file, open: []io.Closer{f}}
	if unpack == nil {
		s.reader = bufio.NewReaderSize(f, streamBufferBytes)
		return s, nil
	}
	unpacked, err := unpack(bufio.NewReaderSize(f, streamBufferBytes))
	if err != nil {
		return nil, errors.Join(s.damage(0, short(err)), f.Close())
	}
	if closer, ok := unpacked.(io.Closer); ok {
		s.open = append(s.open, closer)
	}
	s.reader = bufio.NewReaderSize(unpacked, streamBufferBytes)
	return s, nil
}

// next opens file in the place of the one that was read: only for plain files.
func (s *stream) next(fsys fs.FS, file string) error {
	if err := s.close(); err != nil {
		return err
	}
	f, err := fsys.Open(file)
	if err != nil {
		return fmt.Errorf("open change set: %w", err)
	}
	s.file, s.offset = file, 0
	s.open = append(s.open[:0], f)
	s.reader.Reset(f)
	return nil
}

func (s *stream) close() error {
	var errs []error
	for i := len(s.open) - 1; i >= 0; i-- {
		errs = append(errs, s.open[i].Close())
	}
	s.open = s.open[:0]
	return errors.Join(errs...)
}

// atEnd reports whether the file ends here, between records.
func (s *stream) atEnd() (bool, error) {
	if _, err := s.reader.Peek(1); err == io.EOF {
		return true, nil
	} else if err != nil {
		return false, short(err)
	}
	return false, nil
}

func (s *stream) uvarint() (uint64, error) {
	peeked, err := s.reader.Peek(binary.MaxVarintLen64)
	v, n := uvarint(peeked)
	if n <= 0 {
		if n == 0 && err != nil {
			return 0, short(err)
		}
		return 0, errVarint
	}
	return v, s.skip(n)
}

func (s *stream) byte() (byte, error) {
	b, err := s.reader.ReadByte()
	if err == nil {
		s.offset++
	}
	return b, short(err)
}

func (s *stream) skip(n int) error {
	done, err := s.reader.Discard(n)
	s.offset += int64(done)
	return short(err)
}

// full fills b.
func (s *stream) full(b []byte) error {
	n, err := io.ReadFull(s.reader, b)
	s.offset += int64(n)
	return short(err)
}

func (s *stream) damage(version int64, err error) error {
	return &DamageError{File: s.file, Offset: s.offset, Version: version, Err: err}
}

// storeTable numbers stores by name.
type storeTable struct {
	names   []string
	numbers map[string]int
}

func newStoreTable(names []string) (*storeTable, error) {
	t := &storeTable{numbers: map[string]int{}}
	for _, name := range names {
		if _, twice := t.numbers[name]; twice {
			return nil, fmt.Errorf("store %q twice", name)
		}
		if _, err := t.add([]byte(name)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// number is the store called name, -1 if it is not known.
func (t *storeTable) number(name []byte) int {
	if number, known := t.numbers[string(name)]; known {
		return number
	}
	return -1
}

func (t *storeTable) add(name []byte) (int, error) {
	if number := t.number(name); number >= 0 {
		return number, nil
	}
	if err := checkName(string(name)); err != nil {
		return 0, err
	}
	if len(t.names) == MaxStores {
		return 0, fmt.Errorf("more than %d stores", MaxStores)
	}
	t.numbers[string(name)] = len(t.names)
	t.names = append(t.names, string(name))
	return len(t.names) - 1, nil
}

// DamageError says where a set is not what its format promises.
type DamageError struct {
	File    string // "" if the reader knows no name
	Offset  int64  // in the file as stored or, behind a compression, as decompressed; -1 if unknown
	Version int64  // the one being read; 0 before the first
	Err     error
}

func (e *DamageError) Error() string {
	var where []string
	if e.File != "" {
		where = append(where, e.File)
	}
	if e.Offset >= 0 {
		where = append(where, fmt.Sprintf("offset %d", e.Offset))
	}
	if e.Version > 0 {
		where = append(where, fmt.Sprintf("version %d", e.Version))
	}
	return strings.Join(append(where, e.Err.Error()), ": ")
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// FailureCode is CodeDamaged.
func (*DamageError) FailureCode() engine.Code { return engine.CodeDamaged }

var (
	errShort    = errors.New("cut short: it ends inside a record")
	errVarint   = errors.New("a number of more than 64 bits")
	errEmptyKey = errors.New("an empty key, which no tree takes")
)

// checkKey and checkValue stand before every allocation that a length asks for.
func checkKey(length uint64) error {
	switch {
	case length == 0:
		return errEmptyKey
	case length > MaxKeyBytes:
		return fmt.Errorf("a key of %d bytes, at most %d are believed", length, MaxKeyBytes)
	}
	return nil
}

func checkValue(length uint64) error {
	if length > MaxValueBytes {
		return fmt.Errorf("a value of %d bytes, at most %d are believed", length, MaxValueBytes)
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > MaxNameBytes || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%.40q is not a name of a store, which has 1 to %d bytes without / or line breaks", name, MaxNameBytes)
	}
	return nil
}

// short turns the ends of a file inside a record into errShort.
func short(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errShort
	}
	return err
}

// Two messages of two to eight scalar fields are all the protobuf there is here,
// and they are read in the loop that replaying waits for: they are decoded in
// place, by hand.

// maxMessageBytes bounds a message with one change.
const maxMessageBytes = MaxKeyBytes + MaxValueBytes + MaxNameBytes + 1<<10

// field is one field of a message: a number or bytes, by its wire type.
type field struct {
	number uint64
	value  uint64
	bytes  []byte // nil for a number
}

const (
	varintWire  = 0
	fixed64Wire = 1
	bytesWire   = 2
	fixed32Wire = 5
)

// cutField takes the first field off message.
func cutField(message []byte) (f field, rest []byte, err error) {
	tag, n := uvarint(message)
	if n <= 0 {
		return f, nil, badVarint(n)
	}
	if tag>>3 == 0 || tag > math.MaxUint32 {
		return f, nil, fmt.Errorf("a field numbered %d", tag>>3)
	}
	f.number, rest = tag>>3, message[n:]
	switch tag & 7 {
	case varintWire:
		if f.value, n = uvarint(rest); n <= 0 {
			return f, nil, badVarint(n)
		}
		return f, rest[n:], nil
	case bytesWire:
		length, n := uvarint(rest)
		if n <= 0 {
			return f, nil, badVarint(n)
		}
		if rest = rest[n:]; length > uint64(len(rest)) {
			return f, nil, fmt.Errorf("a field of %d bytes in the %d that are left of its message", length, len(rest))
		}
		f.bytes = rest[:length:length]
		return f, rest[length:], nil
	case fixed64Wire, fixed32Wire:
		width := 8
		if tag&7 == fixed32Wire {
			width = 4
		}
		if len(rest) < width {
			return f, nil, errShort
		}
		return f, rest[width:], nil
	}
	return f, nil, fmt.Errorf("field %d of wire type %d", f.number, tag&7)
}

// want reports a known field of the wrong wire type.
func (f field) want(isBytes bool) error {
	if isBytes != (f.bytes != nil) {
		return fmt.Errorf("field %d of an unexpected wire type", f.number)
	}
	return nil
}
