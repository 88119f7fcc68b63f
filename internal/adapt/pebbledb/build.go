package pebbledb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/blockio"
)

// SortedBuild fills an empty database from ascending keys. It writes the tables
// that random loading would have come to rest in (lsm.Settle) and hands them to
// Pebble level by level, the last one first: Pebble puts a table one level above
// what it overlaps, and every table overlaps the level below. What random loading
// leaves in L0 goes there through the memtable.
//
// Which level a key belongs to is decided by a hash of its index. So each table
// is a job of its own, which streams a range of indexes and keeps those of its
// level: the same tables come out whatever the number of workers.
type SortedBuild struct {
	// The database's own options, defaults resolved.
	LBaseMaxBytes         int64
	TargetFileBytes       [Levels]int64
	MemTableBytes         uint64
	L0CompactionThreshold int

	// NewTable begins a table with the options of a level. Its Close finishes file.
	NewTable func(level int, file *TableFile) TableWriter
	// OpenForIngestion opens the database so that tables land where they should:
	// without compactions and with a base level of 1.
	OpenForIngestion func() (Version, error)

	db   *DB
	spec engine.SortedSpec
	open func(from, to uint64) engine.Entries
	done func(pairs uint64)
}

// TableWriter is sstable.Writer of either version.
type TableWriter interface {
	// Set adds a pair that was written with that sequence number.
	Set(key, value []byte, number uint64) error
	// Delete adds that a key was deleted.
	Delete(key []byte, number uint64) error
	Close() error
}

// ErrNotEmpty refuses a build into a database that holds keys.
var ErrNotEmpty = errors.New("the database is not empty")

// buildFolder holds tables that are not part of the database yet. It is inside
// the database's own directory because ingestion links files.
const buildFolder = "sorted-build"

// BuildSorted writes tables from ascending keys and ingests them into the shape
// that random loading ends with (SortedBuild). Pebble is closed and opened again
// before it returns: no other method may be called meanwhile.
func (d *DB) BuildSorted(
	ctx context.Context, spec engine.SortedSpec, entries func(from, to uint64) engine.Entries,
	done func(pairs uint64),
) error {
	if !spec.Resume {
		if err := d.checkEmpty(); err != nil {
			return d.failed("sorted build of", err)
		}
	}

	build, err := d.sortedBuild()
	if err != nil {
		return err
	}

	build.spec, build.open, build.done = spec, entries, done
	return build.run(ctx)
}

func (d *DB) sortedBuild() (SortedBuild, error) {
	o := d.opened
	o.Create = false
	s, errs := Resolve(d.library.About().Profiles, o)
	if len(errs) > 0 {
		return SortedBuild{}, errors.Join(errs...)
	}

	build, err := d.version.SortedBuild(s, o)
	build.db = d
	return build, err
}

func (d *DB) checkEmpty() error {
	if d.config.readOnly {
		return d.errReadOnly()
	}
	empty, err := d.version.Empty()
	if err == nil && !empty {
		err = ErrNotEmpty
	}
	return err
}

// reopen opens the database as it was before the build.
func (d *DB) reopen(ctx context.Context) error {
	o := d.opened
	o.Create = false
	fresh, err := open(context.WithoutCancel(ctx), d.library, o)
	if err != nil {
		return fmt.Errorf("%s: open %s after its build: %w", d.config.adapter, d.config.dir, err)
	}
	d.live = fresh
	return nil
}

