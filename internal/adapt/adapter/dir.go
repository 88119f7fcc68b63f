package adapter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/statelab/statelab/engine"
)

// CheckEmpty refuses to create a database in a directory that holds something
// which is not the harness's.
func CheckEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	for _, entry := range entries {
		if !engine.MayBeIn(entry.Name()) {
			return fmt.Errorf("create %s: the directory is not empty: it holds %s", dir, entry.Name())
		}
	}
	return nil
}

// CheckHolds refuses a directory without a file of that name.
func CheckHolds(dir, name string) error {
	_, err := os.Stat(dir + string(os.PathSeparator) + name)
	if errors.Is(err, fs.ErrNotExist) {
		return &engine.NotADatabaseError{Dir: dir, Why: "there is no file " + name}
	}
	return err
}

// CheckDir makes the directory of a new database, or refuses one without a file of that name.
func CheckDir(o engine.Options, name string) error {
	if o.Create {
		return MakeEmpty(o.Dir)
	}
	return CheckHolds(o.Dir, name)
}

// MakeEmpty makes the directory of a new database, or refuses one that is in use.
func MakeEmpty(dir string) error {
	if err := CheckEmpty(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}
