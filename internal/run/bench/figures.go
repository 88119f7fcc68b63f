package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

const (
	littleLimit = 0.8  // share of the threads that must really be in flight
	faultsLimit = 0.05 // page faults per Get that make a difference
)

// figures turns the measured phase into what run.json promises.
func (r *run) figures(m *measured) {
	f := &r.Result.Figures
	f.Gets, f.Found, f.Missing, f.Seconds = m.gets, m.found, m.missing, m.Seconds
	if m.gets == 0 || m.Seconds == 0 {
		r.MarkUnavailable("no Get was measured", figure.GetsPerSecond, figure.ServiceTime,
			figure.ResponseTime, figure.CPUTimePerGet, figure.CPUPercent, figure.SwitchesPerGet,
			figure.MajorFaultsPerGet, figure.ReadCallsPerGet, figure.BlockReadsPerGet,
			figure.BlockReadBytesPerGet, figure.HitRate, figure.DeviceReadsPerGet,
			figure.DeviceReadBytesPerGet, figure.Agreement, figure.InFlight)
		return
	}

	gets := float64(m.gets)
	f.Record(figure.GetsPerSecond, gets/m.Seconds)
	f.ServiceNanos = new(m.service.Summary())
	if r.spec.Rate > 0 {
		f.ResponseNanos = new(m.response.Summary())
	} else {
		r.MarkUnavailable(r.words("response time needs an open loop: add --rate",
			"response time needs an open loop, which package measure does not have"),
			figure.ResponseTime)
	}

	r.cpuFigures(m, gets)
	r.blockFigures(m, gets)
	if f.Has(figure.BlockReadsPerGet) {
		f.RecordIf(figure.BlockReadsPerGet.Error(), figure.If(m.chance))
	}

	r.compare(m, pairs())
	r.deviceFigures(m, gets)
	r.inFlight(m)
	r.judgeRate(m)
	r.judgeFit(m)
	r.growth.judge(r, m.gets, m.room)
	if r.spec.Workload == workload.ReadWhileWriting {
		r.writeFigures(m, nil)
	}
}

func (r *run) cpuFigures(m *measured, gets float64) {
	f := &r.Result.Figures
	if why := r.Uncounted(); why != "" {
		r.MarkUnavailable(why, figure.CPUTimePerGet, figure.CPUPercent, figure.SwitchesPerGet,
			figure.MajorFaultsPerGet, figure.ReadCallsPerGet)
		return
	}

	cpu := float64(m.CPUNanos())
	f.Record(figure.CPUTimePerGet, cpu/gets)
	f.Record(figure.CPUPercent, 100*cpu/(m.Seconds*1e9*float64(r.Result.Host.Cores)))
	f.Record(figure.SwitchesPerGet, float64(m.Process.VoluntarySwitches+
		m.Process.InvoluntarySwitches)/gets)
	f.Record(figure.MajorFaultsPerGet, float64(m.Process.MajorFaults)/gets)
	f.Record(figure.ReadCallsPerGet, float64(m.Process.ReadCalls)/gets)
	if mean := f.ServiceNanos.Mean; mean > 0 && r.Result.Host.SwitchNanos > 0 {
		f.Record(figure.SwitchShare, f.OrZero(figure.SwitchesPerGet)*r.Result.Host.SwitchNanos/mean)
	}
}

