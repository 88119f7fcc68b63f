package result

import (
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// Names of what was watched.
const (
	WatchFile = "watch.json"
)

// Watch is watch.json: what a process of somebody else's read, seen from outside. Beside it lie
// run.json, series.jsonl and latency.hlog with the same figures, as of a measured run. Figures that
// are one number each are in the Set, with the reasons of those that could not be had.
type Watch struct {
	figure.Set

	Schema  string    `json:"schema"`
	Started time.Time `json:"started"`
	Command []string  `json:"command"`
	// Answer is what statelab says of it, Bottleneck what limits the node, in two or three words;
	// "" where that is not known, and in watches of older versions.
	Answer     string `json:"answer,omitempty"`
	Bottleneck string `json:"bottleneck,omitempty"`

	Process WatchedProcess `json:"process"`
	Seconds float64        `json:"seconds"`         // from the beginning to the end
	Watched float64        `json:"watched_seconds"` // in which all Gets were seen
	Gets    uint64         `json:"gets"`            // seen
	Found   uint64         `json:"found"`
	Missing uint64         `json:"missing"`
	Failed  uint64         `json:"failed"`
	Absent  float64        `json:"absent_share"`
	// MultiGets look many keys up at once, each of which is a Get if it is known; absent: none was
	// seen.
	MultiGets *WatchedBatches `json:"multi_gets,omitempty"`
	// Seeks of iterators, which are not among the Gets either; absent: none was seen, or the engine
	// is one whose Seeks are not counted.
	Seeks *WatchedSeeks `json:"seeks,omitempty"`
	// IteratorShare is the part of the reads of tables for lookups (Gets and iterators) that are
	// for iterators.
	IteratorShare float64   `json:"iterator_reads_share,omitempty"`
	Lost          WatchLost `json:"lost"`
	Cost          WatchCost `json:"cost"`
	Resolved      uint64    `json:"resolved_gets"` // whose block accesses were worked out

	BlockReadsPerGetByType map[string]float64 `json:"-"`
	HitRate                map[string]float64 `json:"-"` // by type of block
	ServiceNanos           *Latency           `json:"-"`

	BlockReads map[string]engine.Tally `json:"block_reads"` // of Gets, by type
	// likewise: L0, L1, ..., unknown
	BlockReadsByLevel map[string]int64 `json:"block_reads_by_level"`
	// likewise: of blocks that the Get was not worked out to ask for
	UnexplainedReads uint64 `json:"unexplained_reads"`
	// of tables, by what they are for
	Reads []WatchedReads `json:"reads"`
	// by kind, the most asked first
	Keys []WatchedKeys `json:"keys"`

	DistinctKeys uint64 `json:"distinct_keys"`
	// shares of the Gets that go to each tenth of the keys, the most asked first
	Tenths []float64 `json:"tenths,omitempty"`

	Cache     WatchedCache     `json:"cache"`
	Simulated *WatchSimulated  `json:"simulated,omitempty"` // of the present cache
	WhatIf    []WatchSimulated `json:"what_if,omitempty"`   // of other sizes

	// OpenFiles: absent where all tables stay open, or it is not known whether they do.
	OpenFiles *WatchedOpenFiles `json:"open_files,omitempty"`
	// Filters: absent where Gets consult filters of all tables that they pass, or it is not known.
	Filters *WatchedFilters `json:"filters,omitempty"`

	// Of a process that maps its database into memory; Gets are those of calls that can be seen, if
	// any: GetsSeconds long, and by table, the most asked first.
	GetsSeconds float64            `json:"gets_seconds,omitempty"`
	TableGets   []WatchedTableGets `json:"gets_by_table,omitempty"`
	// of the database, the most frequent first
	Faults     []WatchedFaults `json:"page_faults,omitzero"`
	FaultNanos *Latency        `json:"page_fault_ns,omitempty"` // of the major ones
	Elsewhere  *WatchElsewhere `json:"page_faults_elsewhere,omitempty"`
	Device     *WatchedDevice  `json:"device,omitempty"`
	// OtherMemory: absent where it cannot be predicted.
	OtherMemory *WatchedOtherMemory `json:"other_memory,omitempty"`

	// fact that is not known -> why; in JSON also of figures
	Why      map[string]string `json:"absent,omitempty"`
	Warnings []engine.Warning  `json:"warnings"`
}

// WatchedBatches are lookups of many keys at once. A block that keys of a batch share counts once.
type WatchedBatches struct {
	Calls uint64 `json:"calls"`
	Keys  uint64 `json:"keys"`
	Gets  uint64 `json:"gets"` // keys that are among the Gets; the others are only counted

	BlockReads        uint64  `json:"block_reads"`
	BlockReadsPerKey  float64 `json:"block_reads_per_key"`
	BlockReadsPerCall float64 `json:"block_reads_per_call"`

	// of the keys that are among the Gets
	BlockAccessesPerKey  figure.Value `json:"block_accesses_per_key,omitzero"`
	BlockAccessesPerCall figure.Value `json:"block_accesses_per_call,omitzero"`
}

// WatchedSeeks are Seeks of iterators, of all databases of the process, and their reads of tables,
// which may have several blocks.
type WatchedSeeks struct {
	Calls        uint64  `json:"calls"`
	Reads        uint64  `json:"reads"` // inside them
	ReadsPerCall float64 `json:"reads_per_call"`
	// ReadsBeyond are of iterators that went on to another block, as far as their thread tells.
	ReadsBeyond uint64  `json:"reads_beyond"`
	MeanNanos   float64 `json:"mean_ns"`
}

// members are the figures that are not one number each.
func (w *Watch) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet.ByType(): &w.BlockReadsPerGetByType,
		figure.HitRate:     &w.HitRate,
		figure.ServiceTime: &w.ServiceNanos}
}

