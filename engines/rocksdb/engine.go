//go:build cgo

// Package rocksdb adapts RocksDB through its C interface, from a shared library
// that is loaded at run time: the official Java artifact's (fetch.sh) or the
// system's.
//
// Block reads, accesses and bytes come from RocksDB's own statistics; what they
// leave open is said in docs/rocksdb.md.
//
// A Get goes to one column family, which the option table names.
//
// Another program's database is read with the options of its OPTIONS file (kept.go).
//
// Non-goals: levels of single reads, which RocksDB counts by type only; comparators and merge
// operators of other programs; libraries built against another C++ runtime.
package rocksdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/rocksoptions"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Engine is RocksDB.
type Engine struct{}

// Info describes the adapter; the version is the loaded library's, or the one
// that fetch.sh gets.
func (Engine) Info() engine.Info {
	version, err := load()
	if err != nil {
		version = wantVersion
	}

	return engine.Info{
		Name:    "rocksdb",
		Version: version,
		Route:   "shared library, loaded at run time",
		Licence: "Apache-2.0 or GPL-2.0",
		Durability: "a commit is in the kernel's hands: it survives a kill of the process; a " +
			"power cut takes those since the last Sync",
		Capabilities: []engine.Capability{engine.CanReadBlocks, engine.CanDirect,
			engine.CanReadForeign, engine.CanBudget},
		Profiles:      adapter.Infos(rocksoptions.Profiles()),
		StoredOptions: storedOptions(),
		Options: []engine.Option{
			{
				Name:   tableOption,
				Values: "a column family, or a mix such as a=70;b=30",
				About:  "the column family that is looked up; default if none is named",
			},
			{
				Name:    cacheOption,
				Default: "lru",
				Values:  "lru, hyper-clock, or hyper-clock:8192 (a fixed table for such blocks)",
				About:   "kind of the block cache, which no option of RocksDB names",
			},
			{
				Name:   "NAME",
				Values: "as in an OPTIONS file",
				About: "any other option of DBOptions, ColumnFamilyOptions or " +
					"BlockBasedTableOptions, by RocksDB's own name, such as block_size=8192",
			},
		},
	}
}

// Ready says how to get the library, if it is missing.
func (Engine) Ready() error {
	_, err := load()
	return err
}

// Check names what is wrong with o. Option names and values are judged by RocksDB
// itself.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

// Open opens or creates the database in o.Dir.
func (e Engine) Open(ctx context.Context, o engine.Options) (engine.DB, error) {
	s, errs := resolve(e.Info(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	if err := checkDir(o); err != nil {
		return nil, err
	}

	opened, err := adapter.RetryOpen(ctx, o.Dir, o.IgnoreLock, func() (*db, error) {
		return open(s)
	})
	if err != nil {
		return nil, fmt.Errorf("rocksdb: open %s: %w", o.Dir, err)
	}

	return opened, nil
}

func checkDir(o engine.Options) error {
	if err := adapter.CheckDir(o, "CURRENT"); err != nil || o.Create || !o.Direct {
		return err
	}
	return blockio.CheckDirect(o.Dir)
}