// run builds the database. If it fails before detach, the database is as it was;
// afterwards it is reopened, but may hold a part of the levels. What has been done
// is left for a build that resumes: whole tables and whole levels.
func (b SortedBuild) run(ctx context.Context) (err error) {
	if b.spec.Keys == 0 {
		return nil
	}

	folder := filepath.Join(b.db.config.dir, buildFolder)
	if !b.spec.Resume {
		err = os.RemoveAll(folder)
	}

	if err := errors.Join(err, os.MkdirAll(folder, 0o755)); err != nil {
		return b.failed("make room for tables", err)
	}

	plan, _, err := b.plan()
	if err != nil {
		return b.failed("sample keys", err)
	}

	if err := plan.claim(folder); err != nil {
		return b.failed("resume", err)
	}

	tables, err := b.writeTables(ctx, plan, folder)
	if err != nil {
		return b.failed("write tables", err)
	}

	if err := b.db.detach(); err != nil {
		return err
	}

	ingestError := b.ingest(ctx, tables)
	if ingestError != nil {
		ingestError = b.failed("ingest tables", ingestError)
	}

	if err := errors.Join(ingestError, b.db.reopen(ctx)); err != nil {
		return err
	}

	if err := b.putRecent(ctx, plan); err != nil {
		return b.failed("put the keys of level 0", err)
	}

	if err := os.RemoveAll(folder); err != nil {
		return b.failed("remove temporary tables", err)
	}

	return nil
}

// plan lays out the levels. How well they compress decides how many keys they
// take, and that how far apart their sequence numbers are, by which they compress:
// it samples a plan to make the next one.
func (b SortedBuild) plan() (plan buildPlan, rest lsm.LevelShape, err error) {
	flushKeys := float64(b.MemTableBytes) / float64(b.spec.KeyBytes+b.spec.ValueBytes+
		memTableEntryBytes)
	// A level is due at a score of 1, and L0's is twice its depth over the threshold.
	staysInL0 := b.L0CompactionThreshold > 2
	var bytesPerKey [Levels]float64
	for level := range bytesPerKey {
		bytesPerKey[level] = float64(b.spec.KeyBytes + b.spec.ValueBytes)
	}

	for round := 0; ; round++ {
		rest = lsm.Settle(b.spec.Keys, b.LBaseMaxBytes, b.TargetFileBytes, func(
			level int, _ float64,
		) float64 {
			return bytesPerKey[level]
		})

		plan = newBuildPlan(b.spec, rest, bytesPerKey, flushKeys, staysInL0)
		if round == 2 {
			return plan, rest, nil
		}

		if bytesPerKey, err = b.sampleTables(plan); err != nil {
			return plan, rest, err
		}
	}
}

// memTableEntryBytes is what a memtable spends on a pair beyond its bytes.
const memTableEntryBytes = 47

const (
	// sampledPairs of each of a level's sampledRuns are enough to know the stored
	// size of a key within a percent and few enough to take no time.
	sampledPairs = 250
	sampledRuns  = 128 // files of a level differ in density, and with it in how well they compress
	// maxSampleRange bounds how many keys of other levels are passed over.
	maxSampleRange = 4 << 20
)

// sampleTables writes parts of the plan's tables into nothing and returns the
// bytes per key of each level: what values compress to cannot be known without
// trying. A level that the plan has not is like the next one.
func (b SortedBuild) sampleTables(plan buildPlan) (bytesPerKey [Levels]float64, err error) {
	var levels [Levels][]plannedTable
	for _, t := range plan.tables {
		levels[t.level] = append(levels[t.level], t)
	}

	errEnough := errors.New("enough pairs")
	var group errgroup.Group
	group.SetLimit(cmp.Or(max(0, b.spec.Workers), runtime.GOMAXPROCS(0)))
	for level, tables := range levels {
		group.Go(func() error {
			file, pairs := newTableFile(nil), 0
			out := b.NewTable(level, file)
			for run := range min(sampledRuns, len(tables)) {
				t := tables[run*len(tables)/min(sampledRuns, len(tables))]
				t.to = min(t.to, t.from+maxSampleRange)
				enough := pairs + sampledPairs
				err := b.stream(plan, t, func(key, value []byte, number uint64) error {
					if pairs == enough {
						return errEnough
					}
					pairs++
					return out.Set(key, value, number)
				})

				if err != nil && !errors.Is(err, errEnough) {
					return errors.Join(err, out.Close())
				}
			}

			err := out.Close()
			if pairs > 0 {
				bytesPerKey[level] = float64(file.bytes) / float64(pairs)
			}

			return err
		})
	}

	err = group.Wait()
	for level := lastLevel - 1; level >= 0; level-- {
		if bytesPerKey[level] == 0 {
			bytesPerKey[level] = bytesPerKey[level+1]
		}
	}

	return bytesPerKey, err
}

