// Package goleveldb adapts goleveldb, the LevelDB in Go that go-ethereum kept its
// database in before Pebble, and that Cosmos nodes still use by default.
//
// Block reads are counted at the storage layer by internal/observe/blockio: the footer and
// index of a table say what lies where, the engine's list of tables says on which
// level. A LevelDB table has one index block, whole, and one filter block, which go
// through the block cache like data; so opening a table costs two meta reads
// (footer, metaindex) and keeps next to nothing outside the cache. The cache charges
// the buffer a block is in, and a block slightly above BlockSize, which is nearly
// every one, is in a buffer of twice that: half the cache is air.
//
// Compactions read through the same descriptors as Gets and cannot be told from
// them: Warnings says where some ran after the last Settle.
//
// A memory budget is split as go-ethereum did it: two write buffers of a quarter
// each (or of what the profile fixes, if that is less), the rest for the block
// cache, less 1 KiB for each table that may be open. Not charged: buffers between
// a read and its return to the pool, a few blocks per reader.
package goleveldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb"
	ldberrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// Engine is goleveldb.
type Engine struct{}

const name = "goleveldb"

// version is the one go-ethereum pins.
const version = "v1.0.1-0.20220721030215-126854af5e6d"

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:       name,
		Version:    adapter.Version("github.com/syndtr/goleveldb", version),
		Route:      "go module",
		Licence:    "BSD-2-Clause",
		Durability: "kill: every commit survives (it is in the journal); power cut: what was synced or flushed before it",
		Capabilities: []engine.Capability{
			engine.CanReadBlocks, engine.CanDirect, engine.CanReadForeign, engine.CanTraceAccesses, engine.CanBudget, engine.AllocatesPerGet,
		},
		Profiles:      adapter.Infos(profiles()),
		StoredOptions: []string{"BlockSize", "CompactionTableSize", "CompactionTotalSize", "BloomBitsPerKey", "Compression"},
	}
}

// Check names what is wrong with o.
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
	o.ReadOnly = o.ReadsOnly()
	check := checkIsDatabase
	if o.Create {
		check = adapter.MakeEmpty
	}
	if err := check(o.Dir); err != nil {
		return nil, err
	}
	opened, err := adapter.Beside(ctx, o.Dir, o.IgnoreLock, func() (*db, error) { return open(ctx, o, s) })
	if err != nil {
		return nil, fmt.Errorf("goleveldb: open %s: %w", o.Dir, err)
	}
	return opened, nil
}

// checkIsDatabase refuses what LevelDB's heirs left: they, too, have a file
// CURRENT, but name their options.
func checkIsDatabase(dir string) error {
	if err := adapter.CheckHolds(dir, "CURRENT"); err != nil {
		return err
	}
	others, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err == nil && len(others) > 0 {
		return &engine.NotADatabaseError{Dir: dir, Why: "it is of Pebble or RocksDB: use pebble1, pebble2 or rocksdb"}
	}
	return err
}

func open(ctx context.Context, o engine.Options, s settings) (_ *db, err error) {
	if o.Direct {
		if err := checkDirect(o); err != nil {
			return nil, err
		}
	}
	base, err := openBase(o)
	if err != nil {
		return nil, err
	}
	recorder := blockio.NewRecorder(learner(s.BlockSize), o.Direct)
	recorder.Accessed = o.Accessed
	counting, err := newCounting(base, o.Dir, recorder, o.Log)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	var opened *leveldb.DB
	err = blockio.KeepingLogs([]string{o.Dir}, o.IgnoreLock, func() (err error) {
		opened, err = leveldb.Open(counting, s.translate(o))
		return err
	})
	if opened == nil {
		if wrong, is := errors.AsType[*leveldb.ErrManifestCorrupted](manifestError(err)); is && wrong.Field == "comparer" {
			f := engine.Fail(engine.CodeUnsupported, "its keys are not in LevelDB's own order but in that of the program that owns it (%s)", wrong.Reason)
			f.Remedy = "let that program copy the keys to a database in LevelDB's own order"
			return nil, errors.Join(f, base.Close())
		}
		if ldberrors.IsCorrupted(err) && !errors.Is(err, fs.ErrNotExist) {
			err = &engine.NotADatabaseError{Dir: o.Dir, Why: err.Error()}
		}
		return nil, errors.Join(err, base.Close())
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close(), base.Close())
	}
	d := newDB(o, s, opened, counting, recorder)
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// manifestError is what goleveldb found in the manifest; its error type does not unwrap.
func manifestError(err error) error {
	if corrupted, is := errors.AsType[*ldberrors.ErrCorrupted](err); is {
		return corrupted.Err
	}
	return nil
}

// checkDirect tries O_DIRECT on a file of the database, or on one of its own
// where there is none yet.
func checkDirect(o engine.Options) error {
	if !o.Create {
		return blockio.CheckDirect(o.Dir)
	}
	trial, err := os.CreateTemp(o.Dir, "direct")
	if err != nil {
		return err
	}
	return errors.Join(trial.Close(), blockio.CheckDirect(o.Dir), os.Remove(trial.Name()))
}

// openBase opens the files: for writing as goleveldb does, else in a way that
// changes none.
func openBase(o engine.Options) (storage.Storage, error) {
	if o.ReadOnly {
		return openReadOnly(o.Dir, o.IgnoreLock)
	}
	base, err := storage.OpenFile(o.Dir, false)
	if err != nil {
		return nil, blockio.AsLocked(err, filepath.Join(o.Dir, lockName))
	}
	return base, nil
}
