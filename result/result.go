// Package result reads and writes folders of results: the only thing that passes between what
// measures and what explains.
//
// To read figures, call Points, which takes a folder of any kind and version, and ask each point
// for figures of package figure:
//
//	points, err := result.Points("S") // as statelab sweep --out S wrote it
//	...
//	for p := range points {
//		reads, known := p.Value(figure.BlockReadsPerGet).Number() // float64, bool
//		fmt.Println(p.Axes["cache"], reads, known)
//	}
//
// The types below have all else that is stored; a program seldom needs them, and Write functions
// are for those that measure.
//
// A run folder holds run.json (Run), series.jsonl (one Tick a line),
// latency.hlog (HdrHistogram log: service times, and response times under the
// tag "response"). A sweep folder holds sweep.json (Sweep), points/NNN/ (run
// folders) and report.html. Names in these files are a contract: fields are
// added, never renamed; units are in the names.
//
// A figure that could not be measured is absent, with its reason: it is never zero and never
// guessed. Package figure has all figures; Run.Reasons has the reasons of figures and of facts.
package result

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/memoryuse"
	"github.com/statelab/statelab/result/figure"
)

// Run statuses.
const (
	OK          = "ok"
	Failed      = "failed"
	Interrupted = "interrupted"
)

// Run is run.json: one measured point.
type Run struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	FailureInfo
	Verb    string    `json:"verb"` // load, read, ...
	Started time.Time `json:"started"`
	Command []string  `json:"command"` // what to type to run it again
	// SharedProcess: it was measured inside a program that did other things, too (package measure).
	// Figures that follow from the kernel's counters of a process are unavailable.
	SharedProcess bool `json:"shared_process,omitempty"`

	Engine    Engine   `json:"engine"`
	Workload  Workload `json:"workload"`
	Cache     Cache    `json:"cache"`
	PageCache string   `json:"page_cache"` // direct, cold, warm, asis
	Memory    *Memory  `json:"memory,omitempty"`
	Host      Host     `json:"host"`
	Machine   *Machine `json:"machine,omitempty"` // what else ran on it
	// at the start (after a load: at its end)
	Database Database  `json:"database"`
	After    *Database `json:"database_end,omitempty"` // at the end
	Phases   []Phase   `json:"phases"`
	// of Database; the regime that the cache is in
	Inflection *Inflection `json:"inflection,omitempty"`
	Changes    *ChangeSet  `json:"changes,omitempty"` // of a replay

	Figures Figures `json:"figures"`
	// fact that is not known -> why; in JSON also of figures, as in Reasons
	Absent   map[string]string `json:"absent,omitempty"`
	Checks   []Check           `json:"checks,omitempty"` // our counters against others'
	Warnings []engine.Warning  `json:"warnings"`
}

// Engine is what ran.
type Engine struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Profile string            `json:"profile"`
	Options map[string]string `json:"options"` // effective; "build" of Pebble: "pure Go" or "cgo"
	// Overrides are the options that were set in place of the profile's, as they were given.
	Overrides map[string]string `json:"overrides,omitempty"`

	// Durability says what survives a kill and what a power cut.
	Durability string `json:"durability,omitempty"`

	// FaultsInGo: its Go code touches mapped pages, so that a page fault keeps a processor of Go's
	// scheduler.
	FaultsInGo bool `json:"faults_in_go,omitempty"`

	// Of a tree.
	RootRule string `json:"root_rule,omitempty"`
	History  string `json:"history,omitempty"`
}

// Build is how an engine was built that can be built either way: engine.PureGo or
// engine.WithCgo; "" of others. Its cache is then on the Go heap or in C's memory.
func (r *Run) Build() string {
	build := r.Engine.Options[engine.BuildOption]
	if build == "" && len(r.Engine.Options) > 0 && r.Host.Go != "" && r.Database.Format != "" {
		// Older runs say it of their process. Engines whose databases have a format are those that
		// can be built either way.
		build = engine.PureGo
		if r.Host.Cgo {
			build = engine.WithCgo
		}
	}

	return build
}

