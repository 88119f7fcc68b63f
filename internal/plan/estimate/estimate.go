// Package estimate says, before anything starts, what an experiment will take: bytes on
// disk, bytes of memory, seconds.
//
// Goals: a plan that cannot fit is refused at once, with what would fit; bytes within a
// half, times within a factor of two on a machine like the one that the constants are
// of; pure: what is known of the machine is an argument.
// Non-goals: predicting figures (predict, statemodel), looking at the machine (host).
package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Kinds of steps: times of one kind are off by one factor.
const (
	LoadKind   = "load"
	ReadKind   = "read"
	CurveKind  = "curve" // of a sweep: not a run, but the sweep's own work at its end
	LayoutKind = "layout"
	ReplayKind = "replay"
)

// Step is what one process of a plan will take.
type Step struct {
	Kind, Name    string
	DiskBytes     int64 // left when the step has ended; 0: it removes what it wrote
	TableBytes    int64 // of a database that it makes: DiskBytes without write-ahead logs
	PeakDiskBytes int64 // at most while it runs
	MemoryBytes   int64
	Seconds       float64
	Basis         string // where the figures come from

	Flag  string // whose value scales the disk: "--keys"; empty: none does
	Count uint64 // its value
	fixed int64  // part of PeakDiskBytes that Count does not scale
}

// Estimate is what a plan will take, its steps one after the other.
type Estimate struct {
	Steps         []Step
	DiskBytes     int64 // left at the end
	PeakDiskBytes int64
	MemoryBytes   int64
	Seconds       float64

	fullest int // the step at which the disk is fullest
}

// Machine is what is known of the machine. Zero values are unknown, and taken from the
// machine that the constants were measured on.
type Machine struct {
	Cores           int
	AvailableMemory int64
	WriteBytes      float64      // sequential, a second
	Disk            *result.Disk // random reads by number in flight
}

// Total adds up steps that run one after the other.
func Total(steps []Step) Estimate {
	e := Estimate{Steps: steps}
	for i, s := range steps {
		if peak := add(e.DiskBytes, s.PeakDiskBytes); peak > e.PeakDiskBytes {
			e.PeakDiskBytes, e.fullest = peak, i
		}

		e.DiskBytes = add(e.DiskBytes, s.DiskBytes)
		e.MemoryBytes = max(e.MemoryBytes, s.MemoryBytes)
		e.Seconds += s.Seconds
	}

	return e
}

// overdue is how long a step is taken to last that has lasted longer than expected, as a multiple
// of the time until now.
const overdue = 1.25

// Remaining are the seconds that are left of the step at work, which has taken running, and of
// those after it, corrected by how long the ended ones took: actual holds their seconds, in the
// order of the steps. A step that takes longer than expected corrects those after it, too.
func (e Estimate) Remaining(actual []float64, running float64) float64 {
	expected, took := map[string]float64{}, map[string]float64{}
	corrected := func(s Step) float64 {
		if expected[s.Kind] > 0 {
			return s.Seconds * took[s.Kind] / expected[s.Kind]
		}
		return s.Seconds
	}
	ended := func(s Step, seconds float64) {
		expected[s.Kind] += s.Seconds
		took[s.Kind] += seconds
	}

	at := min(len(actual), len(e.Steps))
	for i, seconds := range actual[:at] {
		ended(e.Steps[i], seconds)
	}

	left := 0.0
	for i, s := range e.Steps[at:] {
		seconds := corrected(s)
		if i == 0 && running > seconds {
			seconds = overdue * running
			ended(s, seconds)
		}

		if i == 0 {
			seconds -= running
		}
		left += seconds
	}

	return left
}

// Fits is nil if a plan fits into what is free, else an error that says what would.
func (e Estimate) Fits(freeDisk, freeMemory int64) error {
	var errs []error
	if e.PeakDiskBytes > freeDisk {
		errs = append(errs,
			fmt.Errorf("%s needs about %s of disk (%s when it is done), but only %s is free: %s",
				e.Steps[e.fullest].Name, unit.Bytes(e.PeakDiskBytes), unit.Bytes(e.DiskBytes),
				unit.Bytes(freeDisk), e.whatFits(freeDisk)))
	}

	for _, s := range e.Steps {
		if s.MemoryBytes > freeMemory {
			errs = append(errs,
				fmt.Errorf("%s needs about %s of memory, but only %s is available: use a smaller "+
					"--cache or --memory",
					s.Name, unit.Bytes(s.MemoryBytes), unit.Bytes(freeMemory)))
			break
		}
	}

	return errors.Join(errs...)
}