func (r *run) blockFigures(m *measured, gets float64) {
	f := &r.Result.Figures
	if r.countsFaults(m) {
		r.pageFigures(m, gets)
		return
	}

	if m.Subject.Reads == nil {
		why := "this engine's block reads cannot be counted"
		if r.usesPageCache() {
			why = "they are page faults of the process: " + r.Uncounted()
		}

		reads := figure.BlockReadsPerGet
		r.MarkUnavailable(why, reads, reads.ByType(), reads.ByLevel(),
			figure.BlockReadBytesPerGet, figure.HitRate, figure.Agreement)
		return
	}

	total := m.Subject.Reads.Total()
	f.Record(figure.BlockReadsPerGet, float64(total.Count)/gets)
	f.Record(figure.BlockReadBytesPerGet, float64(total.Bytes)/gets)
	f.BlockReadsPerGetByType = perGet(byType(m.Subject.Reads), m.gets)
	f.BlockReadsPerGetByLevel = map[string]float64{}
	for level := range m.Subject.Reads {
		if n := m.Subject.Reads.Level(level).Count; n > 0 {
			f.BlockReadsPerGetByLevel[engine.LevelName(level)] = float64(n) / gets
		}
	}

	if m.Subject.TableOpens != nil {
		f.Record(figure.TableOpensPerGet, float64(*m.Subject.TableOpens)/gets)
	}
}

// countsFaults reports whether the major page faults of the process are the block reads.
func (r *run) countsFaults(m *measured) bool {
	return m.Subject.Reads == nil && r.usesPageCache() && r.Uncounted() == ""
}

// pageFigures are the block reads of an engine that reads through a mapping: the
// page cache is its cache, so a page that was not there is a major fault.
func (r *run) pageFigures(m *measured, gets float64) {
	f := &r.Result.Figures
	f.Record(figure.BlockReadsPerGet, float64(m.Process.MajorFaults)/gets)
	f.BlockReadSource = "major page faults of the process"
	f.BlockReadsPerGetByType = map[string]float64{engine.Page.String(): f.OrZero(
		figure.BlockReadsPerGet,
	)}
	r.MarkUnavailable("a page fault does not tell how much the kernel read: see "+
		figure.DeviceReadBytesPerGet.Key,
		figure.BlockReadBytesPerGet)
	r.MarkUnavailable("pages have no levels", figure.BlockReadsPerGet.ByLevel())
	if d := r.Result.Database; d.Values != nil && d.Values.Bytes > 0 {
		r.MarkUnavailable("a page fault does not tell whether it read a value that is outside of "+
			"the keys' pages",
			figure.BlockReadsPerGet.OfValues())
	}
}

// pageBytes is the least that a buffered read brings from the device.
const pageBytes = 4096

// deviceFigures says how many requests reached the device, where somebody counted
// them: a private loop device, or under O_DIRECT the kernel's account of the
// process, which must equal the bytes asked for.
func (r *run) deviceFigures(m *measured, gets float64) {
	f := &r.Result.Figures
	why := r.Uncounted()
	if why != "" && m.Device == nil {
		r.MarkUnavailable(why, figure.DeviceReadBytesPerGet, figure.DeviceReadsPerGet,
			figure.Agreement)
		return
	}

	if why == "" {
		f.Record(figure.DeviceReadBytesPerGet, float64(m.Process.ReadBytes)/gets)
	}

	reads := int64(-1)
	blockReads := int64(0)
	switch {
	case m.Subject.Reads != nil:
		blockReads = m.Subject.Reads.Total().Count
	case f.Has(figure.BlockReadsPerGet):
		blockReads = m.Process.MajorFaults
	}

	switch {
	case m.Device != nil:
		reads, f.DeviceSource = m.Device.Reads, "requests of the private device "+m.Device.Device
		f.Record(figure.DeviceReadBytesPerGet, float64(m.Device.ReadBytes)/gets)
	case r.spec.PageCache == Direct && m.Subject.DirectBytes != nil && *m.Subject.DirectBytes > 0:
		share := float64(m.Process.ReadBytes) / float64(*m.Subject.DirectBytes)
		reads = int64(float64(blockReads)*share + 0.5)
		f.DeviceSource = fmt.Sprintf("not counted directly: each O_DIRECT read is one (check: "+
			"device bytes / requested bytes = %.4f)", share)
	case m.Process.ReadBytes/pageBytes*100 <= max(blockReads, 1):
		reads, f.DeviceSource = m.Process.ReadBytes/pageBytes,
			"at most: bytes that reached the device / 4096"
	default:
		r.MarkUnavailable("the process counts bytes, not requests: use --page-cache direct, or "+
			"put the database on a private loop device (statelab volume)",
			figure.DeviceReadsPerGet, figure.Agreement)
	}

	if reads >= 0 {
		f.Record(figure.DeviceReadsPerGet, float64(reads)/gets)
		if blockReads > 0 {
			f.Record(figure.Agreement, float64(reads)/float64(blockReads))
		} else if f.Has(figure.BlockReadsPerGet) {
			r.MarkUnavailable("no block was read: the engine's cache served all", figure.Agreement)
		}
	}

	r.judgePageCache(m)
}

