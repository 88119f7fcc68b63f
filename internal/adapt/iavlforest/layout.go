package iavlforest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/statelab/statelab/tree"
)

// The SDK's layout: every store's tree below a prefix, and the newest committed
// version, as a protobuf message of one integer.
const (
	storesPrefix = "s/k:"
	latestKey    = "s/latest"
	latestTag    = 0x08 // field 1, varint

	// openKey is ours: it is there while a process has the forest open, and after
	// a kill.
	openKey = "statelab/open"

	// fastVersionKey is iavl's, below a store's prefix: which version its index of
	// newest values ("fast nodes") belongs to.
	fastVersionKey = "mstorage_version"
)

// DatabaseName is what the SDK calls its database; the directory has a suffix.
const DatabaseName = "application"

// databaseDir is the database's directory in a forest's directory.
const databaseDir = DatabaseName + ".db"

// Prefix is what all keys of a store start with.
func Prefix(store string) []byte { return []byte(storesPrefix + store + "/") }

// Database is what lies below all stores.
type Database interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Delete(key []byte) error
	// Scan iterates over keys from start up to end, which is excluded.
	Scan(start, end []byte) (Iterator, error)
	Close() error
}

// Iterator goes over keys in ascending order.
type Iterator interface {
	Valid() bool
	Next()
	Key() []byte
	Error() error
	Close() error
}

// Names are the stores that db holds, found by their prefixes.
func Names(db Database) (names []string, err error) {
	start, end := storesRange()
	for {
		key, err := firstKey(db, start, end)
		if key == nil || err != nil {
			return names, err
		}
		name, _, is := bytes.Cut(key[len(storesPrefix):], []byte("/"))
		if !is {
			return nil, fmt.Errorf("key %q belongs to no store", key)
		}
		names = append(names, string(name))
		start = append([]byte(storesPrefix+string(name)), '/'+1)
	}
}

func storesRange() (start, end []byte) {
	return []byte(storesPrefix), []byte("s/k;") // the character after the colon
}

func firstKey(db Database, start, end []byte) (key []byte, err error) {
	i, err := db.Scan(start, end)
	if err != nil {
		return nil, err
	}
	if i.Valid() {
		key = bytes.Clone(i.Key())
	}
	if err := i.Error(); err != nil {
		return nil, err
	}
	return key, i.Close()
}

// Latest is the newest committed version in db; 0 if there is none.
func Latest(db Database) (int64, error) {
	value, err := db.Get([]byte(latestKey))
	if err != nil {
		return 0, fmt.Errorf("read the newest version: %w", err)
	}
	if len(value) == 0 { // protobuf leaves a zero out
		return 0, nil
	}
	version, n := binary.Uvarint(value[1:])
	if value[0] != latestTag || n != len(value)-1 || version > 1<<62 {
		return 0, fmt.Errorf("%s holds %x, which is not a version", latestKey, value)
	}
	return int64(version), nil
}

func latestValue(version int64) []byte {
	return binary.AppendUvarint([]byte{latestTag}, uint64(version))
}

// Start begins with what db holds: its newest version, which must be of o's stores.
func Start(db Database, o tree.Options) (version int64, killed bool, err error) {
	if version, err = Latest(db); err != nil {
		return 0, false, err
	}
	if version > 0 {
		held, err := Names(db)
		if err != nil {
			return 0, false, err
		}
		if err := o.SameStores(held); err != nil {
			return 0, false, err
		}
	}
	killed, err = begin(db, version)
	return version, killed, err
}

// begin marks the forest, which is at version, as open. After a kill it also
// removes what only a finished version may leave: the trees where none was
// committed, and the claim that the fast nodes belong to a version, so that iavl
// makes them again. The library still has to take later versions back.
func begin(db Database, version int64) (killed bool, err error) {
	mark, err := db.Get([]byte(openKey))
	if err != nil {
		return false, err
	}
	if mark == nil {
		return false, db.Set([]byte(openKey), []byte{1})
	}
	if version == 0 {
		return true, deleteStores(db)
	}
	names, err := Names(db)
	if err != nil {
		return true, err
	}
	for _, name := range names {
		if err := db.Delete(append(Prefix(name), fastVersionKey...)); err != nil {
			return true, err
		}
	}
	return true, nil
}

// deleteStores deletes while it iterates, which LevelDB allows.
func deleteStores(db Database) error {
	i, err := db.Scan(storesRange())
	if err != nil {
		return err
	}
	for ; i.Valid(); i.Next() {
		if err := db.Delete(i.Key()); err != nil {
			return errors.Join(err, i.Close())
		}
	}
	return errors.Join(i.Error(), i.Close())
}

// End marks the forest as closed.
func End(db Database) error { return db.Delete([]byte(openKey)) }
