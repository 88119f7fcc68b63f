package memiavl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/statelab/statelab/tree"
)

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
