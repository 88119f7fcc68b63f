// Package output creates the files and folders that a user names. It is the one
// place that decides whether a path may be written to: nothing that exists is
// replaced unasked, nothing is put inside a database, and a file appears whole or
// not at all.
//
// Non-goals: what the files hold (result), removing results.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/statelab/statelab/engine"
)

// Replaces tells whether the regular file at path may be replaced; nil: none may.
type Replaces func(path string) bool

// Anything is the rule of --force.
func Anything(string) bool { return true }

// Reports is the rule of report.html: a page that statelab wrote makes way for
// the next one.
func Reports(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}

	defer f.Close()                                    // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, 64<<20)) // pages have one megabyte at most
	text = bytes.ToLower(text)
	return err == nil && bytes.HasPrefix(text, []byte("<!doctype html>")) &&
		bytes.Contains(text, []byte("statelab"))
}

func exists(path string) error {
	return engine.Fail(engine.CodeExists, "%s already exists: choose another name", path)
}

// File checks that a file may be created at path. Where only the file that is there
// forbids it, the error has engine.CodeExists.
func File(path string, replaces Replaces) error {
	if err := OutsideDatabases(path); err != nil {
		return err
	}

	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return engine.Fail(engine.CodeMissing, "%s: there is no folder %s", path,
			filepath.Dir(path))
	}

	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: name the file itself", path)
	case info.IsDir():
		return fmt.Errorf("%s is a folder: name a file", path)
	case replaces == nil || !info.Mode().IsRegular() || !replaces(path):
		return exists(path)
	}

	return nil
}

// Write creates the file at path, if File allows it, with what write puts in.
func Write(path string, replaces Replaces, write func(*os.File) error) error {
	if err := File(path, replaces); err != nil {
		return err
	}

	return Atomically(path, func(f *os.File) error {
		if err := write(f); err != nil {
			return err
		}
		return File(path, replaces) // writing may have taken hours
	})
}

// Atomically writes a file beside path and renames it when it is whole and on
// disk: a kill or a full disk leaves the old file or none. It replaces what is
// there: callers own the folder.
func Atomically(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}

	err = write(f)
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}

	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}

	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}

	return nil
}

// NewFolder checks that there is no folder path yet.
func NewFolder(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return exists(path)
	}
	return OutsideDatabases(path)
}

// WriteFolder makes a folder that NewFolder allows, with what fill puts in.
func WriteFolder(path string, fill func(dir string) error) error {
	if err := errors.Join(NewFolder(path), os.MkdirAll(filepath.Dir(path), 0o755)); err != nil {
		return err
	}

	dir, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}

	if err = fill(dir); err == nil {
		err = os.Chmod(dir, 0o755)
	}

	if err == nil {
		if err = os.Rename(dir, path); errors.Is(err, fs.ErrExist) ||
			errors.Is(err, syscall.ENOTEMPTY) {
			err = exists(path)
		}
	}

	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.RemoveAll(dir)))
	}

	return nil
}

// Folder checks that path can be a folder of new results: it is new or empty.
func Folder(path string) error {
	if err := OutsideDatabases(path); err != nil {
		return err
	}

	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s is not a folder", path)
	}

	if err != nil {
		return err
	}

	other := ""
	for _, e := range entries {
		// the root of a filesystem has it
		if e.Name() != "lost+found" && !cutShort.MatchString(e.Name()) {
			other = e.Name()
			break
		}
	}

	for _, kind := range results {
		if _, err := os.Lstat(filepath.Join(path, kind.file)); err == nil {
			return engine.Fail(engine.CodeExists, "%s already holds %s: choose another folder%s",
				path, kind.what, kind.orElse)
		}
	}

	if other != "" {
		return engine.Fail(engine.CodeExists, "%s is not empty (it holds %s): choose a new folder",
			path, other)
	}

	return nil
}

// cutShort is what Atomically leaves of an experiment where it was killed: the folder's first file.
var cutShort = regexp.MustCompile(`^\.experiment\.yaml\.[0-9]+$`)

// results are the files that mark a folder of results.
var results = []struct{ file, what, orElse string }{
	{"sweep.json", "a sweep", orResume},
	{"replay.json", "a replay", orResume},
	{"layouts.json", "a comparison of layouts", ""},
	{"plan.json", "a plan that has not finished", orResume},
	{"run.json", "a run", ""},
	{"disk.json", "a measurement of a disk", ""},
	{"advice.json", "advice", ""},
	{"prediction.json", "a prediction", ""},
	{"simulation.json", "a simulation", ""},
	{"tuning.json", "tuned options", ""},
	{"price.json", "a price table", ""},
	{"watch.json", "a watch", ""},
}

