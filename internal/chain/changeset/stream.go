package changeset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
