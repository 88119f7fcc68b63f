package pebble1

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/sstable"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
)

// BuildSorted writes tables from ascending keys and ingests them into the shape
// that random loading ends with (pebbledb.SortedBuild). Pebble is closed and
// opened again before it returns: no other method may be called meanwhile.
func (d *db) BuildSorted(ctx context.Context, spec engine.SortedSpec, entries func(from, to uint64) engine.Entries, done func(pairs uint64)) error {
	if err := d.checkEmpty(); err != nil {
		return fmt.Errorf("pebble1: sorted build of %s: %w", d.dir, err)
	}
	o := d.opened
	o.Create = false
	settings, errs := pebbledb.Resolve(profiles(), o)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	options, err := translate(settings, o)
	if err != nil {
		return err
	}
	options = options.EnsureDefaults()
	options.Logger = pebbledb.Logger{Adapter: "pebble1", Log: o.Log}
	build := pebbledb.SortedBuild{
		Adapter:               "pebble1",
		Dir:                   d.dir,
		LBaseMaxBytes:         options.LBaseMaxBytes,
		MemTableBytes:         options.MemTableSize,
		L0CompactionThreshold: options.L0CompactionThreshold,
		NewTable: func(level int, file *pebbledb.TableFile) pebbledb.TableWriter {
			return sstable.NewWriter(file, options.MakeWriterOptions(level, tableFormat(options)))
		},
		Release:          d.Detach,
		OpenForIngestion: func() (pebbledb.Ingester, error) { return openForIngestion(d.dir, options, &d.built) },
		Reopen:           func() (engine.DB, error) { return d, d.reopen(context.WithoutCancel(ctx), o) },
	}
	for level := range build.TargetFileBytes {
		build.TargetFileBytes[level] = options.Level(level).TargetFileSize
	}
	return build.Run(ctx, spec, entries, done)
}

func (d *db) checkEmpty() error {
	if d.readOnly {
		return errReadOnly
	}
	iterator, err := d.pebble.NewIter(nil)
	if err != nil {
		return err
	}
	found := iterator.First()
	if err := errors.Join(iterator.Error(), iterator.Close()); err != nil {
		return err
	}
	if found {
		return pebbledb.ErrNotEmpty
	}
	return nil
}

// reopen puts a fresh handle behind d.
func (d *db) reopen(ctx context.Context, o engine.Options) error {
	fresh, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("pebble1: open %s after its build: %w", d.dir, err)
	}
	d.DB, d.pebble, d.events = fresh.DB, fresh.pebble, fresh.events
	return nil
}

// tableFormat is the one a compaction writes.
func tableFormat(options *pebble.Options) sstable.TableFormat {
	format := options.FormatMajorVersion.MaxTableFormat()
	if format == sstable.TableFormatPebblev3 {
		return sstable.TableFormatPebblev2 // value blocks are not enabled
	}
	return format
}

// ingester counts into built what it has ingested, since its handle's metrics end
// with it.
type ingester struct {
	*pebble.DB
	built *atomic.Int64
}

func (i ingester) Close() error {
	for _, level := range i.Metrics().Levels {
		i.built.Add(int64(level.BytesIngested))
	}
	return i.DB.Close()
}

func openForIngestion(dir string, options *pebble.Options, built *atomic.Int64) (pebbledb.Ingester, error) {
	building := options.Clone()
	building.DisableAutomaticCompactions = true
	building.LBaseMaxBytes = 1 // a table may land on any level below L0
	db, err := pebble.Open(dir, building)
	if err != nil {
		return nil, err
	}
	return ingester{db, built}, nil
}

func (i ingester) Ingest(_ context.Context, paths []string) error { return i.DB.Ingest(paths) }

func (i ingester) TablesPerLevel() (count [pebbledb.Levels]int, err error) {
	tables, err := i.SSTables()
	for level := range tables {
		count[level] = len(tables[level])
	}
	return count, err
}
