package xatu

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// The library allocates what lengths in a file ask for. So every length is checked before the library
// sees the file: those of the footer, and those of each page that is read.

// Limits of a file. ClickHouse writes pages of 1 MiB and groups of about a million rows.
const (
	maxFooterBytes = 4 << 20
	maxFooterItems = 1 << 18 // elements of lists, in all
	maxPageBytes   = 64 << 20
	maxHeaderBytes = 64 << 10 // of a page
	maxGroupRows   = 8 << 20
	maxDepth       = 16 // of structures
)

var errEnds = errors.New("it ends early")

// skim walks a structure in Thrift's compact protocol without decoding it.
type skim struct {
	rest  []byte
	items int
	err   error
}

// Thrift's types, as fields have them.
const (
	thriftTrue = 1 + iota
	thriftFalse
	thriftByte
	thriftInt16
	thriftInt32
	thriftInt64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

func (s *skim) fail(err error) {
	s.rest = nil
	if s.err == nil {
		s.err = err
	}
}

func (s *skim) take(n uint64) {
	if n > uint64(len(s.rest)) {
		s.fail(errEnds)
		return
	}
	s.rest = s.rest[n:]
}

func (s *skim) byte() (b byte) {
	if len(s.rest) > 0 {
		b = s.rest[0]
	}
	s.take(1)
	return b
}

func (s *skim) number() uint64 {
	n, length := binary.Uvarint(s.rest)
	if length <= 0 {
		s.fail(errEnds)
		return 0
	}
	s.rest = s.rest[length:]
	return n
}

// count is the length of a list, each of whose items takes a byte or more.
func (s *skim) count(n uint64) int {
	if n > uint64(len(s.rest)) {
		s.fail(errEnds)
		return 0
	}
	if s.items += int(n); s.items > maxFooterItems {
		s.fail(fmt.Errorf("lists of more than %d items", maxFooterItems))
		return 0
	}
	return int(n)
}

func (s *skim) structure(depth int) {
	for s.err == nil {
		head := s.byte()
		if head == 0 {
			return
		}
		if head>>4 == 0 {
			s.number() // the field's
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse {
			s.value(kind, depth)
		}
	}
}

func (s *skim) value(kind byte, depth int) {
	if depth > maxDepth {
		s.fail(errors.New("it is nested too deeply"))
		return
	}
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		s.take(1)
	case thriftInt16, thriftInt32, thriftInt64:
		s.number()
	case thriftDouble:
		s.take(8)
	case thriftBinary:
		s.take(s.number())
	case thriftList, thriftSet:
		head := s.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = s.number()
		}
		for range s.count(n) {
			s.value(head&15, depth+1)
		}
	case thriftMap:
		if n := s.number(); n > 0 {
			kinds := s.byte()
			for range s.count(n) {
				s.value(kinds>>4, depth+1)
				s.value(kinds&15, depth+1)
			}
		}
	case thriftStruct:
		s.structure(depth + 1)
	default:
		s.fail(fmt.Errorf("an unknown type %d", kind))
	}
}

