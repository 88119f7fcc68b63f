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
	"strconv"
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
		Durability: "a kill: all that was committed; a power cut: what was committed before the " +
			"last sync" +
			" (sync_mode=durable: all; utterly_nosync: perhaps nothing)",
		Capabilities: []engine.Capability{
			engine.CanReadForeign, engine.UsesPageCache, engine.CanBudget, engine.HasNoCache,
			engine.HasNoHandles,
		},
		Profiles:      adapter.Infos(profiles()),
		Options:       adapter.OptionsOf(profiles(), overridable),
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
	case mdbx.VersionMismatch:
		return engine.Fail(engine.CodeUnsupported,
			"%w: a version of libmdbx wrote it that %s does not read", err, mdbx.Version()).
			WithRemedy("copy it: mdbx_dump -a of that version, piped into mdbx_load of this one")
	case mdbx.Invalid:
		return &engine.NotADatabaseError{Dir: o.Dir, Why: failed.Errno.Error()}
	case mdbx.Corrupted, mdbx.Incompatible:
		return engine.Fail(engine.CodeDamaged, "%w: the file is damaged, or a version of libmdbx "+
			"wrote it that this one does not read", err).
			WithRemedy("ask libmdbx's own tool: mdbx_chk -v %s", filepath.Join(o.Dir, dataFile))
	case wannaRecovery:
		return fmt.Errorf("%w: it was not closed cleanly, and reading leaves it as it is: open "+
			"and close it with its own program first", err)
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
		Name: "mdbx", Path: filepath.Join(o.Dir, dataFile),
		ReadOnly: o.ReadOnly, Budget: o.MemoryBytes,
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
	err := errors.Join(d.env.SetOption(mdbx.OptMaxReaders, uint64(d.settings.maxReaders)),
		d.env.SetOption(mdbx.OptMaxDB, mmapdb.MaxTables+1))
	if err != nil || d.readOnly {
		return err
	}

	const asIs, never = -1, 0
	pageBytes := asIs
	if create {
		pageBytes = d.settings.pageBytes
	}

	return d.env.SetGeometry(asIs, asIs, d.settings.upperBytes, d.settings.growthBytes, never,
		pageBytes)
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
		err = d.env.SetOption(mdbx.OptTxnDpLimit,
			uint64(dirtyBytes(o.MemoryBytes)/int64(info.PageSize)))
	}

	return err
}

// settings are the engine's, profile and overrides together.
type settings struct {
	readAhead bool
	syncMode  string
	table     mmapdb.TableOption

	maxReaders  int
	pageBytes   int // of a new database
	upperBytes  int // address space, and the most the file can grow to
	growthBytes int // step by which the file grows, sparse
}

const (
	// Erigon's and reth's.
	defaultPageBytes  = 4 << 10
	defaultUpperBytes = 2 << 40
	// Small, so that the file of a small database is not mostly a hole.
	defaultGrowthBytes = 16 << 20

	maxReaders     = 32767 // libmdbx's own limit
	defaultReaders = 8192  // goroutines, not threads
)

func profiles() []adapter.Profile[settings] {
	common := settings{
		syncMode: "safe_nosync", maxReaders: defaultReaders,
		pageBytes: defaultPageBytes, upperBytes: defaultUpperBytes, growthBytes: defaultGrowthBytes,
	}

	ahead := common
	ahead.readAhead = true
	return []adapter.Profile[settings]{
		adapter.Named("noreadahead", "MDBX_NORDAHEAD: a fault reads one page (Erigon, reth)",
			common),
		adapter.Named("readahead", "the kernel reads ahead, where libmdbx expects the database "+
			"to fit into memory", ahead),
	}
}

// syncModes are what Commit waits for.
func syncModes() map[string]uint {
	return map[string]uint{
		"safe_nosync":    mdbx.SafeNoSync,
		"utterly_nosync": mdbx.UtterlyNoSync,
		"durable":        mdbx.Durable,
	}
}

// minBudget leaves libmdbx the dirty pages it cannot do without.
const minBudget = 4 << 20

// overridable are the options that can be overridden.
func overridable(s *settings) []adapter.Option {
	return []adapter.Option{
		s.table.Option("PlainState"),
		adapter.Choice("sync_mode", &s.syncMode, "safe_nosync", "utterly_nosync", "durable").
			Means("what a commit waits for"),
		mmapdb.Readers(&s.maxReaders, 4, maxReaders),
		adapter.PowerOfTwo("page_size", "4096", &s.pageBytes, mdbx.MinPageSize,
			mdbx.MaxPageSize).Means("size of a page"),
		adapter.Size("size_upper", "2TiB", &s.upperBytes, 1<<20).
			Means("largest size of the file"),
		adapter.Size("growth_step", "16MiB", &s.growthBytes, 1<<16).
			Means("by how much the file grows"),
	}
}

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, overridable)

	if o.MemoryBytes > 0 && o.MemoryBytes < minBudget {
		errs = append(errs,
			fmt.Errorf("mdbx: a budget of %d bytes is below the %d that writing needs: write "+
				"--memory 64MiB", o.MemoryBytes, minBudget))
	}

	return s, append(errs, s.table.Check(info.Name, o)...)
}

// dirtyBytes is the part of a budget for pages that a write transaction changed:
// they are in the process's own memory until it commits.
func dirtyBytes(budget int64) int64 { return budget / 4 }

// CacheBytes is 0: there is no block cache.
func (*db) CacheBytes() int64 { return 0 }

// Effective are the options in libmdbx's names.
func (d *db) Effective() map[string]string {
	s := d.settings
	e := map[string]string{
		"cache_bytes": "0", "handles": "0",
		"MDBX_NORDAHEAD": strconv.FormatBool(!s.readAhead),
		"max_readers":    strconv.Itoa(s.maxReaders),
		"table":          s.table.Text,
	}

	if !d.readOnly {
		e["sync_mode"] = s.syncMode
		if limit, err := d.env.GetOption(mdbx.OptTxnDpLimit); err == nil {
			e["txn_dp_limit"] = strconv.FormatUint(limit, 10)
		}
	}

	if info, err := d.env.Info(nil); err == nil {
		e["page_size"] = strconv.FormatUint(uint64(info.PageSize), 10)
		e["size_upper"] = strconv.FormatUint(info.Geo.Upper, 10)
		e["growth_step"] = strconv.FormatUint(info.Geo.Grow, 10)
	}

	return e
}
