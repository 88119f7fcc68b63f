//go:build cgo

package iavl2

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"sync"

	"github.com/bvinc/go-sqlite-lite/sqlite3"
	"github.com/cosmos/iavl/v2"

	"github.com/statelab/statelab/tree"
)

// store is one tree.
//
// What a store holds after a kill is its last checkpoint and, replayed on it, the
// leaves of the versions since. The library numbers the leaves of a version as
// they are made, keeps those that are left at its end, and refuses to replay a
// gap in the numbers: a version that touches a key after setting it cannot be
// replayed. Such a version ends in a checkpoint, unless that is forbidden.
type store struct {
	name string
	tree *iavl.Tree

	// The library reads through one connection and hangs what it read into the
	// tree: lookups take turns.
	reading sync.Mutex

	seed          maphash.Seed
	written       map[uint64]struct{} // hashes of the keys set in the version being built
	unreplayable  bool                // the version being built touched one of them again
	unreplayables int64               // versions
}

func openStore(dir, name string, newest, next int64, pool *iavl.NodePool, o iavl.TreeOptions) (*store, error) {
	db, err := iavl.NewSqliteDb(pool, iavl.SqliteDbOptions{Path: dir, Metrics: o.MetricsProxy})
	if err != nil {
		return nil, err
	}
	s := &store{name: name, tree: iavl.NewTree(db, pool, o), seed: maphash.MakeSeed(), written: map[uint64]struct{}{}}
	switch {
	case newest > 0:
		err = s.tree.LoadVersion(newest)
	case next > 1:
		err = s.tree.SetInitialVersion(next)
	}
	if err != nil {
		return nil, errors.Join(err, s.tree.Close())
	}
	return s, nil
}

func (s *store) set(key, value []byte) error {
	s.touch(key)
	s.written[maphash.Bytes(s.seed, key)] = struct{}{}
	key, value = tree.Keep(key, value)
	_, err := s.tree.Set(key, value)
	return err
}

func (s *store) remove(key []byte) error {
	s.touch(key)
	_, _, err := s.tree.Remove(bytes.Clone(key))
	return err
}

func (s *store) touch(key []byte) {
	if _, again := s.written[maphash.Bytes(s.seed, key)]; again {
		s.unreplayable = true
	}
}

// commit returns the root of version.
func (s *store) commit(version int64, force bool) ([]byte, error) {
	if s.unreplayable {
		s.unreplayables++
		if force {
			s.tree.SetShouldCheckpoint()
		}
	}
	root, got, err := s.tree.SaveVersion()
	if err != nil {
		return nil, err
	}
	if got != version {
		return nil, tree.WrongVersion(got, version)
	}
	s.unreplayable, s.written = false, make(map[uint64]struct{}, len(s.written))
	return bytes.Clone(root), nil
}

func (s *store) get(key, dst []byte) ([]byte, bool, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	value, err := s.tree.Get(key)
	return append(dst[:0], value...), value != nil, err
}

// shape does not ask an empty tree, whose Size and Height panic.
func (s *store) shape() tree.StoreShape {
	if empty := sha256.Sum256(nil); bytes.Equal(s.tree.Hash(), empty[:]) {
		return tree.StoreShape{}
	}
	return tree.StoreShape{Leaves: s.tree.Size(), Height: int(s.tree.Height())}
}

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