// checkFooter skims the footer of a file.
func checkFooter(in io.ReaderAt, size int64) error {
	const tail = 8 // length, "PAR1"
	var end [tail]byte
	if size < tail+4 {
		return errEnds
	}
	if _, err := in.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	if string(end[4:]) != "PAR1" {
		return errors.New("it does not end as a Parquet file does")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > maxFooterBytes || length > size-tail-4 {
		return fmt.Errorf("a footer of %d bytes in a file of %d; at most %d are read", length, size, maxFooterBytes)
	}
	footer := make([]byte, length)
	if _, err := in.ReadAt(footer, size-tail-length); err != nil {
		return err
	}
	s := skim{rest: footer}
	if s.structure(0); s.err == nil && len(s.rest) > 0 {
		s.fail(fmt.Errorf("%d bytes behind the footer", len(s.rest)))
	}
	return s.err
}

// pages checks a column of a group.
type pages struct {
	in     io.ReaderAt
	size   int64
	column *format.ColumnMetaData
	// required columns have no definition levels.
	required bool
	page     []byte // as it is in the file
	plain    []byte
}

func (p *pages) check(rows int64) error {
	c := p.column
	start, length := c.DataPageOffset, c.TotalCompressedSize
	if c.DictionaryPageOffset != 0 {
		start = c.DictionaryPageOffset
	}
	if start < 0 || length < 0 || start > p.size || length > p.size-start || c.DataPageOffset < start {
		return fmt.Errorf("pages at %d, %d bytes, in a file of %d", start, length, p.size)
	}
	values, dictionaries := int64(0), 0
	for end := start + length; start < end; {
		window := make([]byte, min(maxHeaderBytes, end-start))
		if _, err := p.in.ReadAt(window, start); err != nil {
			return err
		}
		s := skim{rest: window}
		if s.structure(0); s.err != nil {
			return fmt.Errorf("a page's header: %w", s.err)
		}
		header := window[:len(window)-len(s.rest)]
		start += int64(len(header))
		h := new(format.PageHeader)
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), header, h); err != nil {
			return fmt.Errorf("a page's header: %w", err)
		}
		if h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > end-start || h.CompressedPageSize > maxPageBytes ||
			h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPageBytes {
			return fmt.Errorf("a page of %d bytes, %d without compression, where %d are left; at most %d are read", h.CompressedPageSize,
				h.UncompressedPageSize, end-start, maxPageBytes)
		}
		p.page = resized(p.page, int(h.CompressedPageSize))
		if _, err := p.in.ReadAt(p.page, start); err != nil {
			return err
		}
		start += int64(h.CompressedPageSize)
		n, err := p.one(h)
		if err != nil {
			return err
		}
		if h.Type == format.DictionaryPage {
			dictionaries++
		}
		if values += n; values > rows || dictionaries > 1 {
			return fmt.Errorf("%d values and %d dictionaries for %d rows", values, dictionaries, rows)
		}
	}
	if values != rows || c.NumValues != rows {
		return fmt.Errorf("%d values for %d rows", values, rows)
	}
	return nil
}

func resized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// one checks a page and returns how many values it has.
func (p *pages) one(h *format.PageHeader) (values int64, err error) {
	about, err := p.about(h)
	if err != nil {
		return 0, err
	}
	values, levels := about.values, about.levels
	if values < 0 {
		return 0, fmt.Errorf("a page of %d values", values)
	}
	p.plain = resized(p.plain, int(h.UncompressedPageSize)-levels)
	codec := p.column.Codec
	if !about.packed {
		codec = format.Uncompressed
	}
	if err := unpack(codec, p.plain, p.page[levels:]); err != nil {
		return 0, fmt.Errorf("a page that is not its length when unpacked (%v): %w", codec, err)
	}
	rest := p.plain
	switch {
	case h.Type == format.DataPage && !p.required:
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return 0, errEnds
		}
		end := 4 + binary.LittleEndian.Uint32(rest)
		err = runs(rest[4:end], 1, values)
		rest = rest[end:]
	case h.Type == format.DataPageV2 && !p.required:
		err = runs(p.page[:levels], 1, values)
	}
	if err != nil || h.Type == format.DictionaryPage {
		return 0, err
	}
	switch about.encoding {
	case format.Plain:
		return values, nil
	case oldDictionary, format.RLEDictionary:
		if len(rest) == 0 || rest[0] > 32 {
			return 0, errEnds
		}
		return values, runs(rest[1:], int(rest[0]), values)
	}
	return 0, errEncoding(about.encoding)
}

// aboutPage is what a page's header says of its values.
type aboutPage struct {
	values   int64
	encoding format.Encoding
	levels   int // bytes of definition levels before the values, never packed
	packed   bool
}

