// Package output creates the files and folders that a user names. It is the one
// place that decides whether a path may be written to: nothing that exists is
// replaced unasked, nothing is put inside a database, and a file appears whole or
// not at all.
//
// Non-goals: what the files hold (result), removing results.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	return err == nil && bytes.HasPrefix(text, []byte("<!doctype html>")) && bytes.Contains(text, []byte("statelab"))
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
		return engine.Fail(engine.CodeMissing, "%s: there is no folder %s", path, filepath.Dir(path))
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
		err = os.Rename(dir, path)
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
		if e.Name() != "lost+found" && !cutShort.MatchString(e.Name()) { // the root of a filesystem has it
			other = e.Name()
			break
		}
	}
	for _, kind := range results {
		if _, err := os.Lstat(filepath.Join(path, kind.file)); err == nil {
			return engine.Fail(engine.CodeExists, "%s already holds %s: choose another folder%s", path, kind.what, kind.orElse)
		}
	}
	if other != "" {
		return engine.Fail(engine.CodeExists, "%s is not empty (it holds %s): choose a new folder", path, other)
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
}

const orResume = ", or add --resume to continue it"

// MakeFolder makes a folder that Folder allows. tidy removes what was made as
// long as it is empty: a run that failed early leaves no trace.
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
	return func() error {
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
