// Package blockio counts the reads of an LSM engine at its file layer, by what
// the block holds and by level, exactly.
//
// An engine is given a file system that wraps every table it opens (see the
// sub-packages, one per engine version); each read comes here with its offset,
// and the table's own layout says what lies there. Reads of compactions, which
// reopen a table for sequential reading, are counted apart. With direct reading
// the same place sends them past the page cache.
//
// Goals: ~20 ns a read, no lock and no allocation; every read counted once,
// none guessed.
// Non-goals: timing (internal/run/bench), the cache (the engine's own counters), writes
// but for how much was synced.
//
// The reads a compaction makes of index blocks use the foreground descriptor
// in both Pebble versions and cannot be told from those of a Get: counters are
// those of Gets alone only while no compaction runs.
package blockio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
)

// LayoutReader reads the anatomy of the table, or the file of separated values, at path, with
// descriptors and caches of its own.
type LayoutReader func(path string) (*TableLayout, error)

// Recorder knows the tables of one database and counts their reads.
type Recorder struct {
	Counters
	Syncs Syncs
	// Accessed is told of every foreground read of a block but those that open a table, before the
	// engine has it; nil: nobody. Set it before the first read.
	Accessed func(engine.Access)

	// Joined is how often a path was made by the file systems that are counted.
	Joined atomic.Int64

	learn  LayoutReader
	values sync.Map // the anatomies of files of separated values, by path
	direct bool
	pool   *sync.Pool // direct buffers

	failure atomic.Pointer[error]

	mu     sync.Mutex
	tables map[FileNumber]*knownTable
}

// FileNumber is the number of a table file, as in its name.
type FileNumber uint64

// NewRecorder returns a recorder. direct makes foreground reads bypass the page
// cache.
func NewRecorder(learn LayoutReader, direct bool) *Recorder {
	return &Recorder{
		learn:  learn,
		direct: direct,
		pool:   newDirectBuffers(),
		tables: map[FileNumber]*knownTable{},
	}
}

// knownTable is a table file as the recorder knows it.
type knownTable struct {
	number  FileNumber
	path    string
	level   atomic.Int32
	anatomy atomic.Pointer[TableLayout]

	handles int  // open ones; guarded by the recorder's mu
	removed bool // the file is; guarded by the recorder's mu

	learning sync.Mutex // one learner at a time
	// unlearnable is set when a read could not learn the layout: later reads do not try again.
	unlearnable atomic.Bool

	// descriptor is an open one of the engine's, or noDescriptor: the file can
	// be learnt through it even when its name is gone.
	descriptor atomic.Int64
}

const noDescriptor = -1

func newTable(number FileNumber, path string) *knownTable {
	t := &knownTable{number: number, path: path}
	t.level.Store(engine.LevelUnknown)
	t.descriptor.Store(noDescriptor)
	return t
}

// known returns the table with a number, making it known if it is not. Its path may be told later
// than its number, as "" until then. The caller holds r.mu.
func (r *Recorder) known(number FileNumber, path string) *knownTable {
	t := r.tables[number]
	if t == nil {
		t = newTable(number, path)
		r.tables[number] = t
	}

	if t.path == "" {
		t.path = path
	}

	return t
}

// SetLive tells which tables the database consists of now; path names their files, and is nil where
// they are learnt when they are opened. A file that left it is forgotten once nobody has it open;
// until then it counts under its last level. A file whose virtual tables lie on several levels is
// of none.
func (r *Recorder) SetLive(tables []LiveTable, path func(FileNumber) string) {
	level := make(map[FileNumber]int32, len(tables))
	for _, t := range tables {
		if before, known := level[t.Number]; known && before != int32(t.Level) {
			level[t.Number] = engine.LevelUnknown
			continue
		}
		level[t.Number] = int32(t.Level)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for number, l := range level {
		at := ""
		if path != nil {
			at = path(number)
		}
		r.known(number, at).level.Store(l)
	}

	for number, t := range r.tables {
		// A table may be open before the engine lists it.
		if _, live := level[number]; !live && t.handles == 0 {
			delete(r.tables, number)
		}
	}
}

// LearnAll learns every known table that is not yet, several at once. progress,
// which may be nil, is called from several goroutines. A table that vanished
// meanwhile is skipped.
func (r *Recorder) LearnAll(ctx context.Context, progress func(done, total int)) error {
	r.mu.Lock()
	var unlearnt []*knownTable
	for _, t := range r.tables {
		if t.anatomy.Load() == nil {
			unlearnt = append(unlearnt, t)
		}
	}

	r.mu.Unlock()

	if len(unlearnt) == 0 {
		return nil
	}

	// Listing the blocks of a table makes little but garbage: with the collector
	// less eager for it, this takes half the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))

	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for _, t := range unlearnt {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}

			if _, err := r.anatomyOf(t); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}

			if n := done.Add(1); progress != nil {
				progress(int(n), len(unlearnt))
			}

			return nil
		})
	}

	return group.Wait()
}

