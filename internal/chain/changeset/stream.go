package changeset

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
func openStream(
	fsys fs.FS, file string, unpack func(io.Reader) (io.Reader, error),
) (*stream, error) {
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

// message fills b with a message of so many bytes.
func (s *stream) message(b []byte, length uint64) ([]byte, error) {
	if length > maxMessageBytes {
		return b, fmt.Errorf("a message of %d bytes, at most %d are believed", length,
			maxMessageBytes)
	}
	b = grow(b, int(length))
	return b, s.full(b)
}

func (s *stream) damage(version int64, err error) error {
	return &DamageError{File: s.file, Offset: s.offset, Version: version, Err: err}
}

// succession is files that are read one after the other.
type succession struct {
	fsys   fs.FS
	files  []string // still to come
	unpack func(file string) func(io.Reader) (io.Reader, error)
	in     *stream // nil between files
}

// more goes to the next record, in the file that follows where one ends. last is the version that
// was read.
func (s *succession) more(last int64) (is bool, err error) {
	for {
		if s.in == nil {
			if len(s.files) == 0 {
				return false, nil
			}

			if s.in, err = openStream(s.fsys, s.files[0], s.unpack(s.files[0])); err != nil {
				return false, err
			}

			s.files = s.files[1:]
		}

		in := s.in
		ended, err := in.atEnd()
		if ended {
			s.in = nil
			err = in.close()
		}

		if err != nil {
			return false, in.damage(last, err)
		}

		if !ended {
			return true, nil
		}
	}
}

func (s *succession) Close() error {
	if s.in == nil {
		return nil
	}
	return s.in.close()
}

// listed are the changes of a version in memory, of which some were given.
type listed struct {
	changes []Change
	given   int
}

func (l *listed) change() (c Change, more bool, err error) {
	if l.given == len(l.changes) {
		return c, false, nil
	}
	l.given++
	return l.changes[l.given-1], true, nil
}

// form reads one of the forms that are not ours: version after version, change after change.
type form interface {
	Info() Info
	Close() error
	// begin goes to the next version; io.EOF: there is none.
	begin() (version int64, err error)
	// change is the version's next change, whose bytes live until the next call; more is false at
	// the version's end.
	change() (c Change, more bool, err error)
}

// reading is the Source of a form.
type reading struct {
	form
	version int64
	open    bool // the version has not ended
	pending bool // next did not fit into the batch before
	next    Change
	done    error
}

// Next implements Source.
func (s *reading) Next(b *Batch) error {
	if s.done == nil {
		s.done = s.fill(b)
	}
	return s.done
}

func (s *reading) fill(b *Batch) (err error) {
	if !s.open {
		if s.version, err = s.begin(); err != nil {
			return err
		}
		s.open = true
	}

	b.begin(s.version)
	for {
		if !s.pending {
			if s.next, s.open, err = s.change(); err != nil || !s.open {
				b.Last = err == nil
				return err
			}
		}

		if s.pending = !b.offer(s.next.Store, s.next.Key, s.next.Value, s.next.Delete); s.pending {
			return nil
		}
	}
}

// seeking is a reading of a form that can go to a version.
type seeking struct {
	reading
	seek func(version int64)
}

// SeekVersion implements Seeker.
func (s *seeking) SeekVersion(version int64) error {
	s.open, s.pending, s.done = false, false, nil
	s.seek(version)
	return nil
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

// Error says where the set is damaged, and how.
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

func checkPair(c Change) error {
	if err := checkKey(uint64(len(c.Key))); err != nil {
		return err
	}
	return checkValue(uint64(len(c.Value)))
}

func checkName(name string) error {
	if name == "" || len(name) > MaxNameBytes || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%.40q is not a name of a store, which has 1 to %d bytes without / or "+
			"line breaks", name, MaxNameBytes)
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
			return f, nil, fmt.Errorf("a field of %d bytes in the %d that are left of its message",
				length, len(rest))
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

// numbering is which fields of a message are what; 0 is none.
type numbering struct{ key, value, remove, store, block uint64 }

// decode reads a message with one change, and what it says of its store and block.
func (n numbering) decode(message []byte) (c Change, store []byte, block uint64, err error) {
	keys := 0
	for len(message) > 0 {
		var f field
		if f, message, err = cutField(message); err != nil {
			return c, nil, 0, err
		}

		if f.number == n.key {
			if keys++; keys > 1 { // a decoder would keep the last one alone
				return c, nil, 0, errors.New("two keys in a message: these are several changes")
			}
		}

		switch f.number {
		case n.key:
			c.Key, err = f.bytes, f.want(true)
		case n.value:
			c.Value, err = f.bytes, f.want(true)
		case n.remove:
			c.Delete, err = f.value != 0, f.want(false)
		case n.store:
			store, err = f.bytes, f.want(true)
		case n.block:
			block, err = f.value, f.want(false)
		}

		if err != nil {
			return c, nil, 0, err
		}
	}

	return c, store, block, checkPair(c)
}

// want reports a known field of the wrong wire type.
func (f field) want(isBytes bool) error {
	if isBytes != (f.bytes != nil) {
		return fmt.Errorf("field %d of an unexpected wire type", f.number)
	}
	return nil
}

// Format is a form that change sets are kept in.
type Format string

// Formats of change sets, by the names that flags take.
const (
	FormatContainer Format = "slcs"       // our own: container.go
	FormatIAVLBench Format = "iavl-bench" // directory of delimited protobuf, a file a version
	// directory of a directory per store, as memiavl's tools write
	FormatCronos    Format = "cronos"
	FormatNodes     Format = "nodes"     // NNNNNNNN-MMMMMMMM.pb.gz files
	FormatDiffs     Format = "diffs"     // Ethereum's prestateTracer in diffMode, JSON
	FormatGenerated Format = "generated" // by a profile and a seed
)

// readable are the formats that Open reads, and what files of those that are directories are
// called.
var readable = []struct {
	Format
	open  func(fsys fs.FS, name string) (Source, error)
	files string
}{
	{FormatContainer, openContainerFile, ""},
	{FormatIAVLBench, openBench, "a version is in a file such as 000000017.delimpb"},
	{FormatCronos, openCronos, "the files of a store are STORE/block-NUMBER, also with .zz, " +
		".snappy or .sz behind"},
	{FormatNodes, openNodes,
		"blocks are in files such as 00000001-00000500.pb.gz or 00000005.pb.gz"},
	{FormatDiffs, openDiffs, "a block is in a file such as 17.json, 0x11.json or block-17.jsonl, " +
		"also with .gz behind"},
}

// Formats are those that Open reads.
func Formats() (all []Format) {
	for _, f := range readable {
		all = append(all, f.Format)
	}
	return all
}

// Open opens the set called name, a file or a directory of fsys ("." is fsys
// itself), in a format that "" finds out. Errors name files as fsys does.
func Open(fsys fs.FS, name string, format Format) (Source, error) {
	if format == "" {
		var err error
		if format, err = Detect(fsys, name); err != nil {
			return nil, err
		}
	}

	for _, f := range readable {
		if f.Format == format {
			return f.open(fsys, name)
		}
	}

	return nil, fmt.Errorf("format %q: there are %v", format, Formats())
}

func openContainerFile(fsys fs.FS, name string) (Source, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open change set: %w", err)
	}

	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	at, ok := f.(io.ReaderAt)
	if !ok || info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s: no file that can be read anywhere", name),
			f.Close())
	}

	c, err := OpenContainer(at, info.Size(), name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	c.closer = f
	return c, nil
}

