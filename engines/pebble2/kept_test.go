package pebble2

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/remote"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/resolve"
)

const keptKeys = 1000

func keptKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// written makes a database with the owner's options: the first half of the keys in tables, the
// second in the log alone.
func written(t *testing.T, o *pebble.Options, more func(db *pebble.DB) error) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}

	for i := range keptKeys {
		if err := db.Set(keptKey(i), keptKey(i), pebble.NoSync); err != nil {
			t.Fatal(err)
		}

		if i == keptKeys/2 {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}

	if more != nil {
		if err := more(db); err != nil {
			t.Fatal(err)
		}
	}

	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	return dir
}

// allThere opens the database as another program's, looks for all keys and samples some. What
// resolves Gets without making them must open it as well.
func allThere(t *testing.T, dir string) engine.DB {
	t.Helper()
	db, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})

	r, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	for i := range keptKeys {
		if value, found, err := r.Get(keptKey(i), nil); err != nil || !found ||
			!bytes.Equal(value, keptKey(i)) {
			t.Fatalf("key %d: %q, found %v, %v", i, value, found, err)
		}
	}

	if err := r.Close(); err != nil {
		t.Error(err)
	}

	sampled := 0
	if err := db.(engine.KeySampler).SampleKeys(t.Context(), 100, 1, func([]byte) error {
		sampled++
		return nil
	}); err != nil || sampled != 100 {
		t.Errorf("%d keys were sampled, want 100: %v", sampled, err)
	}

	resolver, err := resolve.Open(dir, cachesim.PebbleV2)
	if err != nil {
		t.Fatal(err)
	}

	if err := resolver.Close(); err != nil {
		t.Error(err)
	}

	return db
}

func refused(t *testing.T, dir string, code engine.Code, names string) {
	t.Helper()
	db, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, Foreign: true})
	if err == nil {
		t.Fatal("it was opened", db.Close())
	}

	if f, is := errors.AsType[*engine.Failure](err); !is || f.Code != code || f.Remedy == "" ||
		!strings.Contains(err.Error(), names) {
		t.Errorf("%v: want a failure %s that names %s, with a way out", err, code, names)
	}
}

func TestLogElsewhere(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	dir := written(t, &pebble.Options{WALDir: logs}, nil)
	allThere(t, dir)
	moved := logs + "-moved"
	if err := os.Rename(logs, moved); err != nil {
		t.Fatal(err)
	}

	refused(t, dir, engine.CodeNotDatabase, logs)
	together := filepath.Join(t.TempDir(), "new") // as the way out says
	for _, from := range []string{dir, moved} {
		entries, err := os.ReadDir(from)
		if err = errors.Join(err, os.MkdirAll(together, 0o755)); err != nil {
			t.Fatal(err)
		}

		for _, e := range entries {
			if err := os.Symlink(filepath.Join(from, e.Name()),
				filepath.Join(together, e.Name())); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err) // both have a file LOCK
			}
		}
	}

	allThere(t, together)
}

// stalled stalls the logs in one folder, from the moment that it is on until Pebble has moved to
// the other folder.
type stalled struct {
	vfs.FS
	first, second string
	on            *atomic.Bool
}

type stalledFile struct {
	vfs.File
	s stalled
}

func (s stalled) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, category)
	return s.log(name, f, err)
}

// ReuseForWrite is how Pebble makes a log of one that has been flushed.
func (s stalled) ReuseForWrite(
	from, name string, category vfs.DiskWriteCategory,
) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(from, name, category)
	return s.log(name, f, err)
}

func (s stalled) log(name string, f vfs.File, err error) (vfs.File, error) {
	if err == nil && strings.HasPrefix(name, s.first) && strings.HasSuffix(name, ".log") {
		f = stalledFile{f, s}
	}
	return f, err
}