// whatFits scales the flag of the step at which the disk is fullest. What earlier steps
// leave scales along if it is of the same value.
func (e Estimate) whatFits(free int64) string {
	full := e.Steps[e.fullest]
	const nothing = "use a disk with more free space"
	if full.Flag == "" {
		return nothing
	}

	fixed, scaled := full.fixed, full.PeakDiskBytes-full.fixed
	for _, s := range e.Steps[:e.fullest] {
		if s.Flag == full.Flag && s.Count == full.Count {
			part := min(s.fixed, s.DiskBytes)
			fixed, scaled = add(fixed, part), add(scaled, s.DiskBytes-part)
		} else {
			fixed = add(fixed, s.DiskBytes)
		}
	}

	count := twoDigits(float64(full.Count) * float64(free-fixed) / float64(scaled))
	if !(count >= 1) {
		return nothing
	}

	return fmt.Sprintf("%s %s fits", full.Flag, unit.ShortCount(count))
}

// twoDigits rounds down.
func twoDigits(v float64) float64 {
	if !(v >= 1) {
		return 0
	}
	digit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Floor(v/digit) * digit
}

// add of sizes that may be beyond what 64 bits hold.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func bytes(v float64) int64 {
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(v)
}

func (m Machine) cores() float64 {
	return float64(cmp.Or(m.Cores, 2))
}

// writeRate: 200M keys by fillsorted, 22 GiB in 60 s. `dd bs=1M count=2048 conv=fsync` on
// the same machine, busy, gave 221 MB/s.
func (m Machine) writeRate() float64 {
	return cmp.Or(m.WriteBytes, 400e6)
}

// defaultDisk are the reads a second that docs/engines.md tells of `statelab disk`.
var defaultDisk = result.Disk{Points: []result.DiskPoint{
	{InFlight: 1, ReadsPerSecond: 10_200},
	{InFlight: 4, ReadsPerSecond: 22_900},
	{InFlight: 16, ReadsPerSecond: 46_300},
	{InFlight: 64, ReadsPerSecond: 55_400},
}}

// readRate are the device's random reads a second.
func (m Machine) readRate(inFlight int) float64 {
	if p, ok := m.Disk.At(float64(inFlight)); ok && m.Disk.Contradicted == "" {
		return p.ReadsPerSecond
	}
	p, _ := defaultDisk.At(float64(max(1, inFlight)))
	return p.ReadsPerSecond
}

func (m Machine) memory() int64 {
	return cmp.Or(m.AvailableMemory, 16<<30)
}

const valuesPerAccount = 2.6 // of the measurements that subject.LayoutCost is of

// Layout is what a layout at one size takes: built, updated, looked up. l names it as typed, with
// its profile and options; keep: its files stay.
func Layout(l protocol.LayoutSpec, keep bool, m Machine) Step {
	of, taken := subject.LayoutOf(l.Layout)
	costs := of.Cost
	accounts := float64(l.Chain.Accounts)
	values := (1 + l.Chain.ContractShare*float64(l.Chain.SlotsPer) +
		float64(l.Chain.ContractSlots)/max(1, accounts)) / valuesPerAccount
	data := accounts * costs.PerAccount * values
	s := Step{
		Kind:          LayoutKind,
		Name:          fmt.Sprintf("%s of %s accounts", l.Layout, unit.ShortCount(accounts)),
		Flag:          "--accounts",
		Count:         l.Chain.Accounts,
		PeakDiskBytes: bytes(data*costs.Peak + costs.PeakFixed),
		fixed:         bytes(costs.PeakFixed),
		MemoryBytes: add(l.MemoryBytes,
			bytes(costs.BuildMemory+accounts*costs.MemoryPerAccount*values)),
		Basis: "measured with 100k and 1M accounts",
	}

	if keep {
		s.DiskBytes = bytes(data + costs.Fixed)
	}

	s.Basis = cmp.Or(taken, s.Basis)
	build := max(accounts*values/costs.AccountsPerSecond, data/m.writeRate())
	const kinds = 4
	opening := costs.Open + accounts*costs.OpenPerAccount
	first := float64(min(max(l.Reads/100, 5), 50))
	patience := 30.
	if l.First > 0 {
		first, patience = float64(l.First), 30*float64(l.First)/50
	}

	openings := kinds * min(first*opening, max(patience, 5*opening))
	// warm and measured, with one and 64 in flight
	lookups := kinds * 4 * float64(l.Reads) * costs.GetSeconds
	s.Seconds = 2 + build + openings + (kinds+1)*opening + lookups
	return s
}

