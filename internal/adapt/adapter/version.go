package adapter

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// Version is the version of a module that this binary was built with: pinned, that of our
// go.mod, unless it was built with another one, as examples/bisect does.
func Version(module, pinned string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return pinned
	}

	for _, m := range info.Deps {
		switch {
		case m.Path != module:
		case m.Replace == nil:
			return m.Version
		case m.Replace.Version != "":
			return m.Replace.Version
		default: // a folder, which has no version
			return pinned + " replaced by " + filepath.Base(m.Replace.Path)
		}
	}

	return pinned
}

// IdleDetector is how a database shows that its background work has ended.
type IdleDetector struct {
	Poll time.Duration // between two looks
	Rest time.Duration // without anything going on: nothing goes on
	// how long work may be due without anything going on before we believe that nothing will
	Overdue time.Duration
}

// Background is what a database tells of its background work.
type Background struct {
	engine.Settling
	Active bool // something goes on, or did since the last look
	Due    bool // a level is beyond its target
	Failed bool // the work: the engine might try for ever
}

// Await returns when no background work is left. look is told how long nothing went on.
// unsettled is set where a level stays due although nothing starts, or where work failed.
func (q IdleDetector) Await(
	ctx context.Context, unsettled *atomic.Bool,
	look func(quiet time.Duration) (Background, error), progress func(engine.Settling),
) error {
	poll := time.NewTicker(q.Poll)
	defer poll.Stop()
	quietSince := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}

		now, err := look(time.Since(quietSince))
		if err != nil {
			return err
		}

		if now.Active {
			quietSince = time.Now()
		}

		if progress != nil && !now.Failed {
			progress(now.Settling)
		}

		quiet := time.Since(quietSince)
		rests := quiet >= q.Rest && !now.Due && !now.Failed
		if rests || now.Failed || quiet >= q.Overdue {
			unsettled.Store(!rests)
			return nil
		}
	}
}

// Unsettled is the warning of a database that did not come to rest.
func Unsettled(remedy string) engine.Warning {
	return engine.Warning{
		Code: "unsettled",
		Text: "a level exceeds its target size but no compaction runs: later writes may change " +
			"the shape of the database",
		Remedy: remedy,
	}
}

// noticeableLog is the share of a database from which on its log is told.
const noticeableLog = 0.01

// Unflushed is the warning of a log whose writes were replayed into so many bytes of memory when a
// database with so many bytes of tables was opened for reading.
func Unflushed(logBytes, tableBytes int64) (w engine.Warning, much bool) {
	return engine.Warning{
		Code: engine.UnflushedLog,
		Text: fmt.Sprintf("the write-ahead log contains writes that are in no table yet. They "+
			"were replayed into %s of memory outside the block cache; Gets of their keys read no "+
			"block",
			unit.Bytes(logBytes)),
		Remedy: "start and stop the node that owns the database once; it then moves these writes " +
			"into tables",
	}, float64(logBytes) > noticeableLog*float64(tableBytes)
}

// ReplayedLog is the part of memory that holds such writes.
func ReplayedLog(bytes int64) engine.MemoryShare {
	return engine.MemoryShare{Use: "replayed log", Bytes: bytes, Basis: "measured"}
}