// MarshalJSON writes the figures by their keys, and their reasons beside those of facts.
func (w Watch) MarshalJSON() ([]byte, error) {
	type plain Watch
	w.Why = withReasons(w.Why, w.Set)

	return w.members().MarshalWith(plain(w), w.Set)
}

// UnmarshalJSON reads what MarshalJSON writes. Versions before 0.3 stored 0 Gets per second of a
// process whose Gets cannot be seen.
func (w *Watch) UnmarshalJSON(text []byte) error {
	type plain Watch
	if err := w.members().UnmarshalWith(text, (*plain)(w), &w.Set); err != nil {
		return err
	}
	w.ForgetZeros(func(f figure.Figure) bool { return f.Positive })
	w.Why = w.Explain(w.Why)

	return nil
}

// WatchedProcess is who was watched.
type WatchedProcess struct {
	PID           int      `json:"pid"`
	Name          string   `json:"name"`
	Program       string   `json:"program"` // its Go module
	Version       string   `json:"version,omitempty"`
	Args          []string `json:"args"`
	Go            string   `json:"go"`
	Engine        string   `json:"engine"`
	EngineVersion string   `json:"engine_version"`
	Database      string   `json:"database"`
	Client        string   `json:"client,omitempty"` // whose keys it holds
	Cores         int      `json:"cores"`
	Ended         bool     `json:"ended,omitempty"` // while it was watched

	Memory *WatchedMemory `json:"memory,omitempty"`
	// Config: absent where it was not looked for, or of an older watch.
	Config *NodeConfig `json:"config,omitempty"`
}

// NodeConfig is what sets the memory of a running node.
type NodeConfig struct {
	Unit string `json:"unit,omitempty"` // of systemd, or a container, that runs it
	File string `json:"file,omitempty"` // its configuration file, as the process names it
	// Options, of several with a name the one that the node follows first.
	Options  []NodeOption `json:"options,omitempty"`
	Warnings []string     `json:"warnings,omitempty"` // sentences on what could not be read
}

// NodeOption is one setting: on the command line, unless it has a variable or a file.
type NodeOption struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Variable string `json:"variable,omitempty"` // of the environment
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"` // of the file, from 1
}