// ReplaySpec is a change set into one tree.
type ReplaySpec struct {
	Tree    string
	Changes int64 // sets and removals
	Bytes   int64 // of their keys and values

	Stores     int
	CacheNodes int64 // of a store; 0: the tree's own
}

// Replay is what one pass of a change set into a tree takes. Its disk stays.
func Replay(r ReplaySpec, m Machine) Step {
	t, taken := subject.TreeOf(r.Tree)
	costs := t.Cost
	changes := float64(r.Changes)
	disk := float64(r.Bytes) + changes*costs.DiskPerChange
	if costs.InMemory {
		disk = 0
	}

	kept := 1.0
	if costs.Bounded {
		const usualNodes = 1_000_000 // of a store, by the trees' profiles
		nodes := cmp.Or(r.CacheNodes, usualNodes)
		kept = min(1, float64(max(1, r.Stores))*float64(nodes)/max(1, changes))
	}

	const compactions = 1.2
	s := Step{
		Kind:          ReplayKind,
		Name:          fmt.Sprintf("%s changes into %s", unit.ShortCount(changes), r.Tree),
		DiskBytes:     bytes(disk),
		PeakDiskBytes: bytes(disk * compactions),
		MemoryBytes:   bytes(100<<20 + kept*costs.Memory*float64(r.Bytes)),
		Seconds:       2 + max(changes/costs.LeavesPerSecond, disk/m.writeRate()),
		Basis:         "measured with 433,182 changes",
	}

	s.Basis = cmp.Or(taken, s.Basis)
	return s
}

// maxRows is how many steps a dry run lists.
const maxRows = 20

// Document is what a dry run says, with the free disk space and memory in bytes.
func (e Estimate) Document(free, memory int64) *doc.Document {
	runs := len(e.Steps)
	if runs > 0 && e.Steps[runs-1].Kind == CurveKind {
		runs--
	}

	d := &doc.Document{Title: "What would be measured"}
	d.Answer("", fmt.Sprintf("%s, about %s: %s of disk (%s at the end), %s of memory.",
		unit.Plural(runs, "run"), unit.Roughly(e.Seconds), unit.Bytes(e.PeakDiskBytes),
		unit.Bytes(e.DiskBytes), unit.Bytes(e.MemoryBytes)))
	d.Cards = []doc.Card{{Name: "free", Facts: [][2]string{
		{"disk", unit.Bytes(free)}, {"memory", unit.Bytes(memory)}},
		Brief: fmt.Sprintf("Free: %s of disk, %s of memory.", unit.Bytes(free),
			unit.Bytes(memory))}}

	words := func(name string, of func(Step) string) doc.Column[Step] {
		return doc.Column[Step]{Name: name, Words: of, Left: true}
	}
	runsBlock := doc.Block{
		Title: "Runs",
		Table: doc.TableOf(e.Steps[:min(len(e.Steps), maxRows)], nil,
			doc.Words("run", func(s Step) string { return s.Name }),
			words("time", func(s Step) string { return unit.Roughly(s.Seconds) }),
			words("disk", func(s Step) string { return unit.Bytes(s.PeakDiskBytes) }),
			words("memory", func(s Step) string { return unit.Bytes(s.MemoryBytes) }),
			words("estimated from", func(s Step) string { return s.Basis })),
	}

	if more := len(e.Steps) - maxRows; more > 0 {
		runsBlock.Texts = []string{fmt.Sprintf("and %d more", more)}
	}

	d.Add("Runs", runsBlock)
	return d
}

// ReadSpec is a point of a read or a sweep, and what is known of its database.
type ReadSpec struct {
	protocol.EngineSpec
	DatabaseBytes int64 // 0: as Load makes it of Keys pairs of 142 bytes
	Files         int   // of the database; 0: as many as its bytes make
	Cgo           bool  // a cache in C's memory of an engine that has it on the Go heap otherwise
}

// pointSeconds are what a process takes besides its Gets: two points of `sweep --cache
// 16MiB,64MiB --gets 1000 --warmup 1000` over 5M keys took 1.6 s, the report included.
const pointSeconds = 1

// An LSM tree is opened table by table: 1,477 tables of 200M keys took a point's phase `prepare`
// 2.6 s of CPU.
const (
	fileSeconds = 2e-3
	fileBytes   = 16e6 // of the same database
)

func (r ReadSpec) openSeconds() float64 {
	e, _ := subject.EngineOf(r.Engine)
	switch {
	case e.Cost.Mapped || e.Cost.Space == 0:
		return 0
	case r.Files == 0:
		r.Files = int(r.DatabaseBytes / fileBytes)
	}
	return float64(r.Files) * fileSeconds
}