func (r *run) judgePageCache(m *measured) {
	if m.Subject.Reads == nil || r.Uncounted() != "" {
		return // an engine of the page cache, or nobody can count its reads or those of the device
	}

	asked := m.Subject.Reads.Total().Bytes
	if asked == 0 {
		return
	}

	share := float64(m.Process.ReadBytes) / float64(asked)
	switch {
	case r.spec.PageCache == Warm && share > 0.05:
		r.Warn(engine.Warning{Code: "not_warm", Text: fmt.Sprintf(
			"the page cache was filled before the run but did not keep the database: %.1f%% of "+
				"the bytes of block reads came from the device", 100*share),
			Remedy: "leave out --memory, which limits the page cache too, and give --cache; or " +
				"use a database that fits in memory"})
	case r.spec.PageCache == Warm || (r.spec.PageCache == AsIs && share < 0.05):
		r.Warn(engine.Warning{Code: "not_disk_io", Text: fmt.Sprintf(
			"these block reads were not disk I/O: %.1f%% of their bytes came from the device, "+
				"the rest from the operating system's page cache", 100*min(share, 1)),
			Remedy: "--page-cache direct makes every block read a device read"})
	case r.spec.PageCache == Cold && share < 0.98:
		r.Warn(engine.Warning{Code: "not_cold", Text: fmt.Sprintf(
			"the page cache was cold at the start but filled during the run: %.1f%% of the bytes "+
				"of block reads came from the device", 100*share),
			Remedy: "--page-cache direct, or a database much larger than memory"})
	case r.spec.PageCache == AsIs && share < 0.95:
		r.Warn(engine.Warning{Code: "page_cache", Text: fmt.Sprintf(
			"%.1f%% of the bytes of block reads came from the device, the rest from the "+
				"operating system's page cache", 100*share),
			Remedy: "use --page-cache direct, with which every block read reaches the device, or " +
				"cold"})
	}
}

// judgeFit warns of Gets that no disk could have slowed down.
func (r *run) judgeFit(m *measured) {
	room, reads, name, remedy := r.Result.Cache.Effective, int64(-1), "the cache",
		r.words("use a smaller --cache or --memory, or load more --keys",
			"use a smaller Workload.CacheBytes, or a new Workload.Dir with more Keys")
	switch {
	case r.spec.Workload == workload.ReadWhileWriting:
		return
	case m.Subject.Reads != nil:
		reads = m.Subject.Reads.Total().Count
	case !r.usesPageCache():
		return // nobody counts its reads, or it has no files
	default:
		name, remedy = "its cache, the page cache,",
			r.words("use a --memory smaller than the database, or load more --keys",
				"use a new Workload.Dir with more Keys")
		if r.countsFaults(m) {
			reads = m.Process.MajorFaults
		}

		room = host.AvailableMemory()
		if limit := r.Result.Memory; limit != nil && limit.PageCacheBytes != nil {
			room = *limit.PageCacheBytes
		}
	}

	if why := fits(r.Result.Database.Bytes, room, reads, name); why != "" {
		r.Warn(engine.Warning{Code: "fits_in_memory", Remedy: remedy,
			Text: "everything fitted in memory: " + why + "; these figures say nothing about a " +
				"database that is larger than memory"})
	}
}

// fits says how it is known that nothing had to be read anew; "" where it had to.
func fits(database, room, reads int64, name string) string {
	switch {
	case reads == 0:
		return "no block was read while measuring"
	case database > 0 && database <= room:
		return fmt.Sprintf("the database of %s is smaller than %s of %s", unit.Bytes(database),
			name, unit.Bytes(room))
	}
	return ""
}

