package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aclements/go-moremath/stats"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Cache is what is known of a process's block cache.
type Cache struct {
	result.WatchedCache
	// the size of memtables, when they have grown; nil: nothing is written
	MemTable func(cacheBytes int64) int64
	Absent   string // why its size is not known

	OpenFiles OpenFiles
}

// OpenFiles is the limit of open files that a process runs its engine with.
type OpenFiles struct {
	Option string // the engine's name of it
	Limit  int    // 0: not known; below 0: none
	// Shards into which the table cache is divided, of Pebble; of RocksDB, the logarithm of how
	// many there are. 0 of Pebble: as many as the process has processors.
	Shards int
	Source string
}

// limited is ctx until the time is over for which is watched.
func (o Options) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Seconds == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(o.Seconds*float64(time.Second)))
}

// seconds tells of each second.
type seconds struct {
	tick        func(result.Tick)
	began, last time.Time
	latency     *measure.Histogram // of what came since
}

// seconds begin with a watch, which keeps what is told.
func (s *Seen) seconds(began time.Time, o Options) seconds {
	return seconds{
		began:   began,
		last:    began,
		latency: measure.NewHistogram(),
		tick: func(tick result.Tick) {
			s.Ticks = append(s.Ticks, tick)
			if o.Tick != nil {
				o.Tick(tick)
			}
		},
	}
}

// end ends one in which so many calls came; took is how long it was.
func (s *seconds) end(calls uint64) (tick result.Tick, took float64) {
	took, s.last = time.Since(s.last).Seconds(), time.Now()
	tick = result.Tick{Phase: Phase, Seconds: time.Since(s.began).Seconds()}
	if calls > 0 {
		tick.P50, tick.P99 = s.latency.Quantile(0.5), s.latency.Quantile(0.99)
	}
	s.latency.Reset()
	return tick, took
}

// Database is the database that the process has open, of several the one with nearly all bytes; it
// waits for one that is not open yet.
func Database(ctx context.Context, t *probe.Target, tell result.EventFunc) (dir string, err error) {
	for {
		dirs := slices.DeleteFunc(t.Databases(), func(dir string) bool {
			return !holds(t, t.Path(dir))
		})
		switch {
		case len(dirs) == 1:
			return t.Path(dirs[0]), nil
		case len(dirs) > 1:
			if dir := maxOf(t, dirs); dir != "" {
				return dir, nil
			}
			return "", engine.Fail(engine.CodeUsage, "%s has %d databases open: name one of them "+
				"instead of the process (%s)", t, len(dirs), strings.Join(dirs, ", "))
		case !t.Alive():
			return "", engine.Fail(engine.CodeNotFound, "%s ended before it opened a database", t).
				WithRemedy("name a process that runs: ps -e lists all")
		}

		tell(result.Event{Phase: fmt.Sprintf("waiting for %s to open its database", t)})
		select {
		case <-ctx.Done():
			return "", engine.Fail(engine.CodeNotFound, "%s has no database open", t).
				WithRemedy("wait until it has, or name the process that has (--pid)")
		case <-time.After(lookForDatabase):
		}
	}
}

// maxOf is the database that has nearly all bytes of those in dirs, as that of a node's state has
// beside the one of its peers; "": none.
func maxOf(t *probe.Target, dirs []string) (largest string) {
	var all, maximum int64
	for _, dir := range dirs {
		bytes, _ := host.FilesIn(t.Path(dir))
		if all += bytes; bytes > maximum {
			maximum, largest = bytes, t.Path(dir)
		}
	}

	if maximum < all/10*9 {
		return ""
	}

	return largest
}

// holds reports whether the files of a folder are a database of an engine that the process was
// found to hold. Both versions of Pebble read some formats, so the files alone do not tell which
// one it is.
func holds(t *probe.Target, dir string) bool {
	of, err := dbformat.Recognise(dir)
	return err == nil && slices.ContainsFunc(t.Engines(), func(name string) bool {
		return subject.Family(name) == subject.Family(of.Engine)
	})
}

const lookForDatabase = 20 * time.Millisecond