// anatomyOf returns the anatomy of t, learning it if need be.
func (r *Recorder) anatomyOf(t *knownTable) (*TableLayout, error) {
	t.learning.Lock()
	defer t.learning.Unlock()
	if a := t.anatomy.Load(); a != nil {
		return a, nil
	}

	a, err := r.learn(t.path)
	if fd := t.descriptor.Load(); errors.Is(err, fs.ErrNotExist) && fd != noDescriptor {
		a, err = r.learn(descriptorPath(fd))
	}

	if err != nil {
		return nil, fmt.Errorf("learn the layout of %s: %w", t.path, err)
	}

	t.anatomy.Store(a)
	return a, nil
}

// descriptorPath names the file of an open descriptor, linked or not.
func descriptorPath(fd int64) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// TableLayout returns what was learnt about a live table; nil where it is unknown.
func (r *Recorder) TableLayout(number FileNumber) *TableLayout {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tables[number]; t != nil {
		return t.anatomy.Load()
	}
	return nil
}

// Tables is the number of tables that are live or open.
func (r *Recorder) Tables() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tables)
}

// Handle counts the reads of one open descriptor.
type Handle struct {
	recorder   *Recorder
	table      *knownTable
	descriptor int64
	direct     *directFile // nil: the engine's own descriptor reads
}

// Open is called when the engine has opened a table for foreground reads, as
// descriptor fd.
func (r *Recorder) Open(number FileNumber, path string, fd uintptr) (*Handle, error) {
	r.mu.Lock()
	t := r.known(number, path)
	if t.path != path { // of another database: nothing but its layout is known
		t = newTable(number, path)
	}

	t.handles++
	r.mu.Unlock()
	h, err := r.open(t, fd)
	if err != nil {
		r.release(t)
	}

	return h, err
}

func (r *Recorder) release(t *knownTable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.handles--
	r.forget(t)
}

// Removed is called when a file was removed: it is forgotten once nobody has it open.
func (r *Recorder) Removed(path string) {
	kind, number := fileKind(path)
	if kind == values {
		r.values.Delete(path)
	}

	if kind != table {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tables[number]; t != nil && (t.path == path || t.path == "") {
		t.removed = true
		r.forget(t)
	}
}

// forget forgets a table that was removed and that nobody has open. The caller holds r.mu.
func (r *Recorder) forget(t *knownTable) {
	if t.removed && t.handles == 0 && r.tables[t.number] == t {
		delete(r.tables, t.number)
	}
}

// OpenValues is called when the engine has opened a file of separated values.
// Such a file belongs to no level.
func (r *Recorder) OpenValues(number FileNumber, path string, fd uintptr) (*Handle, error) {
	t := newTable(number, path)
	a, err := r.LearnValues(path)
	if errors.Is(err, fs.ErrNotExist) { // its owner deleted it meanwhile
		a, err = &TableLayout{
			Map: &BlockMap{starts: []int64{0}, types: []engine.BlockType{engine.Value}},
		}, nil
	}

	if err != nil { // the read itself tells the engine what is wrong with it
		r.fail(err)
		t.unlearnable.Store(true)
	} else {
		t.anatomy.Store(a)
	}

	return r.open(t, fd)
}

// LearnValues learns the file of separated values at path, once. Its values are one block.
func (r *Recorder) LearnValues(path string) (*TableLayout, error) {
	if a, known := r.values.Load(path); known {
		return a.(*TableLayout), nil
	}

	a, err := r.learn(path)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of %s: %w", path, err)
	}

	r.values.Store(path, a)
	return a, nil
}

