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
		Name:       "lmdb",
		Version:    fmt.Sprintf("%d.%d.%d", major, minor, patch),
		Route:      "go module github.com/PowerDNS/lmdb-go v1.9.3 (cgo)",
		Licence:    "OLDAP-2.8",
		Durability: "a kill: all that was committed; a power cut between syncs: the database may be lost (sync_mode=durable: nothing is)",
		Capabilities: []engine.Capability{
			engine.CanReadForeign, engine.UsesPageCache, engine.CanBudget, engine.HasNoCache, engine.HasNoHandles,
		},
		Profiles: adapter.Infos(profiles()),
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
	if lmdb.IsErrno(err, lmdb.Invalid) || lmdb.IsErrno(err, lmdb.VersionMismatch) {
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
	if err := env.SetMaxReaders(s.maxReaders); err != nil {
		return nil, err
	}
	if err := env.SetMaxDBs(mmapdb.MostTables + 1); err != nil {
		return nil, err
	}
	if err := env.SetMapSize(s.mapBytes); err != nil {
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
		Name: "lmdb", ReadOnly: o.ReadOnly, Budget: o.MemoryBytes,
		Sync:  func() error { const force = true; return env.Sync(force) },
		Close: env.Close,
	})
	return d, env.View(func(txn *lmdb.Txn) (err error) {
		d.opened = txn.ID()
		return d.openTable(txn, o)
	})
}

// openTable opens the table to look keys up in. The root of an environment with named
// databases holds their records, which are no keys of anybody.
func (d *db) openTable(txn *lmdb.Txn, o engine.Options) error {
	root, err := txn.OpenRoot(0)
	d.chosen = []lmdb.DBI{root}
	if err != nil || !o.ReadOnly {
		return err
	}
	d.tables, err = mmapdb.NamedTables(txn, root, words(), func(name string) (engine.Table, bool) { return tableOf(txn, name) })
	if err != nil {
		return err
	}
	if d.settings.table == "" {
		if len(d.tables) > 0 {
			d.noTable = adapter.ChooseTable("", d.tables)
		}
		return nil
	}
	d.chosen = nil
	for _, p := range d.settings.mix {
		table, err := txn.OpenDBI(p.Name, 0)
		if err != nil {
			return adapter.ChooseTable(p.Name, d.tables)
		}
		d.chosen = append(d.chosen, table)
	}
	return nil
}

func tableOf(txn *lmdb.Txn, name string) (engine.Table, bool) {
	table, err := txn.OpenDBI(name, 0)
	if err != nil {
		return engine.Table{}, false
	}
	stat, err := txn.Stat(table)
	if err != nil {
		return engine.Table{}, false
	}
	flags, err := txn.Flags(table)
	return engine.Table{Name: name, Keys: int64(stat.Entries), Bytes: int64(stat.BranchPages+stat.LeafPages+stat.OverflowPages) * int64(stat.PSize),
		SeveralValues: flags&lmdb.DupSort != 0}, err == nil
}
