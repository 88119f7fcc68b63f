// Package bbolt adapts bbolt, the B+tree in one memory-mapped file that etcd and
// some Cosmos nodes keep their state in.
//
// Its cache is the page cache: bbolt maps the file and tells the kernel that the
// order is random. So a memory budget is all page cache, and it is the harness
// that holds the process to it. There are no block reads to count; the page
// accesses of a Get are known, since all leaves of the tree are equally deep.
//
// Readers keep a read transaction open while nothing is committed and take one
// per Get while a commit runs (reader.go says why and what it saves).
//
// Non-goals: buckets. All keys are in one.
package bbolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
)

type db struct {
	bolt        *bbolt.DB
	path        string
	options     *bbolt.Options
	memoryBytes int64 // the budget; 0: none
	warnings    []engine.Warning

	written atomic.Int64 // keys and values committed, bytes
	depth   atomic.Int64 // pages from the bucket's root to a leaf, both included
	inline  atomic.Bool  // the bucket is so small that it lies in the page above

	// readers are those that may hold a transaction; see reader.go.
	mu         sync.Mutex
	readers    map[*reader]struct{}
	committing atomic.Bool
	commits    sync.Mutex // one at a time, as bbolt has it
	closed     int64      // pages accessed by readers that are closed; guarded by mu
}

// bucketName is the one bucket. A function, since a slice is no constant.
func bucketName() []byte { return []byte("statelab") }

func (d *db) start(o engine.Options) error {
	d.readers = map[*reader]struct{}{}
	if o.CacheBytes > 0 && !o.Create { // a load has one whatever the engine
		d.warnings = append(d.warnings, engine.Warning{
			Code: "no_block_cache",
			Text: fmt.Sprintf("bbolt has no block cache: the cache size of %s has no effect",
				unit.Bytes(o.CacheBytes)),
			Remedy: "limit the page cache instead: --memory 512MiB",
		})
	}

	if o.Create {
		if err := d.bolt.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(bucketName())
			return err
		}); err != nil {
			return fmt.Errorf("create the bucket: %w", err)
		}
	}

	return d.learnDepth()
}

// learnDepth measures the tree, in which all leaves are equally deep.
func (d *db) learnDepth() error {
	return d.view(func(pages *pages, root pgid) error {
		depth, err := pages.depth(root)
		d.depth.Store(depth)
		d.inline.Store(root == 0)
		return err
	})
}

// view hands out the pages of the tree as they are now. root is 0 where the
// bucket lies in the page of its parent.
func (d *db) view(see func(pages *pages, root pgid) error) error {
	return d.bolt.View(func(tx *bbolt.Tx) (err error) {
		bucket := tx.Bucket(bucketName())
		if bucket == nil {
			return &engine.NotADatabaseError{
				Dir: d.path,
				Why: "there is no bucket " + string(bucketName()),
			}
		}

		file, err := os.Open(d.path)
		if err != nil {
			return err
		}

		defer func() { err = errors.Join(err, file.Close()) }()
		return see(&pages{file: file, pageBytes: d.bolt.Info().PageSize}, pgid(bucket.Root()))
	})
}

// Sync makes commits survive a power cut, too; a kill they survive anyway.
func (d *db) Sync(context.Context) error {
	if d.bolt.IsReadOnly() {
		return nil
	}
	if err := d.bolt.Sync(); err != nil {
		return fmt.Errorf("bbolt: sync %s: %w", d.path, err)
	}
	return nil
}

// Settle has nothing to wait for: bbolt does no work in the background. It syncs,
// so that the kernel has none left either.
func (d *db) Settle(ctx context.Context, _ func(engine.Settling)) error { return d.Sync(ctx) }

func (d *db) Counters() engine.Counters {
	d.mu.Lock()
	accessed := d.closed
	for r := range d.readers {
		accessed += r.pages.Load()
	}

	d.mu.Unlock()
	return engine.Counters{
		Accesses:       &[engine.NumBlockTypes]int64{engine.Page: accessed},
		UserWriteBytes: new(d.written.Load()),
	}
}

// Shape is the size of the file, free pages included.
func (d *db) Shape() (engine.Shape, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return engine.Shape{}, fmt.Errorf("bbolt: %w", err)
	}
	return engine.Shape{Bytes: info.Size(), Files: 1}, nil
}

// Memory is the page cache alone: the freelist and the pages of a running commit
// come and go with the writes.
func (d *db) Memory() []engine.MemoryShare {
	if d.memoryBytes > 0 {
		return []engine.MemoryShare{
			{Use: engine.PageCacheUse, Bytes: d.memoryBytes, Basis: "limit"},
		}
	}

	shape, err := d.Shape()
	if err != nil {
		return nil
	}

	return []engine.MemoryShare{{Use: engine.PageCacheUse, Bytes: shape.Bytes, Basis: "estimate"}}
}

