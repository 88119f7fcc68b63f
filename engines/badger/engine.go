//go:build linux

// Package badger adapts Badger v4, the LSM tree of Dgraph with memory-mapped tables
// and large values kept apart.
//
// Indexes and filters are read where they are mapped, so the page cache holds them;
// blocks are, too, unless they are compressed: then a block cache keeps them
// decompressed. There are no read calls to count. Values up to ValueThreshold are
// in the tables: with the profiles, all that a state database has.
//
// A memory budget is split so: a quarter for the write buffers (one filling, others
// waiting to be flushed, each a third larger than its name says), half for the
// block cache where there is one, the rest is left to the page cache, which the
// harness holds to it.
//
// Readers take a new transaction only after a commit: beginning one adds about a
// third to a warm lookup (BenchmarkGet).
package badger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/failure"
)

// Engine is Badger.
type Engine struct{}

const version = "v4.9.6"

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:          "badger",
		Version:       adapter.Version("github.com/dgraph-io/badger/v4", version),
		Route:         "go module",
		Licence:       "Apache-2.0",
		Durability:    "kill: every commit survives (its log is memory-mapped); power cut: what was synced or flushed before it",
		Capabilities:  []engine.Capability{engine.UsesPageCache, engine.FaultsInGo, engine.CanBudget, engine.HasNoHandles, engine.AllocatesPerGet},
		Profiles:      adapter.Infos(profiles()),
		StoredOptions: []string{"ValueThreshold", "BaseTableSize", "BaseLevelSize", "BlockSize", "Compression"},
	}
}

// Check names what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	_, errs := resolve(e.Info(), o)
	return errs
}

// Open opens or creates the database in o.Dir.
func (e Engine) Open(_ context.Context, o engine.Options) (engine.DB, error) {
	s, errs := resolve(e.Info(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	o.ReadOnly = o.ReadsOnly()
	if err := adapter.CheckDir(o, badger.ManifestFilename); err != nil {
		return nil, err
	}
	if err := checkUnlocked(o.Dir, o.ReadOnly); err != nil {
		return nil, fmt.Errorf("badger: open %s: %w", o.Dir, err)
	}
	log := &logger{tell: o.Log}
	opened, err := badger.Open(s.translate(o, log))
	if err != nil {
		return nil, fmt.Errorf("badger: open %s: %w", o.Dir, err)
	}
	if !s.Readahead {
		if err := withoutReadahead(o.Dir); err != nil {
			return nil, errors.Join(fmt.Errorf("badger: open %s: %w", o.Dir, err), opened.Close())
		}
	}
	return &db{badger: opened, settings: s, dir: o.Dir, log: log, before: readGlobals()}, nil
}

// checkUnlocked fails if another process holds the directory: Badger's own error
// does not tell it from others.
func checkUnlocked(dir string, readOnly bool) error {
	file, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	kind := unix.LOCK_EX
	if readOnly {
		kind = unix.LOCK_SH
	}
	err = unix.Flock(int(file.Fd()), kind|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &engine.LockedError{Dir: dir, Hint: "stop that process: Badger cannot read beside a writer"}
	}
	return errors.Join(err, file.Close())
}

// logger passes Badger's messages on and notes what it can do no more: it tells so
// nowhere else.
type logger struct {
	tell   func(string) // may be nil
	failed atomic.Pointer[error]
}

// Errorf notes a failing flush, which Badger tries again for ever.
func (l *logger) Errorf(format string, args ...any) {
	if failure.Badger(format) == engine.CodeIO {
		err := errors.New(message(format, args))
		l.failed.CompareAndSwap(nil, &err)
	}
	l.say(format, args)
}

func (l *logger) Warningf(format string, args ...any) { l.say(format, args) }

func (l *logger) Infof(format string, args ...any) { l.say(format, args) }

// Debugf is dropped: it tells of every batch.
func (*logger) Debugf(string, ...any) {}

func (l *logger) say(format string, args []any) {
	if l.tell != nil {
		l.tell(message(format, args))
	}
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