// Traffic watches the Gets of a process on the database in dir, and explains them.
func Traffic(
	ctx context.Context, t *probe.Target, p *probe.Probe, dir string, layout Layout, cache Cache,
	o Options,
) (seen *Seen, err error) {
	seen = &Seen{Latency: measure.NewHistogram()}
	c := newCollector(t, dir, layout, newTableLayouts(), seen, o)
	if c.live = newLive(t, dir, t.Engine.Engine, o.Counts); c.live != nil {
		c.live.cache = func() int64 {
			if o.opened != nil {
				_, cache = o.opened()
			}
			return cache.Bytes
		}
	}

	hasRead, noDevice := t.HasRead(), p.OnDevice(dir)
	busy, waiting := busyOf(dir), waitingForProcessor(fmt.Sprintf("/proc/%d/task", t.PID))
	limited, stop := o.limited(ctx)
	if c.live == nil {
		err = p.Watch(limited, o.Share, c)
	} else {
		quiet := Options{Sizes: o.Sizes, Tell: func(result.Event) {}}
		r := newRolling(limited, c, func(
			ctx context.Context, period *collector,
		) (*result.WatchPredicted, error) {
			a := analysis{collector: period, cache: cache, options: quiet, hasRead: hasRead}
			if o.opened != nil {
				period.layout, a.cache = o.opened()
			}

			a.w.Process = processOf(t, period.layout, dir)

			return a.predict(ctx)
		})
		err = errors.Join(p.Watch(limited, o.Share, r), r.close())
	}

	stop()
	waited := waiting()
	if err = errors.Join(err, c.finish()); err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, c.follow.close()) }()
	if o.opened != nil {
		layout, cache = o.opened()
		c.layout.Version = layout.Version
		c.layout.Setup, c.layout.Cache = layout.Setup, layout.Cache
	}

	o.Tell(result.Event{Phase: "explaining the reads"})
	lost, err := p.Lost()
	if err != nil {
		return nil, err
	}

	batches, err := p.Batches()
	if err != nil {
		return nil, err
	}

	a := analysis{collector: c, cache: cache, options: o, order: c.inOrder(), hasRead: hasRead}
	a.w = result.Watch{
		Started: c.second.began.UTC(),
		Seconds: time.Since(c.second.began).Seconds(),
		Watched: c.watched.Seconds(),
		Lost:    result.WatchLost{Gets: lost.Gets, Reads: lost.Reads + c.readsGone},
		Cache:   cache.WatchedCache,
		Why:     map[string]string{},
		Process: processOf(t, layout, dir),
	}

	device, err := p.Device()
	if err != nil {
		return nil, err
	}

	if a.w.Device = deviceRates(device, a.w.Watched); noDevice != nil {
		a.w.Device, a.w.Why["device"] = nil, noDevice.Error()
	}

	a.w.Process.Memory = new(host.MemoryOf(t.PID))
	a.w.Process.Config = new(configOf(t, clients.Named(a.w.Process.Client), dir))
	a.w.RecordIf(figure.DeviceBusy, busy.share(a.w.Seconds))
	a.w.RecordIf(figure.ProcessorWait, waited)
	a.count()
	cost := p.Cost()
	// As it is reckoned in the probe: a call for several keys as two Gets, and a key as a read.
	single := a.w.Gets - min(a.w.Gets, a.keysTogether)
	events := float64(single+2*uint64(a.calls)+a.seeks.Calls)*cost.Get.Seconds() +
		float64(a.reads+a.keysTogether)*cost.Read.Seconds()
	a.w.Cost = result.WatchCost{
		GetNanos:  cost.Get.Nanoseconds(),
		ReadNanos: cost.Read.Nanoseconds(),
		Core:      events / max(a.w.Seconds, 1e-9),
	}

	a.kinds()
	// What was seen is worth an answer even if somebody ended the watch.
	if err := a.resolve(context.WithoutCancel(ctx)); err != nil {
		a.w.Unavailable(err.Error(), figure.BlockAccessesPerGet, figure.TableOpenReadsPerGet)
	}

	a.table()
	a.w.MultiGets, a.w.Seeks = a.batchFigures(batches), a.seekFigures()
	a.warn()
	seen.Watch, seen.Trace = a.w, a.traced
	for _, i := range a.order {
		seen.Keys = append(seen.Keys, c.key(i))
	}

	return seen, nil
}

func processOf(t *probe.Target, layout Layout, dir string) result.WatchedProcess {
	return result.WatchedProcess{
		PID:           t.PID,
		Name:          t.Name,
		Program:       t.Main,
		Version:       t.Version,
		Args:          t.Args,
		Go:            t.Go,
		Engine:        t.Engine.Engine,
		EngineVersion: cmp.Or(t.Module, layout.Version),
		Database:      dir,
		Cores:         t.Cores,
		Ended:         !t.Alive(),
		Client:        dbformat.Client(dir, dbformat.Found{Engine: t.Engine.Engine}, nil).Name(),
	}
}

