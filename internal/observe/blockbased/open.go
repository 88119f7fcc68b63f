package blockbased

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
)

// Open reads the manifest, the logs, and of every table of a family ("" is the default one) the
// filters and the index, as a database is read that is opened with these options: those of its
// OPTIONS file, with some replaced. It writes nothing and takes no lock, so the database may be in
// use: what is resolved is its state at one moment.
//
// Anything that could not be resolved exactly is an error.
func Open(dir, family string, replaced Options) (*Resolver, error) {
	return retried(dir, func() (*Resolver, error) {
		own, logs, warnings, err := readOptions(dir, cmp.Or(family, defaultFamily),
			replaced["wal_dir"])
		if err != nil {
			return nil, err
		}

		maps.Copy(own, replaced)
		reading, err := own.Reading()
		if err != nil {
			return nil, err
		}

		r, err := open(dir, logs, cmp.Or(family, defaultFamily), reading)
		if err == nil {
			r.doubts = warnings
		}
		return r, err
	})
}

// OpenLevel is Open of a database of LevelDB: filters are asked or not, and blockBytes is the
// option with which it is opened, not what its tables have.
func OpenLevel(dir string, filters bool, blockBytes int) (*Resolver, error) {
	return retried(dir, func() (*Resolver, error) {
		return open(dir, dir, defaultFamily, levelReading(filters, blockBytes))
	})
}

func levelReading(filters bool, blockBytes int) Reading {
	return Reading{Level: true, Filters: filters, BlockBytes: blockBytes, MetadataInCache: true}
}

// retried opens until no file vanishes meanwhile.
func retried(dir string, open func() (*Resolver, error)) (r *Resolver, err error) {
	err = livedir.Retry(dir, func() (err error) {
		r, err = open()
		return err
	}, errCut)
	if err != nil {
		return nil, engine.Fail(engine.CodeOf(err), "resolve %s: %w", dir, err).
			WithRemedy(failure.Measure, dir)
	}

	return r, nil
}

const defaultFamily = "default"

func open(dir, logs, name string, reading Reading) (*Resolver, error) {
	listed, err := listLogs(logs)
	if err != nil {
		return nil, err
	}

	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}

	family, err := m.family(name)
	if err != nil {
		return nil, err
	}

	r := &Resolver{reading: reading, torn: m.torn, opened: family.opened()}
	if r.unflushed, err = readLogs(logs, listed, family); err != nil {
		return nil, err
	}

	all, err := lsmtail.EachTable(family.Tables, func(facts Facts) (*table, error) {
		return openTable(dir, facts, &r.reading)
	})
	if r.Tables = lookuppath.Opened(all, family.Tables); err == nil {
		err = r.arrange(family)
	}

	if err != nil {
		return nil, errors.Join(err, r.Close())
	}

	return r, nil
}

func (f *Family) supported() error {
	if !slices.Contains(byteComparators, f.comparator) {
		return engine.Fail(engine.CodeUnsupported, "column family %s: its keys are ordered by "+
			"%s, only the order of bytes is supported",
			unit.Printable(f.Name), f.comparator)
	}
	return nil
}

// arrange numbers the blocks and puts the tables into the order in which a Get asks them.
func (r *Resolver) arrange(family *Family) error {
	if err := r.number(family); err != nil {
		return err
	}

	for from := 0; from < len(r.All); {
		number, to := r.All[from].Level, from
		for to < len(r.All) && r.All[to].Level == number {
			to++
		}

		l, err := levelOf(number, r.All[from:to])
		if err != nil {
			return err
		}

		r.levels, from = append(r.levels, l), to
	}

	return nil
}

// number numbers the blocks of the family's tables, of all times.
func (r *Resolver) number(family *Family) (err error) {
	r.blobs = slices.SortedFunc(maps.Values(family.blobs), func(a, b lsmtail.BlobFile) int {
		return cmp.Compare(a.Number, b.Number)
	})
	deletesRanges, ingested := r.unflushed != nil && r.unflushed.DeletesRanges(), false
	for _, t := range r.All {
		t.prepare(&r.reading)
		t.number()
		deletesRanges, ingested = deletesRanges || t.deletesRanges, ingested || t.ingested()
	}

	if deletesRanges && ingested {
		return errors.New("range deletions together with tables that were ingested, whose " +
			"entries have no sequence numbers, are not supported")
	}

	return r.numberAll()
}

// numberAll gives all blocks their numbers.
func (r *Resolver) numberAll() (err error) {
	if r.firstBlob, err = r.Number(len(r.blobs)); err != nil {
		return err
	}

	for i, b := range r.blobs {
		r.Keep(r.firstBlob+uint32(i), int(min(b.Bytes/max(1, b.Count), lookuppath.MaxBlockBytes)))
	}

	return nil
}

// levelOf is a level of these tables, in the order in which a Get asks them.
func levelOf(number int, tables []*table) (level, error) {
	l := level{number: number, tables: slices.Clone(tables)}
	slices.SortFunc(l.tables, func(a, b *table) int {
		x, y := a.Facts, b.Facts
		x.Level, y.Level = number, number // they can have come to another one first
		return inLevelOrder(x, y)
	})

	if number > 0 {
		for _, t := range l.tables {
			if err := addSeparator(&l.largest, &l.beyond, t.Largest, t.Exclusive); err != nil {
				return l, fmt.Errorf("level %d: %w", number, err)
			}
		}
	}

	l.largest.Finish()
	return l, nil
}

// filtersL0 tells whether tables of level 0 are asked within their bounds only: not if there are up
// to three, and nothing below.
func filtersL0(levels []level) bool {
	return len(levels) > 0 && (levels[len(levels)-1].number > 0 || len(levels[0].tables) > 3)
}

// prepare settles what of a table depends on how it is read.
func (t *table) prepare(r *Reading) {
	t.reading = r
	unpartitioned, top := r.Unpartitioned.of(&t.Facts, r), r.Top.of(&t.Facts, r)
	t.pinnedPartitions, t.pinnedDictionary = r.Partitions.of(&t.Facts, r), unpartitioned
	t.pinnedRoot, t.pinnedFilter = unpartitioned, unpartitioned
	if len(t.Partitions) > 0 {
		t.pinnedRoot = top
	}

	if t.filters.parted {
		t.pinnedFilter = top
	}

	t.samePrefixes = samePrefixes(t.properties["rocksdb.prefix.extractor.name"], r.PrefixExtractor)
	t.highPriority = r.HighPriority
	t.merges = t.count("rocksdb.merge.operands") > 0
}

// samePrefixes tells whether a table was written with the extractor that Gets use.
func samePrefixes(written, read string) bool {
	plain := func(name string) string {
		name = strings.ReplaceAll(name, "rocksdb.FixedPrefix.", "fixed:")
		return strings.ReplaceAll(name, "rocksdb.CappedPrefix.", "capped:")
	}
	return read != "" && plain(written) == plain(read)
}