// Load names the database that a run read, of which several runs may be repeats. Each node of a
// cluster loads its own.
func (r *Run) Load() string { return r.Host.Node + ":" + r.Database.Dir }

// Workload is what was asked of the engine.
type Workload struct {
	Name         string  `json:"name"` // readrandom, fillrandom, ...
	Keys         uint64  `json:"keys"`
	KeyBytes     int     `json:"key_bytes"`
	ValueBytes   float64 `json:"value_bytes"` // mean
	ValueModel   string  `json:"value_model"`
	KeyOrder     string  `json:"key_order"`            // hashed, sorted, foreign
	KeyHash      string  `json:"key_hash,omitempty"`   // mix, keccak256
	MissingShare float64 `json:"missing_share"`        // of the Gets, 0..1
	ZipfTheta    float64 `json:"zipf_theta,omitempty"` // 0: uniform
	Threads      int     `json:"threads"`
	Gets         uint64  `json:"gets"`
	WarmupGets   uint64  `json:"warmup_gets"`
	WarmupRule   string  `json:"warmup_rule"` // how warmup_gets came about
	Warmup       *Warmup `json:"warmup,omitempty"`
	Rate         float64 `json:"rate_per_second,omitempty"`
	WriteRate    float64 `json:"write_rate_per_second,omitempty"`
	BatchKeys    int     `json:"batch_keys,omitempty"`
	BatchGets    int     `json:"batch_gets,omitempty"`   // keys of a batch; 0: one Get at a time
	BatchSorted  bool    `json:"batch_sorted,omitempty"` // its keys ascend
	// Gets of a batch at once; 0: by the engine's own call, if it has one
	InFlight int    `json:"in_flight,omitempty"`
	Seed     uint64 `json:"seed"`
	LoadSeed uint64 `json:"load_seed,omitempty"` // of a database that statelab loaded
	// of the database: random overwrites of a quarter of its keys
	Aged int `json:"aged_rounds,omitempty"`
}

// Why an automatic warm-up ended.
const (
	// the cache had stopped filling and the reads per Get had stopped changing
	WarmupSteady    = "steady"
	WarmupGivenUp   = "given_up"  // they still changed
	WarmupUnwatched = "unwatched" // nobody counts reads: a fixed number of Gets
)

// Warmup is what an automatic warm-up saw.
type Warmup struct {
	Ended           string `json:"ended"`
	CacheBlocks     int64  `json:"cache_blocks"` // of 4 KiB, that the cache can hold
	Windows         int    `json:"windows"`
	WindowGets      uint64 `json:"window_gets"`
	FilledAfterGets uint64 `json:"filled_after_gets,omitempty"` // the cache had stopped filling

	// Block reads per Get: of the quarter of all windows before the last, of the last quarter, and
	// of every window by type.
	Before      float64              `json:"-"`
	Last        float64              `json:"-"`
	ReadsPerGet map[string][]float64 `json:"-"`
}

func (w *Warmup) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads.Before(): &w.Before, reads.Last(): &w.Last,
		reads.ByType(): &w.ReadsPerGet}
}

// MarshalJSON writes the figures by their keys.
func (w Warmup) MarshalJSON() ([]byte, error) {
	type plain Warmup

	return w.members().Marshal(plain(w))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Warmup) UnmarshalJSON(text []byte) error {
	type plain Warmup

	return w.members().Unmarshal(text, (*plain)(w))
}

// Cache is the block cache: what was asked for and what the engine runs with.
type Cache struct {
	Requested string `json:"requested"`
	Effective int64  `json:"effective"`
	// BlockBytes is what blocks have of it before the first Get: memtables take the
	// rest. Absent where the engine does not tell.
	BlockBytes *int64 `json:"block_bytes,omitempty"`
}

// UsableBytes is the part of the cache that blocks have, in bytes: what memtables leave of
// it. reserved is what they took at the most while the run measured, absent where the run
// did not write. The whole cache where the engine does not tell.
func (c Cache) UsableBytes(reserved figure.Value) int64 {
	bytes, known := reserved.Number()
	switch {
	case known:
		return max(0, c.Effective-int64(bytes))
	case c.BlockBytes != nil:
		return *c.BlockBytes
	}
	return c.Effective
}