// analysis makes the answer of what was collected.
type analysis struct {
	*collector
	cache   Cache
	options Options
	order   []int // of the Gets, by their beginning
	hasRead int64 // bytes that the process had read before
	w       result.Watch

	kindOf   []string
	traced   []byte
	unclear  uint64 // reads whose block is not known
	accesses []int32
	tables   []int32
}

// count makes the figures that need no database. It can be called again.
func (a *analysis) count() {
	w := &a.w
	w.Gets = uint64(len(a.gets)) + a.moreGets
	w.Found, w.Missing, w.Failed, a.unclear = 0, 0, 0, 0
	w.BlockReads, w.BlockReadsByLevel = map[string]engine.Tally{}, map[string]int64{}
	var reads, bytes, fromDevice, opens uint64
	distinct := map[string]uint64{}
	var inGets, inReading time.Duration
	for i := range a.gets {
		g := &a.gets[i]
		if g.together.timed() {
			inGets += g.end - g.start
			if len(g.reads) > 0 {
				inReading += g.end - g.start
			}
		}

		switch g.outcome {
		case found:
			w.Found++
		case missing:
			w.Missing++
		case failed:
			w.Failed++
		}

		distinct[string(a.key(i))]++
		opens += uint64(len(g.opened()))
		for _, r := range g.reads {
			kind, known := r.table.typeAt(r.offset)
			if !known {
				a.unclear++
			}

			tally := w.BlockReads[kind.String()]
			w.BlockReads[kind.String()] = tally.Add(engine.Tally{Count: 1, Bytes: int64(r.bytes)})
			w.BlockReadsByLevel[engine.LevelName(r.table.level)]++
			reads++
			bytes += uint64(r.bytes)
			if r.device {
				fromDevice++
			}
		}
	}

	if n := uint64(len(a.gets)); n > 0 {
		if w.Device != nil {
			w.Device.BlockReadsPerGet = figure.Known(float64(fromDevice) / float64(n))
		}

		w.Record(figure.BlockReadsPerGet, float64(reads)/float64(n))
		w.Record(figure.BlockReadBytesPerGet, float64(bytes)/float64(n))
		w.Record(figure.TableOpensPerGet, float64(opens)/float64(n))
		w.BlockReadsPerGetByType = map[string]float64{}
		for kind, tally := range w.BlockReads {
			w.BlockReadsPerGetByType[kind] = float64(tally.Count) / float64(n)
		}

		if inGets > 0 {
			w.Record(figure.ReadingShare, inReading.Seconds()/inGets.Seconds())
		}

		if a.watched > 0 { // of those that were counted, but not kept, as of the others
			all := inGets.Seconds() * float64(w.Gets) / float64(n)
			w.Record(figure.InFlight, all/a.watched.Seconds())
		}

		w.Absent = float64(w.Missing) / float64(n)
		if a.histogram.N() > 0 {
			w.ServiceNanos = new(a.histogram.Summary())
		}
	}

	if a.watched > 0 {
		w.Record(figure.GetsPerSecond, float64(w.Gets)/a.watched.Seconds())
	}

	if a.watched.Seconds() < almostAlways*w.Seconds {
		w.RecordIf(figure.BlockReadsPerGet.Error(), figure.If(a.spread()))
	}

	a.purposes(reads, bytes)
	w.DistinctKeys, w.Tenths = uint64(len(distinct)), tenths(distinct)
}

// seekFigures are those of iterators; nil: none was seen.
func (a *analysis) seekFigures() *result.WatchedSeeks {
	s := a.seeks
	if s.Calls == 0 {
		return nil
	}

	s.ReadsBeyond = a.others[subject.ForIterators].reads - s.Reads
	s.ReadsPerCall = float64(s.Reads) / float64(s.Calls)
	s.MeanNanos = float64(a.seekTime) / float64(s.Calls)
	return &s
}

// almostAlways is the part of the time that is as good as all of it.
const almostAlways = 0.95

