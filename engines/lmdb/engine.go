//go:build cgo

// Package lmdb adapts LMDB.
//
// The database is one file mapped into memory: its cache is the page cache, and a
// read of the device is a page fault. The kernel counts those; the adapter counts
// the pages that a Get touches. Databases of other programs are read without a
// change to any file of theirs.
//
// Non-goals: writing to named tables, several values under a key (a Get returns the
// first), databases that another process has open.
package lmdb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

// Engine is LMDB.
type Engine struct{}

// Info describes the adapter.
func (Engine) Info() engine.Info {
	major, minor, patch, _ := lmdb.Version()
	return engine.Info{
		Name:    "lmdb",
		Version: fmt.Sprintf("%d.%d.%d", major, minor, patch),
		Route:   "go module github.com/PowerDNS/lmdb-go v1.9.3 (cgo)",
		Licence: "OLDAP-2.8",
		Durability: "a kill: all that was committed; a power cut between syncs: the database may " +
			"be lost (sync_mode=durable: nothing is)",
		Capabilities: []engine.Capability{
			engine.CanReadForeign, engine.UsesPageCache, engine.CanBudget, engine.HasNoCache,
			engine.HasNoHandles,
		},
		Profiles: adapter.Infos(profiles()),
		Options:  adapter.OptionsOf(profiles(), overridable),
	}
}

// Check names what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

const (
	dataFile = "data.mdb"
	lockFile = "lock.mdb"
)

// Open opens or creates the database in o.Dir.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	s, errs := resolve(e.Info(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	o.Foreign = o.Foreign || o.IgnoreLock
	o.ReadOnly = o.ReadOnly || o.Foreign
	if err := checkDir(o); err != nil {
		return nil, err
	}

	d, err := open(o, s)
	if lmdb.IsErrno(err, lmdb.VersionMismatch) {
		return nil, engine.Fail(engine.CodeUnsupported, "lmdb: open %s: %w: another version of "+
			"LMDB wrote it", o.Dir, err).WithRemedy("copy it: mdb_dump -a of that version, piped " +
			"into mdb_load of LMDB 0.9")
	}

	if lmdb.IsErrno(err, lmdb.Invalid) {
		return nil, &engine.NotADatabaseError{Dir: o.Dir, Why: err.Error()}
	}

	if err != nil {
		return nil, fmt.Errorf("lmdb: open %s: %w", o.Dir, err)
	}

	return d, nil
}

// checkDir finds whoever has the database open, which holds the first byte. LMDB would
// let us in, as a reader that the holder knows of, by a change to its lock file. Beside a
// writer that does not know of it, LMDB ends the process: pages change under it.
func checkDir(o engine.Options) error {
	locked := &engine.LockedError{Dir: o.Dir, Hint: "stop it, or measure a copy made by mdb_copy"}
	return mmapdb.CheckDir(o, dataFile, lockFile, mmapdb.ToWrite, 1, locked)
}

func open(o engine.Options, s settings) (d *db, err error) {
	env, err := lmdb.NewEnv()
	if err != nil {
		return nil, err
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, env.Close())
		}
	}()

	if err := errors.Join(env.SetMaxReaders(s.maxReaders), env.SetMaxDBs(mmapdb.MaxTables+1),
		env.SetMapSize(s.mapBytes)); err != nil {
		return nil, err
	}

	var flags uint
	if !s.readAhead {
		flags |= lmdb.NoReadahead
	}

	switch {
	case o.Foreign: // without a lock file, so that none is written
		flags |= lmdb.Readonly | lmdb.NoLock
	case o.ReadOnly:
		flags |= lmdb.Readonly
	default:
		flags |= syncModes()[s.syncMode]
	}

	if err := env.Open(o.Dir, flags, 0o644); err != nil {
		return nil, err
	}

	d = &db{env: env, settings: s, readOnly: o.ReadOnly}
	d.DB = mmapdb.New(mmapdb.Config{
		// Pages that a commit changes are the process's own while it runs, as many as the
		// batch needs: no part of the budget is theirs.
		Name: "lmdb", Path: filepath.Join(o.Dir, dataFile),
		ReadOnly: o.ReadOnly, Budget: o.MemoryBytes,
		Sync:  func() error { const force = true; return env.Sync(force) },
		Close: env.Close,
	})

	return d, env.View(func(txn *lmdb.Txn) (err error) {
		d.opened = txn.ID()
		return d.openTable(txn)
	})
}

func (d *db) openTable(txn *lmdb.Txn) error {
	root, err := txn.OpenRoot(0)
	d.Chosen = []lmdb.DBI{root}
	if err != nil || !d.readOnly {
		return err
	}

	d.Tables, err = mmapdb.Choose(txn, root, words(), d.settings.table,
		func(name string) (lmdb.DBI, error) { return txn.OpenDBI(name, 0) },
		func(table lmdb.DBI) (mmapdb.Stat, error) { return statOf(txn, table) })
	return err
}

// settings are the engine's, profile and overrides together.
type settings struct {
	readAhead  bool
	syncMode   string
	maxReaders int
	table      mmapdb.TableOption
	mapBytes   int64 // address space, and the most the file can grow to
}

const (
	// Address space costs nothing; growing the map later would mean ending every
	// transaction first.
	defaultMapBytes = 1 << 40

	defaultReaders = 8192 // goroutines, not threads
	maxReaders     = 1 << 20
)

func profiles() []adapter.Profile[settings] {
	common := settings{syncMode: "nosync", maxReaders: defaultReaders, mapBytes: defaultMapBytes}
	ahead := common
	ahead.readAhead = true
	return []adapter.Profile[settings]{
		adapter.Named("noreadahead", "MDB_NORDAHEAD: a fault reads one page", common),
		adapter.Named("readahead", "the kernel reads ahead: LMDB's own default", ahead),
	}
}

// syncModes are what Commit waits for.
func syncModes() map[string]uint {
	return map[string]uint{"nosync": lmdb.NoSync, "nometasync": lmdb.NoMetaSync, "durable": 0}
}

// overridable are the options that can be overridden.
func overridable(s *settings) []adapter.Option {
	return []adapter.Option{
		s.table.Option("accounts"),
		adapter.Choice("sync_mode", &s.syncMode, "nosync", "nometasync", "durable").
			Means("what a commit waits for"),
		adapter.Size("map_size", "1TiB", &s.mapBytes, 1<<20).Means("largest size of the file"),
		mmapdb.Readers(&s.maxReaders, 1, maxReaders),
	}
}

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, overridable)

	return s, append(errs, s.table.Check(info.Name, o)...)
}

// CacheBytes is 0: there is no block cache.
func (*db) CacheBytes() int64 { return 0 }

// Effective are the options in LMDB's names.
func (d *db) Effective() map[string]string {
	s := d.settings
	e := map[string]string{
		"cache_bytes": "0", "handles": "0",
		"MDB_NORDAHEAD": strconv.FormatBool(!s.readAhead),
		"max_readers":   strconv.Itoa(s.maxReaders),
		"table":         s.table.Text,
	}

	if !d.readOnly {
		e["sync_mode"] = s.syncMode
	}

	if stat, err := d.env.Stat(); err == nil {
		e["page_size"] = strconv.FormatUint(uint64(stat.PSize), 10)
	}

	if info, err := d.env.Info(); err == nil {
		e["map_size"] = strconv.FormatInt(info.MapSize, 10)
	}

	return e
}