// WatchedMemory is the memory that a process may use, at the end of the watch, in bytes.
type WatchedMemory struct {
	MachineBytes int64 `json:"machine_bytes"`
	// of the control group that allows it least, and what all processes in it use, page cache
	// included; 0: no control group limits it
	LimitBytes int64  `json:"limit_bytes,omitempty"`
	UsedBytes  int64  `json:"used_bytes,omitempty"`
	Group      string `json:"group,omitempty"` // its name, such as "reth.service"
	// Above: the group that limits it contains that of the process.
	Above bool `json:"group_above,omitempty"`
	// of that group, or of the machine
	PageCacheBytes int64 `json:"page_cache_bytes,omitempty"`
}

// WatchedOtherMemory is what a process that maps its database would read with another amount of
// memory.
type WatchedOtherMemory struct {
	// Bytes are the present limit of the control group or, where none limits the process, the
	// memory of the machine.
	Bytes      int64  `json:"memory_bytes"`
	Group      string `json:"group,omitempty"` // "": no control group limits the process
	CacheBytes int64  `json:"page_cache_bytes"`
	// pages that left the page cache to make room for others, and how often that replaced all
	Evicted  uint64  `json:"evicted_pages"`
	Replaced float64 `json:"times_replaced"`
	// of the database, as are those of Sizes
	PagesPerSecond float64              `json:"page_reads_per_s"`
	Sizes          []WatchedMemoryReads `json:"sizes"`
}

// WatchedMemoryReads are pages that would be read with so much memory, and the range in which that
// lies.
type WatchedMemoryReads struct {
	Bytes          int64   `json:"memory_bytes"`
	PagesPerSecond float64 `json:"page_reads_per_s"`
	Low            float64 `json:"low"`
	High           float64 `json:"high"`
}

// WatchCounts are what a watch has counted since it began, for whoever scrapes it while it goes on;
// they are not stored.
type WatchCounts struct {
	PID      int
	Process  string // its name
	Engine   string
	Database string

	ObservedSeconds float64 // in which every Get was seen
	Gets            map[string]WatchKeyCounts
	Reads           map[string]uint64 // of tables, by purpose
	Seeks           uint64            // of iterators, where they can be seen
	MajorFaults     uint64            // of a mapped database

	CacheBytes int64 // of the block cache; 0: there is none, or it is not known
	Memory     WatchedMemory

	// What it would read with another cache or, if it maps its database, with other memory; nil:
	// not known (yet).
	Predicted   *WatchPredicted
	OtherMemory *WatchedOtherMemory
}

// WatchPredicted is what caches would read of the Gets of one period of a watch.
type WatchPredicted struct {
	Gets    uint64
	Seconds float64          // of the period, in which every Get was seen
	Caches  []WatchSimulated // the present size first
}

// WatchKeyCounts are the Gets of one kind of key.
type WatchKeyCounts struct {
	Gets    uint64
	Absent  uint64 // of these, that found nothing
	Seconds float64
}

// WatchLost are events that came faster than they were taken.
type WatchLost struct {
	Gets  uint64 `json:"gets"`
	Reads uint64 `json:"reads"`
}

// WatchCost is what watching took of the process.
type WatchCost struct {
	GetNanos  int64   `json:"get_ns"`  // for each Get, as measured on this machine
	ReadNanos int64   `json:"read_ns"` // for each read
	Core      float64 `json:"core_share"`
}

// WatchedReads are reads of tables for one purpose.
type WatchedReads struct {
	Purpose   string  `json:"purpose"`
	Reads     uint64  `json:"reads"`
	PerSecond float64 `json:"reads_per_second"`
	Bytes     float64 `json:"bytes_per_second"`
}

// WatchedTableGets are the Gets of one table of a database that is mapped into memory.
type WatchedTableGets struct {
	Table  string  `json:"table"`
	Gets   uint64  `json:"gets"`
	Absent float64 `json:"absent_share"`
	P50    int64   `json:"p50_ns"`
	P99    int64   `json:"p99_ns"`
	// PagesPerGet are those that a Get goes through in the database's trees, in memory or not; nil:
	// they were not worked out.
	PagesPerGet *float64 `json:"pages_per_get,omitempty"`
}