// spread is half the 95 % interval of the block reads per Get, from how much the windows differ;
// nil if there are too few.
func (a *analysis) spread() *float64 {
	const fewest = 5
	var perGet []float64
	at := 0
	for _, window := range a.windows {
		gets, reads := 0, 0
		for ; at < len(a.order) && a.gets[a.order[at]].start <= window.to; at++ {
			gets, reads = gets+1, reads+len(a.gets[a.order[at]].reads)
		}

		if gets > 0 {
			perGet = append(perGet, float64(reads)/float64(gets))
		}
	}

	if len(perGet) < fewest {
		return nil
	}

	const confidence = 0.95
	_, low, high := stats.MeanCI(perGet, confidence)
	return new((high - low) / 2)
}

// purposes sums up the reads of tables.
func (a *analysis) purposes(reads, bytes uint64) {
	sums := maps.Clone(a.others)
	unfinished := sums[subject.ForGets]
	sums[subject.ForGets] = sum{unfinished.reads + reads, unfinished.bytes + bytes}
	seconds := max(a.watched.Seconds(), 1e-9)
	a.w.Reads = nil
	if iterators := float64(sums[subject.ForIterators].reads); iterators > 0 {
		a.w.IteratorShare = iterators / (iterators + float64(sums[subject.ForGets].reads+
			sums[subject.ForBatches].reads))
	}

	for _, purpose := range []string{subject.ForGets, subject.ForBatches, subject.ForCompaction,
		subject.ForFlush, subject.ForIterators, subject.ForOther} {
		if s := sums[purpose]; s.reads > 0 || purpose == subject.ForGets {
			a.w.Reads = append(a.w.Reads,
				result.WatchedReads{
					Purpose:   purpose,
					Reads:     s.reads,
					PerSecond: float64(s.reads) / seconds,
					Bytes:     float64(s.bytes) / seconds,
				})
		}
	}
}