// Memory is what the engine may keep in memory and how it was held to that.
type Memory struct {
	BudgetBytes int64                `json:"budget_bytes,omitempty"` // asked for; 0: none
	Shares      []engine.MemoryShare `json:"shares"`
	// PageCacheBytes is what the page cache may hold of the database; absent where
	// nothing limits it.
	PageCacheBytes *int64 `json:"page_cache_bytes,omitempty"`
	HeldBy         string `json:"held_by,omitempty"` // what limits the page cache
}

// UnmarshalJSON reads older folders too, which tell in words alone what a part holds.
func (m *Memory) UnmarshalJSON(text []byte) error {
	type plain Memory
	err := json.Unmarshal(text, (*plain)(m))
	for i, share := range m.Shares {
		m.Shares[i].Holds = cmp.Or(share.Holds, memoryuse.Holding(share.Use))
	}
	return err
}

// Host are the facts of the machine that can move a number.
type Host struct {
	OS          string  `json:"os"`
	Kernel      string  `json:"kernel"`
	CPU         string  `json:"cpu"`
	Cores       int     `json:"cores"`
	Gomaxprocs  int     `json:"gomaxprocs"` // during the measured phase
	MemoryBytes int64   `json:"memory_bytes"`
	MemoryLimit int64   `json:"memory_limit_bytes,omitempty"` // cgroup
	Go          string  `json:"go"`
	Statelab    string  `json:"statelab"`         // the release it is, or follows
	Commit      string  `json:"commit,omitempty"` // 12 digits; "+dirty": with changes of its own
	Cgo         bool    `json:"cgo"`
	Filesystem  string  `json:"filesystem"`
	Mount       string  `json:"mount_options,omitempty"`
	Device      string  `json:"device"`
	Rotational  bool    `json:"rotational"`
	ReadAheadKB int     `json:"read_ahead_kb"`
	Scheduler   string  `json:"io_scheduler,omitempty"`
	THP         string  `json:"transparent_hugepage,omitempty"`
	Governor    string  `json:"cpu_governor,omitempty"`
	FDLimit     uint64  `json:"fd_limit"`
	Root        bool    `json:"root"`
	LoadAverage float64 `json:"load_average"` // 1 min, before the run
	Clock       string  `json:"clock"`        // tsc or monotonic
	ClockNanos  float64 `json:"clock_ns"`     // cost of reading it once
	// one switch between two threads on one core
	SwitchNanos float64 `json:"context_switch_ns,omitempty"`
	Virtualised string  `json:"virtualised,omitempty"`

	// Of a node of a cluster.
	Node  string `json:"node,omitempty"`
	Class string `json:"class,omitempty"` // the hardware that the run asked for
	Job   string `json:"job,omitempty"`
}

// Program is the version of statelab that measured, with its commit where that is known.
func (h Host) Program() string {
	if h.Commit == "" {
		return h.Statelab
	}

	return h.Statelab + ", commit " + h.Commit
}

// Kind is what two machines must share for their times to be compared.
func (h Host) Kind() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB", cmp.Or(h.CPU, "unknown CPU"), h.Cores,
		float64(h.MemoryBytes)/(1<<30))
}

// Database is the state of the files.
type Database struct {
	Dir     string         `json:"dir"`
	Bytes   int64          `json:"bytes"`
	Files   int            `json:"files"`
	Levels  []engine.Level `json:"levels"`
	Written string         `json:"written_by,omitempty"` // "statelab", "foreign"
	Format  string         `json:"format,omitempty"`
	Tables  []engine.Table `json:"tables,omitempty"` // of a database that has several by name
	Values  *engine.Values `json:"values,omitempty"` // outside the tables; absent: none
}

