//go:build cgo

// Package mdbx adapts libmdbx, the engine of Erigon and reth.
//
// The database is one file mapped into memory: its cache is the page cache, and a
// read of the device is a page fault. The kernel counts those; the adapter counts
// the pages that a Get touches. Databases of other programs are read without a
// change to any file of theirs.
//
// Non-goals: duplicate values of a key (a Get returns the first), writing into
// tables by name, databases that another process has open.
package mdbx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

// Engine is libmdbx.
type Engine struct{}

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:    "mdbx",
		Version: strings.TrimPrefix(mdbx.Version(), "v"),
		Route:   "go module github.com/erigontech/mdbx-go v0.39.8 (cgo)",
		Licence: "Apache-2.0",
		Durability: "a kill: all that was committed; a power cut: what was committed before the last sync" +
			" (sync_mode=durable: all; utterly_nosync: perhaps nothing)",
		Capabilities: []engine.Capability{
			engine.CanReadForeign, engine.UsesPageCache, engine.CanBudget, engine.HasNoCache, engine.HasNoHandles,
		},
		Profiles:      adapter.Infos(profiles()),
		StoredOptions: []string{"page_size"},
	}
}

// Check names what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

const dataFile = "mdbx.dat"

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
	if err != nil {
		return nil, fmt.Errorf("mdbx: open %s: %w", o.Dir, translate(err, o))
	}
	return d, nil
}

// checkDir finds whoever has the database open: libmdbx would wait for ever for a lock on
// the data alone.
func checkDir(o engine.Options) error {
	access := mmapdb.ToWrite
	if o.ReadOnly {
		access = mmapdb.ToRead
	}
	return mmapdb.CheckDir(o, dataFile, dataFile, access, 0, locked(o))
}

// locked has no flag to offer: a reader that the holder does not know of would
// see its pages change, and one it knows of is a change to its lock file and
// keeps it from reusing pages.
func locked(o engine.Options) error {
	return &engine.LockedError{Dir: o.Dir, Hint: "stop it, or measure a copy made by mdbx_copy"}
}

// translate gives libmdbx's refusals the types that the harness knows.
func translate(err error, o engine.Options) error {
	failed, is := errors.AsType[*mdbx.OpError](err)
	if !is {
		return err
	}
	const busy, wannaRecovery = mdbx.Errno(-30778), mdbx.Errno(-30419)
	switch failed.Errno {
	case busy, syscall.EAGAIN:
		return locked(o)
	case mdbx.Invalid, mdbx.VersionMismatch:
		return &engine.NotADatabaseError{Dir: o.Dir, Why: failed.Errno.Error()}
	case wannaRecovery:
		return fmt.Errorf("%w: it was not closed cleanly, and reading leaves it as it is: open and close it with its own program first", err)
	}
	return err
}

func open(o engine.Options, s settings) (d *db, err error) {
	env, err := mdbx.NewEnv(mdbx.Default)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			env.Close()
		}
	}()
	config := mmapdb.Config{
		Name: "mdbx", ReadOnly: o.ReadOnly, Budget: o.MemoryBytes,
		Sync:  func() error { const force, wait = true, false; return env.Sync(force, wait) },
		Close: func() error { env.Close(); return nil },
	}
	if !o.ReadOnly {
		config.Dirty = dirtyBytes(o.MemoryBytes)
	}
	d = &db{DB: mmapdb.New(config), env: env, settings: s, readOnly: o.ReadOnly}
	if err := d.configure(o.Create); err != nil {
		return nil, err
	}
	// Exclusive: no other process may change what we measure.
	flags := uint(mdbx.Exclusive)
	if !s.readAhead {
		flags |= mdbx.NoReadahead
	}
	if o.ReadOnly {
		flags |= mdbx.Readonly
	} else {
		flags |= syncModes()[s.syncMode]
	}
	if o.Foreign {
		err = openBeside(env, o.Dir, flags)
	} else {
		err = env.Open(o.Dir, flags, 0o644)
	}
	if err != nil {
		return nil, err
	}
	return d, d.openTable(o)
}

// openBeside opens the database in dir through a folder of ours, so that the lock
// file, which libmdbx writes even to read, is ours too. The lock on the data file,
// which keeps writers away, is on the real one.
func openBeside(env *mdbx.Env, dir string, flags uint) (err error) {
	data, err := filepath.Abs(filepath.Join(dir, dataFile))
	if err != nil {
		return err
	}
	aside, err := os.MkdirTemp("", "statelab-mdbx-")
	if err != nil {
		return err
	}
	// Once open, nothing in it is asked for by name.
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	if err := os.Symlink(data, filepath.Join(aside, dataFile)); err != nil {
		return err
	}
	return env.Open(aside, flags, 0o600)
}

// configure sets what libmdbx wants to know before it opens.
func (d *db) configure(create bool) error {
	err := errors.Join(d.env.SetOption(mdbx.OptMaxReaders, uint64(d.settings.maxReaders)), d.env.SetOption(mdbx.OptMaxDB, mmapdb.MostTables+1))
	if err != nil || d.readOnly {
		return err
	}
	const asIs, never = -1, 0
	pageBytes := asIs
	if create {
		pageBytes = d.settings.pageBytes
	}
	return d.env.SetGeometry(asIs, asIs, d.settings.upperBytes, d.settings.growthBytes, never, pageBytes)
}

// openTable opens the table to look keys up in and checks that it can answer.
func (d *db) openTable(o engine.Options) error {
	err := d.env.View(func(txn *mdbx.Txn) error {
		root, err := txn.OpenRoot(0)
		d.Chosen = []mdbx.DBI{root}
		if err != nil || !o.ReadOnly {
			return err
		}
		d.Tables, err = mmapdb.Choose(txn, root, words(), d.settings.table,
			func(name string) (mdbx.DBI, error) { return txn.OpenDBISimple(name, mdbx.DBAccede) },
			func(table mdbx.DBI) (mmapdb.Stat, error) { return statOf(txn, table) })
		return err
	})
	if err != nil || d.readOnly || o.MemoryBytes == 0 {
		return err
	}
	info, err := d.env.Info(nil)
	if err == nil {
		err = d.env.SetOption(mdbx.OptTxnDpLimit, uint64(dirtyBytes(o.MemoryBytes)/int64(info.PageSize)))
	}
	return err
}