func (s stalled) wait() {
	for s.on.Load() {
		if moved, err := filepath.Glob(filepath.Join(s.second, "*.log")); err != nil ||
			len(moved) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (f stalledFile) Write(p []byte) (int, error) {
	f.s.wait()
	return f.File.Write(p)
}

func (f stalledFile) Sync() error {
	f.s.wait()
	return f.File.Sync()
}

func (f stalledFile) SyncData() error {
	f.s.wait()
	return f.File.SyncData()
}

func (f stalledFile) SyncTo(n int64) (bool, error) {
	f.s.wait()
	return f.File.SyncTo(n)
}

// TestLogFailedOver: Pebble itself moved to the second folder because the first answered no more.
func TestLogFailedOver(t *testing.T) {
	first, second, on := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second"),
		new(atomic.Bool)
	if err := errors.Join(os.MkdirAll(first, 0o755), os.MkdirAll(second, 0o755)); err != nil {
		t.Fatal(err)
	}

	o := &pebble.Options{
		FS:     stalled{vfs.Default, first, second, on},
		WALDir: first,
		WALFailover: &pebble.WALFailoverOptions{
			Secondary: wal.Dir{FS: vfs.Default, Dirname: second},
			FailoverOptions: wal.FailoverOptions{UnhealthySamplingInterval: 5 * time.Millisecond,
				UnhealthyOperationLatencyThreshold: func() (time.Duration, bool) {
					return 50 * time.Millisecond, true
				}},
		},
	}

	dir := written(t, o, func(db *pebble.DB) error {
		on.Store(true)
		err := db.Set([]byte("late"), []byte("value"), pebble.Sync)
		on.Store(false)
		return err
	})

	if logs, err := filepath.Glob(filepath.Join(second, "*.log")); err != nil || len(logs) == 0 {
		t.Fatalf("Pebble did not fail over: %v, %v", logs, err)
	}

	db := allThere(t, dir)
	r, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	if _, found, err := r.Get([]byte("late"), nil); err != nil || !found {
		t.Errorf("the key that is in the second folder alone: found %v, %v", found, err)
	}

	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestCheckpoint: the log of a checkpoint is its own, though its options name the original's
// folders.
func TestCheckpoint(t *testing.T) {
	logs, checkpoint := filepath.Join(t.TempDir(), "logs"), filepath.Join(t.TempDir(), "checkpoint")
	written(t, &pebble.Options{WALDir: logs}, func(db *pebble.DB) error {
		err := db.Checkpoint(checkpoint, pebble.WithFlushedWAL())
		for i := range keptKeys { // in the original alone
			err = errors.Join(err, db.Delete(keptKey(i), pebble.NoSync))
		}
		return err
	})

	allThere(t, checkpoint)
}

func TestOwnersComparer(t *testing.T) {
	order := *pebble.DefaultComparer
	order.Name = "owner.Order"
	refused(t, written(t, &pebble.Options{Comparer: &order}, nil), engine.CodeUnsupported,
		"owner.Order")
}

func TestOwnersMerger(t *testing.T) {
	merger := *pebble.DefaultMerger
	merger.Name = "owner.Merger"
	dir := written(t, &pebble.Options{Merger: &merger}, func(db *pebble.DB) error {
		return db.Merge([]byte("sum"), []byte("1"), pebble.NoSync)
	})
	r, err := allThere(t, dir).Reader()
	if err != nil {
		t.Fatal(err)
	}

	_, _, err = r.Get([]byte("sum"), nil)
	if f, is := errors.AsType[*engine.Failure](err); !is || f.Code != engine.CodeUnsupported ||
		f.Remedy == "" {
		t.Errorf("a key with merges: %v, want a failure with a way out", err)
	}

	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestRemoteObjects(t *testing.T) {
	o := &pebble.Options{FormatMajorVersion: pebble.FormatNewest}
	o.Experimental.RemoteStorage = remote.MakeSimpleFactory(map[remote.Locator]remote.Storage{
		"": remote.NewInMem(),
	})
	o.Experimental.CreateOnShared = remote.CreateOnSharedAll
	o.EnsureDefaults()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(db.SetCreatorID(1), db.Set(keptKey(1), keptKey(1), pebble.NoSync),
		db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}

	refused(t, dir, engine.CodeUnsupported, "remote objects")
}

// TestOwnerAsksNoFilters: tables have filters, and the owner has since left them out of its
// options.
func TestOwnerAsksNoFilters(t *testing.T) {
	o := &pebble.Options{}
	o.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	dir := written(t, o, nil)
	negatives := func() int64 {
		db := allThere(t, dir)
		r, err := db.Reader()
		if err != nil {
			t.Fatal(err)
		}

		for i := range keptKeys {
			if _, found, err := r.Get(append(keptKey(i), 'x'), nil); found || err != nil {
				t.Fatal(found, err)
			}
		}

		if err := r.Close(); err != nil {
			t.Error(err)
		}

		return *db.Counters().FilterNegative
	}

	if negatives() == 0 {
		t.Error("filters were not asked, which the owner asks")
	}

	reopened, err := pebble.Open(dir, &pebble.Options{DisableAutomaticCompactions: true})
	if err = errors.Join(err, reopened.Close()); err != nil {
		t.Fatal(err)
	}

	if n := negatives(); n != 0 {
		t.Errorf("filters told of %d keys that they are not there, and the owner asks none", n)
	}
}