// inFlight is Little's law: the sum of service times over the elapsed time is how
// many requests were really in flight.
func (r *run) inFlight(m *measured) {
	f := &r.Result.Figures
	f.Record(figure.InFlight, float64(m.service.Sum())/(m.Seconds*1e9))
	asked := r.spec.Threads * max(1, r.spec.BatchGets)
	procs := r.Result.Host.Gomaxprocs
	if r.Result.Engine.FaultsInGo && f.OrZero(figure.MajorFaultsPerGet) >= faultsLimit &&
		asked > procs && f.OrZero(figure.InFlight) < littleLimit*float64(asked) {
		r.Warn(engine.Warning{Code: "page_faults_hold_processors", Text: fmt.Sprintf(
			"only %.1f of %d Gets were under way on average: a page fault in Go code keeps its "+
				"processor until the page is read, and there were %d processors",
			f.OrZero(figure.InFlight), asked, procs),
			Remedy: "--gomaxprocs 0 gives Go's scheduler as many processors as there are Gets " +
				"at the same time"})

		return
	}

	if r.spec.Rate == 0 && f.OrZero(figure.InFlight) < littleLimit*float64(asked) {
		remedy := r.words("fewer --threads, or a machine with more cores",
			"fewer Workload.Threads, or a machine with more cores")
		if asked == 1 {
			remedy = r.words("a longer run (--gets), or a machine on which nothing else runs",
				"more Workload.Gets, or a machine on which nothing else runs")
		}

		r.Warn(engine.Warning{Code: "not_in_flight",
			Text: fmt.Sprintf("only %.1f of %d requests were in flight on average: threads "+
				"waited for a processor outside the timed call",
				f.OrZero(figure.InFlight), asked), Remedy: remedy})
	}
}

// judgeRate warns where the arrival rate was not sustained: all threads were busy when Gets were
// due, so the Gets waited for a thread. Response times include that waiting; fewer Gets than asked
// for reached the engine at a time.
func (r *run) judgeRate(m *measured) {
	offered := r.spec.Rate
	achieved := r.Result.Figures.OrZero(figure.GetsPerSecond)
	late := float64(m.response.Sum()-m.service.Sum()) / 1e9 / float64(m.gets)
	if offered == 0 || sustained(offered, achieved, float64(m.gets), late) {
		return
	}

	r.Warn(engine.Warning{Code: "rate_not_sustained",
		Text: fmt.Sprintf("the arrival rate of %s Gets/s was not sustained: %s Gets/s were "+
			"achieved, and a Get started %s after its "+
			"intended start on average, because %s busy", unit.Significant(offered, 3),
			unit.Significant(achieved, 3),
			unit.Nanos(late*1e9), busyThreads(r.spec.Threads)),
		Remedy: "add --threads if the engine can serve more Gets at a time, or lower --rate"})
}

func busyThreads(threads int) string {
	if threads == 1 {
		return "the only thread was"
	}
	return fmt.Sprintf("all %d threads were", threads)
}

// sustained tells whether so many Gets were made at the rate that was offered, in Gets per second
// like what was achieved. late is by how many seconds they started after their intended start, in
// the mean. Where threads are busy all the time, delays add up: the last Get is twice as late as
// the mean one. A run that took longer than its schedule without such delays is short: its last
// Gets and the reading of counters make it longer.
func sustained(offered, achieved, gets, late float64) bool {
	schedule := gets / offered // seconds
	return achieved >= result.SustainedShare*offered ||
		schedule >= result.SustainedShare*(schedule+2*late)
}