// tenths are the shares of Gets that ask for each tenth of the keys, beginning with those asked for
// most.
func tenths(gets map[string]uint64) []float64 {
	const parts = 10
	if len(gets) < parts {
		return nil
	}

	counts, all := slices.Collect(maps.Values(gets)), uint64(0)
	slices.SortFunc(counts, func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, n := range counts {
		all += n
	}

	shares := make([]float64, parts)
	for i, n := range counts {
		shares[i*parts/len(counts)] += float64(n) / float64(all)
	}

	return shares
}

// kinds sorts the keys into kinds: those of the client whose database it is; else by their first
// byte, if there are few.
func (a *analysis) kinds() {
	const fewBytes = 12
	first := map[byte]bool{}
	for i := range a.gets {
		if key := a.key(i); len(key) > 0 {
			first[key[0]] = true
		}
	}

	a.kindOf = make([]string, len(a.gets))
	for i := range a.gets {
		key := a.key(i)
		kind := dbformat.Section(clients.Named(a.w.Process.Client), key)
		switch family := a.gets[i].family; {
		case kind != "":
		case family < 0:
			kind = "unknown column family"
		case len(a.families) > 1:
			name := unit.Printable(a.families[family])
			kind = cmp.Or(dbformat.TableWords(clients.Named(a.w.Process.Client), name),
				"column family "+name)
		case len(first) > fewBytes:
			kind = "all keys"
		case len(key) == 0:
			kind = "the empty key"
		default:
			kind = fmt.Sprintf("keys from %q on", key[:1])
		}

		a.kindOf[i] = kind
	}
}

// resolve works out which blocks the Gets ask for, and simulates caches.
func (a *analysis) resolve(ctx context.Context) error {
	if a.follow.err != nil {
		return a.follow.err
	}

	var wanted []int
	for _, i := range a.order {
		if !a.gets[i].keyCut && a.gets[i].family >= 0 {
			wanted = append(wanted, i)
		}
	}

	if len(wanted) == 0 && len(a.gets) > 0 {
		return errors.New("the column families of the Gets are not found in the memory of the " +
			"process: this version is not known")
	} else if len(wanted) == 0 {
		return errors.New("no Get was seen")
	}

	source, header, err := a.sourceOf(wanted)
	if err != nil {
		return err
	}

	t, traced, err := a.record(ctx, source, wanted, header)
	if err != nil {
		return err
	}

	if a.attribute(t, wanted) {
		a.count()
	}

	// So is what it would have been if Gets had consulted filters.
	use, filtered, err := a.recordFiltered(ctx, source, wanted, header)
	if err != nil {
		return err
	}

	// What it would have been if tables had stayed open is a trace of its own.
	var open *cachesim.Trace
	opens := a.openings(wanted)
	if opens != nil {
		once := &openingOnce{source: source, opened: map[uint64]bool{}, half: opens.half}
		tables := &openTables{once}
		if err := source.ReopenTables(tables); err != nil {
			return err
		}

		if open, _, err = a.record(ctx, once, wanted, header); err != nil {
			return err
		}

		tables.OpenTables = opens
		if t, traced, err = a.record(ctx, reopening{source, opens}, wanted, header); err != nil {
			return err
		}
	}

	a.traced = traced
	firsts := a.accessed(t, wanted)
	a.w.Resolved = uint64(len(wanted))
	if err := a.simulate(ctx, t, wanted, firsts); err != nil {
		return err
	}

	if opens != nil {
		if err := a.openFiles(ctx, open, wanted, opens); err != nil {
			return err
		}
	}

	return a.filterUse(ctx, use, filtered, wanted)
}

// first is the first access to a block while it was watched.
type first struct {
	get    int // among those that were resolved
	kind   engine.BlockType
	before int64 // bytes of other blocks that were accessed earlier
	read   bool  // the cache of the process did not have it
	fresh  bool  // its table was new: no cache had it
	other  bool  // the Gets of the process did not access it, or others did: read is a guess
}

// accessesOf are the blocks that Get n of those that were resolved accesses.
func accessesOf(t *cachesim.Trace, n int) []uint32 {
	end := len(t.Accesses)
	if n+1 < len(t.Gets) {
		end = int(t.Gets[n+1])
	}
	return t.Accesses[t.Gets[n]:end]
}

// accessed counts tables and accesses of each Get, and compares accesses with reads.
func (a *analysis) accessed(t *cachesim.Trace, wanted []int) (firsts []first) {
	a.accesses, a.tables = make([]int32, len(a.gets)), make([]int32, len(a.gets))
	var all, tables, toOpen, uncached uint64
	var files []uint64
	for n, i := range wanted {
		accesses, own := accessesOf(t, n), int32(0)
		files = files[:0]
		for _, number := range accesses {
			b := &t.Blocks[number]
			if opensTable(b) {
				continue
			}

			own++
			if !slices.Contains(files, b.File) {
				files = append(files, b.File)
			}
		}

		opened := a.gets[i].opened()
		for _, r := range a.gets[i].reads {
			at := slices.IndexFunc(accesses, func(number uint32) bool {
				return r.of(&t.Blocks[number])
			})
			kind, _ := r.table.typeAt(r.offset)
			reopens := at >= 0 && opensTable(&t.Blocks[accesses[at]])
			if kind != engine.Meta && at < 0 {
				a.w.UnexplainedReads++
			}

			if reopens {
				uncached++
			}

			if reopens || kind == engine.Meta && slices.Contains(opened, r.table.number) {
				toOpen++
			}
		}

		a.accesses[i], a.tables[i] = own, int32(len(files))
		all, tables = all+uint64(own), tables+uint64(len(files))
	}

	n := float64(len(wanted))
	perGet := float64(all) / n
	firsts, bytes := a.firstAccesses(t, wanted)
	a.w.Record(figure.BlockAccessesPerGet, perGet)
	a.w.Record(figure.TableOpenReadsPerGet, float64(toOpen)/n)
	a.w.Record(figure.TablesPerGet, float64(tables)/n)
	a.w.Record(figure.WorkingSet, float64(bytes))
	if all > 0 && a.w.Has(figure.BlockReadsPerGet) {
		missed := a.w.OrZero(figure.BlockReadsPerGet) - float64(uncached)/n
		a.w.HitRate = map[string]float64{"all": 1 - missed/perGet}
	}

	return firsts
}

// firstAccesses are those of blocks that a cache can have. bytes are those of all such blocks.
func (a *analysis) firstAccesses(t *cachesim.Trace, wanted []int) (firsts []first, bytes int64) {
	seen, came := make([]bool, len(t.Blocks)), map[uint64]bool{}
	if a.follow.following != nil {
		came = a.follow.TablesAdded()
	}

	for n, i := range wanted {
		for _, number := range accessesOf(t, n) {
			b := &t.Blocks[number]
			if seen[number] || opensTable(b) {
				continue
			}

			seen[number] = true
			before := bytes
			bytes += a.layout.Setup.Charge(b)
			if came[b.File] && a.layout.Setup.Opens(b) {
				continue // it is known: its table came with it
			}

			read := slices.ContainsFunc(a.gets[i].reads, func(r read) bool { return r.of(b) })
			firsts = append(firsts, first{get: n, kind: b.Type, before: before, read: read,
				fresh: came[b.File]})
		}
	}

	return firsts, bytes
}

// simulate replays the accesses through caches that begin empty; the first half of the Gets fills
// them, and the second counts. A simulated cache cannot know what the process's cache held before
// the watch began. So an access in the second half to a block that was not accessed before is not
// taken from it: at the present size, the process itself has shown whether its cache had the block.
// A larger cache has what a smaller one has. A cache does not have a block any more if more bytes
// than its size were accessed since. The rest is not known, and makes the range.
func (a *analysis) simulate(
	ctx context.Context, t *cachesim.Trace, wanted []int, firsts []first,
) error {
	if a.layout.Setup.Policy == "" {
		a.w.Why["simulated"] = "the cache of this engine is not modelled"
		return nil
	}

	if a.cache.Bytes == 0 {
		a.w.Why["simulated"] = a.cache.Absent
		return nil
	}

	sizes := a.options.Sizes
	if len(sizes) == 0 {
		memory := a.w.Process.Memory
		sizes = otherSizes(a.cache.Bytes, int64(a.w.OrZero(figure.WorkingSet)),
			cmp.Or(memory.LimitBytes, memory.MachineBytes))
	}

	if err := a.learnMemTables(ctx, t, wanted, firsts); err != nil {
		a.w.Why["simulated"] = err.Error()
		return nil
	}

	replay := a.simulation(t, wanted, firsts)
	present, err := replay(ctx, a.cache.Bytes)
	if err == nil {
		a.w.Simulated = &present
	}

	for i := 0; i < len(sizes) && err == nil; i++ {
		var s result.WatchSimulated
		if s, err = replay(ctx, sizes[i]); err == nil && sizes[i] != a.cache.Bytes {
			a.w.WhatIf = append(a.w.WhatIf, s)
		}
	}

	if err != nil {
		a.w.Why["simulated"] = err.Error()
		return nil
	}

	for i := range a.w.WhatIf {
		widen(&a.w.WhatIf[i], present)
	}

	slices.SortFunc(a.w.WhatIf, func(x, y result.WatchSimulated) int {
		return cmp.Compare(x.CacheBytes, y.CacheBytes)
	})
	return nil
}

// otherSizes are simulated if nobody asks for others: half the present cache, twice, four times,
// and so on up to one that holds all blocks, as far as the memory goes. All are in bytes.
func otherSizes(present, workingSet, memory int64) []int64 {
	sizes := []int64{present / 2, present * 2, present * 4}
	for size := present * 4; size < workingSet && size <= memory/2; {
		size *= 2
		sizes = append(sizes, size)
	}
	return sizes
}

// widen makes the range of another size as much wider as what was seen lies outside the range of
// the present one. A larger cache reads no more than was seen, and a smaller one no less.
func widen(s *result.WatchSimulated, present result.WatchSimulated) {
	s.High += max(0, present.Seen-present.High)
	s.Low = max(0, s.Low-max(0, present.Low-present.Seen))
	if s.CacheBytes > present.CacheBytes {
		s.Low, s.High = min(s.Low, present.Seen), min(s.High, present.Seen)
	} else {
		s.Low, s.High = max(s.Low, present.Seen), max(s.High, present.Seen)
	}
	s.BlockReadsPerGet = min(max(s.BlockReadsPerGet, s.Low), s.High)
}

// growing is a database whose memtables take memory from its cache, and grow.
type growing interface {
	MemTablesMade(bytes int64) (made, all int, known bool)
	SetMemTablesMade(made int)
}

// learnMemTables decides how large the memtables had become where the files only allow a guess, and
// the guess does not fit what was read: as large as fits the first half of the Gets best. The
// second half, which answers are of, takes no part.
func (a *analysis) learnMemTables(
	ctx context.Context, t *cachesim.Trace, wanted []int, firsts []first,
) error {
	memory, is := a.follow.following.(growing)
	if !is || a.cache.MemTable == nil {
		return nil
	}

	// What Gets that were not seen took from the cache would pass for memtables.
	guess, all, known := memory.MemTablesMade(a.cache.MemTable(a.cache.Bytes))
	half := t.WarmupGets
	if known || half == 0 || a.watched.Seconds() < almostAlways*a.w.Seconds {
		return nil
	}

	early := *t
	early.Gets, early.Accesses = t.Gets[:half], t.Accesses[:t.Gets[half]]
	early.WarmupGets = half / 2
	replay := a.simulation(&early, wanted[:half], slices.DeleteFunc(slices.Clone(firsts),
		func(f first) bool { return f.get >= half }))
	misfit := func(made int) (float64, error) {
		memory.SetMemTablesMade(made)
		s, err := replay(ctx, a.cache.Bytes)
		return max(0, s.Low-s.Seen, s.Seen-s.High), err
	}

	best := guess
	least, err := misfit(guess)
	for made := 0; made <= all && err == nil && least > a.fits(&early, wanted); made++ {
		var off float64
		if off, err = misfit(made); err == nil && off < least {
			best, least = made, off
		}
	}

	memory.SetMemTablesMade(best)

	return err
}

// fits is how many reads per Get a simulation of the last Gets of a trace may differ by chance from
// those that were seen.
func (a *analysis) fits(t *cachesim.Trace, wanted []int) float64 {
	reads := 0
	for _, i := range wanted[t.WarmupGets:len(t.Gets)] {
		reads += len(a.gets[i].reads)
	}
	return 3 * math.Sqrt(float64(max(1, reads))) / float64(len(t.Gets)-t.WarmupGets)
}

// simulation returns what replays the accesses through a cache of a size.
func (a *analysis) simulation(
	t *cachesim.Trace, wanted []int, firsts []first,
) func(ctx context.Context, size int64) (result.WatchSimulated, error) {
	had := share(firsts, func(f first) bool { return !f.read })
	firsts = slices.DeleteFunc(firsts, func(f first) bool { return f.get < t.WarmupGets })
	counted := t.Accesses[t.Gets[t.WarmupGets]:]
	uncached := 0
	for _, number := range counted {
		if opensTable(&t.Blocks[number]) {
			uncached++
		}
	}

	accesses, gets := float64(len(counted)-uncached), float64(len(wanted)-t.WarmupGets)
	before, seen := 0, 0
	for n, i := range wanted {
		if n < t.WarmupGets {
			before += len(a.gets[i].reads)
		} else {
			seen += len(a.gets[i].reads)
		}
	}

	return func(ctx context.Context, size int64) (result.WatchSimulated, error) {
		a.options.Tell(result.Event{Phase: "simulating a cache of " + unit.Bytes(size)})
		setup := a.layout.Setup
		setup.Cores = a.w.Process.Cores
		t.Events, setup.ReservedBytes = a.events(wanted, size)
		points, err := cachesim.Curve(ctx, t, setup, []int64{size})
		if err != nil {
			return result.WatchSimulated{}, err
		}

		var reads int64
		for _, n := range points[0].Reads {
			reads += n
		}

		low, high := a.bounds(reads-int64(len(firsts)), firsts, size, setup.ReservedBytes)
		s := result.WatchSimulated{
			CacheBytes: size,
			Reserved:   setup.ReservedBytes,
			Low:        float64(low) / gets,
			High:       float64(high) / gets,
			Seen:       float64(seen) / gets,
			SeenBefore: float64(before) / float64(max(1, t.WarmupGets)),
		}

		// What a larger cache has besides is asked for as rarely as what the present one had at
		// first.
		more := had * max(0, float64(size)/float64(a.cache.Bytes)-1)
		s.BlockReadsPerGet = s.High - min(1, more)*(s.High-s.Low)
		if guessed := guessedReads(firsts, size-setup.ReservedBytes); guessed >= 0 {
			s.BlockReadsPerGet = s.Low + float64(guessed)/gets
		}
		s.HitRate = 1 - (s.BlockReadsPerGet*gets-float64(uncached))/accesses
		return s, nil
	}
}

// share is the part of the first accesses that are so.
func share(firsts []first, so func(first) bool) float64 {
	n := 0
	for _, f := range firsts {
		if so(f) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(firsts)))
}

