package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/predict"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/blockio/pebble2fs"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/observe/lsmtail"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/observe/resolve"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// following is a database that is followed while its owner writes into it.
type following interface {
	Poll(at time.Duration)
	Correct(all []lsmtail.Seen)
	Changes(memTableBytes int64, wrote bool) (changes []lsmtail.Change, held int64)
	TablesAdded() map[uint64]bool
	Level(file uint64) (level int, known bool)
	LiveTables() []uint64 // file numbers
	Close() error
	// source resolves Gets of some column families, each at its moment, if nothing is followed any
	// more.
	source(families []string) (source, error)
}

type source interface {
	lookuppath.Source
	lookuppath.Opener
	Identity() string
	// ReopenTables lets Gets open the tables that they do not find open, as open says. It can be
	// called once.
	ReopenTables(open lookuppath.OpenTables) error
	// ConsultFilters lets Gets consult the filters of tables although the options name no filter
	// policy, or not any more. It can be called before ReopenTables only.
	ConsultFilters(consult bool) error
}

// oneTree is a database without column families.
type oneTree struct{ *resolve.Following }

func (f oneTree) source([]string) (source, error) { return f.Moments() }

// blockTables is a database with column families, whose number begins a key.
type blockTables struct{ *blockbased.Following }

func (f blockTables) source(families []string) (source, error) { return f.Source(families) }

// followed is a database that is followed in the background while its Gets are watched.
type followed struct {
	following
	names   *probe.Names
	stop    chan struct{}
	running sync.WaitGroup
	err     error // why it is not followed
}

// lookEach is how often the database is looked at: what is found then can be older by as much.
const lookEach = 10 * time.Millisecond

func followDatabase(layout Layout) *followed {
	f := &followed{stop: make(chan struct{})}
	if f.names, f.err = probe.Appeared(layout.Folders); f.err != nil {
		return f
	}

	if f.following, f.err = layout.Follow(f.names.Next); f.err != nil {
		f.following, f.err = nil, errors.Join(f.err, f.names.Close())
		return f
	}

	f.running.Go(func() {
		each := time.NewTicker(lookEach)
		defer each.Stop()
		for ended := false; !ended; {
			select {
			case <-each.C:
			case <-f.stop:
				ended = true
			}

			f.Poll(probe.Now())
		}
	})

	return f
}

// end looks once more, and no more.
func (f *followed) end() error {
	if f.following == nil {
		return nil
	}
	close(f.stop)
	f.running.Wait()
	return f.names.Close()
}

// sourceOf resolves the Gets of some numbers, each at its own moment, and begins the header of
// their trace.
func (a *analysis) sourceOf(wanted []int) (source, trace.Header, error) {
	var seen []lsmtail.Seen
	for _, i := range wanted {
		for _, r := range a.gets[i].reads {
			seen = append(seen, lsmtail.Seen{File: r.table.number, At: a.gets[i].start})
		}
	}

	a.follow.Correct(seen)
	families := a.families
	if families == nil {
		families = []string{""}
	}

	source, err := a.follow.source(families)
	if err != nil {
		return nil, trace.Header{}, err
	}

	header := trace.Header{
		Schema:         schema.Trace,
		Engine:         a.w.Process.Engine,
		EngineVersion:  a.w.Process.EngineVersion,
		Keys:           fmt.Sprintf("Gets of %s, seen from outside", a.w.Process.Name),
		WarmupGets:     len(wanted) / 2,
		Database:       source.Identity(),
		Filled:         a.hasRead,
		Cache:          a.layout.Cache,
		CacheHighShare: a.layout.Setup.HighShare,
	}

	if of, is := source.(interface{ CacheKeys() map[uint64][2]uint64 }); is {
		header.CacheKeys = of.CacheKeys()
	}

	header.Events, _ = a.events(wanted, a.cache.Bytes)
	return source, header, nil
}

// record writes the block accesses of the Gets of some numbers, and loads them.
func (a *analysis) record(
	ctx context.Context, source source, wanted []int, header trace.Header,
) (*cachesim.Trace, []byte, error) {
	at := 0
	next := func() ([]byte, bool, bool) {
		if at == len(wanted) {
			return nil, false, false
		}

		if at%10_000 == 0 {
			a.options.Tell(result.Event{
				Phase: "working out block accesses",
				Done:  uint64(at),
				Total: uint64(len(wanted)),
				Unit:  "Gets",
			})
		}

		at++
		key, g := a.key(wanted[at-1]), &a.gets[wanted[at-1]]
		if a.layout.ByFamily {
			key = blockbased.MemberKey(int(g.family), key)
		}

		return lsmtail.AppendTime(key, g.start), false, true
	}

	var from lookuppath.Source = source
	if a.inBatches(wanted) {
		from = batches{source, func(made uint64) bool { return a.endsBatch(wanted, int(made)-1) }}
	}

	var out bytes.Buffer
	if err := record(ctx, from, next, uint64(len(wanted)), header, &out); err != nil {
		return nil, nil, err
	}

	t, _, err := trace.Load(bytes.NewReader(out.Bytes()))
	return t, out.Bytes(), err
}

