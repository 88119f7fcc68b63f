package memiavl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// background follows memiavl's snapshot writer through what it logs: the
// database offers nothing to wait on, and takes a finished snapshot over only
// inside a later commit.
type background struct {
	say func(string)

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

func (b *background) Debug(string, ...any) {}

func (b *background) Info(message string, about ...any) {
	b.tell(message, about)
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
