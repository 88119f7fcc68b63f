// Package memiavl drives memiavl of Cronos: the whole tree in memory, a
// write-ahead log of the change sets, and snapshots written in the background
// that are mapped back into memory.
//
// There are two trees, as the log can be written by the commit (memiavl) or by a
// goroutine behind it (memiavl-async): a commit of the second returns before its
// changes are in a file.
//
// Goals: the version of every commit is checked; what memiavl does in the
// background is waited for before a Sync or a Close returns.
// Non-goals: old versions, whose snapshots memiavl can be told to keep.
package memiavl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/crypto-org-chain/cronos/memiavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
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
		return errors.Join(err, closeDB(db, f.dir))
	}

	f.next = max(f.version, f.logOffset) + 1
	var held []string
	for _, t := range db.Trees() {
		held = append(held, t.Name)
	}

	if err := o.SameStores(held); err != nil {
		return errors.Join(err, closeDB(db, f.dir))
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
	key, value = tree.CloneKV(key, value)
	return f.change(store, &memiavl.KVPair{Key: key, Value: value})
}

func (f *forest) Remove(store int, key []byte) error {
	return f.change(store, &memiavl.KVPair{Key: bytes.Clone(key), Delete: true})
}

func (f *forest) change(store int, pair *memiavl.KVPair) error {
	if f.oneByOne {
		return f.db.ApplyChangeSet(f.stores[store], memiavl.ChangeSet{
			Pairs: []*memiavl.KVPair{pair},
		})
	}
	f.pending[store] = append(f.pending[store], pair)
	return nil
}

// Commit applies the changes and writes them to the log. It does not heed ctx:
// memiavl cannot be interrupted.
func (f *forest) Commit(context.Context) (tree.Commit, error) {
	if err := f.db.ApplyChangeSets(f.takePending()); err != nil {
		return tree.Commit{},
			fmt.Errorf("%s: apply the changes of version %d: %w", f.name, f.next, err)
	}

	version, err := f.db.Commit()
	if err != nil {
		return tree.Commit{}, fmt.Errorf("%s: commit version %d: %w", f.name, f.next, err)
	}

	// A commit can fall back by switching to a snapshot that has not caught up:
	// the version the database is at afterwards counts, too.
	if at := f.db.Version(); version != f.next || at != f.next {
		return tree.Commit{},
			fmt.Errorf("%s: %w", f.name, tree.WrongVersion(min(version, at), f.next))
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
			changes = append(changes,
				&memiavl.NamedChangeSet{
					Name:      f.stores[store],
					Changeset: memiavl.ChangeSet{Pairs: pairs},
				})

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

func (f *forest) Reader() (tree.Reader, error) { return tree.Lookup(f.get), nil }

func (f *forest) get(store int, key, dst []byte) ([]byte, bool, error) {
	_, value := f.trees[store].GetWithIndex(key)
	return append(dst[:0], value...), value != nil, nil
}

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
			Text: "memiavl keeps the whole tree in memory: the node cache and the memory budget " +
				"asked for have no effect",
		})
	}

	if skipped := f.behind.skips(); skipped > 0 {
		warnings = append(warnings, engine.Warning{
			Code: "memiavl_snapshots_skipped",
			Text: fmt.Sprintf("%d snapshots were due while another was being written, and left "+
				"out", skipped),
			Remedy: "a longer SnapshotInterval",
		})
	}

	return warnings
}

// Close finishes a snapshot that is being written, and waits for all else that memiavl does in the
// background.
func (f *forest) Close() error {
	if err := closeDB(f.db, f.dir); err != nil {
		return fmt.Errorf("%s: close: %w", f.name, err)
	}
	return nil
}

// Sync writes the log inside Commit.
func Sync() tree.Tree { return opener{async: false} }

// Async writes the log behind Commit.
func Async() tree.Tree { return opener{async: true} }

type opener struct{ async bool }

// Info describes the adapter.
func (o opener) Info() tree.Info {
	i := tree.Info{
		Name:     "memiavl",
		Version:  "v0.1.0",
		Route:    "go module github.com/crypto-org-chain/cronos/memiavl",
		Licence:  "Apache-2.0",
		RootRule: "iavl",
		Durability: "kill: nothing lost; power cut: all since the newest snapshot (log without " +
			"fsync)",
		History:      "the newest version, and the log since the newest snapshot",
		Capabilities: []tree.Capability{tree.IsDurable},
		Profiles: []engine.Profile{{
			Name:  "default",
			About: "memiavl's defaults: a snapshot every 1000 versions, none kept but the newest",
		}},
	}

	if o.async {
		i.Name = "memiavl-async"
		i.Profiles = append(i.Profiles, engine.Profile{Name: benchProfile,
			About: "as iavl-bench sets it up: every change is applied by a call of its own, and " +
				"the log's writer has no buffer (AsyncCommitBuffer=0)"})
		i.Durability = "kill: the versions still in the buffer since the last Sync; power cut: " +
			"all since the newest snapshot (log without fsync)"
	}

	return i
}

func snapshotInterval() tree.Override {
	return tree.Override{
		Name:    "SnapshotInterval",
		Default: memiavl.DefaultSnapshotInterval,
		Low:     1,
		High:    math.MaxUint32,
	}
}

const benchProfile = "iavl-bench"

func commitBuffer(profile string) tree.Override {
	buffer := int64(100)
	if profile == benchProfile {
		buffer = 0
	}
	return tree.Override{Name: "AsyncCommitBuffer", Default: buffer, Low: 0, High: 1 << 20}
}