// events are the changes of the database as they come between the Gets, for a cache of a size, and
// what memtables took of it at first.
func (a *analysis) events(
	wanted []int, cacheBytes int64,
) (events []cachesim.Event, reserved int64) {
	memTable, wrote := int64(predict.OpenReserve), a.cache.MemTable != nil
	if wrote {
		memTable = a.cache.MemTable(cacheBytes)
	}

	before := func(at time.Duration) int {
		return sort.Search(len(wanted), func(i int) bool { return a.gets[wanted[i]].start > at })
	}
	changes, reserved := a.follow.Changes(memTable, wrote)
	for _, c := range changes {
		events = append(events, cachesim.Event{
			Get:          before(c.At),
			TableAdded:   c.TableAdded,
			TableDeleted: c.TableDeleted,
			Reserved:     c.Held,
		})
	}

	events = append(events, a.passes(len(wanted), before)...)
	slices.SortStableFunc(events,
		func(a, b cachesim.Event) int { return cmp.Compare(a.Get, b.Get) })
	return events, reserved
}

// maxPasses bounds the events of compactions, whose single reads do not matter.
const maxPasses = 20_000

// passes are how far compactions had come in tables.
func (a *analysis) passes(gets int, before func(time.Duration) int) (events []cachesim.Event) {
	each := 1 + gets/maxPasses
	type pass struct {
		get  int
		file uint64
	}

	last := map[pass]int{}
	for _, p := range a.passed {
		key := pass{(before(p.at) + each - 1) / each * each, p.table.number}
		if i, known := last[key]; known {
			events[i].Offset = max(events[i].Offset, uint64(p.offset))
			continue
		}

		last[key] = len(events)
		events = append(events, cachesim.Event{
			Get:          key.get,
			TableScanned: key.file,
			Offset:       uint64(p.offset),
		})
	}

	return events
}

// Layout is what is known of the database of a watched engine.
type Layout struct {
	Dir     string
	Version string // of the engine, where its files tell
	// Learn reads what lies where in a table.
	Learn blockio.LayoutReader
	// Folders are where its files come and go, of which appeared tells for Follow, which follows
	// its tables and logs while they change.
	Folders []string
	Follow  func(appeared func() ([]string, error)) (following, error)
	// Families are the names of the column families by number; nil: the engine has none.
	Families func() (map[uint32]string, error)
	ByFamily bool // what is followed is asked with the number of a family in front of the key
	// Setup is the engine's block cache; without a policy it is not modelled. Cache is its kind,
	// where the engine has several.
	Setup cachesim.Setup
	Cache cachesim.Policy
}

// LayoutOf is the layout of an engine's database in dir.
func LayoutOf(engine, dir string) Layout {
	of, _ := subject.EngineOf(engine)
	header := trace.Header{Engine: engine}
	if of.BlockTables {
		log, _ := optionsfile.ReadLog(dir) // CacheOf tells of an error
		header.EngineVersion = log.Version
		if cache, is := log.OnlyCache(); is {
			header.Cache, header.CacheHighShare, _ = policyOf(cache)
		}
	}

	setup := curve.Setup(header, 1)
	if of.BlockTables || of.LevelTables {
		levelBlock := 0
		if of.LevelTables {
			levelBlock = defaultLevelBlock
		}

		l := Layout{
			Dir:      dir,
			Version:  header.EngineVersion,
			Learn:    blockbased.Learn,
			Setup:    setup,
			Cache:    header.Cache,
			ByFamily: true,
			Folders:  blockbased.Folders(dir, levelBlock),
			Follow: func(appeared func() ([]string, error)) (following, error) {
				f, err := blockbased.Follow(dir, levelBlock, appeared)
				return blockTables{f}, err
			},
		}

		if of.BlockTables {
			l.Families = func() (map[uint32]string, error) {
				families, err := blockbased.Families(dir)
				names := map[uint32]string{}
				for _, f := range families {
					names[f.Number] = f.Name
				}

				return names, err
			}
		}

		return l
	}

	pebble := subject.PebbleVersion(engine)
	return Layout{
		Dir:     dir,
		Learn:   pebble2fs.Learn, // which reads the tables of both versions
		Setup:   setup,
		Folders: resolve.Folders(dir),
		Follow: func(appeared func() ([]string, error)) (following, error) {
			f, err := resolve.Follow(dir, pebble, appeared)
			return oneTree{f}, err
		},
	}
}

// defaultLevelBlock is the block size by which goleveldb's buffers are given out, unless a program
// sets another: its default.
const defaultLevelBlock = 4 << 10