func (r *Recorder) open(t *knownTable, fd uintptr) (*Handle, error) {
	h := &Handle{recorder: r, table: t, descriptor: int64(fd)}
	if r.direct {
		d, err := openDirect(descriptorPath(h.descriptor), r.pool)
		if err != nil {
			return nil, fmt.Errorf("open %s for direct reads: %w", t.path, err)
		}
		h.direct = d
	}

	t.descriptor.Store(h.descriptor)
	r.opens.Add(1)
	return h, nil
}

// Direct reports whether foreground reads bypass the page cache.
func (r *Recorder) Direct() bool { return r.direct }

// Direct reports whether reads must go through ReadDirect.
func (h *Handle) Direct() bool { return h.direct != nil }

// ReadDirect reads past the page cache and counts.
func (h *Handle) ReadDirect(p []byte, offset int64) (int, error) {
	n, asked, err := h.direct.readAt(p, offset)
	h.recorder.sectors[stripe(offset)].add(int(asked))
	h.Read(p[:n], offset)
	return n, err
}

// Read records a foreground read of stored.
func (h *Handle) Read(stored []byte, offset int64) {
	kind := h.Count(len(stored), offset)
	if h.recorder.Accessed == nil || kind == engine.Meta || kind == Untyped {
		return
	}

	if kind == RangeDeletion {
		kind = engine.Meta
	}

	decoded, known := DecodedBytes(stored)
	if !known {
		decoded = int64(len(stored))
	}

	h.recorder.Accessed(engine.Access{
		File:      uint64(h.table.number),
		Offset:    uint64(offset),
		Type:      kind,
		Level:     int(h.table.level.Load()),
		DiskBytes: int32(len(stored)),
		Bytes:     int32(decoded),
	})
}

// Count records a foreground read of n bytes and returns its type, which may be RangeDeletion or
// Untyped.
func (h *Handle) Count(n int, offset int64) engine.BlockType {
	kind, at, level := h.typeAt(offset), stripe(offset), h.table.level.Load()
	if kind < engine.NumBlockTypes {
		h.recorder.reads[at][level][kind].add(n)
		return kind
	}

	// Whoever looks at the parts first and then at the whole never sees more in the parts.
	h.recorder.reads[at][level][engine.Meta].add(n)
	if kind == RangeDeletion {
		h.recorder.rangeDeletions[at].add(n)
	} else {
		h.recorder.untyped[level].add(n)
	}

	return kind
}

func (h *Handle) typeAt(offset int64) engine.BlockType {
	a := h.table.anatomy.Load()
	if a == nil {
		if h.table.unlearnable.Load() {
			return Untyped
		}

		var err error
		if a, err = h.recorder.anatomyOf(h.table); err != nil {
			// The read itself tells the engine what is wrong with the table.
			h.table.unlearnable.Store(true)
			h.recorder.fail(err)
			return Untyped
		}
	}

	return a.Map.TypeAt(offset)
}

// fail keeps the first error of learning a layout in the midst of reading.
func (r *Recorder) fail(err error) { r.failure.CompareAndSwap(nil, &err) }

// Err is why the first table whose reads are untyped could not be learnt; nil: none are.
func (r *Recorder) Err() error {
	if err := r.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Close is to be called before the engine's descriptor is closed. It releases
// the handle's own.
func (h *Handle) Close() error {
	h.table.learning.Lock() // nobody learns through the descriptor now
	h.table.descriptor.CompareAndSwap(h.descriptor, noDescriptor)
	h.table.learning.Unlock()
	h.recorder.release(h.table)
	if h.direct == nil {
		return nil
	}
	return h.direct.close()
}

// CountBackground records a read of n bytes by a compaction.
func (r *Recorder) CountBackground(n int, offset int64) {
	r.background[stripe(offset)].add(n)
}
