package changeset

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zlib"
)

// The form of cronos and memiavl: a directory a store with files block-N, plain or
// behind .zz (zlib), .snappy or .sz, read in the order of N. A file is
//
//	{version u64le, size u64le, {delete u8, keyLen uvarint, key, [valueLen uvarint, value]}*}*
//
// where size counts the bytes of the version's changes, and a delete has no value.
// Such sets are harvested: net and sorted by key within a store.

type cronosSource struct {
	fsys    fs.FS
	stores  []*cronosStore
	names   []string
	unknown []string
	version int64 // being read, or the last
	store   int   // being read
	first   int64
}

// cronosStore is one store's files and where reading is in them.
type cronosStore struct {
	succession
	version int64 // whose header was read; 0 at the end
	left    int64 // bytes of its changes
	key     []byte
	value   []byte
	last    int64
}

var cronosFile = regexp.MustCompile(`^block-(\d{1,18})(\.zz|\.snappy|\.sz)?$`)

func openCronos(fsys fs.FS, dir string) (Source, error) {
	s := &cronosSource{fsys: fsys}
	if err := s.find(dir); err != nil {
		return nil, closeAfter(s, err)
	}

	for _, store := range s.stores {
		if err := store.nextVersion(); err != nil {
			return nil, closeAfter(s, err)
		}

		if store.version > 0 && (s.first == 0 || store.version < s.first) {
			s.first = store.version
		}
	}

	return &reading{form: s}, nil
}

// find lists the stores and their files.
func (s *cronosSource) find(dir string) error {
	entries, err := fs.ReadDir(s.fsys, dir)
	if err != nil {
		return fmt.Errorf("list change sets: %w", err)
	}

	for _, entry := range entries {
		if !entry.IsDir() {
			s.unknown = append(s.unknown, path.Join(dir, entry.Name()))
			continue
		}

		files, unknown, err := blockFiles(s.fsys, path.Join(dir, entry.Name()), cronosFile)
		if err != nil {
			return err
		}

		s.unknown = append(s.unknown, unknown...)
		s.names = append(s.names, entry.Name())
		s.stores = append(s.stores,
			&cronosStore{succession: succession{fsys: s.fsys, files: files, unpack: cronosPacking}})
	}

	if !slices.ContainsFunc(s.stores,
		func(store *cronosStore) bool { return len(store.files) > 0 }) {
		return fmt.Errorf("%s: no file is called STORE/block-NUMBER", dir)
	}

	if _, err := newStoreTable(s.names); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}

	return nil
}

func (s *cronosSource) Info() Info {
	return Info{
		Format:   FormatCronos,
		Order:    OrderSortedNet,
		Stores:   s.names,
		Complete: true,
		First:    s.first,
		Unknown:  s.unknown,
		NotChecked: []string{"the format has neither counts nor checksums, and does not say " +
			"which versions and stores there are: versions that are missing at the ends, or " +
			"changes that are missing with their bytes in the version's size, cannot be seen"},
	}
}

func (s *cronosSource) Close() error {
	var first error
	for _, store := range s.stores {
		first = cmp.Or(first, store.Close())
	}
	return first
}

func closeAfter(s form, err error) error {
	if e := s.Close(); e != nil {
		return fmt.Errorf("%w (and %w)", err, e)
	}
	return err
}

// begin chooses the least version that any store has next.
func (s *cronosSource) begin() (version int64, err error) {
	for _, store := range s.stores {
		if store.version > 0 && (version == 0 || store.version < version) {
			version = store.version
		}
	}

	if version == 0 {
		return 0, io.EOF
	}

	s.version, s.store = version, 0
	return version, nil
}

func (s *cronosSource) change() (c Change, more bool, err error) {
	for ; s.store < len(s.stores); s.store++ {
		store := s.stores[s.store]
		if store.version != s.version {
			continue
		}

		if store.left > 0 {
			c, err = store.readChange()
			if c.Store = s.store; err != nil {
				err = store.in.damage(s.version, err)
			}
			return c, true, err
		}

		if err := store.nextVersion(); err != nil {
			return c, false, err
		}
	}

	return c, false, nil
}

// nextVersion reads the header of the store's next version.
func (s *cronosStore) nextVersion() error {
	more, err := s.more(s.last)
	if err != nil || !more {
		s.version = 0
		return err
	}

	var head [16]byte
	if err := s.in.full(head[:]); err != nil {
		return s.in.damage(s.last, err)
	}

	version, size := binary.LittleEndian.Uint64(head[:]), binary.LittleEndian.Uint64(head[8:])
	if version > math.MaxInt64 || int64(version) <= s.last {
		return s.in.damage(s.last, fmt.Errorf("version %d after version %d", version, s.last))
	}

	if size > maxVersionBytes {
		return s.in.damage(int64(version),
			fmt.Errorf("a version of %d bytes, at most %d are believed", size,
				int64(maxVersionBytes)))
	}

	s.version, s.last, s.left = int64(version), int64(version), int64(size)
	return nil
}

// maxVersionBytes is more than any block can write.
const maxVersionBytes = 1 << 40

// cronosPacking is how a file is decompressed.
func cronosPacking(file string) func(io.Reader) (io.Reader, error) {
	switch path.Ext(file) {
	case ".zz":
		return inflate
	case ".snappy", ".sz":
		return func(r io.Reader) (io.Reader, error) {
			return s2.NewReader(r, s2.ReaderMaxBlockSize(1<<20)), nil
		}
	}

	return nil
}

// inflate decompresses a stream of zlib and refuses a file that goes on behind it: what follows
// would be lost.
func inflate(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	stream, err := zlib.NewReader(in)
	return &onlyStream{stream, in}, err
}

type onlyStream struct {
	io.ReadCloser
	in *bufio.Reader
}

func (s *onlyStream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	if err == io.EOF {
		if _, behind := s.in.Peek(1); behind != io.EOF {
			err = cmp.Or(behind, errBehindStream)
		}
	}
	return n, err
}

var errBehindStream = errors.New("the file goes on behind the end of its compressed stream")

func (s *cronosStore) readChange() (c Change, err error) {
	start := s.in.offset
	kind, err := s.in.byte()
	if err != nil {
		return c, err
	}

	if kind > 1 {
		return c, fmt.Errorf("%#x where 0 (set) or 1 (delete) belongs", kind)
	}

	if s.key, err = s.sized(s.key, checkKey); err != nil {
		return c, err
	}

	c = Change{Key: s.key, Delete: kind == 1}
	if !c.Delete {
		if s.value, err = s.sized(s.value, checkValue); err != nil {
			return c, err
		}
		c.Value = s.value
	}

	if s.left -= s.in.offset - start; s.left < 0 {
		return c, fmt.Errorf("the last change of the version ends %d bytes behind the version",
			-s.left)
	}

	return c, nil
}

func (s *cronosStore) sized(dst []byte, check func(uint64) error) ([]byte, error) {
	length, err := s.in.uvarint()
	if err != nil {
		return dst, err
	}

	if err := check(length); err != nil {
		return dst, err
	}

	dst = grow(dst, int(length))
	return dst, s.in.full(dst)
}
