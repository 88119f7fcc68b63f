package changeset

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"

	"github.com/klauspost/compress/gzip"
)

// The form of the Osmosis sets: files NNNNNNNN-MMMMMMMM.pb.gz, or NNNNNNNN.pb.gz for a single
// block, read in the order of their first blocks, each gzip of {len u32le, Node}*, where Node is {1
// key, 2 value, 3 delete, 4 block, 5 store_key, 6 hash, 7 first_version, 8 last_version}. The order
// is that of the chain's writes. A block without changes is not there: the set has a gap. Stores
// are known by their changes only; a node without one belongs to the store defaultStore.

const defaultStore = "default"

var nodesFile = regexp.MustCompile(`^(\d{1,18})(-\d{1,18})?\.pb\.gz$`)

type nodesSource struct {
	succession
	unknown []string
	stores  *storeTable
	message []byte
	version int64 // being read, or the last

	// The node in message, if pending.
	pending bool
	block   int64
	node    Change
}

func openNodes(fsys fs.FS, name string) (Source, error) {
	s := &nodesSource{
		succession: succession{fsys: fsys, unpack: gunzipped},
		stores:     &storeTable{numbers: map[string]int{}},
	}

	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("open change set: %w", err)
	}

	if !info.IsDir() {
		s.files = []string{name}
		return &reading{form: s}, nil
	}

	if s.files, s.unknown, err = blockFiles(fsys, name, nodesFile); err != nil {
		return nil, err
	}

	if len(s.files) == 0 {
		return nil, fmt.Errorf("%s: no file is called FIRST-LAST.pb.gz or BLOCK.pb.gz after its "+
			"blocks", name)
	}

	return &reading{form: s}, nil
}

func (s *nodesSource) Info() Info {
	return Info{
		Format:  FormatNodes,
		Order:   OrderInsertion,
		Stores:  s.stores.names,
		Unknown: s.unknown,
		NotChecked: []string{"the format numbers blocks, not changes, and leaves blocks without " +
			"changes out: changes that are missing, there twice or moved within a block, and " +
			"blocks that are missing, cannot be seen"},
	}
}

func (s *nodesSource) begin() (version int64, err error) {
	if !s.pending {
		err = s.nextNode()
	}
	s.version = s.block
	return s.version, err
}

func (s *nodesSource) change() (c Change, more bool, err error) {
	if !s.pending {
		if err := s.nextNode(); err == io.EOF {
			return c, false, nil
		} else if err != nil {
			return c, false, err
		}
	}

	if s.block != s.version {
		return c, false, nil
	}

	s.pending = false
	return s.node, true, nil
}

// nextNode decodes the next node; io.EOF is the end of the last file.
func (s *nodesSource) nextNode() error {
	more, err := s.more(s.version)
	if err != nil {
		return err
	}

	if !more {
		return io.EOF
	}

	if err := s.readNode(); err != nil {
		return s.in.damage(s.version, err)
	}

	return nil
}

func gunzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

func gunzipped(string) func(io.Reader) (io.Reader, error) { return gunzip }

func (s *nodesSource) readNode() (err error) {
	var head [4]byte
	if err := s.in.full(head[:]); err != nil {
		return err
	}

	if s.message, err = s.in.message(s.message,
		uint64(binary.LittleEndian.Uint32(head[:]))); err != nil {
		return err
	}

	node, store, block, err := numbering{key: 1, value: 2, remove: 3, block: 4, store: 5}.decode(
		s.message,
	)
	if err != nil {
		return err
	}

	if len(store) == 0 {
		store = []byte(defaultStore)
	}

	if block == 0 || block > math.MaxInt64 || int64(block) < s.version {
		return fmt.Errorf("block %d after block %d", block, s.version)
	}

	s.node, s.block, s.pending = node, int64(block), true
	s.node.Store, err = s.stores.add(store)
	return err
}