// Phase is a named stretch of a run with its own counters.
type Phase struct {
	// prepare, load, settle, warm, measure, verify, close
	Name     string                  `json:"name"`
	Seconds  float64                 `json:"seconds"`
	Ops      uint64                  `json:"ops"`
	CPUNanos int64                   `json:"cpu_ns,omitempty"`      // absent with Process
	Reads    map[string]engine.Tally `json:"block_reads,omitempty"` // by type, non-zero ones
	Process  *ProcessIO              `json:"process_io,omitempty"`
	Device   *DeviceIO               `json:"device_io,omitempty"`
	Engine   map[string]int64        `json:"engine_counters,omitempty"`
}

// ProcessIO is the kernel's account of the runner process in a phase.
type ProcessIO struct {
	ReadCalls           int64 `json:"read_calls"`  // syscr
	ReadChars           int64 `json:"read_chars"`  // rchar
	ReadBytes           int64 `json:"read_bytes"`  // from the device
	WriteBytes          int64 `json:"write_bytes"` // to the device
	MajorFaults         int64 `json:"major_faults"`
	MinorFaults         int64 `json:"minor_faults"`
	VoluntarySwitches   int64 `json:"voluntary_switches"`
	InvoluntarySwitches int64 `json:"involuntary_switches"`
	UserNanos           int64 `json:"user_ns"`
	SystemNanos         int64 `json:"system_ns"`
}

// DeviceIO are the requests of a private block device in a phase.
type DeviceIO struct {
	Device     string `json:"device"`
	Reads      int64  `json:"reads"`
	ReadMerges int64  `json:"read_merges"`
	ReadBytes  int64  `json:"read_bytes"`
	Writes     int64  `json:"writes"`
	WriteBytes int64  `json:"write_bytes"`
	BusyMillis int64  `json:"busy_ms,omitempty"` // at least one request was under way
}

// Figures are the numbers of the measured phase. Those that are one number each are in the Set,
// with the reasons of those that could not be measured.
type Figures struct {
	figure.Set

	Gets       uint64  `json:"gets"`
	Found      uint64  `json:"found"`
	Missing    uint64  `json:"missing"`
	FailedGets uint64  `json:"failed"`
	Puts       uint64  `json:"puts,omitempty"` // of writing workloads
	Seconds    float64 `json:"seconds"`        // in which they were counted

	// Parts of figures: by type of block, by level ("L0".."L6", "unknown"). HitRate has the types
	// filter, top_index, index and data, and "all". nil is absent: Reason says why.
	BlockReadsPerGetByType    map[string]float64 `json:"-"`
	BlockReadsPerGetByLevel   map[string]float64 `json:"-"`
	BlockAccessesPerGetByType map[string]float64 `json:"-"`
	HitRate                   map[string]float64 `json:"-"`

	// WriteBytesPerPut are the bytes written for each key that was put, by what wrote them: "keys
	// and values" are the user's; journal, flush, compaction and ingestion the engine's; "synced"
	// are those of them that calls to sync made durable; "device" all that the process wrote.
	WriteBytesPerPut map[string]float64 `json:"-"`

	// Summaries of the histograms in latency.hlog. nil is absent: Reason says why.
	ServiceNanos  *Latency `json:"-"`
	ResponseNanos *Latency `json:"-"` // open loop only
	PutNanos      *Latency `json:"-"` // of one batch commit

	// DeviceSource says how device reads were counted, BlockReadSource what block reads are where
	// they were not counted at the file layer.
	DeviceSource    string `json:"device_source,omitempty"`
	BlockReadSource string `json:"block_read_source,omitempty"`

	Age []AgeRound `json:"age,omitempty"` // of a load that went on to overwrite

	*Replay // of a replay: its names stand beside these

	State *State `json:"state,omitempty"` // of a layout
}

// Value is a figure: a number of its own, the mean or a quantile of a duration (ServiceTime,
// ServiceTime.P99()), the hit rate of all blocks, or one of lookups of a kind in a state that does
// not fit in memory, caches warm, one at a time. Where there is no one number, it has the reason.
func (f Figures) Value(of figure.Figure) figure.Value { return f.value(of) }

