package memiavl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/crypto-org-chain/cronos/memiavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

// forest is an open memiavl database. memiavl takes a version's changes at once,
// so they are collected until the commit.
type forest struct {
	name, dir string
	stores    []string
	interval  int64 // versions between snapshots
	buffer    int64 // of the log's writer; -1: there is none
	ignored   bool  // a cache or a budget was asked for
	oneByOne  bool  // a change is applied at once

	db      *memiavl.DB
	trees   []*memiavl.Tree // by store number; a finished snapshot replaces them
	version int64
	next    int64
	pending [][]*memiavl.KVPair // by store number

	behind     *background
	snapshotAt int64 // version of the snapshot that was opened
	logOffset  int64 // of versions against the log's numbers, which start at 1
}

func (f *forest) open(o tree.Options) error {
	db, err := memiavl.Load(f.dir, memiavl.Options{
		Logger:            f.behind,
		CreateIfMissing:   o.Create,
		InitialVersion:    uint32(o.FirstVersion),
		InitialStores:     f.stores,
		SnapshotInterval:  uint32(f.interval),
		AsyncCommitBuffer: int(f.buffer),
		ZeroCopy:          !f.oneByOne, // a Reader copies anyway
	})
	if err != nil {
		return err
	}
	f.db, f.ignored = db, o.CacheNodes > 0 || o.MemoryBytes > 0
	f.version, f.snapshotAt = db.Version(), db.SnapshotVersion()
	if f.logOffset, err = logOffset(f.dir); err != nil {
		return errors.Join(err, db.Close())
	}
	f.next = max(f.version, f.logOffset) + 1
	var held []string
	for _, t := range db.Trees() {
		held = append(held, t.Name)
	}
	if err := o.SameStores(held); err != nil {
		return errors.Join(err, db.Close())
	}
	f.takeTrees()
	return nil
}

// logOffset is kept with every snapshot.
func logOffset(dir string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, metadataFile))
	if err != nil {
		return 0, err
	}
	var about memiavl.MultiTreeMetadata
	if err := about.Unmarshal(text); err != nil {
		return 0, fmt.Errorf("read %s: %w", metadataFile, err)
	}
	return max(1, about.InitialVersion) - 1, nil
}

func (f *forest) takeTrees() {
	f.trees = f.trees[:0]
	for _, name := range f.stores {
		f.trees = append(f.trees, f.db.TreeByName(name))
	}
}

func (f *forest) Version() int64 { return f.version }

func (f *forest) Set(store int, key, value []byte) error {
	key, value = tree.Keep(key, value)
	return f.change(store, &memiavl.KVPair{Key: key, Value: value})
}

func (f *forest) Remove(store int, key []byte) error {
	return f.change(store, &memiavl.KVPair{Key: bytes.Clone(key), Delete: true})
}

func (f *forest) change(store int, pair *memiavl.KVPair) error {
	if f.oneByOne {
		return f.db.ApplyChangeSet(f.stores[store], memiavl.ChangeSet{Pairs: []*memiavl.KVPair{pair}})
	}
	f.pending[store] = append(f.pending[store], pair)
	return nil
}

// Commit applies the changes and writes them to the log. It does not heed ctx:
// memiavl cannot be interrupted.
func (f *forest) Commit(context.Context) (tree.Commit, error) {
	if err := f.db.ApplyChangeSets(f.takePending()); err != nil {
		return tree.Commit{}, fmt.Errorf("%s: apply the changes of version %d: %w", f.name, f.next, err)
	}
	version, err := f.db.Commit()
	if err != nil {
		return tree.Commit{}, fmt.Errorf("%s: commit version %d: %w", f.name, f.next, err)
	}
	// A commit can fall back by switching to a snapshot that has not caught up:
	// the version the database is at afterwards counts, too.
	if at := f.db.Version(); version != f.next || at != f.next {
		return tree.Commit{}, fmt.Errorf("%s: %w", f.name, tree.WrongVersion(min(version, at), f.next))
	}
	f.version, f.next = version, version+1
	if version%f.interval == 0 {
		f.behind.due()
	}
	f.takeTrees()
	roots := make([][]byte, len(f.trees))
	for i, t := range f.trees {
		roots[i] = bytes.Clone(t.RootHash())
	}
	return tree.Commit{Version: version, Roots: roots}, nil
}