// writeTables writes all tables of the plan and returns the paths of each level.
func (b SortedBuild) writeTables(
	ctx context.Context, plan buildPlan, folder string,
) (paths [Levels][]string, err error) {
	ingested, err := tablesPerLevel(b.db.version)
	if err != nil {
		return paths, err
	}

	var mu sync.Mutex
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(max(0, b.spec.Workers), runtime.GOMAXPROCS(0)))
	for number, t := range plan.tables {
		if inGroup.Err() != nil {
			break
		}

		if ingested[t.level] > 0 {
			continue
		}

		path := filepath.Join(folder, fmt.Sprintf("L%d-%06d.table", t.level, number))
		if _, err := os.Stat(path); err == nil {
			mu.Lock()
			paths[t.level] = append(paths[t.level], path)
			mu.Unlock()
			continue
		}

		group.Go(func() error {
			pairs, err := b.writeTable(inGroup, plan, t, path)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}

			if pairs > 0 {
				mu.Lock()
				defer mu.Unlock()
				paths[t.level] = append(paths[t.level], path)
			}

			return nil
		})
	}

	if err := group.Wait(); err != nil {
		return paths, err
	}

	return paths, context.Cause(ctx)
}

// pairsPerReport is how many pairs pass between two looks at the context.
const pairsPerReport = 4096

// writeTable writes the pairs of t, syncs the file and returns their number; of
// none there is no file.
func (b SortedBuild) writeTable(
	ctx context.Context, plan buildPlan, t plannedTable, path string,
) (pairs uint64, err error) {
	partial := path + ".partial"
	var table TableWriter // begun at the first pair
	// Ingest refuses a table whose first or last pair has a sequence number. The
	// others' are not looked at: all pairs of an ingested table read as having one
	// number of its own.
	var last struct {
		key, value []byte
		number     uint64
	}

	err = b.stream(plan, t, func(key, value []byte, number uint64) error {
		if table == nil {
			file, err := os.Create(partial)
			if err != nil {
				return err
			}
			table, number = b.NewTable(t.level, newTableFile(file)), 0
		} else if err := table.Set(last.key, last.value, last.number); err != nil {
			return err
		}

		last.key, last.value, last.number = append(last.key[:0], key...),
			append(last.value[:0], value...), number
		if pairs++; pairs%pairsPerReport == 0 {
			b.done(pairsPerReport)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}

		return nil
	})

	b.done(pairs % pairsPerReport)
	if table == nil {
		return pairs, err
	}

	if err == nil {
		err = table.Set(last.key, last.value, 0)
	}

	if err = errors.Join(err, table.Close()); err == nil {
		err = os.Rename(partial, path)
	}

	return pairs, err
}

// stream calls yield with the pairs of t in ascending order.
func (b SortedBuild) stream(
	plan buildPlan, t plannedTable, yield func(key, value []byte, number uint64) error,
) error {
	place := plan.placer(t.from)
	return stream(b.open, t.from, t.to,
		func(index uint64) (uint64, bool) { return place.holds(t.level, index) }, yield)
}

// stream calls yield with those pairs that are wanted, and their sequence numbers.
func stream(
	open func(from, to uint64) engine.Entries, from, to uint64,
	wanted func(index uint64) (number uint64, is bool),
	yield func(key, value []byte, number uint64) error,
) error {
	next := open(from, to)
	for index := from; index < to; index++ {
		number, is := wanted(index)
		key, value, err := next(!is)
		if err != nil {
			return fmt.Errorf("the stream of keys %d to %d ended at %d: %w", from, to, index, err)
		}

		if !is {
			continue
		}

		if err := yield(key, value, number); err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
	}

	return nil
}