// hitRates derives hits from accesses and reads: what was needed and not read was
// in the cache.
func (r *run) hitRates(accesses map[string]float64, m *measured) {
	f := &r.Result.Figures
	if !f.Has(figure.BlockReadsPerGet) || m.gets == 0 {
		return
	}

	f.BlockAccessesPerGetByType = accesses
	total, reads := 0.0, 0.0
	f.HitRate = map[string]float64{}
	// in one order, so that equal runs have equal sums
	for _, name := range slices.Sorted(maps.Keys(accesses)) {
		accessed, read := accesses[name], f.BlockReadsPerGetByType[name]
		total, reads = total+accessed, reads+read
		if accessed > 0 {
			// A sample of Gets cannot give a hit rate below 0, which chance makes of one near it.
			f.HitRate[name] = max(0, 1-read/accessed)
		}
	}

	if total == 0 {
		return
	}

	f.Record(figure.BlockAccessesPerGet, total)
	f.HitRate["all"] = max(0, 1-reads/total)
	r.compare(m, accessPairs())
}

// writeFigures are the figures of puts; settled is the work the engine did after
// the last one, if it was waited for.
func (r *run) writeFigures(m *measured, settled *cost) {
	f := &r.Result.Figures
	f.Puts = m.puts
	if m.Seconds > 0 {
		f.Record(figure.PutsPerSecond, float64(m.puts)/m.Seconds)
	}

	f.Seconds = cmp.Or(f.Seconds, m.Seconds)
	if r.putLatency.N() > 0 {
		f.PutNanos = new(r.putLatency.Summary())
	}

	if r.reservedMax > 0 {
		f.Record(figure.CacheReserved, float64(r.reservedMax))
	}

	f.RecordIf(figure.Syncs, figure.If(m.Subject.Syncs))
	f.RecordIf(figure.WriteStalls, figure.If(m.Subject.Stalls))
	if m.Subject.StallNanos != nil {
		f.Record(figure.WriteStallSeconds, float64(*m.Subject.StallNanos)/1e9)
	}

	if m.userBytes == 0 {
		return
	}

	r.ledger(m, settled)
	wrote := engineWrites(m.Subject)
	device, known := r.written(m.cost)
	if settled != nil {
		wrote += engineWrites(settled.Subject)
		later, _ := r.written(*settled)
		device += later
	} else {
		r.MarkUnavailable("background work was still going on when the run ended",
			figure.WriteAmplification.Settled())
	}

	if wrote > 0 {
		f.Record(figure.WriteAmplification, float64(wrote)/float64(m.userBytes))
	}

	if !known {
		r.MarkUnavailable(r.Uncounted(), figure.DeviceWriteAmplification)
		return
	}

	f.Record(figure.DeviceWriteAmplification, float64(device)/float64(m.userBytes))
}

// ledger are the bytes that a put cost, by what wrote them.
func (r *run) ledger(m *measured, settled *cost) {
	puts := float64(m.puts)
	parts := map[string]float64{result.WrittenUser: float64(m.userBytes) / puts}
	add := func(of cost) {
		if device, known := r.written(of); known {
			parts[result.WrittenDevice] += float64(device) / puts
		}

		c := of.Subject
		for name, n := range map[string]*int64{
			result.WrittenWAL:        c.WALBytes,
			result.WrittenFlush:      c.FlushBytes,
			result.WrittenCompaction: c.CompactBytes,
			result.WrittenIngestion:  c.IngestBytes,
			result.WrittenSynced:     c.SyncedBytes,
		} {
			if n != nil {
				parts[name] += float64(*n) / puts
			}
		}
	}

	add(m.cost)
	if settled != nil {
		add(*settled)
	}

	r.Result.Figures.WriteBytesPerPut = parts
}

// engineWrites are the bytes an engine says it wrote.
func engineWrites(c engine.Counters) (n int64) {
	for _, part := range []*int64{c.WALBytes, c.FlushBytes, c.CompactBytes, c.IngestBytes} {
		if part != nil {
			n += *part
		}
	}
	return n
}

func ratio(n int64, by float64) *float64 { return new(float64(n) / by) }

// floorGets is short enough to go before every run: some 20 ms.
const floorGets = 200_000

