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
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/optionsfile"
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
			if (orphan(process) && time.Since(began) < endsWithin || process == 0 && again) &&
				ctx.Err() == nil {
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
	writer, _ := pebbleWriter(dir) // not known, if it cannot be read
	if manifest, err := keyspace.ReadManifest(dir); err == nil {
		writer = manifest.Engine
	}

	versions := map[string]string{"pebble1": "v1", "pebble2": "v2"}
	if versions[name] == "" || versions[writer] == "" || name == writer {
		return engine.Warning{}, false
	}

	return engine.Warning{
		Code: "other_version",
		Text: fmt.Sprintf("Pebble %s wrote this database, and Pebble %s (%s) reads it here: its "+
			"cache differs from that of the program that owns the database",
			versions[writer], versions[name], name),
		Remedy: "use --engine " + writer + ", unless you compare the two versions",
	}, true
}

// Engines with rules of their own.
const (
	nullEngine   = "null"   // touches no file
	nativeEngine = "native" // what a library reads and writes is not known
)

// Unlisted warns if more than a tenth of the table files in dir, whose manifest lists so many, are
// in no manifest. A running node deletes such files a little later.
func Unlisted(dir string, listed int) (engine.Warning, bool) {
	entries, err := os.ReadDir(dir)
	if err != nil { // that of a file, or one which is gone: it is said elsewhere
		return engine.Warning{}, false
	}

	tables := 0
	for _, entry := range entries {
		if isTable(entry.Name()) {
			tables++
		}
	}

	const share = 10
	unlisted := tables - listed
	if unlisted*share <= tables {
		return engine.Warning{}, false
	}

	return engine.Warning{
		Code: "unlisted_tables",
		Text: fmt.Sprintf("%d of %d table files in %s are not in its manifest: no Get reads "+
			"them, and nothing here counts them", unlisted, tables, dir),
		Remedy: "if no process is about to delete them, the tables and the manifest are of " +
			"different times: copy all files again while no process writes",
	}, true
}

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

	// A library, or an adapter of somebody else, may keep its data in files of another engine.
	// While nothing is loaded, such files may have been put there since: a load would remove them.
	fits := found.Engine == "" || found.opens(name) || loaded == name &&
		(name == nativeEngine || !hasOwnFiles(name) && manifest.Loaded > 0)
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
		remedy = fmt.Sprintf("statelab loaded it with %s, and something else wrote there since; "+
			"without the folder %s, --engine %s --use-existing reads it",
			name, filepath.Join(o.Dir, engine.OwnFolder), found.Engine)
	case o.Create:
		remedy = "give " + name + " a directory of its own with --db"
	case found.opens(name):
		remedy += ", or read it with " + name + " and --read-only"
	}

	return engine.Fail(engine.CodeOtherEngine, "%s is a database of %s, not of %s: %s", o.Dir,
		writer, name, remedy)
}

// KeptByPebble is what a database of Pebble says of itself in its newest OPTIONS file.
type KeptByPebble struct {
	// folders of the write-ahead log, the database's own or the one in its place first
	Logs      []string
	Merger    string // whose merges only the owner's code can apply; "": Pebble's own
	NoFilters bool   // no level has a filter policy, so Gets ask no filters
	// MaxOpenFiles limits the tables that are open, in so many shards of the table cache; 0: the
	// file does not tell.
	MaxOpenFiles, TableCacheShards int
	Warnings                       []engine.Warning
}

// Pebble's own.
const (
	pebbleComparer = "leveldb.BytewiseComparator"
	pebbleMerger   = "pebble.concatenate"
	storePath      = "{store_path}" // the database's folder, in names of other folders
)

const compacted = "let that program write a copy that is compacted to the last level"