// Number is a figure's number; known is false where there is none.
func (f Figures) Number(of figure.Figure) (number float64, known bool) {
	return f.value(of).Number()
}

// Has tells whether a figure has a number.
func (f Figures) Has(of figure.Figure) bool { return f.value(of).IsKnown() }

// Pointer is a figure's number, nil where there is none.
func (f Figures) Pointer(of figure.Figure) *float64 { return f.value(of).Pointer() }

// OrZero is a figure's number for callers that have asked whether it is there; else 0.
func (f Figures) OrZero(of figure.Figure) float64 { return f.value(of).OrZero() }

// Reason says why a figure has no number; "" where it has one.
func (f Figures) Reason(of figure.Figure) string { return f.value(of).Reason() }

// members are the figures that are not one number each.
func (f *Figures) members() figure.Members {
	m := figure.Members{
		figure.BlockReadsPerGet.ByType():    &f.BlockReadsPerGetByType,
		figure.BlockReadsPerGet.ByLevel():   &f.BlockReadsPerGetByLevel,
		figure.BlockAccessesPerGet.ByType(): &f.BlockAccessesPerGetByType,
		figure.HitRate:                      &f.HitRate,
		figure.WriteBytesPerPut:             &f.WriteBytesPerPut,
		figure.ServiceTime:                  &f.ServiceNanos,
		figure.ResponseTime:                 &f.ResponseNanos,
		figure.PutServiceTime:               &f.PutNanos,
	}

	if f.Replay != nil {
		m[figure.CommitTime] = &f.CommitNanos
	}

	return m
}

// MarshalJSON writes the numbers. The reasons of absent figures are in Run.Absent.
func (f Figures) MarshalJSON() ([]byte, error) {
	type plain Figures

	return f.members().MarshalWith(plain(f), f.Set)
}

// hasKey tells whether a figure has a number, by its key; true of what is not in the registry.
func (f Figures) hasKey(key string) bool {
	one, is := figure.ByKey(key)

	return !is || f.Has(one)
}

// UnmarshalJSON reads the figures of any version. Versions before 0.3 stored 0 where they had not
// measured.
func (f *Figures) UnmarshalJSON(text []byte) error {
	type plain Figures
	if err := json.Unmarshal(text, (*plain)(f)); err != nil { // tells whether there is a Replay
		return err
	}

	if err := f.members().UnmarshalWith(text, (*plain)(f), &f.Set); err != nil {
		return err
	}

	f.ForgetZeros(func(one figure.Figure) bool {
		return one.Positive || one.OfGets && f.Gets == 0
	})

	return nil
}

// Latency is the summary of a duration whose histogram was kept; nil where there is none.
func (f *Figures) Latency(of figure.Figure) *Latency {
	key := of.Base
	if key == "" {
		key = of.Key
	}

	for one, field := range f.members() {
		if latency, is := field.(**Latency); is && one.Key == key {
			return *latency
		}
	}

	return nil
}

// Equal tells whether two runs have the same numbers, whatever their reasons are.
func (f Figures) Equal(other Figures) bool {
	if !maps.Equal(f.Numbers(), other.Numbers()) {
		return false
	}
	f.Set, other.Set = figure.Set{}, figure.Set{}

	return reflect.DeepEqual(f, other)
}

// IsZero tells that there are none: they are left out of an index of runs.
func (f Figures) IsZero() bool {
	if !f.Set.IsEmpty() {
		return false
	}
	f.Set = figure.Set{}

	return reflect.ValueOf(f).IsZero()
}

// Who wrote bytes, in Figures.WriteBytesPerPut.
const (
	WrittenUser       = "keys and values"
	WrittenWAL        = "journal"
	WrittenFlush      = "flush"
	WrittenCompaction = "compaction"
	WrittenIngestion  = "ingestion"
	WrittenSynced     = "synced"
	WrittenDevice     = "device"
)

