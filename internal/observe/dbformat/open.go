// Package dbformat tells whose database a directory holds, from the manifest that
// statelab leaves and from the files, and lets no engine open another's: engines of
// one family take each other's files for their own and rewrite them.
//
// Non-goals: whether a database is whole; what it holds.
package dbformat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
)

// endsWithin bounds the wait for a runner to end after its parent process was killed.
const endsWithin = 10 * time.Second

// Open opens the database in o.Dir with e, unless another engine wrote it. If
// another process holds it, the error is an engine.LockedError that names it. Open waits
// for a runner whose parent process was killed.
func Open(ctx context.Context, e engine.Engine, o engine.Options) (engine.DB, error) {
	name := e.Info().Name
	if err := Check(name, o); err != nil {
		return nil, err
	}
	again := true // its holder may be gone by the time that it is looked for
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		db, err := e.Open(ctx, o)
		locked, is := errors.AsType[*engine.LockedError](err)
		if is {
			process := cmp.Or(locked.Process, holder(o.Dir))
			if (orphan(process) && time.Since(began) < endsWithin || process == 0 && again) && ctx.Err() == nil {
				again = again && process != 0
				continue
			}
			return nil, &engine.LockedError{Dir: o.Dir, Hint: locked.Hint, Process: process}
		}
		if err != nil {
			return nil, fmt.Errorf("open %s with %s: %w", o.Dir, name, err)
		}
		return db, nil
	}
}

// OtherVersion warns if the other version of Pebble wrote the database in dir: both read
// formats FirstOfPebble2 to LastOfPebble1, but a node reads its database with one of them.
// It says nothing where the writer is not known.
func OtherVersion(name, dir string) (engine.Warning, bool) {
	writer := pebbleWriter(dir)
	if manifest, err := keyspace.ReadManifest(dir); err == nil {
		writer = manifest.Engine
	}
	versions := map[string]string{"pebble1": "v1", "pebble2": "v2"}
	if versions[name] == "" || versions[writer] == "" || name == writer {
		return engine.Warning{}, false
	}
	return engine.Warning{
		Code: "other_version",
		Text: fmt.Sprintf("Pebble %s wrote this database, and Pebble %s (%s) reads it here: its cache differs from that of the program that owns the database",
			versions[writer], versions[name], name),
		Remedy: "use --engine " + writer + ", unless you compare the two versions",
	}, true
}

// Engines with rules of their own.
const (
	nullEngine   = "null"   // touches no file
	nativeEngine = "native" // what a library reads and writes is not known
)

// Check refuses to let the engine of that name open o.Dir as o says if another
// engine wrote it, unless both open the files' format and o asks to read only. A
// directory that is not recognised is left to the engine.
func Check(name string, o engine.Options) error {
	loaded := ""
	manifest, err := keyspace.ReadManifest(o.Dir)
	switch {
	case err == nil:
		loaded = manifest.Engine
	case !errors.Is(err, keyspace.ErrNoManifest):
		return err
	}
	found, err := Recognise(o.Dir)
	if none := new(engine.NotADatabaseError); err != nil && !errors.As(err, &none) {
		return err
	}
	fits := found.Engine == "" || found.opens(name) || name == nativeEngine && loaded == nativeEngine
	readOnly := o.ReadsOnly() && !o.Create
	switch {
	case fits && (loaded == "" || loaded == name),
		!o.Create && name == nullEngine,
		readOnly && found.opens(name),
		readOnly && loaded == "" && name == nativeEngine:
		return nil
	}
	writer := cmp.Or(loaded, found.Engine)
	remedy := "use --engine " + writer
	switch {
	case loaded == name: // but the files are not its
		writer = found.Engine
		remedy = fmt.Sprintf("statelab loaded it with %s, and something else wrote there since; without the folder %s, --engine %s --use-existing reads it",
			name, filepath.Join(o.Dir, engine.OwnFolder), found.Engine)
	case o.Create:
		remedy = "give " + name + " a directory of its own with --db"
	case found.opens(name):
		remedy += ", or read it with " + name + " and --read-only"
	}
	return engine.Fail(engine.CodeOtherEngine, "%s is a database of %s, not of %s: %s", o.Dir, writer, name, remedy)
}