const orResume = ", or add --resume to continue it"

// MakeFolder makes a folder that Folder allows, and holds it until tidy, which removes what was
// made as long as it is empty: a run that failed early leaves no trace.
func MakeFolder(path string) (tidy func() error, err error) {
	if err := Folder(path); err != nil {
		return nil, err
	}

	var made []string // the innermost first
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		made = append(made, dir)
	}

	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}

	held, err := LockDir(path)
	if err != nil {
		return nil, err
	}

	return func() error {
		defer held.Close() // its lock goes with it
		for _, dir := range made {
			err := os.Remove(dir)
			if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
				return nil
			}

			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}

		return nil
	}, nil
}

// OutsideDatabases refuses a path inside the folder of a database, however deep.
// Links are followed first, so that none leads into one.
func OutsideDatabases(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}

	dir, err := resolved(full)
	if err != nil {
		return err
	}

	for ; ; dir = filepath.Dir(dir) {
		mark, err := databaseMark(dir)
		if err != nil {
			return err
		}

		if mark != "" {
			return fmt.Errorf("%s is inside a database: %s holds %s; choose a path outside of it",
				path, dir, mark)
		}

		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// resolved is the innermost folder of path that exists, without links.
func resolved(path string) (string, error) {
	for ; ; path = filepath.Dir(path) {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(path); err == nil {
				return "", fmt.Errorf("%s is a symbolic link to nothing", path)
			}
			continue
		}

		if err != nil {
			return "", err
		}

		if info, err := os.Stat(real); err == nil && info.IsDir() {
			return real, nil
		}
	}
}

// databaseMark is the name of a file by which dir is known as a database: of
// Pebble, LevelDB, RocksDB, LMDB, MDBX, badger, go-ethereum's freezer, or one
// that statelab loaded.
func databaseMark(dir string) (string, error) {
	manifest := filepath.Join(engine.OwnFolder, "manifest.json")
	if _, err := os.Lstat(filepath.Join(dir, manifest)); err == nil {
		return manifest, nil
	}

	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil // a parent that only lets through
	}

	if err != nil {
		return "", err
	}

	defer f.Close() // nothing was written
	for {
		names, err := f.Readdirnames(4096)
		for _, name := range names {
			if marksDatabase(name) {
				return name, nil
			}
		}

		if errors.Is(err, io.EOF) {
			return "", nil
		}

		if err != nil {
			return "", fmt.Errorf("look into %s: %w", dir, err)
		}
	}
}

func marksDatabase(name string) bool {
	switch name {
	case "CURRENT", "KEYREGISTRY", "mdbx.dat", "mdbx.lck":
		return true
	}

	switch filepath.Ext(name) {
	case ".sst", ".ldb", ".vlog", ".mdb", ".cidx", ".ridx":
		return true
	}

	return strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.format-version.")
}

// maxJSONBytes bounds what is read from a folder that may lie.
const maxJSONBytes = 256 << 20

// WriteJSON writes v, whole or not at all; the folder is the caller's. It leaves the old
// file or none where it fails.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return Atomically(path, func(f *os.File) error {
		_, err := f.Write(append(text, '\n'))
		return err
	})
}

// ReadJSON reads what WriteJSON wrote, whose schema must be the one of this version.
func ReadJSON[T any](path, schema string, schemaOf func(*T) string) (*T, error) {
	v := new(T)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJSONBytes))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}

	if err := json.Unmarshal(text, v); err != nil {
		if !bytes.HasSuffix(text, []byte("}\n")) { // how WriteJSON ends a file
			return nil, engine.Fail(engine.CodeDamaged, "%s is damaged: it is cut short", path)
		}
		return nil, engine.Fail(engine.CodeDamaged, "%s is damaged: %w", path, err)
	}

	if found := schemaOf(v); found != schema {
		return nil, engine.Fail(engine.CodeUnsupported, "%s: schema is %q, this version reads %q",
			path, found, schema).WithRemedy("read it with the version of statelab that wrote it")
	}

	return v, nil
}

// Absolute is a path from the root; "" stays what it is.
func Absolute(path string) string {
	if full, err := filepath.Abs(path); path != "" && err == nil {
		return full
	}
	return path // no working directory: the path as typed is the best there is
}