// AgeRound is what one round of random overwrites left of a database, and cost.
type AgeRound struct {
	Round      int     `json:"round"`
	Puts       uint64  `json:"puts"`
	Bytes      int64   `json:"bytes"`
	LevelBytes []int64 `json:"level_bytes,omitempty"` // from level 0 on

	WriteAmplification figure.Value `json:"-"`
}

func (a *AgeRound) members() figure.Members {
	return figure.Members{figure.WriteAmplification: &a.WriteAmplification}
}

// MarshalJSON writes the figures by their keys.
func (a AgeRound) MarshalJSON() ([]byte, error) {
	type plain AgeRound

	return a.members().Marshal(plain(a))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *AgeRound) UnmarshalJSON(text []byte) error {
	type plain AgeRound

	return a.members().Unmarshal(text, (*plain)(a))
}

// Latency summarises a histogram kept in latency.hlog. Nanoseconds.
type Latency struct {
	P50  int64   `json:"p50"`
	P90  int64   `json:"p90"`
	P99  int64   `json:"p99"`
	P999 int64   `json:"p999"`
	Max  int64   `json:"max"`
	Mean float64 `json:"mean"`
	N    uint64  `json:"count"`
}

// Quantile is the quantile that a figure names, of the histogram; absent where there is no
// histogram.
func (l *Latency) Quantile(f figure.Figure) figure.Value {
	switch {
	case l == nil:
		return figure.Value{}
	case f.Quantile == "p50":
		return figure.Known(float64(l.P50))
	case f.Quantile == "p99":
		return figure.Known(float64(l.P99))
	}

	return figure.Known(l.Mean)
}

// Value is a figure of a run, as Figures.Value.
func (r *Run) Value(f figure.Figure) figure.Value {
	return r.Figures.Value(f)
}

// Check holds a counter of ours against somebody else's.
type Check struct {
	Name   string  `json:"name"`
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
	Limit  float64 `json:"limit"` // largest relative difference that passes
	OK     bool    `json:"ok"`
	Note   string  `json:"note,omitempty"`
}

// Tick is one line of series.jsonl: about one second of a phase.
type Tick struct {
	Phase           string  `json:"phase"`
	Seconds         float64 `json:"t"`   // since the phase began
	Ops             uint64  `json:"ops"` // in this tick
	OpsPerSecond    float64 `json:"ops_per_second"`
	P50             int64   `json:"p50_ns,omitempty"`
	P99             int64   `json:"p99_ns,omitempty"`
	DeviceReadBytes int64   `json:"device_read_bytes,omitempty"`
	// major ones of a mapped database that is watched
	PageFaults float64 `json:"page_faults_per_second,omitempty"`
	// of a replay: Ops are leaves, P50 and P99 of commits
	Tree *TreeTick `json:"tree,omitempty"`

	BlockReadsPerOp *float64           `json:"-"` // nil where nobody counts them
	ByType          map[string]float64 `json:"-"` // of BlockReadsPerOp
	PutsPerSecond   figure.Value       `json:"-"`
	CacheReserved   figure.Value       `json:"-"` // bytes, by memtables
}

func (t *Tick) members() figure.Members {
	return figure.Members{figure.BlockReadsPerOp: &t.BlockReadsPerOp,
		figure.BlockReadsPerOp.ByType(): &t.ByType,
		figure.PutsPerSecond:            &t.PutsPerSecond, figure.CacheReserved: &t.CacheReserved}
}

// MarshalJSON writes the figures by their keys.
func (t Tick) MarshalJSON() ([]byte, error) {
	type plain Tick

	return t.members().Marshal(plain(t))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Tick) UnmarshalJSON(text []byte) error {
	type plain Tick

	return t.members().Unmarshal(text, (*plain)(t))
}

// Size is one inflection point, two ways.
type Size struct {
	DiskBytes int64 `json:"disk_bytes"` // as the study counts: compressed, as stored
	// decompressed, with the engine's charge: what a cache must hold
	CacheBytes   int64   `json:"cache_bytes"`
	PercentOfDB  float64 `json:"percent_of_db"` // disk_bytes / database bytes
	CachePercent float64 `json:"cache_percent_of_db"`
}

