package pebble1

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/blockio"
	"github.com/statelab/statelab/internal/pebbledb"
)

type db struct {
	pebble     *pebble.DB
	dir        string
	readOnly   bool
	disableWAL bool
	recorder   *blockio.Recorder
	events     *events
	effective  map[string]string
	log        func(string)

	written   atomic.Int64 // keys and values committed, bytes
	unsettled atomic.Bool

	refreshing  sync.Mutex
	stop        context.CancelFunc // of the follower
	followers   sync.WaitGroup
	followError atomic.Pointer[error]
}

// start learns the tables there are, begins to follow changes and waits for the
// statistics Pebble loads of every table, so that only Gets read afterwards.
func (d *db) start(ctx context.Context) error {
	following, stop := context.WithCancel(context.Background())
	d.stop = stop
	if err := d.refresh(ctx, d.reportLearning); err != nil {
		return err
	}
	d.followers.Go(func() { d.follow(following) })
	if d.readOnly {
		return nil // Pebble loads no statistics then
	}
	select {
	case <-d.events.statsLoaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *db) reportLearning(done, total int) {
	if d.log != nil && (done%1000 == 0 || done == total) {
		d.log(fmt.Sprintf("layouts learnt: %d of %d tables", done, total))
	}
}

// follow keeps levels and layouts up to date.
func (d *db) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.events.changed:
		}
		if err := d.refresh(ctx, nil); err != nil && ctx.Err() == nil {
			d.followError.CompareAndSwap(nil, &err)
		}
	}
}

// refresh tells the recorder which tables are live and learns the new ones.
func (d *db) refresh(ctx context.Context, progress func(done, total int)) error {
	d.refreshing.Lock()
	defer d.refreshing.Unlock()
	tables, err := d.tables()
	if err != nil {
		return err
	}
	d.recorder.SetLive(tables, func(number blockio.FileNumber) string {
		return filepath.Join(d.dir, fmt.Sprintf("%06d.sst", number))
	})
	return d.recorder.LearnAll(ctx, progress)
}

// tables lists the tables of the current version.
func (d *db) tables() ([]blockio.LiveTable, error) {
	levels, err := d.pebble.SSTables()
	if err != nil {
		return nil, fmt.Errorf("pebble1: list the tables of %s: %w", d.dir, err)
	}
	var tables []blockio.LiveTable
	for level, infos := range levels {
		for _, t := range infos {
			tables = append(tables, blockio.LiveTable{
				Number:  blockio.FileNumber(t.BackingSSTNum),
				Level:   level,
				Bytes:   int64(t.Size),
				Virtual: t.Virtual,
			})
		}
	}
	return tables, nil
}

func (d *db) Sync(context.Context) error {
	if err := d.events.err(); err != nil {
		return err
	}
	var err error
	if d.disableWAL {
		err = d.pebble.Flush()
	} else {
		// An empty log record, synced, takes everything before it along.
		err = d.pebble.LogData(nil, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("pebble1: sync %s: %w", d.dir, err)
	}
	return nil
}

func (d *db) Settle(ctx context.Context, progress func(engine.Settling)) error {
	if !d.readOnly {
		if err := d.pebble.Flush(); err != nil {
			return fmt.Errorf("pebble1: flush %s: %w", d.dir, err)
		}
	}
	settled, err := pebbledb.AwaitQuiet(ctx, d.activity, progress)
	if err != nil {
		return fmt.Errorf("pebble1: settle %s: %w", d.dir, err)
	}
	d.unsettled.Store(!settled && !d.readOnly)
	if err := d.refresh(ctx, nil); err != nil {
		return err
	}
	return d.events.err()
}

func (d *db) activity() pebbledb.Activity {
	m := d.pebble.Metrics()
	a := pebbledb.Activity{
		Running:      int(m.Compact.NumInProgress + m.Flush.NumInProgress),
		PendingBytes: int64(m.Compact.EstimatedDebt),
		Finished:     d.events.jobs.Load(),
		TableReads:   d.recorder.Reads().Total().Count,
	}
	for _, l := range m.Levels {
		a.Score = max(a.Score, l.Score)
	}
	return a
}

func (d *db) Shape() (engine.Shape, error) {
	if err := d.refresh(context.Background(), nil); err != nil {
		return engine.Shape{}, err
	}
	tables, err := d.tables()
	if err != nil {
		return engine.Shape{}, err
	}
	return d.recorder.Shape(tables, int(d.pebble.Metrics().Levels[0].Sublevels), cacheChargeBytes), nil
}

// cacheChargeBytes is what v1's cache charges for a block beyond its content.
const cacheChargeBytes = 0

func (d *db) Effective() map[string]string { return d.effective }

func (d *db) Warnings() []engine.Warning {
	var warnings []engine.Warning
	if d.unsettled.Load() {
		warnings = append(warnings, pebbledb.UnsettledWarning())
	}
	if err := d.followError.Load(); err != nil {
		warnings = append(warnings, pebbledb.UnknownLayoutWarning(*err))
	}
	return warnings
}

func (d *db) Close() error {
	d.stop()
	d.followers.Wait()
	if err := d.pebble.Close(); err != nil {
		return fmt.Errorf("pebble1: close %s: %w", d.dir, err)
	}
	return nil
}

var errReadOnly = errors.New("pebble1: the database is open for reading only")
