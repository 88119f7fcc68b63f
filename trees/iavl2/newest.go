//go:build cgo

package iavl2

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bvinc/go-sqlite-lite/sqlite3"

	"github.com/statelab/statelab/tree"
)

// newestOfAll is the newest version that every store has: a kill can come when
// some have committed the next one. The library has to be told which to load.
func newestOfAll(o tree.Options) (oldest int64, err error) {
	if o.Create {
		return 0, nil
	}
	var latest int64
	for i, name := range o.Stores {
		version, err := newest(filepath.Join(o.Dir, name, rootsFile))
		if err != nil {
			return 0, fmt.Errorf("newest version of store %s: %w", name, err)
		}
		latest = max(latest, version)
		if i == 0 || version < oldest {
			oldest = version
		}
	}
	if oldest == 0 && latest > 0 {
		return 0, errors.New("its first commit was cut short: it holds no version yet and cannot start over")
	}
	return oldest, nil
}

// newest is 0 where no version was committed.
func newest(path string) (version int64, err error) {
	db, err := sqlite3.Open("file:" + path + "?mode=ro")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Prepare("SELECT coalesce(max(version), 0) FROM root")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if _, err := rows.Step(); err != nil {
		return 0, err
	}
	return version, rows.Scan(&version)
}