// WatchedFaults are page faults on pages of one kind of one table. A major one had to read the
// page, a minor one found it in the page cache.
type WatchedFaults struct {
	Table       string  `json:"table"`
	Type        string  `json:"type"`              // of the pages
	Unknown     bool    `json:"unknown,omitempty"` // Table says why it is not known
	Major       uint64  `json:"major"`
	Minor       uint64  `json:"minor"`
	MajorRate   float64 `json:"major_per_second"`
	MinorRate   float64 `json:"minor_per_second"`
	DeviceReads uint64  `json:"device_reads"` // that these faults asked for
	DeviceBytes uint64  `json:"device_read_bytes"`
	P50         int64   `json:"p50_ns"` // of the major ones, from the fault to its end
	P99         int64   `json:"p99_ns"`
}

// WatchElsewhere are page faults of the process outside its database.
type WatchElsewhere struct {
	Major uint64 `json:"major"`
	Minor uint64 `json:"minor"`
}

// WatchedDevice is what was read of the block device that holds the database, for whatever files,
// while it was watched.
type WatchedDevice struct {
	Reads       uint64  `json:"reads"` // of the process
	ReadBytes   uint64  `json:"read_bytes"`
	Rate        float64 `json:"reads_per_second"`
	Bytes       float64 `json:"bytes_per_second"`
	OthersRate  float64 `json:"other_reads_per_second"` // of other processes and of the kernel
	OthersBytes float64 `json:"other_bytes_per_second"`
	// BlockReadsPerGet are those block reads of Gets for which the kernel asked the device; the
	// page cache had the others.
	BlockReadsPerGet figure.Value `json:"-"`
}

func (d *WatchedDevice) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet.FromDevice(): &d.BlockReadsPerGet}
}

// MarshalJSON writes the figures by their keys.
func (d WatchedDevice) MarshalJSON() ([]byte, error) {
	type plain WatchedDevice

	return d.members().Marshal(plain(d))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *WatchedDevice) UnmarshalJSON(text []byte) error {
	type plain WatchedDevice

	return d.members().Unmarshal(text, (*plain)(d))
}

// WatchedKeys are the Gets of one kind of keys.
type WatchedKeys struct {
	Kind   string  `json:"kind"`
	Gets   uint64  `json:"gets"`
	Absent float64 `json:"absent_share"`
	P50    int64   `json:"p50_ns"`
	P99    int64   `json:"p99_ns"`

	Rate                float64      `json:"-"` // Gets per second
	TablesPerGet        figure.Value `json:"-"`
	BlockAccessesPerGet figure.Value `json:"-"`
	BlockReadsPerGet    float64      `json:"-"`
	BytesPerGet         float64      `json:"-"` // of block reads
}

func (k *WatchedKeys) members() figure.Members {
	return figure.Members{figure.GetsPerSecond: &k.Rate, figure.TablesPerGet: &k.TablesPerGet,
		figure.BlockAccessesPerGet:  &k.BlockAccessesPerGet,
		figure.BlockReadsPerGet:     &k.BlockReadsPerGet,
		figure.BlockReadBytesPerGet: &k.BytesPerGet}
}