func record(
	ctx context.Context, source lookuppath.Source, keys lookuppath.Keys, gets uint64,
	header trace.Header, out io.Writer,
) error {
	to, err := trace.NewWriter(out, header)
	if err != nil {
		return err
	}

	offered, err := lookuppath.Record(ctx, source, nil, keys, gets, trace.Sample{}, to)
	if err != nil {
		return err
	}

	_, err = to.Close(offered)
	return err
}

const unknownCache = "the size of its cache is not known (%s): name it with --cache"

// CacheOf is the block cache of a process, from what it wrote when it opened its database; given is
// what the user says instead, 0: nothing.
func CacheOf(t *probe.Target, dir string, given int64) (c Cache) {
	switch of, _ := subject.EngineOf(t.Engine.Engine); {
	case of.BlockTables:
		c = loggedCache(t, dir)
	case of.LevelTables:
		c = Cache{
			MemTable:  noMemTable,
			Absent:    fmt.Sprintf(unknownCache, "its engine keeps no record of it"),
			OpenFiles: OpenFiles{Option: "OpenFilesCacheCapacity"},
		}
	default:
		c = optionsCache(t, dir)
	}

	if given > 0 {
		c.Bytes, c.Source, c.Absent = given, "--cache", ""
	}

	return c
}

// noMemTable: memtables are not in the cache.
func noMemTable(int64) int64 { return 0 }

// optionsCache is of Pebble: its OPTIONS file.
func optionsCache(t *probe.Target, dir string) Cache {
	var settings advice.Settings
	name, file, err := optionsfile.Read(dir)
	switch {
	case err == nil && name == "":
		err = errors.New("there is no OPTIONS file")
	case err == nil:
		settings, err = advice.SettingsOf(file)
	}

	c := Cache{OpenFiles: OpenFiles{Option: maxOpenFiles}}
	readOnly := err == nil && olderThan(filepath.Join(dir, name), t)
	if err == nil && !readOnly {
		c.MemTable = settings.MemTables(advice.Writes{}).Each
	}

	switch {
	case err != nil:
		c.Absent = fmt.Sprintf(unknownCache, err)
	case readOnly:
		c.Absent = fmt.Sprintf(unknownCache, name+" is older than the process, which has opened "+
			"the database for reading only")
	default:
		c.Bytes, c.Source = settings.CacheBytes, name
		c.OpenFiles = OpenFiles{maxOpenFiles, settings.Handles, settings.TableShards, name}
	}

	return c
}

// maxOpenFiles is the name of the limit of open files in the files of Pebble and RocksDB.
const maxOpenFiles = "max_open_files"

// loggedCache is of RocksDB: its LOG, to which it writes its options when it opens a database, for
// each family.
func loggedCache(t *probe.Target, dir string) Cache {
	c := Cache{MemTable: noMemTable}
	logged, err := optionsfile.ReadLog(dir)
	const defaultShardBits = 6
	c.OpenFiles = OpenFiles{
		Option: maxOpenFiles,
		Shards: cmp.Or(logged.TableShardBits, defaultShardBits),
	}

	own := err == nil && !olderThan(filepath.Join(dir, optionsfile.LogName), t)
	if own {
		c.OpenFiles.Limit, c.OpenFiles.Source = logged.OpenFiles, optionsfile.LogName
	}

	cache, is := logged.OnlyCache()
	switch {
	case err != nil:
		c.Absent = fmt.Sprintf(unknownCache, err)
	case !own:
		c.Absent = fmt.Sprintf(unknownCache, optionsfile.LogName+
			" is older than the process, which logs elsewhere")
	case !is:
		c.Absent = fmt.Sprintf(unknownCache, fmt.Sprintf("%s tells of %s", optionsfile.LogName,
			unit.Plural(len(logged.Caches), "cache")))
	default:
		if _, _, c.Absent = policyOf(cache); c.Absent == "" {
			c.Bytes, c.Source = cache.Bytes, optionsfile.LogName
		}
	}

	return c
}

// policyOf is how a block cache of RocksDB is simulated, or why it is not.
func policyOf(
	c optionsfile.BlockCache,
) (policy cachesim.Policy, highShare *float64, absent string) {
	switch {
	case c.Kind == "LRUCache" && c.LowShare == 0:
		return cachesim.PooledLRUPolicy, &c.HighShare, ""
	case c.Kind == "LRUCache":
		return "", nil, fmt.Sprintf("its block cache has a pool for blocks of low priority "+
			"(low_pri_pool_ratio=%g), which is not simulated", c.LowShare)
	case c.Kind == "AutoHyperClockCache":
		return cachesim.HyperClockPolicy, nil, ""
	}

	return "", nil, fmt.Sprintf("its block cache is a %s, which is not simulated", c.Kind)
}

// olderThan reports whether a file was written before the process began.
func olderThan(path string, t *probe.Target) bool {
	info, err := os.Stat(path)
	started, err2 := t.Started()
	const granularity = time.Second // of both times
	return err == nil && err2 == nil && info.ModTime().Add(granularity).Before(started)
}
