package result

import (
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
)

// Names of what was watched.
const (
	WatchSchema = "statelab.watch/1"
	WatchFile   = "watch.json"
)

// Watch is watch.json: what a process of somebody else's read, seen from outside. Beside it lie run.json, series.jsonl and
// latency.hlog with the same figures, as of a measured run. Figures that could not be had are absent, with the
// reason in Why under their name.
type Watch struct {
	Schema  string    `json:"schema"`
	Started time.Time `json:"started"`
	Command []string  `json:"command"`

	Process  WatchedProcess `json:"process"`
	Seconds  float64        `json:"seconds"`         // from the beginning to the end
	Watched  float64        `json:"watched_seconds"` // in which all Gets were seen
	Gets     uint64         `json:"gets"`            // seen
	Found    uint64         `json:"found"`
	Missing  uint64         `json:"missing"`
	Failed   uint64         `json:"failed"`
	Rate     float64        `json:"gets_per_second"` // while watched
	Absent   float64        `json:"absent_share"`
	Lost     WatchLost      `json:"lost"`
	Cost     WatchCost      `json:"cost"`
	Resolved uint64         `json:"resolved_gets"` // whose block accesses were worked out

	TablesPerGet           *float64           `json:"tables_per_get,omitempty"`
	BlockAccessesPerGet    *float64           `json:"block_accesses_per_get,omitempty"`
	BlockReadsPerGet       *float64           `json:"block_reads_per_get,omitempty"`
	BlockReadsError        *float64           `json:"block_reads_per_get_error,omitempty"` // half the 95 % interval, where a part of the time was watched
	BlockReadBytesPerGet   *float64           `json:"block_read_bytes_per_get,omitempty"`
	BlockReadsPerGetByType map[string]float64 `json:"block_reads_per_get_by_type,omitempty"`
	HitRate                map[string]float64 `json:"hit_rate,omitempty"`
	ServiceNanos           *Latency           `json:"service_ns,omitempty"`

	BlockReads        map[string]engine.Tally `json:"block_reads"`          // of Gets, by type
	BlockReadsByLevel map[string]int64        `json:"block_reads_by_level"` // likewise: L0, L1, ..., unknown
	UnexplainedReads  uint64                  `json:"unexplained_reads"`    // likewise: of blocks that the Get was not worked out to ask for
	Reads             []WatchedReads          `json:"reads"`                // of tables, by what they are for
	Keys              []WatchedKeys           `json:"keys"`                 // by kind, the most asked first

	DistinctKeys    uint64    `json:"distinct_keys"`
	Tenths          []float64 `json:"tenths,omitempty"`            // shares of the Gets that go to each tenth of the keys, the most asked first
	WorkingSetBytes *int64    `json:"working_set_bytes,omitempty"` // of all blocks that Gets accessed, decompressed

	Cache     WatchedCache     `json:"cache"`
	Simulated *WatchSimulated  `json:"simulated,omitempty"` // of the present cache
	WhatIf    []WatchSimulated `json:"what_if,omitempty"`   // of other sizes

	// Of a process that maps its database into memory; Gets are those of calls that can be seen, if any.
	Faults     []WatchedFaults `json:"page_faults,omitzero"`    // of the database, the most frequent first
	FaultNanos *Latency        `json:"page_fault_ns,omitempty"` // of the major ones
	Elsewhere  *WatchElsewhere `json:"page_faults_elsewhere,omitempty"`
	Device     *WatchedDevice  `json:"device,omitempty"`

	Why      map[string]string `json:"absent,omitempty"` // figure -> why it is not there
	Warnings []engine.Warning  `json:"warnings"`
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

// WatchedFaults are page faults on pages of one kind of one table. A major one had to read the page, a minor one found it in the
// page cache.
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

// WatchedDevice is what was read of the block device that holds the database, for whatever files, while it was watched.
type WatchedDevice struct {
	Reads       uint64  `json:"reads"` // of the process
	ReadBytes   uint64  `json:"read_bytes"`
	Rate        float64 `json:"reads_per_second"`
	Bytes       float64 `json:"bytes_per_second"`
	OthersRate  float64 `json:"other_reads_per_second"` // of other processes and of the kernel
	OthersBytes float64 `json:"other_bytes_per_second"`
	// BlockReadsPerGet are those block reads of Gets for which the kernel asked the device; the page cache had the others.
	BlockReadsPerGet *float64 `json:"block_reads_from_device_per_get,omitempty"`
}

// WatchedKeys are the Gets of one kind of keys.
type WatchedKeys struct {
	Kind                string   `json:"kind"`
	Gets                uint64   `json:"gets"`
	Rate                float64  `json:"gets_per_second"`
	Absent              float64  `json:"absent_share"`
	TablesPerGet        *float64 `json:"tables_per_get,omitempty"`
	BlockAccessesPerGet *float64 `json:"block_accesses_per_get,omitempty"`
	BlockReadsPerGet    float64  `json:"block_reads_per_get"`
	BytesPerGet         float64  `json:"block_read_bytes_per_get"`
	P50                 int64    `json:"p50_ns"`
	P99                 int64    `json:"p99_ns"`
}

// WatchedCache is the block cache that the process runs with.
type WatchedCache struct {
	Bytes  int64  `json:"cache_bytes"`
	Source string `json:"source"`
}

// WatchSimulated is what a simulated cache would have read for the second half of the Gets; the first half fills it. Low and High bound
// it. Of the present cache, they are those of the least and the most that memtables can take of it; of another size, whether it
// has a block that was not accessed before is not always known.
type WatchSimulated struct {
	CacheBytes       int64   `json:"cache_bytes"`
	Reserved         int64   `json:"reserved_bytes"` // of it, by memtables
	BlockReadsPerGet float64 `json:"block_reads_per_get"`
	Low              float64 `json:"block_reads_per_get_low"`
	High             float64 `json:"block_reads_per_get_high"`
	HitRate          float64 `json:"hit_rate"`
	Seen             float64 `json:"seen_block_reads_per_get"` // for the same Gets, of the process with its present cache
}

// WriteWatch writes watch.json into dir, whole or not at all.
func WriteWatch(dir string, w *Watch) error {
	return write(filepath.Join(dir, WatchFile), w, &w.Schema, WatchSchema, &w.Warnings)
}

// ReadWatch reads dir/watch.json.
func ReadWatch(dir string) (*Watch, error) {
	return output.ReadJSON(filepath.Join(dir, WatchFile), WatchSchema, func(w *Watch) string { return w.Schema })
}