func (o opener) overrides(profile string) []tree.Override {
	if o.async {
		return []tree.Override{snapshotInterval(), commitBuffer(profile)}
	}
	return []tree.Override{snapshotInterval()}
}

// Check names what is wrong with options.
func (o opener) Check(options tree.Options) []error {
	return options.Problems(o.Info(), o.overrides(options.Profile)...)
}

// Open opens or makes the forest in options.Dir.
func (o opener) Open(_ context.Context, options tree.Options) (tree.Forest, error) {
	name := o.Info().Name
	if errs := o.Check(options); len(errs) > 0 {
		return nil, fmt.Errorf("%s: open: %w", name, errs[0])
	}

	if err := adapter.CheckDir(engine.Options{Dir: options.Dir, Create: options.Create},
		metadataFile); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	f := &forest{
		name:     name,
		dir:      options.Dir,
		stores:   options.Stores,
		interval: snapshotInterval().In(options),
		buffer:   -1,
		oneByOne: options.Profile == benchProfile,
		pending:  make([][]*memiavl.KVPair, len(options.Stores)),
		behind:   &background{say: options.Log, step: options.Tell},
	}

	if o.async {
		f.buffer = commitBuffer(options.Profile).In(options)
	}

	if err := f.open(options); err != nil {
		return nil, fmt.Errorf("%s: open %s: %w", name, options.Dir, err)
	}

	return f, nil
}

// metadataFile is in every forest.
const metadataFile = "current/" + memiavl.MetadataFileName

// shapeOf reads a tree's size and height from the proof of one of its keys:
// memiavl keeps the root node to itself, but the last step of a proof is the root
// and starts with its height and size.
func shapeOf(t *memiavl.Tree) (tree.StoreShape, error) {
	keys := t.Iterator(nil, nil, true)
	if !keys.Valid() {
		return tree.StoreShape{}, keys.Close()
	}

	proof, err := t.GetMembershipProof(keys.Key())
	if err != nil {
		return tree.StoreShape{}, err
	}

	steps := proof.GetExist().GetPath()
	if len(steps) == 0 {
		return tree.StoreShape{Leaves: 1}, keys.Close()
	}

	root := steps[len(steps)-1].GetPrefix()
	height, n := binary.Varint(root)
	leaves, m := binary.Varint(root[max(n, 0):])
	if n <= 0 || m <= 0 {
		return tree.StoreShape{},
			fmt.Errorf("the proof's last step %x does not start with two numbers", root)
	}

	return tree.StoreShape{Leaves: leaves, Height: int(height)}, keys.Close()
}

// background follows memiavl's snapshot writer through what it logs: the
// database offers nothing to wait on, and takes a finished snapshot over only
// inside a later commit.
type background struct {
	say  func(string)
	step func(tree.Event) // nil: nobody listens

	mutex   sync.Mutex
	begun   int // snapshots
	ended   int
	refused int   // not yet told by a commit that it was due
	skipped int   // refused in all
	failed  error // what could not be done
}

// What memiavl v0.1.0 logs. A snapshot that was begun ends in one of the first two.
const (
	snapshotWritten = "finished rewriting snapshot"
	snapshotFailed  = "failed to rewrite snapshot"
	snapshotRefused = "failed to rewrite snapshot in background"
)

// steps are those of a snapshot by what memiavl logs of them.
var steps = map[string]string{
	"start rewriting snapshot":         tree.Begun,
	snapshotWritten:                    tree.Written,
	"finished best-effort WAL catchup": tree.CaughtUp,
	"switched to new snapshot":         tree.Switched,
}

func (b *background) Debug(string, ...any) {}

func (b *background) Info(message string, about ...any) {
	b.tell(message, about)
	if step, is := steps[message]; is && b.step != nil {
		b.step(tree.Event{Version: versionOf(about), Step: step})
	}

	if message == snapshotWritten {
		b.mutex.Lock()
		b.ended++
		b.mutex.Unlock()
	}
}

func (b *background) Error(message string, about ...any) {
	b.tell(message, about)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if message == snapshotRefused { // the one before is still being written
		b.refused++
		return
	}

	if message == snapshotFailed {
		b.ended++
	}

	b.failed = fmt.Errorf("memiavl says: %s %v", message, about)
}

func (b *background) tell(message string, about []any) {
	if b.say != nil {
		b.say(fmt.Sprint(message, " ", about))
	}
}

// versionOf is the version among the pairs of a log line; 0: there is none.
func versionOf(about []any) int64 {
	for i := 0; i+1 < len(about); i += 2 {
		if about[i] == "version" {
			version, _ := about[i+1].(int64)
			return version
		}
	}
	return 0
}

// due is called after a commit that had to begin a snapshot.
func (b *background) due() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.refused > 0 {
		b.refused--
		b.skipped++
		return
	}
	b.begun++
}

func (b *background) skips() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.skipped
}

func (b *background) idle() (bool, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.begun == b.ended, b.failed
}

// waitPruned returns when the snapshots and the part of the log that the newest
// snapshot replaces are gone. The removal ends with the log: its first file is
// then named by the first entry after the snapshot.
func (f *forest) waitPruned(ctx context.Context) error {
	snapshot := f.db.SnapshotVersion()
	if snapshot == f.snapshotAt { // no other was switched to
		return nil
	}

	first := filepath.Join(f.dir, "wal", fmt.Sprintf("%020d", snapshot+1-f.logOffset))
	return poll(ctx, func() (bool, error) {
		_, failed := f.behind.idle()
		_, err := os.Stat(first)
		if os.IsNotExist(err) {
			return false, failed
		}

		return true, err
	})
}

const pollInterval = time.Millisecond

// poll asks until the answer is yes, or an error.
func poll(ctx context.Context, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}
