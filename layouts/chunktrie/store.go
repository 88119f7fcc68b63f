//go:build linux

package chunktrie

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// Store is an open state.
type Store struct {
	options  layout.Options
	settings settings
	file     *os.File
	nodes    *nodeFile
	chunks   *chunkFile
	flights  *flights
	pins     pins
	writer   *writer

	pending   []edit // the block being built
	lastBytes int64  // that the last block appended
	failed    error  // no block can follow one that failed
	closed    bool

	mutex sync.Mutex
	// addressable ones, oldest first; the last is the newest
	versions                     []*version
	readers                      map[*Reader]struct{}
	closedReads, closedReadBytes int64
	seen                         seen
}

// seen is what Commit shows to those who ask meanwhile.
type seen struct {
	writes, writeBytes, pinnedBytes int64
	pinnedDepth                     int
}

// version is a root that can be read.
type version struct {
	block   uint64
	root    ref // pinned while it is the newest, or read
	tails   [lists]uint32
	readers int
}

func newStore(ctx context.Context, o layout.Options, s settings, file *os.File) (*Store, error) {
	h, err := readHeader(file)
	if err != nil {
		return nil, &engine.NotADatabaseError{Dir: o.Dir, Why: err.Error()}
	}

	s.header = h
	records, err := readRecords(file, h)
	if err != nil {
		return nil, err
	}

	last := &records[len(records)-1]
	table, err := readTable(file, h, last)
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", last.block, err)
	}

	store := &Store{
		options:  o,
		settings: s,
		file:     file,
		flights:  newFlights(),
		readers:  map[*Reader]struct{}{},
	}

	store.chunks = newChunkFile(file, h)
	if err := store.chunks.loadTable(table, last.next); err != nil {
		return nil, fmt.Errorf("block %d: %w", last.block, err)
	}

	store.nodes = &nodeFile{file: file, chunkBytes: h.chunkBytes, align: minReadAlign}
	if o.Direct {
		if store.nodes, err = openDirect(file.Name(), h.chunkBytes); err != nil {
			return nil, err
		}
	}

	store.pins = pins{depth: s.levels - 1}
	if store.pins.arena, err = newArena(); err != nil {
		return nil, errors.Join(err, store.closeDirect())
	}

	if o.MemoryBytes > 0 {
		store.pins.budgetBytes = o.MemoryBytes - buffersBytes
	}

	for i := range records {
		r := &records[i]
		for list := range lists {
			if r.tails[list] > store.chunks.lists[list].last().sequence {
				return nil, errors.Join(fmt.Errorf("block %d: %w", r.block, errTail),
					store.pins.close(), store.closeDirect())
			}
		}

		store.versions = append(store.versions,
			&version{block: r.block, root: r.root, tails: r.tails})
	}

	newest := store.newest()
	if newest.root.pin, err = store.pins.load(ctx, store.nodes, newest.root.at); err != nil {
		return nil, errors.Join(err, store.pins.close(), store.closeDirect())
	}

	store.writer = &writer{
		chunks: store.chunks, nodes: store.nodes, hasher: mpt.NewHasher(), pins: &store.pins,
		buffer: newReadBuffer(), encoded: make([]byte, 0, maxNodeBytes),
	}

	store.show()
	return store, nil
}

func newChunkFile(file *os.File, h header) *chunkFile {
	return &chunkFile{file: file, chunkBytes: h.chunkBytes, byID: []*chunk{nil}}
}

func (s *Store) newest() *version { return s.versions[len(s.versions)-1] }

// Block is the newest block.
func (s *Store) Block() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.newest().block
}

// Root is the newest block's.
func (s *Store) Root() layout.Hash {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.newest().hash()
}

func (v *version) hash() layout.Hash {
	if v.root.at == 0 {
		return layout.EmptyRoot
	}
	return layout.Hash(v.root.hash[1:])
}

// Change adds what the block does to an account.
func (s *Store) Change(c layout.Change) error {
	e := edit{key: c.Account}
	if c.New == nil {
		s.pending = append(s.pending, e)
		return nil
	}

	e.value = appendAccount(nil, c.New)
	size := 0
	for i := range c.Slots {
		v := c.Slots[i].Value
		if len(v) > 32 || len(v) > 0 && v[0] == 0 {
			return fmt.Errorf("chunktrie: change account %x: slot %x: %x is no value of a slot",
				c.Account, c.Slots[i].Key, v)
		}

		size += len(v)
	}

	values := make([]byte, 0, size)
	e.slots = make([]edit, 0, len(c.Slots))
	for i := range c.Slots {
		from := len(values)
		values = append(values, c.Slots[i].Value...)
		e.slots = append(e.slots, edit{key: c.Slots[i].Key, value: values[from:]})
	}

	s.pending = append(s.pending, e)
	return nil
}