// about reads the header of the kind of page that it is.
func (p *pages) about(h *format.PageHeader) (a aboutPage, err error) {
	a.packed = true
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		v := &h.DataPageHeader.V
		a.values, a.encoding = int64(v.NumValues), v.Encoding
		if !p.required && v.DefinitionLevelEncoding != format.RLE {
			return a, errEncoding(v.DefinitionLevelEncoding)
		}
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		a.values, a.encoding = int64(v.NumValues), v.Encoding
		a.levels = int(v.DefinitionLevelsByteLength)
		if v.RepetitionLevelsByteLength != 0 || v.NumRows != v.NumValues || a.levels < 0 || a.levels > len(p.page) ||
			a.levels > int(h.UncompressedPageSize) || p.required != (a.levels == 0) {
			return a, errors.New("a page's levels do not fit the page")
		}
		a.packed = !v.IsCompressed.Valid || v.IsCompressed.V
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		v := &h.DictionaryPageHeader.V
		if a.encoding = v.Encoding; int64(v.NumValues) > int64(h.UncompressedPageSize) || v.NumValues < 0 {
			return a, fmt.Errorf("a dictionary of %d values in %d bytes", v.NumValues, h.UncompressedPageSize)
		}
		if a.encoding == format.RLEDictionary {
			return a, errEncoding(a.encoding)
		}
	default:
		return a, fmt.Errorf("a page of the type %v", h.Type)
	}
	return a, nil
}

// oldDictionary is what older writers call RLEDictionary.
const oldDictionary = format.Encoding(2)

func errEncoding(e format.Encoding) error {
	return fmt.Errorf("the encoding %v is not read: write the file with ClickHouse's defaults", e)
}

// runs checks the hybrid of runs and packed values, each of so many bits.
func runs(b []byte, bits int, values int64) error {
	for total := uint64(0); len(b) > 0; {
		head, length := binary.Uvarint(b)
		if length <= 0 {
			return errEnds
		}
		b = b[length:]
		count, bytes := head>>1, uint64(bits+7)/8
		if head&1 == 1 {
			if count > uint64(len(b)) && bits > 0 {
				return errEnds
			}
			count, bytes = 8*count, count*uint64(bits)
		}
		// The last packed values are padded to a multiple of eight, by some writers of 512.
		if total += count; count > uint64(values)+512 || total > uint64(values)+512 {
			return fmt.Errorf("runs of more than %d values", values)
		}
		if bytes > uint64(len(b)) {
			return errEnds
		}
		b = b[bytes:]
	}
	return nil
}

// unpack fills plain, neither more nor less.
func unpack(codec format.CompressionCodec, plain, packed []byte) error {
	got := 0
	switch codec {
	case format.Uncompressed:
		got = copy(plain, packed)
		if len(packed) > len(plain) {
			got = len(packed)
		}
	case format.Snappy:
		n, err := snappy.DecodedLen(packed)
		if err != nil || n != len(plain) {
			return fmt.Errorf("%d bytes instead of %d: %w", n, len(plain), orShort(err))
		}
		if _, err := snappy.Decode(plain, packed); err != nil {
			return err
		}
		got = n
	case format.Gzip:
		in, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return err
		}
		if got, err = io.ReadFull(in, plain); err != nil {
			return err
		}
		if n, err := in.Read(make([]byte, 1)); n > 0 || err != io.EOF {
			return orShort(err)
		}
	case format.Zstd:
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxPageBytes))
		if err != nil {
			return err
		}
		defer d.Close()
		out, err := d.DecodeAll(packed, plain[:0:len(plain)])
		if err != nil {
			return err
		}
		got = len(out)
	case format.Lz4Raw:
		n, err := lz4.UncompressBlock(packed, plain)
		if err != nil {
			return err
		}
		got = n
	default:
		return fmt.Errorf("this compression is not read: use zstd, lz4, snappy, gzip or none")
	}
	if got != len(plain) {
		return errLength
	}
	return nil
}

var errLength = errors.New("another length than its header says")

func orShort(err error) error {
	if err == nil {
		return errLength
	}
	return err
}
