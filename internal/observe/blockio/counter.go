package blockio

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/statelab/statelab/blockreads"
	"github.com/statelab/statelab/engine"
)

// Counter is a Recorder for programs that count by themselves: the packages below blockreads have
// one for each version of Pebble. Layouts are learnt when tables are opened.
type Counter struct {
	Recorder *Recorder
	Changes  Changes // that the database tells

	// Shared is a block cache of which memtables can take all; nil: they cannot.
	Shared interface {
		Size() int64
		MaxSize() int64
	}

	empty, filled atomic.Bool // the shared cache was, when reads were counted

	follower  atomic.Pointer[Follower] // the latest; nil: none yet
	following atomic.Bool
}

// Mistakes in attaching a counter.
var (
	ErrAttachedTwice = errors.New("blockreads: options.FS counts block reads already: call " +
		"Attach once, or with new options (a Clone made before the first Attach)")
	ErrOtherOptions = errors.New("blockreads: the database was opened with other options than " +
		"those that Attach had, so its reads are not counted: call Attach(options) first, then " +
		"pebble.Open(dir, options)")
)

// NewCounter returns a counter.
func NewCounter(learn LayoutReader, direct bool) *Counter {
	return &Counter{Recorder: NewRecorder(learn, direct), Changes: NewChanges()}
}

// Follow attributes reads to the levels of what tables lists, until stop.
func (c *Counter) Follow(tables func() ([]LiveTable, error)) (stop func(), err error) {
	if !c.following.CompareAndSwap(false, true) {
		return nil, errors.New("blockreads: the counter follows a database already: call the " +
			"function that Follow returned first, and Attach for each database")
	}

	f := &Follower{Recorder: c.Recorder, Tables: tables, LevelsOnly: true}
	if err := f.Refresh(context.Background(), nil); err != nil {
		c.following.Store(false)
		return nil, err
	}

	c.follower.Store(f)
	f.Follow(c.Changes)
	return func() {
		f.Stop()
		c.following.Store(false)
	}, nil
}

// Err is the first reason why reads are untyped or of the wrong level.
func (c *Counter) Err() error {
	err := c.Recorder.Err()
	if f := c.follower.Load(); f != nil {
		err = errors.Join(err, f.Err())
	}

	if c.empty.Load() && !c.filled.Load() {
		err = errors.Join(err, fmt.Errorf("blockreads: the block cache of %d bytes holds no "+
			"block: memtables are charged to it and take all of it; set options.MemTableSize to a "+
			"fraction of the cache", c.Shared.MaxSize()))
	}

	return err
}

// Snapshot is what was counted until now.
func (c *Counter) Snapshot() blockreads.Snapshot {
	// The parts come before the whole: see Handle.Count.
	r := c.Recorder
	s := blockreads.Snapshot{Untyped: r.Untyped(), RangeDeletions: r.RangeDeletions()}
	s.Reads = *r.Reads()
	for level, t := range s.Untyped {
		s.Reads[level][engine.Meta] = s.Reads[level][engine.Meta].Sub(t)
	}

	s.Background = r.Background()
	s.TableOpens = r.Opens()
	s.DirectBytes = r.DirectBytes()
	if f := c.follower.Load(); f != nil {
		s.RemoteTables = f.Remote()
	}

	if c.Shared != nil {
		switch data := s.Reads.Type(engine.Data).Count; {
		case c.Shared.Size() > 0:
			c.filled.Store(true)
		case data > 0:
			c.empty.Store(true)
		}
	}

	return s
}
