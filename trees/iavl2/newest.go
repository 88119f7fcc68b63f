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
		begun, ended, err := newest(filepath.Join(o.Dir, name))
		if err != nil {
			return 0, fmt.Errorf("newest version of store %s: %w", name, err)
		}
		latest = max(latest, begun)
		if i == 0 || ended < oldest {
			oldest = ended
		}
	}
	if oldest == 0 && latest > 0 {
		return 0, errors.New("its first commit was cut short: it holds no version yet and cannot start over")
	}
	return oldest, nil
}

// newest is the newest version that has a root, and the newest one that the library
// can load; 0 is none. They differ where a kill came between the two last steps of a
// checkpoint: the root names one that its shard does not list, and the library would
// refuse to load it. All leaves before it are still there to be replayed.
func newest(dir string) (begun, ended int64, err error) {
	var checkpoint int64
	err = firstRow(filepath.Join(dir, rootsFile), "SELECT version, checkpoint FROM root ORDER BY version DESC LIMIT 1", nil, []any{&begun, &checkpoint})
	if err != nil || checkpoint == 0 {
		return begun, begun, err
	}
	shards, err := filepath.Glob(filepath.Join(dir, "tree_*.sqlite"))
	if err != nil {
		return 0, 0, err
	}
	for _, shard := range shards {
		if err := firstRow(shard, "SELECT version FROM checkpoints WHERE version = ?", []any{begun}, []any{&ended}); err != nil || ended == begun {
			return begun, ended, err
		}
	}
	return begun, begun - 1, nil
}

// firstRow scans the first row that query gives from the database in path, and leaves
// into as it is where there is none.
func firstRow(path, query string, args, into []any) (err error) {
	db, err := sqlite3.Open("file:" + path + "?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Prepare(query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if found, err := rows.Step(); err != nil || !found {
		return err
	}
	return rows.Scan(into...)
}