// Inflection are the two inflection points of a database.
type Inflection struct {
	IP1 Size `json:"ip1"`
	IP2 Size `json:"ip2"`
	// LastLevelFilterBytes are filters no Get consults.
	LastLevelFilterBytes int64 `json:"unused_filter_bytes"`
	// Regime of the part of this run's cache that blocks have: 1 below IP1, 2 between, 3 above IP2
	// (in-cache sizes). 0: no cache given.
	Regime int `json:"regime,omitempty"`
}

// regime of a run that reads, by the cache that blocks had in it.
func (r *Run) regime() {
	if r.Inflection == nil || r.Verb != "read" {
		return
	}

	i := *r.Inflection
	blocks, ip1, ip2 := r.Cache.UsableBytes(r.Figures.Value(figure.CacheReserved)),
		i.IP1.CacheBytes,
		i.IP2.CacheBytes
	if ip2 == 0 {
		ip1, ip2 = i.IP1.DiskBytes, i.IP2.DiskBytes
	}

	switch {
	case r.Cache.Effective <= 0:
		i.Regime = 0
	case blocks < ip1:
		i.Regime = 1
	case blocks < ip2:
		i.Regime = 2
	default:
		i.Regime = 3
	}

	r.Inflection = &i
}

// MarshalJSON writes run.json: `absent` has the reasons of unavailable figures and of facts.
func (r Run) MarshalJSON() ([]byte, error) {
	type plain Run
	r.Absent = withReasons(r.Absent, r.Figures.Set)

	return json.Marshal(plain(r))
}

// Reasons are why figures and facts of the run are not there, by their names.
func (r *Run) Reasons() map[string]string { return withReasons(r.Absent, r.Figures.Set) }

// withReasons are the reasons of facts and of figures, as files have them.
func withReasons(facts map[string]string, figures figure.Set) map[string]string {
	all := figures.Absent()
	maps.Copy(all, facts)

	return all
}

// UnmarshalJSON reads run.json, also of versions that called the cache cache_bytes.
func (r *Run) UnmarshalJSON(text []byte) error {
	type plain Run
	old := struct {
		*plain
		Cache *Cache `json:"cache_bytes"`
	}{plain: (*plain)(r)}

	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}

	if old.Cache != nil {
		r.Cache = *old.Cache
	}

	r.Absent = r.Figures.Explain(r.Absent)

	return nil
}

// Event is progress that a runner reports to its planner while it works, a JSON
// object a line.
type Event struct {
	Phase string `json:"phase"`
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"` // 0: not known
	Unit  string `json:"unit"`  // Gets, keys, versions, ...
	Note  string `json:"note,omitempty"`
	Tick  *Tick  `json:"tick,omitempty"` // the line just written to series.jsonl
	// Failed is why the runner ends without a result.
	Failed *engine.Failure `json:"failed,omitempty"`
}

// EventFunc receives events; it must be quick and safe for concurrent use.
type EventFunc func(Event)

// FailureInfo says beside the text of an error what kind of failure it is: see engine.Failure.
// Files of earlier versions lack it.
type FailureInfo struct {
	Code   engine.Code `json:"error_code,omitempty"`
	Remedy string      `json:"error_remedy,omitempty"` // what the user can do
}

// NewFailureInfo is what is stored of a failure beside its text. That a file of a run is missing
// is no wrong name.
func NewFailureInfo(f *engine.Failure) FailureInfo {
	if f.Code == engine.CodeMissing {
		return FailureInfo{Code: f.Code}
	}
	return FailureInfo{f.Code, f.Remedy}
}

// Failure is the error whose text was stored beside w.
func (w FailureInfo) Failure(text string) error {
	return &engine.Failure{Code: w.Code, Remedy: w.Remedy, Err: errors.New(text)}
}

// WithRemedy is the text that was stored beside w, with the remedy.
func (w FailureInfo) WithRemedy(text string) string {
	if text == "" || w.Remedy == "" {
		return text
	}
	return text + ": " + w.Remedy
}