// bounds adds to the reads of blocks that were accessed before the least and the most that first
// accesses can have read.
func (a *analysis) bounds(reads int64, firsts []first, size, reserved int64) (low, high int64) {
	low, high = reads, reads
	present := a.cache.Bytes
	for _, f := range firsts {
		switch {
		case f.other && !f.fresh && f.before < size-reserved:
			high++
		case f.other, f.fresh, size <= present && f.read,
			size < present && f.before >= size-reserved:
			low, high = low+1, high+1
		case size == present, size > present && !f.read: // it had the block
		case f.before >= size-reserved:
			low, high = low+1, high+1
		default:
			high++
		}
	}

	return low, high
}

// table makes the rows of the kinds.
func (a *analysis) table() {
	type row struct {
		gets, missing, resolved, tables, accesses, reads, bytes uint64
		latency                                                 *measure.Histogram
	}

	rows := map[string]*row{}
	for i := range a.gets {
		g, kind := &a.gets[i], a.kindOf[i]
		r := rows[kind]
		if r == nil {
			r = &row{latency: measure.NewHistogram()}
			rows[kind] = r
		}

		r.gets++
		if g.outcome == missing {
			r.missing++
		}

		if a.accesses != nil && !g.keyCut {
			r.resolved++
			r.tables, r.accesses = r.tables+uint64(a.tables[i]), r.accesses+uint64(a.accesses[i])
		}

		r.reads += uint64(len(g.reads))
		for _, read := range g.reads {
			r.bytes += uint64(read.bytes)
		}

		if g.together.call == 0 {
			r.latency.Add(int64(g.end - g.start))
		}
	}

	for kind, r := range rows {
		n := float64(r.gets)
		keys := result.WatchedKeys{
			Kind:             kind,
			Gets:             r.gets,
			Rate:             n / max(a.watched.Seconds(), 1e-9),
			Absent:           float64(r.missing) / n,
			BlockReadsPerGet: float64(r.reads) / n,
			BytesPerGet:      float64(r.bytes) / n,
			P50:              r.latency.Quantile(0.5),
			P99:              r.latency.Quantile(0.99),
		}

		if r.resolved > 0 {
			tables, accesses := float64(r.tables)/float64(r.resolved),
				float64(r.accesses)/float64(r.resolved)
			keys.TablesPerGet, keys.BlockAccessesPerGet = figure.Known(tables),
				figure.Known(accesses)
		}

		a.w.Keys = append(a.w.Keys, keys)
	}

	slices.SortFunc(a.w.Keys, func(x, y result.WatchedKeys) int {
		return cmp.Or(cmp.Compare(y.Gets, x.Gets), cmp.Compare(x.Kind, y.Kind))
	})
}