// ReadKeptByPebble reads the OPTIONS file of the database in dir. It refuses a database in an order
// that Pebble does not know, and one whose log is not here.
func ReadKeptByPebble(dir string) (k KeptByPebble, err error) {
	name, sections, err := optionsfile.Read(dir)
	if err != nil || name == "" {
		return KeptByPebble{Logs: []string{dir}}, err
	}

	file := filepath.Join(dir, name)
	primary, secondary, policies := "", "", 0
	for _, s := range sections {
		switch s.Kind {
		case "Options":
			if comparer := s.Values["comparer"]; comparer != "" && comparer != pebbleComparer {
				return k, engine.Fail(engine.CodeUnsupported, "its keys are ordered by the "+
					"comparer %s of the program that owns it, which Pebble lacks (%s)", comparer,
					file).WithRemedy("let that program copy the keys to a database with Pebble's " +
					"own order")
			}

			if k.Merger = s.Values["merger"]; k.Merger == pebbleMerger {
				k.Merger = ""
			}

			primary = s.Values["wal_dir"]
			for name, to := range map[string]*int{
				"max_open_files":     &k.MaxOpenFiles,
				"table_cache_shards": &k.TableCacheShards,
			} {
				text, is := s.Values[name]
				if !is {
					continue // an older version, which did not write it
				}

				if *to, err = strconv.Atoi(text); err != nil {
					return k, engine.Fail(engine.CodeDamaged, "%s: %s=%.40q is not a number", file,
						name, text)
				}
			}

		case "WAL Failover":
			secondary = s.Values["secondary_dir"]
		case "Level":
			if policy := s.Values["filter_policy"]; policy != "" && policy != "none" {
				policies++
			}
		}
	}

	if k.Merger != "" {
		k.Warnings = append(k.Warnings, engine.Warning{
			Code: "merger",
			Text: fmt.Sprintf("the merger %s is code of the program that owns the database, "+
				"which Pebble lacks: a Get of a key whose merges are still to be applied fails",
				k.Merger),
			Remedy: compacted,
		})
	}

	k.Warnings = append(k.Warnings, OptionWarnings(file, sections, nil)...)
	k.NoFilters = policies == 0
	in := func(folder string) string { return strings.Replace(folder, storePath, dir, 1) }
	logs, err := LogFolder(dir, file, in(primary))
	if err != nil {
		return k, err
	}

	k.Logs = []string{logs}
	if secondary = in(secondary); secondary == "" || !opened(dir) {
		return k, nil
	}

	switch _, err := os.Stat(secondary); {
	case err == nil:
		k.Logs = append(k.Logs, secondary)
	case !errors.Is(err, fs.ErrNotExist):
		return k, err
	default:
		k.Warnings = append(k.Warnings, engine.Warning{
			Code: "second_log_missing",
			Text: fmt.Sprintf("%s names a second folder of the log, %s, which is not "+
				"here: what Pebble wrote there while the first one failed is missing", file,
				secondary),
			Remedy: "if that folder has files, " + together(dir),
		})
	}

	return k, nil
}

// Unmerged is the error of a Get that needs the owner's code.
func (k KeptByPebble) Unmerged() error {
	return engine.Fail(engine.CodeUnsupported, "the key has merges that are still to be applied "+
		"by the merger %s of the program that owns the database, "+
		"which Pebble lacks", k.Merger).WithRemedy(compacted)
}

// LogFolder is the folder of the write-ahead log of the database in dir, whose options file names
// the folder written; "" is dir itself. A copy or a checkpoint names the folder of the original,
// whose log is not its own: it has the log in dir, or, as a checkpoint that no program has opened,
// none.
func LogFolder(dir, file, written string) (string, error) {
	if written == "" || sameFile(written, dir) {
		return dir, nil
	}

	own, err := fs.Glob(os.DirFS(dir), "*.log")
	if err != nil {
		return "", err
	}

	if len(own) > 0 || !opened(dir) {
		return dir, nil
	}

	switch _, err := os.Stat(written); {
	case err == nil && isDatabase(written):
		return dir, nil
	case err == nil:
		return written, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}

	return "", engine.Fail(engine.CodeNotDatabase, "%s says that the write-ahead log is in %s, "+
		"which is not here: keys that are in the log alone would be missing", file, written).
		WithRemedy("%s", together(dir))
}

// together says how a database in several folders becomes one in one.
func together(dir string) string {
	return fmt.Sprintf("make a folder of links to the files of both and give that with --db: "+
		"mkdir NEW; ln -s %s/* FURTHER/* NEW/", dir)
}

// opened reports whether a program has opened the database in dir.
func opened(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "LOCK"))
	return err == nil
}

func isDatabase(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "CURRENT"))
	markers, globErr := fs.Glob(os.DirFS(dir), "marker.manifest.*")
	return err == nil || globErr == nil && len(markers) > 0
}

func sameFile(a, b string) bool {
	one, errOne := os.Stat(a)
	two, errTwo := os.Stat(b)
	return errOne == nil && errTwo == nil && os.SameFile(one, two)
}

// RemoteObjects explains err, with which a database of Pebble in dir was not opened, if the
// database keeps tables elsewhere than in files.
func RemoteObjects(dir string, err error) error {
	markers, globErr := fs.Glob(os.DirFS(dir), "marker.remote-obj-catalog.*")
	if globErr != nil || len(markers) == 0 || err == nil {
		return err
	}
	return engine.Fail(engine.CodeUnsupported, "it keeps tables as remote objects, which only "+
		"the program that owns it can fetch: %w", err).
		WithRemedy("let that program write a copy whose tables are all files in one folder")
}
