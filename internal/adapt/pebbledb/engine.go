package pebbledb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Library is a version of Pebble. Its zero value is used.
type Library interface {
	About() About
	// Check names what the version does not accept of options.
	Check(s Settings, o engine.Options) error
	// Open opens o.Dir. Reads of tables are counted by recorder; events are told to
	// events.
	Open(
		s Settings, o engine.Options, recorder *blockio.Recorder, events *Events,
	) (Version, Config, error)
}

// About describes a library.
type About struct {
	Name, Version string // of the adapter, of the library
	Profiles      []Profile
	Also          []engine.Capability // beyond those of both versions
}

// Engine is the adapter of L.
type Engine[L Library] struct{}

// traceCacheBytes is too small for any block to be admitted.
const traceCacheBytes = 1

// Info describes the adapter.
func (Engine[L]) Info() engine.Info {
	var library L
	about := library.About()
	return engine.Info{
		Name:    about.Name,
		Version: about.Version,
		Route:   "go module, " + BuiltAs,
		Licence: "BSD-3-Clause",
		Durability: "commits reach the WAL without waiting: a killed process loses those since " +
			"the last Sync",
		Capabilities: append([]engine.Capability{
			engine.CanReadBlocks, engine.CanDirect, engine.CanReadForeign,
			engine.CanTraceAccesses, engine.CanBudget,
		}, about.Also...),
		Profiles: adapter.Infos(about.Profiles),
		Options:  adapter.OptionsOf(about.Profiles, options),
		StoredOptions: []string{"BlockSize", "IndexBlockSize", "TargetFileSize", "Compression",
			"FilterBitsPerKey", "FilterLevels", "LBaseMaxBytes",
			"FlushSplitBytes"},
	}
}

// Check names what is wrong with o.
func (Engine[L]) Check(o engine.Options) []error {
	var library L
	about := library.About()
	s, errs := Resolve(about.Profiles, o)
	if len(errs) > 0 {
		return errs
	}

	if err := library.Check(s, o); err != nil {
		return []error{fmt.Errorf("options of %s: %w", about.Version, err)}
	}

	return nil
}

// Open opens or creates the database in o.Dir.
func (e Engine[L]) Open(ctx context.Context, o engine.Options) (engine.DB, error) {
	if err := errors.Join(e.Check(o)...); err != nil {
		return nil, err
	}

	var library L
	name := library.About().Name
	o.ReadOnly = o.ReadsOnly()
	opened, err := adapter.RetryOpen(ctx, o.Dir, o.IgnoreLock, func() (*live, error) {
		if err := CheckDir(o, name); err != nil {
			return nil, err
		}

		opened, err := open(ctx, library, o)
		if err != nil {
			return nil, fmt.Errorf("%s: open %s: %w", name, o.Dir, err)
		}

		return opened, nil
	})
	if err != nil {
		return nil, err
	}

	return &DB{live: opened, library: library, opened: o}, nil
}

func open(ctx context.Context, library Library, o engine.Options) (*live, error) {
	s, errs := Resolve(library.About().Profiles, o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	logs := []string{o.Dir}
	if o.Foreign {
		var err error
		if s.Kept, err = dbformat.ReadKeptByPebble(o.Dir); err != nil {
			return nil, err
		}

		if logs = s.Kept.Logs; s.Kept.NoFilters {
			s.passOverFilters()
		}
		s.obeyOpenFiles(o)
	}

	if o.TraceAccesses {
		s.CacheBytes = traceCacheBytes
	}

	if o.Direct && !o.Create {
		if err := blockio.CheckDirect(o.Dir); err != nil {
			return nil, err
		}
	}

	asked := s.MaxOpenFiles
	if o.Handles == 0 {
		s.MaxOpenFiles = affordable(s.MaxOpenFiles, o)
	}

	recorder, events := blockio.NewRecorder(pebble2fs.LayoutReader(s.Kept), o.Direct), newEvents()
	recorder.Accessed = o.Accessed
	var version Version
	var config Config
	err := blockio.DetectWALRemoval(logs, o.IgnoreLock, func() (err error) {
		version, config, err = library.Open(s, o, recorder, events)
		return err
	})

	if version == nil {
		return nil, dbformat.RemoteObjects(o.Dir, err)
	}

	if err == nil && o.Direct && o.Create { // now there is a file to try it on
		err = blockio.CheckDirect(o.Dir)
	}

	if o.IgnoreLock && err == nil {
		err = version.OpenTables()
	}

	if err != nil {
		return nil, errors.Join(err, version.Close())
	}

	config.adapter, config.dir, config.log = library.About().Name, o.Dir, o.Log
	config.askedHandles, config.asksFilters, config.kept = asked, s.AsksFilters(), s.Kept
	config.lastFilters = s.UseL6Filters
	if !o.Foreign { // else the tables have what their owner gave them
		config.filterBits = s.filterBits(config.adapter)
	}
	config.readOnly, config.disableWAL, config.part, config.table = o.ReadOnly, s.DisableWAL,
		o.Part, s.Table
	started, err := start(ctx, config, version, recorder, events)
	return started, dbformat.RemoteObjects(o.Dir, err)
}

// obeyOpenFiles takes the limit of open files from the database's owner, unless o sets it.
func (s *Settings) obeyOpenFiles(o engine.Options) {
	if _, is := o.Overrides["MaxOpenFiles"]; !is && o.Handles == 0 && s.Kept.MaxOpenFiles > 0 {
		s.MaxOpenFiles = s.Kept.MaxOpenFiles
	}
}

// OpenFiles are the limit of open files and the shards of the table cache with which a database is
// opened: those of o, or of its owner, whose options are kept, where it is another program's.
func (s *Settings) OpenFiles(o engine.Options, kept dbformat.KeptByPebble) (limit, shards int) {
	shards = runtime.GOMAXPROCS(0)
	if o.Foreign {
		s.Kept = kept
		s.obeyOpenFiles(o)
		shards = cmp.Or(kept.TableCacheShards, shards)
	}
	const libraryLimit = 1000
	return cmp.Or(s.MaxOpenFiles, libraryLimit), shards
}

// spareFiles are left for logs, manifests, the other end of a runner and what else
// a process opens.
const spareFiles = 256

// affordable are the open files that a profile allows, or fewer where the database
// already has more tables than this process may open: Pebble would fail on one.
func affordable(handles int, o engine.Options) int {
	limit, known := mayOpen()
	if !known {
		return handles
	}

	each := uint64(1)
	if o.Direct {
		each = 2 // a table is opened a second time
	}

	tables, err := filepath.Glob(filepath.Join(o.Dir, "*.sst"))
	if err != nil || uint64(len(tables))*each+spareFiles <= limit {
		return handles
	}

	return min(handles, int((max(limit, 2*spareFiles)-spareFiles)/each))
}

// DB is an open database of either version.
type DB struct {
	*live // of another opening after a build

	library Library
	opened  engine.Options // what Open was told
	written atomic.Int64   // keys and values committed, bytes
	built   atomic.Int64   // bytes ingested by BuildSorted, whose handle had metrics of its own
}

// Reader returns a reader of the version's.
func (d *DB) Reader() (engine.Reader, error) { return d.version.Reader(d.config.lastFilters), nil }

// Writer returns a writer of batches.
func (d *DB) Writer() (engine.Writer, error) {
	if d.config.readOnly {
		return nil, d.errReadOnly()
	}
	return d.version.Writer(d), nil
}

func (d *DB) errReadOnly() error {
	return fmt.Errorf("%s: the database is open for reading only", d.config.adapter)
}
