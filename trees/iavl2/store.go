//go:build cgo

package iavl2

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"sync"

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