func (d *db) Warnings() []engine.Warning { return d.warnings }

// Close ends what transactions readers still hold: bbolt would wait for them.
func (d *db) Close() error {
	if err := errors.Join(d.releaseReaders(), d.bolt.Close()); err != nil {
		return fmt.Errorf("bbolt: close %s: %w", d.path, err)
	}
	return nil
}

// Engine is bbolt.
type Engine struct{}

const (
	version = "v1.5.0"

	// fileName is the one file in a database's directory.
	fileName = "bolt.db"

	// lockTimeout is the shortest wait for the lock of another process: zero
	// would wait for ever.
	lockTimeout = time.Nanosecond
)

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:    "bbolt",
		Version: adapter.Version("go.etcd.io/bbolt", version),
		Route:   "go module",
		Licence: "MIT",
		Durability: "kill: every commit survives; power cut: with profile default every commit, " +
			"with async only a database synced before it (later commits may damage the file)",
		Capabilities: []engine.Capability{engine.UsesPageCache, engine.FaultsInGo,
			engine.CanBudget, engine.HasNoCache, engine.HasNoHandles},
		Profiles:      adapter.Infos(profiles()),
		Options:       adapter.OptionsOf(profiles(), overridable),
		StoredOptions: []string{"PageSize"},
	}
}

// Check names what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

// Open opens or creates the database in o.Dir.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	options, errs := resolve(e.Info(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	options.ReadOnly = o.ReadsOnly()
	if err := adapter.CheckDir(o, fileName); err != nil {
		return nil, err
	}

	opened, err := open(o, options)
	if err != nil {
		return nil, fmt.Errorf("bbolt: open %s: %w", o.Dir, err)
	}

	return opened, nil
}

func open(o engine.Options, options *bbolt.Options) (*db, error) {
	path := filepath.Join(o.Dir, fileName)
	bolt, err := bbolt.Open(path, 0o644, options)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &engine.LockedError{
			Dir: o.Dir,
			Hint: "stop that process: a bbolt file cannot be read while a process has it " +
				"open for writing",
		}
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return nil, &engine.NotADatabaseError{Dir: o.Dir, Why: fmt.Sprintf("%s: %v", fileName, err)}
	case err != nil:
		return nil, err
	}

	d := &db{bolt: bolt, path: path, options: options, memoryBytes: o.MemoryBytes}
	if err := d.start(o); err != nil {
		return nil, errors.Join(err, d.Close())
	}

	return d, nil
}

// settings are the options that can be overridden, by bbolt's names.
type settings struct {
	NoSync       bool
	FreelistType string
	PageSize     int
}

// A freelist that is not on disk (NoFreelistSync) is no profile: rebuilding it
// reads the whole file at every open, which warms what is to be measured cold.
func profiles() []adapter.Profile[settings] {
	return []adapter.Profile[settings]{
		adapter.Named("async", "commits do not wait for the disk (NoSync), as the other engines "+
			"are run here; freelist in a hash map",
			settings{NoSync: true, FreelistType: string(bbolt.FreelistMapType)}),
		adapter.Named("default", "the library's own: every commit waits for the disk twice; "+
			"freelist in an array",
			settings{FreelistType: string(bbolt.FreelistArrayType)}),
	}
}

// overridable are the options that can be overridden.
func overridable(s *settings) []adapter.Option {
	return []adapter.Option{
		adapter.Switch("NoSync", &s.NoSync).Means("commits do not wait for the disk"),
		adapter.Choice("FreelistType", &s.FreelistType, string(bbolt.FreelistMapType),
			string(bbolt.FreelistArrayType)).Means("how free pages are kept in memory"),
		adapter.PowerOfTwo("PageSize", "4096", &s.PageSize, 1<<10, 1<<16).
			Means("size of a page; that of the operating system if not given"),
	}
}

func resolve(info engine.Info, o engine.Options) (*bbolt.Options, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, overridable)

	// No Logger: with one, even one that drops everything, every Put is slower.
	return &bbolt.Options{
		Timeout:      lockTimeout,
		NoSync:       s.NoSync,
		FreelistType: bbolt.FreelistType(s.FreelistType),
		PageSize:     s.PageSize,
		NoStatistics: true, // a lock that all readers share
	}, errs
}

// CacheBytes is 0: there is no block cache.
func (*db) CacheBytes() int64 { return 0 }

func (d *db) Effective() map[string]string {
	return map[string]string{
		"cache_bytes":  "0",
		"handles":      "0",
		"NoSync":       strconv.FormatBool(d.options.NoSync),
		"FreelistType": string(d.options.FreelistType),
		"PageSize":     strconv.Itoa(d.bolt.Info().PageSize),
		"ReadOnly":     strconv.FormatBool(d.bolt.IsReadOnly()),
	}
}
