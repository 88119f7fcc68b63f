package adapter

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"
)

// LevelTable is a table of an LSM-tree. Level 0 may hold several versions of a key in tables that
// overlap, and an entry of a level is newer than all of the same key on levels below it.
type LevelTable struct {
	Level             int
	Smallest, Largest []byte // keys
}

// VersionFinder looks keys up in one table. It is for one goroutine.
type VersionFinder interface {
	// Newest is the version of the newest entry of key in the table, deletions included.
	Newest(key []byte) (version uint64, found bool, err error)
	io.Closer
}

// NewestVersions decides which entry of a key is the newest of all tables. Safe for concurrent use.
type NewestVersions struct {
	tables []LevelTable
	levels []tableLevel // from level 0 on
	open   func(table int) (VersionFinder, error)

	mutex   sync.Mutex
	finders map[int]VersionFinder // nil: the table is gone
	order   []int                 // of finders, the one that was opened first in front
}

// tableLevel are the tables of a level by their smallest keys.
type tableLevel []int

// maxFinders bounds how many tables are open to be searched.
const maxFinders = 128

// NewNewestVersions makes one of tables, which open opens when a key may be in them. A table that
// is gone (fs.ErrNotExist) was replaced by one below it, and has nothing that is newer.
func NewNewestVersions(
	tables []LevelTable, open func(table int) (VersionFinder, error),
) *NewestVersions {
	n := &NewestVersions{tables: tables, open: open, finders: map[int]VersionFinder{}}
	for i, t := range tables {
		for len(n.levels) <= t.Level {
			n.levels = append(n.levels, nil)
		}
		n.levels[t.Level] = append(n.levels[t.Level], i)
	}

	for _, of := range n.levels {
		slices.SortFunc(of, func(a, b int) int {
			return cmp.Or(bytes.Compare(tables[a].Smallest, tables[b].Smallest), cmp.Compare(a, b))
		})
	}

	return n
}

// Is reports whether no entry of any table is a newer version of the key of e, which is an entry
// of this table.
func (n *NewestVersions) Is(table int, e SampledEntry) (bool, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	own := n.tables[table].Level
	if !n.tables[table].holds(e.Key) {
		return false, nil // an entry of the file that is not of this table
	}

	for level := 0; level <= own; level++ {
		for _, other := range n.holding(level, e.Key) {
			if other == table && e.First {
				continue
			}

			version, found, err := n.newest(other, e.Key)
			if err != nil {
				return false, err
			}

			if found && (level < own || version > e.Version) {
				return false, nil
			}
		}
	}

	return true, nil
}

func (t *LevelTable) holds(key []byte) bool {
	return bytes.Compare(t.Smallest, key) <= 0 && bytes.Compare(key, t.Largest) <= 0
}

// holding are the tables of a level whose bounds hold key.
func (n *NewestVersions) holding(level int, key []byte) (tables []int) {
	of := n.levels[level]
	behind := sort.Search(len(of), func(i int) bool {
		return bytes.Compare(n.tables[of[i]].Smallest, key) > 0
	})
	for _, i := range slices.Backward(of[:behind]) {
		if n.tables[i].holds(key) {
			tables = append(tables, i)
		} else if level > 0 {
			break // tables in front of it end before it begins
		}
	}

	return tables
}

func (n *NewestVersions) newest(table int, key []byte) (version uint64, found bool, err error) {
	finder, opened := n.finders[table]
	if !opened {
		if finder, err = n.open(table); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, false, err
		} else if err != nil {
			finder = nil
		}

		n.finders[table], n.order = finder, append(n.order, table)
		if len(n.order) > maxFinders {
			oldest := n.order[0]
			if n.order = n.order[1:]; n.finders[oldest] != nil {
				err = n.finders[oldest].Close()
			}

			if delete(n.finders, oldest); err != nil {
				return 0, false, err
			}
		}
	}

	if finder == nil {
		return 0, false, nil
	}

	return finder.Newest(key)
}

// Close closes the tables.
func (n *NewestVersions) Close() error {
	var errs []error
	for _, table := range n.order {
		if finder := n.finders[table]; finder != nil {
			errs = append(errs, finder.Close())
		}
	}
	return errors.Join(errs...)
}