// warn tells what may make the figures differ from the truth.
func (a *analysis) warn() {
	say := func(code, remedy, format string, args ...any) {
		a.w.Warnings = append(a.w.Warnings, engine.Warning{
			Code:   code,
			Text:   fmt.Sprintf(format, args...),
			Remedy: remedy,
		})
	}

	w := &a.w
	if w.Lost.Gets+w.Lost.Reads > 0 {
		say("events_lost", "watch a smaller part of the time (--sample 10%)",
			"%s Gets and %s reads could not be looked at in time and are missing from all figures",
			unit.Count(w.Lost.Gets), unit.Count(w.Lost.Reads))
	}

	if a.moreGets+a.moreReads > 0 {
		say("not_kept", "watch for a shorter time", "%s Gets and %s reads beyond the first %s "+
			"and %s are counted, but not explained", unit.Count(a.moreGets),
			unit.Count(a.moreReads), unit.Count(maxGets), unit.Count(maxReads))
	}

	if a.unclear > 0 {
		say("layout_unknown", "watch again when the node compacts less",
			"%s reads were of tables that were deleted before their layout could be read; they "+
				"are counted as meta", unit.Count(a.unclear))
	}

	if w.Process.Ended {
		say("process_ended", "watch it again when it runs", "the process ended after %.0f s; "+
			"what it did until then is shown", w.Seconds)
	}

	w.Warnings = append(w.Warnings, a.layout.optionWarnings(a.families)...)
	if m := w.MultiGets; m != nil && m.Gets < m.Keys {
		say("multi_gets", "", "%s of the %s keys that %s looked up are only counted, because not "+
			"all keys of their batch were read: their block reads are not part of the block reads "+
			"per Get, and other cache sizes are not simulated for them",
			unit.Count(m.Keys-m.Gets), unit.Count(m.Keys), unit.Plural(int(m.Calls), "MultiGet"))
	}

	if w.Gets == 0 && w.MultiGets == nil {
		say("no_gets", "watch for longer (--seconds), or while the node has work",
			"no Get was seen in %.1f s", w.Watched)
	}
}