// Commit writes the block: nodes, the table of chunks, and, once they are on the
// disk, the root record.
func (s *Store) Commit(ctx context.Context) (layout.Hash, error) {
	old := s.newest()
	block := old.block + 1
	switch {
	case s.options.ReadOnly:
		return layout.Hash{}, errors.New("chunktrie: commit: the state is open for reading only")
	case s.failed != nil:
		return layout.Hash{},
			fmt.Errorf("chunktrie: commit block %d: an earlier one failed: %w", block, s.failed)
	case ctx.Err() != nil:
		return layout.Hash{}, ctx.Err()
	}

	next, err := s.write(old, block)
	if err != nil {
		s.failed = err
		return layout.Hash{}, fmt.Errorf("chunktrie: commit block %d: %w", block, err)
	}

	if err := s.publish(next); err != nil {
		s.failed = err
		return layout.Hash{}, fmt.Errorf("chunktrie: trim after block %d: %w", block, err)
	}

	return next.hash(), nil
}

// write makes the block durable.
func (s *Store) write(old *version, block uint64) (*version, error) {
	edits := s.pending
	s.pending = s.pending[:0]
	inOrder(edits)
	for i := range edits {
		if i > 0 && edits[i].key == edits[i-1].key {
			return nil, fmt.Errorf("account %x is changed twice", edits[i].key)
		}
		inOrder(edits[i].slots)
		edits[i].slots = lastOfEach(edits[i].slots)
	}

	w := s.writer
	w.version = block
	limits := s.versions[0].tails
	for list := range lists {
		w.boundary[list] = s.settings.boundary(s.chunks, list, old.root.oldest[list], limits[list],
			s.lastBytes)
	}

	before := s.chunks.appended()
	root, err := w.apply(old.root, edits)
	if err != nil {
		return nil, err
	}

	root.pin = s.pins.fit(block, root.pin)
	r := record{block: block, root: root}
	if versions := uint64(s.settings.versions); block >= versions {
		r.kept = block + 1 - versions
	}

	if err := s.chunks.commit(&r, s.settings.header); err != nil {
		return nil, err
	}

	s.lastBytes = s.chunks.appended() - before
	return &version{block: block, root: root, tails: r.tails}, nil
}

// appended is how far all lists have ever come.
func (f *chunkFile) appended() (bytes int64) {
	for i := range f.lists {
		bytes += int64(f.lists[i].last().sequence)*f.chunkBytes + f.lists[i].next
	}
	return bytes
}

// commit completes r and makes it the newest root.
func (f *chunkFile) commit(r *record, h header) error {
	maximum := tableEntryBytes * (len(f.lists[fast].chunks) + len(f.lists[slow].chunks) + 1)
	if err := f.room(fast, maximum); err != nil {
		return err
	}

	table := f.appendTable(make([]byte, 0, maximum))
	l := &f.lists[fast]
	r.table = extent{int64(l.last().id)*f.chunkBytes + l.next, uint32(len(table)), checksum(table)}
	f.append(fast, 0, table)
	for i := range f.lists {
		if err := f.flush(i); err != nil {
			return err
		}
		r.tails[i] = f.lists[i].last().sequence
		r.next[i] = uint32(f.lists[i].next)
	}

	if err := unix.Fdatasync(int(f.file.Fd())); err != nil {
		return fmt.Errorf("sync nodes: %w", err)
	}

	if _, err := f.file.WriteAt(r.encode(), h.slotAt(r.block)); err != nil {
		return err
	}

	f.writes++
	f.writeBytes += sectorBytes
	if err := unix.Fdatasync(int(f.file.Fd())); err != nil {
		return fmt.Errorf("sync root record: %w", err)
	}

	return nil
}

