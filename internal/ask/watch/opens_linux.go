package watch

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/lookuppath"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// opens reports whether the read is that of a footer, the first of opening its table: none else
// comes to the end of the file.
func (r read) opens() bool {
	l := r.table.anatomy
	return l != nil && l.TableBytes > 0 && r.offset+int64(r.bytes) >= l.TableBytes
}

// opened are the file numbers of the tables that the Get opened, one that it opened twice as often.
func (g *get) opened() (files []uint64) {
	for _, r := range g.reads {
		if r.opens() {
			files = append(files, r.table.number)
		}
	}
	return files
}

// opensTable reports whether a block of a trace is read to open a table, so that no cache has it.
func opensTable(b *cachesim.Block) bool {
	return b.Marks&cachesim.Uncached != 0 && b.Type == engine.Meta
}

// openings are the lookups of tables by the Gets that were resolved, which opened the tables that
// the Gets were seen to open.
type openings struct {
	seen [][]uint64 // by Get: files that it opened
	get  int        // the next one
	now  []uint64   // of the present one, those that it has not looked up yet

	half  int // Gets before those that count
	files []uint64
	open  []bool // by lookup: the table was found open
	from  int    // the first lookup that counts
}

// openings are those of the Gets of some numbers; nil: none opened a table.
func (a *analysis) openings(wanted []int) *openings {
	o, any := &openings{half: len(wanted) / 2}, false
	for _, i := range wanted {
		opened := a.gets[i].opened()
		o.seen, any = append(o.seen, opened), any || len(opened) > 0
	}

	if !any {
		return nil
	}

	return o
}

// Lookup implements lookuppath.OpenTables.
func (o *openings) Lookup(file uint64) (open bool) {
	at := slices.Index(o.now, file)
	if open = at < 0; !open {
		o.now = slices.Delete(o.now, at, at+1)
	}
	o.files, o.open = append(o.files, file), append(o.open, open)
	return open
}

// reopened reports whether a Get opened a table that another one had looked up before.
func (o *openings) reopened() bool {
	known := map[uint64]bool{}
	for i, file := range o.files {
		if known[file] && !o.open[i] {
			return true
		}
		known[file] = true
	}
	return false
}

// modelled is how many of the lookups that count open their table by a model.
func (o *openings) modelled(tables *cachesim.TableCache) (opens int) {
	for i, file := range o.files {
		if open := tables.Lookup(file); !open && i >= o.from {
			opens++
		}
	}
	return opens
}

// reopening is a source whose Gets open tables, each those that it was seen to open.
type reopening struct {
	source
	*openings
}

// Open implements lookuppath.Opener.
func (r reopening) Open(dst, numbers []uint32) []uint32 {
	o := r.openings
	if o.get == o.half {
		o.from = len(o.files)
	}

	o.now = slices.Clone(o.seen[o.get])
	o.get++
	return r.source.Open(dst, numbers)
}

// openingOnce is a source whose Gets open a table where they look it up first and never again, as
// if the limit of open files were large. What a cache has after some thousand Gets depends on the
// blocks that opening tables put into it. In the half of the Gets that counts all tables are open:
// a process that is watched opened them long ago.
type openingOnce struct {
	source
	opened map[uint64]bool // by file number
	get    int             // the next one
	half   int             // Gets before those that count
}

// Lookup implements lookuppath.OpenTables.
func (o *openingOnce) Lookup(file uint64) (open bool) {
	open = o.get > o.half || o.opened[file]
	o.opened[file] = true
	return open
}

// Open implements lookuppath.Opener.
func (o *openingOnce) Open(dst, numbers []uint32) []uint32 {
	o.get++
	return o.source.Open(dst, numbers)
}

// openTables are those that Gets find open, by one rule after the other.
type openTables struct{ lookuppath.OpenTables }

// tableCache is a model of the tables that the process keeps open with a limit of open files.
func (a *analysis) tableCache(limit int) *cachesim.TableCache {
	name, shards := a.w.Process.Engine, a.cache.OpenFiles.Shards
	switch of, _ := subject.EngineOf(name); {
	case of.LevelTables:
		return cachesim.NewLevelTableCache(limit)
	case of.BlockTables:
		// Those that stay open are the first of the manifest that the process read when it opened
		// the database, and what is followed is the one that it wrote then: their order can differ.
		var first []uint64
		if f, is := a.follow.following.(interface{ OpenedTables() []uint64 }); is {
			first = f.OpenedTables()
		}
		return cachesim.NewRocksTableCache(limit, shards, first)
	}

	return cachesim.NewPebbleTableCache(subject.PebbleVersion(name), limit,
		max(1, cmp.Or(shards, a.w.Process.Cores)))
}

// openFiles tells what Gets read because a limit of open files keeps some tables closed. open are
// the accesses of the Gets if tables had stayed open.
func (a *analysis) openFiles(
	ctx context.Context, open *cachesim.Trace, wanted []int, opens *openings,
) error {
	limit, files := a.cache.OpenFiles, a.follow.LiveTables()
	if of, _ := subject.EngineOf(a.w.Process.Engine); of.LevelTables && limit.Limit == 0 {
		if limit.Limit = cachesim.InferLRUEntries(opens.files, opens.open); limit.Limit > 0 {
			limit.Source = "inferred from the tables that Gets opened again"
		}
	}

	// Without the limit it is not known for certain whether all of them stay open: then no Get
	// opens one again.
	tables := a.tableCache(limit.Limit)
	if limit.Limit < 0 || tables.Fits(files) && limit.Limit > 0 || !opens.reopened() {
		return nil
	}

	count := 0
	for _, opened := range opens.seen[opens.half:] {
		count += len(opened)
	}

	gets := float64(len(opens.seen) - opens.half)
	o := &result.WatchedOpenFiles{
		Limit:     limit.Limit,
		Source:    limit.Source,
		Option:    limit.Option,
		Tables:    len(files),
		Enough:    tables.Enough(files),
		OpensSeen: float64(count) / gets,
	}

	if limit.Limit > 0 {
		o.OpensSimulated = figure.Known(float64(opens.modelled(tables)) / gets)
	}

	if a.w.OpenFiles = o; a.w.Simulated == nil { // the cache is not known
		return nil
	}

	firsts, _ := a.firstAccesses(open, wanted)
	all, err := a.simulation(open, wanted, firsts)(ctx, a.cache.Bytes)
	if err != nil {
		return err
	}

	o.AllOpen = &all
	return nil
}

// optionWarnings are about options of the database, and of the column families that were asked,
// that may change what Gets read and are not simulated.
func (l Layout) optionWarnings(families []string) []engine.Warning {
	name, sections, err := optionsfile.Read(l.Dir)
	if err != nil {
		return nil // CacheOf tells of it
	}
	return dbformat.OptionWarnings(filepath.Join(l.Dir, name), sections,
		func(family string) bool { return slices.Contains(families, family) })
}
