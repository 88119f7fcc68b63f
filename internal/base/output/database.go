package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/engine"
)

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
			return fmt.Errorf("%s is inside a database: %s holds %s; choose a path outside of it", path, dir, mark)
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
