package blockio

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

// Follower keeps a recorder informed of the tables of a database while it changes.
type Follower struct {
	Recorder *Recorder
	Tables   func() ([]LiveTable, error) // of the current version
	Path     func(FileNumber) string     // of a table's file

	refreshing sync.Mutex
	stop       context.CancelFunc
	running    sync.WaitGroup
	failure    atomic.Pointer[error]
}

// Follow refreshes, until Stop, whenever changed tells that tables came or went.
func (f *Follower) Follow(changed <-chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if err := f.Refresh(ctx, nil); err != nil && ctx.Err() == nil {
				f.failure.CompareAndSwap(nil, &err)
			}
		}
	})
}

// Refresh tells the recorder which tables are live and learns the new ones. progress may be nil.
func (f *Follower) Refresh(ctx context.Context, progress func(done, total int)) error {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	tables, err := f.Tables()
	if err != nil {
		return err
	}
	f.Recorder.SetLive(tables, f.Path)
	return f.Recorder.LearnAll(ctx, progress)
}

// Stop ends Follow.
func (f *Follower) Stop() {
	f.stop()
	f.running.Wait()
}

// Warnings tell of tables that could not be followed.
func (f *Follower) Warnings() []engine.Warning {
	err := f.failure.Load()
	if err == nil {
		return nil
	}
	return []engine.Warning{{
		Code:   "layout_unknown",
		Text:   "the layout of some new tables could not be read, so their reads may be counted as meta or without a level: " + (*err).Error(),
		Remedy: "settle the database before measuring",
	}}
}