// takePending leaves nothing behind: the log's writer keeps what it was given.
func (f *forest) takePending() (changes []*memiavl.NamedChangeSet) {
	for store, pairs := range f.pending {
		if len(pairs) > 0 {
			changes = append(changes, &memiavl.NamedChangeSet{Name: f.stores[store], Changeset: memiavl.ChangeSet{Pairs: pairs}})
			f.pending[store] = nil
		}
	}
	return changes
}

// Sync waits for the log's writer, for the snapshot being written, and for the
// removal of what the newest snapshot replaces.
func (f *forest) Sync(ctx context.Context) error {
	if err := f.db.WaitAsyncCommit(); err != nil {
		return fmt.Errorf("%s: write the log: %w", f.name, err)
	}
	if err := poll(ctx, f.behind.idle); err != nil {
		return fmt.Errorf("%s: write a snapshot: %w", f.name, err)
	}
	if err := f.waitPruned(ctx); err != nil {
		return fmt.Errorf("%s: remove old snapshots: %w", f.name, err)
	}
	return nil
}

func (f *forest) Reader() (tree.Reader, error) { return reader{f}, nil }

type reader struct{ forest *forest }

func (r reader) Get(store int, key, dst []byte) ([]byte, bool, error) {
	_, value := r.forest.trees[store].GetWithIndex(key)
	return append(dst[:0], value...), value != nil, nil
}

func (reader) Close() error { return nil }

func (f *forest) Shape() ([]tree.StoreShape, error) {
	shapes := make([]tree.StoreShape, len(f.trees))
	for i, t := range f.trees {
		shape, err := shapeOf(t)
		if err != nil {
			return nil, fmt.Errorf("%s: shape of %s: %w", f.name, f.stores[i], err)
		}
		shapes[i] = shape
	}
	return shapes, nil
}

// Counters are all absent: memiavl counts nothing.
func (f *forest) Counters() tree.Counters { return tree.Counters{} }

func (f *forest) Effective() map[string]string {
	return map[string]string{
		"AsyncCommitBuffer":   strconv.FormatInt(f.buffer, 10),
		"CacheSize":           "0",
		"SnapshotInterval":    strconv.FormatInt(f.interval, 10),
		"SnapshotKeepRecent":  "0",
		"SnapshotWriterLimit": strconv.Itoa(memiavl.DefaultSnapshotWriterLimit),
	}
}

func (f *forest) Warnings() (warnings []engine.Warning) {
	if f.ignored {
		warnings = append(warnings, engine.Warning{
			Code: "memiavl_no_budget",
			Text: "memiavl keeps the whole tree in memory: the node cache and the memory budget asked for have no effect",
		})
	}
	if skipped := f.behind.skips(); skipped > 0 {
		warnings = append(warnings, engine.Warning{
			Code:   "memiavl_snapshots_skipped",
			Text:   fmt.Sprintf("%d snapshots were due while another was being written, and left out", skipped),
			Remedy: "a longer SnapshotInterval",
		})
	}
	return warnings
}

// closePatience bounds how long Close waits for files to be removed: memiavl
// would stumble over its own closed log.
const closePatience = time.Minute

// Close drops a snapshot that is being written: the log has its versions.
func (f *forest) Close() error {
	patience, stop := context.WithTimeout(context.Background(), closePatience)
	defer stop()
	pruned := f.waitPruned(patience)
	if err := errors.Join(pruned, f.db.Close()); err != nil {
		return fmt.Errorf("%s: close: %w", f.name, err)
	}
	return nil
}