// batchPairs are committed at once.
const batchPairs = 1000

// putRecent writes the plan's keys of L0 as random loading does: they are its
// last flush, or what compactions have left of it.
func (b SortedBuild) putRecent(ctx context.Context, plan buildPlan) error {
	for _, r := range plan.recent {
		if err := b.putRange(ctx, plan, r); err != nil {
			return err
		}

		if err := b.db.Settle(ctx, nil); err != nil {
			return err
		}
	}

	return nil
}

func (b SortedBuild) putRange(ctx context.Context, plan buildPlan, r plannedTable) (err error) {
	out, err := b.db.Writer()
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, out.Close()) }()
	var batched uint64
	commit := func() error {
		err := out.Commit()
		b.done(batched)
		batched = 0
		return errors.Join(err, context.Cause(ctx))
	}

	if err := b.stream(plan, r, func(key, value []byte, _ uint64) error {
		if batched++; batched == batchPairs {
			return errors.Join(out.Put(key, value), commit())
		}
		return out.Put(key, value)
	}); err != nil {
		return err
	}

	return commit()
}

// ingest hands the tables over and checks that each landed on its level.
func (b SortedBuild) ingest(ctx context.Context, tables [Levels][]string) (err error) {
	into, err := b.OpenForIngestion()
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, into.Close()) }()
	want, err := tablesPerLevel(into) // of a build that this one resumes
	if err != nil {
		return err
	}

	for level := Levels - 1; level >= 0; level-- {
		if len(tables[level]) == 0 {
			continue
		}

		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		together := len(tables[level])
		if level == 0 {
			together = 1 // its tables overlap
		}

		for some := range slices.Chunk(tables[level], together) {
			if err := into.Ingest(ctx, some); err != nil {
				return fmt.Errorf("level %d, %s and %d more: %w", level, some[0], len(some)-1, err)
			}
		}

		want[level] = len(tables[level])
	}

	b.db.built.Add(int64(into.Metrics().IngestBytes)) // its handle's metrics end with it
	have, err := tablesPerLevel(into)
	// of tables that are rewritten there is no plan
	if err == nil && b.spec.Keys > 0 && !asPlanned(have, want) {
		err = fmt.Errorf("tables per level are %v, not %v as planned: load with --workload "+
			"fillrandom, or with larger tables (TargetFileSize)", have, want)
	}

	return err
}

// asPlanned allows for what chance does to very small tables: one of thousands lies
// between two of the level below, overlaps none, and Pebble puts it there.
func asPlanned(have, want [Levels]int) bool {
	for level, n := range want {
		if difference := have[level] - n; difference*100 > n || -difference*100 > n {
			return false
		}
	}
	return true
}

func tablesPerLevel(v Version) (count [Levels]int, err error) {
	tables, err := v.Tables()
	for _, t := range tables {
		count[t.Level]++
	}
	return count, err
}

func (b SortedBuild) failed(doing string, err error) error {
	return b.db.failed("sorted build of", fmt.Errorf("%s: %w", doing, err))
}

// detach closes Pebble for another handle on the same files. Close stays legal
// and does nothing more, and counters stay what they were: they are asked for at the
// end of a build that failed, too.
func (d *live) detach() error {
	last := d.version.Metrics()
	err := d.Close()
	d.version = detached{last: last}
	return err
}

type detached struct {
	Version
	last Metrics
}

func (d detached) Metrics() Metrics { return d.last }

func (detached) Tables() ([]blockio.LiveTable, error) {
	return nil, errors.New("the database is closed: its build failed")
}

func (detached) Close() error { return nil }