// Read is what a point takes: nothing on disk but a few files.
func Read(r ReadSpec, m Machine) Step {
	e, _ := subject.EngineOf(r.Engine)
	costs := e.Cost
	r.DatabaseBytes = cmp.Or(r.DatabaseBytes, bytes(float64(r.Keys)*142*costs.Space))
	cache := r.CacheBytes
	if cache == 0 && costs.Mapped {
		cache = m.memory()
	}

	reads := readsPerGet(cache, r.DatabaseBytes)
	warm := float64(r.WarmupGets)
	if r.WarmupAuto {
		warm = automatic(cache, r.DatabaseBytes, reads)
	}

	threads := max(1, r.Threads)
	fromDevice := 1.0
	if r.PageCache != protocol.Direct && !costs.Mapped {
		fromDevice = max(0, 1-float64(m.memory())/float64(max(1, r.DatabaseBytes)))
	}

	gets := warm + float64(r.Gets)
	device := gets * reads * fromDevice
	// what is read for the first time comes from the device, whatever memory there is
	if r.PageCache == protocol.Cold {
		device = max(device, min(gets*reads, float64(r.DatabaseBytes)/4096))
	}

	// A block read that the page cache serves: with 1 MiB of cache a Get of 300k keys takes
	// 1.0 block reads and 6.1 us more CPU than with 512 MiB.
	const bufferedNanos = 6e3
	cpu := gets*costs.GetNanos + (gets*reads-device)*bufferedNanos
	seconds := device/m.readRate(threads) + cpu/1e9/min(float64(threads), m.cores())
	if r.Rate > 0 {
		seconds += max(0, float64(r.Gets)/r.Rate-seconds*float64(r.Gets)/max(1, gets))
	}

	seconds += float64(r.AccessGets) * accessesPerGet * (fromDevice/m.readRate(1) +
		bufferedNanos/1e9)
	memory := 100<<20 + int64(threads)<<20
	switch {
	case r.MemoryBytes > 0:
		memory += r.MemoryBytes
	case r.Cgo:
		memory = add(memory, bytes(cgoFactor*float64(r.CacheBytes)))
	case !costs.Mapped:
		memory = add(memory, bytes(heapFactor*float64(r.CacheBytes)))
	}

	held := "cache " + unit.Bytes(cache)
	switch {
	case costs.Mapped && r.MemoryBytes > 0:
		held = "memory " + unit.Bytes(r.MemoryBytes)
	case costs.Mapped:
		held = "page cache"
	}

	return Step{
		Kind:        ReadKind,
		Name:        fmt.Sprintf("reading with %s, %s, threads %d", r.Engine, held, threads),
		MemoryBytes: memory,
		Seconds:     pointSeconds + r.openSeconds() + seconds,
		Basis: "reads by the cache's share of the database, the disk's random reads, CPU " +
			"of a Get",
	}
}

// heapFactor: a cache of 256 MiB on the Go heap made 667 MiB resident.
const heapFactor = 2.2

// cgoFactor: a cache of 256 MiB in C's memory made 387 MiB resident (docs/engines.md).
const cgoFactor = 1.2

// accessesPerGet are the blocks that a Get of an LSM tree needs, none cached: 4 of 300k keys
// on one level, a filter, a top index and an index more for each further level.
const accessesPerGet = 12

// metadata is the share of a database that its filters and indexes are, all but the last level's
// filters.
const metadata = 0.009

// readsPerGet is the shape of the study's curve: one read of a data block, less what the
// cache holds of those, and up to 1.3 for metadata with smaller caches than the metadata.
func readsPerGet(cache, database int64) float64 {
	if database <= 0 || cache >= database {
		return 0
	}
	share := float64(cache) / float64(database)
	return 1 - share + 1.3*max(0, 1-share/metadata)
}

// automatic is the warm-up that ends when the reads are steady: never less than four Gets
// for each block that the cache can hold, twice as many where the indexes do not fit. Where
// they do, the last of them are met after so many Gets for each: 200M keys took 486,400 Gets
// with 200 MiB and 662,400 with 225 MiB.
func automatic(cache, database int64, reads float64) float64 {
	blocks := min(max(float64(min(cache, database))/4096, 10_000), 500_000)
	if reads > 1.1 {
		return 8 * blocks
	}
	const getsPerIndexBlock = 11
	return max(5*blocks, getsPerIndexBlock*min(metadata*float64(database)/4096, 500_000))
}

// Of `sweep` over 200M keys: tracing 1M Gets took 15 s of CPU.
const (
	traceSeconds    = 12e-6  // a Get
	simulateSeconds = 0.5e-6 // a Get and cache
	traceBytes      = 100
)