// MarshalJSON writes the figures by their keys.
func (k WatchedKeys) MarshalJSON() ([]byte, error) {
	type plain WatchedKeys

	return k.members().Marshal(plain(k))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (k *WatchedKeys) UnmarshalJSON(text []byte) error {
	type plain WatchedKeys

	return k.members().Unmarshal(text, (*plain)(k))
}

// WatchedCache is the block cache that the process runs with.
type WatchedCache struct {
	Bytes  int64  `json:"cache_bytes"`
	Source string `json:"source"`
}

// WatchSimulated is what a simulated cache would have read for the second half of the Gets; the
// first half fills it. Low and High bound it. Of the present cache, they are those of the least and
// the most that memtables can take of it; of another size, whether it has a block that was not
// accessed before is not always known.
type WatchSimulated struct {
	CacheBytes int64 `json:"cache_bytes"`
	Reserved   int64 `json:"reserved_bytes"` // of it, by memtables

	BlockReadsPerGet float64 `json:"-"`
	Low              float64 `json:"-"`
	High             float64 `json:"-"`
	HitRate          float64 `json:"-"`
	Seen             float64 `json:"-"` // for the same Gets, of the process with its present cache
	// of the first half of the Gets: more than Seen while the cache fills; 0 before version 0.3
	SeenBefore float64 `json:"seen_before,omitempty"`
}

func (s *WatchSimulated) members() figure.Members {
	reads := figure.BlockReadsPerGet

	return figure.Members{reads: &s.BlockReadsPerGet, reads.Low(): &s.Low, reads.High(): &s.High,
		reads.Seen(): &s.Seen, figure.HitRate: &s.HitRate}
}

// MarshalJSON writes the figures by their keys.
func (s WatchSimulated) MarshalJSON() ([]byte, error) {
	type plain WatchSimulated

	return s.members().Marshal(plain(s))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *WatchSimulated) UnmarshalJSON(text []byte) error {
	type plain WatchSimulated

	return s.members().Unmarshal(text, (*plain)(s))
}

// WatchedOpenFiles is a limit of open files that keeps some tables closed, so that Gets open them
// again.
type WatchedOpenFiles struct {
	Limit  int    `json:"limit,omitempty"` // 0: not known
	Source string `json:"source,omitempty"`
	Option string `json:"option"`           // the engine's name of the limit
	Tables int    `json:"tables"`           // of the database, when the watch ended
	Enough int    `json:"enough,omitempty"` // the least limit with which all of them stay open
	// AllOpen is what the present cache would have read of the second half of the Gets if all
	// tables had been open.
	AllOpen *WatchSimulated `json:"all_open,omitempty"`

	// Opens of the second half of the Gets, per Get: those that were seen, and those of a model of
	// the engine's table cache with Limit.
	OpensSeen      float64      `json:"-"`
	OpensSimulated figure.Value `json:"-"`
}

func (o *WatchedOpenFiles) members() figure.Members {
	opens := figure.TableOpensPerGet

	return figure.Members{opens: &o.OpensSimulated, opens.Seen(): &o.OpensSeen}
}

// MarshalJSON writes the figures by their keys.
func (o WatchedOpenFiles) MarshalJSON() ([]byte, error) {
	type plain WatchedOpenFiles

	return o.members().Marshal(plain(o))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *WatchedOpenFiles) UnmarshalJSON(text []byte) error {
	type plain WatchedOpenFiles

	return o.members().Unmarshal(text, (*plain)(o))
}

// WatchedFilters are tables that Gets pass without consulting a filter of them: because the options
// name no filter policy, or because the tables have no filter although the options name one.
type WatchedFilters struct {
	Families   []string `json:"column_families,omitempty"`
	Policy     string   `json:"filter_policy,omitempty"` // "": the options name none
	Tables     int      `json:"tables"`
	Filtered   int      `json:"tables_with_filters"`
	Lacking    int      `json:"tables_without_filters"` // above the deepest level
	BitsPerKey int      `json:"filter_bits_per_key,omitempty"`
	// Consulted is what the present cache would have read of the second half of the Gets if they
	// had consulted the filters that the tables have.
	Consulted *WatchSimulated `json:"consulted,omitempty"`
}

// WriteWatch writes watch.json into dir, whole or not at all.
func WriteWatch(dir string, w *Watch) error {
	return write(filepath.Join(dir, WatchFile), w, &w.Schema, schema.Watch, &w.Warnings)
}

// ReadWatch reads dir/watch.json.
func ReadWatch(dir string) (*Watch, error) {
	return output.ReadJSON(filepath.Join(dir, WatchFile), schema.Watch,
		func(w *Watch) string { return w.Schema })
}