// Detect finds out the format of the set called name.
func Detect(fsys fs.FS, name string) (Format, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", fmt.Errorf("open change set: %w", err)
	}

	if !info.IsDir() {
		return detectFile(fsys, name)
	}

	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return "", fmt.Errorf("list %s: %w", name, err)
	}

	holds := func(match func(string) bool) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return !e.IsDir() && match(e.Name())
		})
	}

	switch {
	case holds(func(n string) bool { return n == benchInfoFile }):
		return FormatIAVLBench, nil
	case holds(nodesFile.MatchString):
		return FormatNodes, nil
	case holds(diffFile.MatchString):
		return FormatDiffs, nil
	}

	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}

		files, _, err := blockFiles(fsys, path.Join(name, entry.Name()), cronosFile)
		if err != nil {
			return "", err
		}

		if len(files) > 0 {
			return FormatCronos, nil
		}
	}

	return "", fmt.Errorf("%s: no change set of a known form: neither %s, NUMBER-NUMBER.pb.gz, "+
		"NUMBER.pb.gz or NUMBER.json files, nor STORE/block-NUMBER", name, benchInfoFile)
}

func detectFile(fsys fs.FS, name string) (format Format, err error) {
	switch {
	case strings.HasSuffix(name, ".pb.gz"):
		return FormatNodes, nil
	case diffFile.MatchString(path.Base(name)):
		return FormatDiffs, nil
	}

	f, err := fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("open change set: %w", err)
	}

	defer f.Close() // nothing was written
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(f, start); err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return "", fmt.Errorf("read %s: %w", name, err)
	}

	if string(start) != magic {
		return "", fmt.Errorf("%s: no change set of a known form: no container (it does not "+
			"begin with %s), no .pb.gz, no NUMBER.json", name, magic)
	}

	return FormatContainer, nil
}

// blockFiles are the files of dir whose names match, by the block that the first group
// of match is; unknown are all others.
func blockFiles(fsys fs.FS, dir string, match *regexp.Regexp) (files, unknown []string, err error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list change sets: %w", err)
	}

	byBlock := map[int64]string{}
	for _, entry := range entries {
		file := path.Join(dir, entry.Name())
		parts := match.FindStringSubmatch(entry.Name())
		if parts == nil || entry.IsDir() {
			unknown = append(unknown, file)
			continue
		}

		block, err := blockNumber(parts[1])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}

		if other, twice := byBlock[block]; twice {
			return nil, nil, fmt.Errorf("%s and %s begin with the same block", other, file)
		}

		byBlock[block] = file
	}

	for _, block := range slices.Sorted(maps.Keys(byBlock)) {
		files = append(files, byBlock[block])
	}

	return files, unknown, nil
}

// blockNumber reads a number, decimal (leading zeros are no sign of base 8) or 0x-hex.
func blockNumber(text string) (int64, error) {
	if digits, is := strings.CutPrefix(text, "0x"); is {
		return strconv.ParseInt(digits, 16, 64)
	}
	return strconv.ParseInt(text, 10, 64)
}

// OpenFile is Open of a path; its errors name the last part of it.
func OpenFile(path string, format Format) (Source, error) {
	return Open(os.DirFS(filepath.Dir(path)), filepath.Base(path), format)
}
