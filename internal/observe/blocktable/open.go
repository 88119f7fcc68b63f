package blocktable

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/unit"
)

// vanishedRetries bounds how often Open starts again because the process that holds the database
// deleted a file meanwhile.
const vanishedRetries = 20

// Open reads the manifest, the logs, and of every table of a family ("" is the default one) the
// filters and the index, as a database is read that is opened with these options: those of its OPTIONS
// file, with some replaced. It writes nothing and takes no lock, so the database may be in use: what is
// resolved is its state at one moment.
//
// Anything that could not be resolved exactly is an error.
func Open(dir, family string, replaced Options) (*Resolver, error) {
	return retried(dir, func() (*Resolver, error) {
		own, logs, err := readOptions(dir, cmp.Or(family, defaultFamily), replaced["wal_dir"])
		if err != nil {
			return nil, err
		}
		maps.Copy(own, replaced)
		reading, err := own.Reading()
		if err != nil {
			return nil, err
		}
		return open(dir, logs, cmp.Or(family, defaultFamily), reading)
	})
}

// OpenLevel is Open of a database of LevelDB: filters are asked or not, and blockBytes is the option
// with which it is opened, not what its tables have.
func OpenLevel(dir string, filters bool, blockBytes int) (*Resolver, error) {
	return retried(dir, func() (*Resolver, error) {
		return open(dir, dir, defaultFamily, Reading{Level: true, Filters: filters, BlockBytes: blockBytes, MetadataInCache: true})
	})
}

// retried opens until no file vanishes meanwhile.
func retried(dir string, open func() (*Resolver, error)) (*Resolver, error) {
	for attempt := 1; ; attempt++ {
		r, err := open()
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errCut) || attempt == vanishedRetries {
			return nil, engine.Fail(engine.CodeOf(err), "resolve %s: %w", dir, err).With(failure.Measure, dir)
		}
	}
}

const defaultFamily = "default"

func open(dir, logs, name string, reading Reading) (*Resolver, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(m.families, func(f *Family) bool { return f.Name == name || unit.Printable(f.Name) == name })
	if at < 0 {
		var have []string
		for _, f := range m.families {
			have = append(have, unit.Printable(f.Name))
		}
		return nil, fmt.Errorf("there is no column family %q; those of the database: %s", name, strings.Join(have, ", "))
	}
	family := m.families[at]
	if err := family.supported(); err != nil {
		return nil, err
	}
	r := &Resolver{identity: identify(family.Tables), reading: reading, torn: m.torn}
	if r.unflushed, err = readLogs(logs, family); err != nil {
		return nil, err
	}
	if r.tables, err = openTables(dir, family.Tables, &r.reading); err != nil {
		return nil, err
	}
	r.blobs = slices.SortedFunc(maps.Values(family.blobs), func(a, b blobFile) int { return cmp.Compare(a.number, b.number) })
	if err := r.arrange(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (f *Family) supported() error {
	if !slices.Contains(byteComparators, f.comparator) {
		return engine.Fail(engine.CodeUnsupported, "column family %s: its keys are ordered by %s, only the order of bytes is supported",
			unit.Printable(f.Name), f.comparator)
	}
	return nil
}

func openTables(dir string, facts []Facts, r *Reading) ([]*table, error) {
	tables := make([]*table, len(facts))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range facts {
		group.Go(func() (err error) {
			tables[i], err = openTable(dir, facts[i], r)
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		return tables, nil
	}
	for _, t := range tables {
		if t != nil {
			err = errors.Join(err, t.opened.Close())
		}
	}
	return nil, err
}

// arrange numbers the blocks and puts the tables into the order in which a Get asks them.
func (r *Resolver) arrange() error {
	next := uint64(0)
	deletesRanges, ingested := len(r.unflushed.tombstones) > 0, false
	for _, t := range r.tables {
		t.prepare(&r.reading)
		if next = t.number(next); next+uint64(len(r.blobs)) > math.MaxUint32 {
			return fmt.Errorf("more than %d blocks", uint32(math.MaxUint32))
		}
		if n := len(r.levels); n == 0 || r.levels[n-1].number != t.Level {
			r.levels = append(r.levels, level{number: t.Level})
		}
		l := &r.levels[len(r.levels)-1]
		l.tables = append(l.tables, t)
		if t.Level > 0 {
			if err := addSeparator(&l.largest, &l.beyond, t.Largest, t.largestBeyond); err != nil {
				return fmt.Errorf("level %d: %w", t.Level, err)
			}
		}
		deletesRanges, ingested = deletesRanges || t.deletesRanges, ingested || t.ingested()
	}
	if deletesRanges && ingested {
		return errors.New("range deletions together with tables that were ingested, whose entries have no sequence numbers, are not supported")
	}
	for i := range r.levels {
		r.levels[i].largest.Finish()
	}
	// Up to three tables, and nothing below: then none is passed over by its bounds.
	r.filtersL0 = len(r.levels) > 0 && (r.levels[len(r.levels)-1].number > 0 || len(r.levels[0].tables) > 3)
	r.firstBlob, r.blocks = uint32(next), uint32(next)+uint32(len(r.blobs))
	r.sizes = make([]atomic.Int32, r.blocks)
	for i, b := range r.blobs {
		r.sizes[r.firstBlob+uint32(i)].Store(int32(min(b.bytes/max(1, b.count), maxBlockBytes)) + 1)
	}
	return nil
}

// prepare settles what of a table depends on how it is read.
func (t *table) prepare(r *Reading) {
	unpartitioned, top := r.Unpartitioned.of(&t.Facts, r), r.Top.of(&t.Facts, r)
	t.pinnedPartitions, t.pinnedDictionary = r.Partitions.of(&t.Facts, r), unpartitioned
	t.pinnedRoot, t.pinnedFilter = unpartitioned, unpartitioned
	if len(t.partitions) > 0 {
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

func identify(tables []Facts) string {
	h := sha256.New()
	for _, t := range tables {
		fmt.Fprintf(h, "%d %d %d\n", t.Level, t.File, t.Bytes) // a hash never fails
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}
