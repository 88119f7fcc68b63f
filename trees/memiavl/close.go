package memiavl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/alitto/pond"
	"github.com/crypto-org-chain/cronos/memiavl"
)

// closeDB closes a database, and returns when nothing of it works on.
//
// memiavl v0.1.0 offers no way to wait for that. Its own Close interrupts a snapshot that is being
// written and goes on when the first of the goroutines that write it has given up: the others still
// create files, in a folder that is being removed. It drops a snapshot that is finished with its
// files open and mapped, closes the log while a goroutine may shorten it, and keeps the pool of its
// writers. So all of that is waited for here, through fields that memiavl keeps to itself. The
// snapshot is finished.
func closeDB(db *memiavl.DB, dir string) error {
	err := errors.Join(finishSnapshot(db), stopWriters(db), waitPruner(db), db.Close())
	return errors.Join(err, removeUnfinished(dir))
}

// field is a field of the database that memiavl keeps to itself.
func field(db *memiavl.DB, name string) (reflect.Value, error) {
	f := reflect.ValueOf(db).Elem().FieldByName(name)
	if !f.IsValid() {
		return f, fmt.Errorf("this version of memiavl has no %s: its Close cannot be waited for",
			name)
	}
	return readable(f), nil
}

// readable is v without the mark that it was reached through a name in lower case.
func readable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// finishSnapshot waits for the goroutine that writes a snapshot, and closes what it has opened of
// it.
func finishSnapshot(db *memiavl.DB) error {
	results, err := field(db, "snapshotRewriteChan")
	if err != nil || results.IsNil() {
		return err
	}

	received, sent := results.Recv()
	results.SetZero() // for Close there is no snapshot

	cancel, err := field(db, "snapshotRewriteCancel")
	if err != nil {
		return err
	}

	cancel.Call(nil)
	if !sent { // it failed, which background was told
		return nil
	}

	result := reflect.New(received.Type()).Elem()
	result.Set(received)
	written, is := readable(result.FieldByName("mtree")).Interface().(*memiavl.MultiTree)
	failed, _ := readable(result.FieldByName("err")).Interface().(error)
	if is && written != nil {
		failed = errors.Join(failed, written.Close())
	}

	return failed
}

// stopWriters waits for the goroutines that write the trees of a snapshot.
func stopWriters(db *memiavl.DB) error {
	f, err := field(db, "snapshotWriterPool")
	if err != nil {
		return err
	}
	f.Interface().(*pond.WorkerPool).StopAndWait()
	return nil
}

// waitPruner waits for the goroutine that removes what the newest snapshot replaces: it holds this
// lock.
func waitPruner(db *memiavl.DB) error {
	f, err := field(db, "pruneSnapshotLock")
	if err != nil {
		return err
	}

	lock := f.Addr().Interface().(*sync.Mutex)
	lock.Lock()
	//lint:ignore SA2001 whoever held it is done
	lock.Unlock()
	return nil
}

// removeUnfinished removes what a failed snapshot left: its writers may have created files behind
// the one who removed its folder.
func removeUnfinished(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, memiavl.SnapshotPrefix+"*"+memiavl.TmpSuffix))
	for _, folder := range left {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}