// publish shows a durable version to readers, lets go of versions nobody keeps and
// frees their chunks.
func (s *Store) publish(next *version) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	old := s.newest()
	if old.readers == 0 {
		old.root.pin = 0
	}

	s.versions = append(s.versions, next)
	for s.versions[0].readers == 0 &&
		s.versions[0].block+uint64(s.settings.versions) <= next.block {
		s.versions[0] = nil
		s.versions = s.versions[1:]
	}

	s.show()
	s.pins.reclaim(s.oldestPinned())
	var oldest [lists]uint32
	for list := range lists {
		oldest[list] = noPlace
		for _, v := range s.versions {
			oldest[list] = min(oldest[list], v.root.oldest[list], s.chunks.place(v.tails[list], 0))
		}
	}

	return s.chunks.free(oldest)
}

// oldestPinned is the oldest block whose pins a reader may meet; the mutex is held.
func (s *Store) oldestPinned() uint64 {
	for _, v := range s.versions {
		if v.root.pin != 0 {
			return v.block
		}
	}
	return s.newest().block
}

// show copies what others than the writer may ask for.
func (s *Store) show() {
	s.seen = seen{s.chunks.writes, s.chunks.writeBytes, s.pins.used(), s.pins.depth}
}

// enter and leave count a version's readers; the mutex is held.
func (s *Store) enter(v *version) *version {
	v.readers++
	return v
}

func (s *Store) leave(v *version) {
	v.readers--
	if v.readers == 0 && v != s.newest() {
		v.root.pin = 0
	}
}

// Reader looks up at the newest block.
func (s *Store) Reader() (layout.Reader, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, errors.New("chunktrie: the state is closed")
	}
	return s.reader(s.newest()), nil
}

func (s *Store) reader(v *version) *Reader {
	r := &Reader{store: s, at: s.enter(v), flight: newFlight()}
	s.readers[r] = struct{}{}
	return r
}

// Settle has nothing to wait for: compaction is part of Commit.
func (s *Store) Settle(ctx context.Context) error { return ctx.Err() }

// Counters are reads by lookups, of what is not pinned, and by commits, of all that
// they replace; and writes.
func (s *Store) Counters() layout.Counters {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	reads := s.closedReads + s.writer.reads.Load()
	readBytes := s.closedReadBytes + s.writer.readBytes.Load()
	for r := range s.readers {
		reads += r.lookups.reads.Load()
		readBytes += r.lookups.readBytes.Load()
	}

	nodes := s.writer.nodesNew.Load()
	shown := s.seen
	return layout.Counters{
		Reads:      &reads,
		ReadBytes:  &readBytes,
		Writes:     &shown.writes,
		WriteBytes: &shown.writeBytes,
		NodesNew:   &nodes,
	}
}

// DiskBytes is what the file takes, without its holes.
func (s *Store) DiskBytes() (int64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(s.file.Fd()), &stat); err != nil {
		return 0, fmt.Errorf("chunktrie: size of %s: %w", s.file.Name(), err)
	}
	return stat.Blocks * 512, nil
}

// Effective are the options in force; pinned_depth is as deep as the budget let it
// be, -1 for nothing pinned.
func (s *Store) Effective() map[string]string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return map[string]string{
		"ChunkBytes":     strconv.FormatInt(s.settings.chunkBytes, 10),
		"Versions":       strconv.Itoa(s.settings.versions),
		"PinnedLevels":   strconv.Itoa(s.seen.pinnedDepth + 1),
		"GarbagePercent": strconv.Itoa(s.settings.garbagePercent),
		"CompactionPace": strconv.Itoa(s.settings.pace),
		"direct":         strconv.FormatBool(s.options.Direct),
		"read_align":     unit.Bytes(s.nodes.align),
	}
}

// Memory is the budget's parts.
func (s *Store) Memory() []engine.MemoryShare {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	shares := []engine.MemoryShare{{Use: "write buffers", Bytes: buffersBytes, Basis: "limit"}}
	if s.seen.pinnedDepth < 0 {
		return shares
	}

	pinned := fmt.Sprintf("branches of nibble depth 0 to %d", s.seen.pinnedDepth)
	return append(shares, engine.MemoryShare{
		Use:   pinned,
		Bytes: s.seen.pinnedBytes,
		Basis: "measured",
		Holds: engine.PinnedBranches,
	})
}

// Close drops the block being built.
func (s *Store) Close() error {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	if err := errors.Join(s.pins.close(), s.closeDirect(), s.file.Close()); err != nil {
		return fmt.Errorf("chunktrie: close: %w", err)
	}
	return nil
}

func (s *Store) closeDirect() error {
	if s.nodes.file == s.file {
		return nil
	}
	return s.nodes.file.Close()
}