// HarnessFloor is the cost of the loop around a Get, in nanoseconds, on an engine that answers
// "absent" at once: choosing and making a 32-byte key, two clock reads, recording.
func HarnessFloor(clock *measure.Clock) float64 {
	m := floorManifest()
	keys := &keyset{
		choice: workload.Choice{Keys: m.Keys, MissingShare: 1, Seed: 1},
		space:  m.KeySpace(),
		values: new(keyspace.Values),
	}
	w := timed.NewWorker(clock, &gets{keySource: keys.source(workload.MeasurePhase, 0)}, nothing{})
	return session.Overhead(clock, floorGets, w.Run)
}

// floorManifest describes the keys that the harness is measured with.
func floorManifest() *keyspace.Manifest {
	const keys, keyBytes, valueBytes = 1 << 20, 32, 110
	return &keyspace.Manifest{
		Keys:       keys,
		Loaded:     keys,
		Settled:    true,
		KeyBytes:   keyBytes,
		KeyOrder:   keyspace.Hashed,
		KeyHash:    keyspace.Mix,
		ValueModel: keyspace.Random,
		ValueBytes: valueBytes,
	}
}

// nothing is an engine's reader without an engine.
type nothing struct{}

func (nothing) Get(_, dst []byte) ([]byte, bool, error) { return dst, false, nil }

func (nothing) Close() error { return nil }

// parts are how many equal parts of a run tell how much chance there is in what it counts.
const parts = 32

// parted is a source of keys that notes the block reads so far each time that another part of
// the Gets begins. That happens outside the timed call.
type parted struct {
	keySource
	every, left uint64
	now         func() (reads int64, known bool)
	reads       []int64
}

func (p *parted) next(c *choice) {
	if p.left == 0 {
		p.note()
		p.left = p.every
	}
	p.left--
	p.keySource.next(c)
}

func (p *parted) note() {
	if len(p.reads) == cap(p.reads) {
		return
	}
	if reads, known := p.now(); known {
		p.reads = append(p.reads, reads)
	}
}

// generated is the source of keys that statelab wrote, which writers change.
func (g *gets) generated() *generated {
	if p, is := g.keySource.(*parted); is {
		return p.keySource.(*generated)
	}
	return g.keySource.(*generated)
}

// inParts is source, with notes of the reads while gets of it are asked for; nil if they are too
// few.
func (r *run) inParts(source keySource, gets uint64) *parted {
	p := &parted{keySource: source, every: gets / parts, reads: make([]int64, 0, parts+1)}
	if p.every < 10 {
		return nil
	}

	counts := r.db.Counters().Reads != nil
	if !counts && (!r.usesPageCache() || r.Uncounted() != "") {
		return nil
	}

	p.now = func() (int64, bool) { return host.MajorFaults(), true }
	if counts {
		p.now = func() (int64, bool) {
			reads := r.db.Counters().Reads
			if reads == nil { // an adapter drops a counter that turns out wrong
				return 0, false
			}
			return reads.Total().Count, true
		}
	}

	return p
}

// chance is the standard error of the reads per Get that the choice of keys gives them. Each
// part is an observation. What a cache remembers from one part to the next makes neighbours
// alike, or unlike, so parts are added up to twice and four times their length as well, and the
// largest of the three errors counts (batch means: Law and Kelton, Simulation Modeling and
// Analysis). gets are those of one part, of all threads together.
func (p *parted) chance(gets float64) *float64 {
	if p == nil || len(p.reads) <= parts {
		return nil
	}

	total := float64(p.reads[parts] - p.reads[0])
	largest := 0.0
	for long := 1; long <= 4; long *= 2 {
		n, squares := float64(parts/long), 0.0
		for i := 0; i < parts; i += long {
			off := float64(p.reads[i+long]-p.reads[i]) - total/n
			squares += off * off
		}

		largest = max(largest, math.Sqrt(squares/(n-1)/n)/float64(long))
	}

	error := largest / gets
	if total < 100 { // so rare that parts without any would hide them
		error = max(error, math.Sqrt(total+1)/(gets*parts))
	}

	return &error
}