// Curve is what the predicted curve of a sweep takes: the Gets of the longest of its points traced,
// and simulated for each cache.
func Curve(points []ReadSpec) Step {
	gets, simulated, tables := 0.0, 0.0, 0.0
	for _, r := range points {
		n := float64(r.WarmupGets)
		if r.WarmupAuto {
			n = automatic(r.CacheBytes, r.DatabaseBytes, readsPerGet(r.CacheBytes, r.DatabaseBytes))
		}

		n += 2 * float64(r.Gets) // the steady state is that of as many Gets again
		gets = max(gets, n)
		simulated += n
		tables = max(tables, r.openSeconds())
	}

	return Step{
		Kind:        CurveKind,
		Name:        "predicting the curve",
		MemoryBytes: 256<<20 + int64(gets*traceBytes),
		Seconds:     tables + gets*traceSeconds + simulated*simulateSeconds,
		Basis:       "a trace of the longest point's Gets, simulated for each cache",
	}
}

// tableSpace: values from a table of 32 compress; 200M keys of 32 + 110 bytes took 22.1 GiB.
const tableSpace = 0.77

// Load is what making a database takes.
func Load(l *protocol.EngineSpec, m Machine) (Step, error) {
	values, err := keyspace.NewValues(l.ValueModel, l.ValueBytes, l.Seed)
	if err != nil {
		return Step{}, err
	}

	e, taken := subject.EngineOf(l.Engine)
	costs, pairBytes := e.Cost, float64(l.KeyBytes)+values.MeanBytes()
	user := float64(l.Keys) * pairBytes
	compressed := 1.0
	if l.ValueModel == keyspace.Table32 && !costs.Mapped {
		compressed = tableSpace
	}

	space := compressed * costs.Space
	cache := float64(l.CacheBytes)
	logs, peakLogs, rate, written := costs.Logs*cache, costs.PeakLogs*cache, costs.KeysPerSecond,
		user*amplification(costs, l.Keys)
	peak, memory, basis := max(space, compressed*costs.Peak), costs.Memory*cache+128<<20,
		"measured with 1M keys"
	switch sorted := costs.Sorted; {
	case sorted == nil:
	case l.Workload == workload.FillSorted:
		logs, peakLogs, rate, written = sorted.Logs*cache, sorted.PeakLogs*cache,
			sorted.KeysPerSecond, user*compressed*sorted.Amplification
		peak, memory, basis = space, sorted.Memory, "measured with 200M keys"
	default:
		if user < cache {
			logs = min(logs, 2*sorted.Log*cache)
		}
		peakLogs = min(peakLogs, sorted.Log*cache*math.Ceil(math.Max(2,
			math.Log2(user/sorted.FirstMemTable))))
		basis += "; Pebble preallocates write-ahead logs by the size of --cache"
	}

	s := Step{
		Kind: LoadKind,
		Name: fmt.Sprintf("loading %s keys with %s", unit.ShortCount(float64(l.Keys)),
			l.Engine),
		Flag:          "--keys",
		Count:         l.Keys,
		DiskBytes:     bytes(user*space + logs),
		TableBytes:    bytes(user * space),
		PeakDiskBytes: bytes(user*max(peak, space) + peakLogs),
		MemoryBytes:   bytes(memory),
		fixed:         bytes(peakLogs),
		Basis:         basis,
	}

	if costs.InMemory {
		s.MemoryBytes = bytes(2*user + 128<<20)
	}

	const measuredPair = 142 // bytes of a pair that the rates are of
	s.Seconds = 1 + max(float64(l.Keys)*max(1, pairBytes/measuredPair)/rate, written/m.writeRate())
	if costs.Mapped && s.DiskBytes > m.memory() {
		// Every key then reads a leaf page, and later writes it.
		beyond := 1 - float64(m.memory())/float64(s.DiskBytes)
		s.Seconds += 2 * beyond * float64(l.Keys) / m.readRate(1)
		s.Basis += "; the file outgrows memory, so that each key waits for a random read"
	}

	s.Basis = cmp.Or(taken, s.Basis)
	return s, nil
}

// amplification is what the device is given for a byte of user data: 4.2 with 5M keys,
// 8.2 with 200M, for LSM trees. Files of mapped engines are written back by the kernel,
// and no such count limits them.
func amplification(c subject.EngineCost, keys uint64) float64 {
	if c.Mapped || c.Space == 0 {
		return 0
	}
	return max(2, 4.2+2.5*math.Log10(float64(max(1, keys))/5e6))
}
