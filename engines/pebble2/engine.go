// Package pebble2 adapts Pebble v2, the engine of go-ethereum databases made
// since version 1.17.
//
// Block reads are counted at the file layer by internal/observe/blockio; what Pebble
// counts itself is passed on for self-checks.
package pebble2

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
)

// Engine is Pebble v2.
type Engine struct{}

const version = "v2.1.7"

// traceCacheBytes is too small for any block to be admitted.
const traceCacheBytes = 1

func profiles() []pebbledb.Profile {
	return []pebbledb.Profile{
		pebbledb.BenchKVDB(), pebbledb.GethV2(), pebbledb.Columnar(uint64(pebble.FormatNewest)), pebbledb.Default(),
	}
}

// Info describes the adapter.
func (Engine) Info() engine.Info {
	return engine.Info{
		Name:       "pebble2",
		Version:    version,
		Route:      "go module",
		Licence:    "BSD-3-Clause",
		Durability: pebbledb.Durability,
		Capabilities: []engine.Capability{
			engine.CanReadBlocks, engine.CanDirect, engine.CanIngest, engine.CanReadForeign, engine.CanTraceAccesses, engine.CanBudget,
			engine.SharesReads,
		},
		Profiles: pebbledb.Infos(profiles()),
	}
}

// Check names what is wrong with o.
func (Engine) Check(o engine.Options) []error {
	s, errs := pebbledb.Resolve(profiles(), o)
	if len(errs) > 0 {
		return errs
	}
	options, err := translate(s, o)
	if err != nil {
		return []error{err}
	}
	options.FS = vfs.Default
	options.EnsureDefaults()
	if err := options.Validate(); err != nil {
		return []error{fmt.Errorf("options of %s: %w", version, err)}
	}
	return nil
}

// Open opens or creates the database in o.Dir.
func (e Engine) Open(ctx context.Context, o engine.Options) (engine.DB, error) {
	if err := errors.Join(e.Check(o)...); err != nil {
		return nil, err
	}
	o.ReadOnly = o.ReadOnly || o.Foreign || o.IgnoreLock
	if err := pebbledb.CheckDir(o, "pebble2"); err != nil {
		return nil, err
	}
	opened, err := pebbledb.RetryVanished(ctx, o.IgnoreLock, func() (*db, error) { return open(ctx, o) })
	if err != nil {
		return nil, fmt.Errorf("pebble2: open %s: %w", o.Dir, err)
	}
	return opened, nil
}

func open(ctx context.Context, o engine.Options) (*db, error) {
	settings, errs := pebbledb.Resolve(profiles(), o)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	options, err := translate(settings, o)
	if err != nil {
		return nil, err
	}
	if o.TraceAccesses {
		settings.CacheBytes = traceCacheBytes
	}
	recorder, events := blockio.NewRecorder(pebble2fs.Learn, o.Direct), pebbledb.NewEvents()
	base := pebble2fs.TypedLock(vfs.Default)
	if o.ReadOnly {
		base = pebble2fs.ReadOnly(vfs.Default, o.IgnoreLock)
	}
	options.FS = pebble2fs.Counting(base, recorder)
	options.EventListener = listener(events)
	options.Logger = pebbledb.Logger{Adapter: "pebble2", Log: o.Log}
	options.Cache = pebble.NewCache(settings.CacheBytes)
	defer options.Cache.Unref() // the database holds its own reference
	options.EnsureDefaults()

	opened, err := openPebble(o, options)
	if err != nil {
		return nil, err
	}
	started, err := pebbledb.Start(ctx, pebbledb.Config{
		Adapter:    "pebble2",
		Dir:        o.Dir,
		ReadOnly:   o.ReadOnly,
		DisableWAL: settings.DisableWAL,
		Effective:  effective(options, opened.FormatMajorVersion(), settings.CacheBytes),
		Handles:    options.MaxOpenFiles,
		Log:        o.Log,

		BlockChargeBytes: block.MetadataSize,
	}, source{opened}, recorder, events)
	if err != nil {
		return nil, err
	}
	return &db{DB: started, pebble: opened, dir: o.Dir, readOnly: o.ReadOnly, opened: o, events: events}, nil
}

func openPebble(o engine.Options, options *pebble.Options) (*pebble.DB, error) {
	if o.Direct && !o.Create {
		if err := blockio.CheckDirect(o.Dir); err != nil {
			return nil, err
		}
	}
	opened, err := pebble.Open(o.Dir, options)
	if err != nil {
		return nil, err
	}
	if o.Direct && o.Create { // now there is a file to try it on
		err = blockio.CheckDirect(o.Dir)
	}
	if o.IgnoreLock && err == nil {
		// Properties are in the tables, so this opens them all: they stay
		// readable when their holder deletes them.
		_, err = opened.SSTables(pebble.WithProperties())
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}
