package result

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
)

// LayoutsSchema is the version of layouts.json.
const LayoutsSchema = "statelab.layouts/1"

// LayoutsFile is in the folder of a comparison of layouts.
const LayoutsFile = "layouts.json"

// Kinds of lookups of state.
const (
	AccountLookup       = "account"
	AbsentAccountLookup = "absent_account"
	SlotLookup          = "slot"
	AbsentSlotLookup    = "absent_slot"
	CodeLookup          = "code" // a chunk of an account's code, in layouts that keep it in their trie
	AbsentCodeLookup    = "absent_code"
	BlockAccess         = "block_access" // the first of an account or slot in a block of an access list
)

// Ages of what a block of an access list touches: Recurring is what one of the 256 blocks before has touched, too. Of what
// it writes, Rewritten is what an earlier block of the list has written, too.
const (
	Recurring = "recurring"
	Lapsed    = "lapsed"
	Rewritten = "rewritten"
	Unwritten = "unwritten"
)

// AgedAccess is the kind of lookups of an age, where states are priced.
func AgedAccess(age string, slot bool) string {
	if slot {
		return age + "_slot"
	}
	return age + "_account"
}

// Conditions of lookups.
const (
	// FirstLookups are each the first one of a state that has just been opened, no
	// page of it in memory: nothing helps them but what opening left in the layout's
	// own memory. What making a reader reads is theirs.
	FirstLookups = "first"
	ColdLookups  = "cold" // a process that has just opened the state, no page of it in memory
	HeldLookups  = "held" // caches warm, the process held to its memory budget
	// AgainLookups each follow the same lookup at once: what a warm access costs.
	AgainLookups = "again"
)

// State are the figures of a state's layout, of one that was built or of one that
// was looked up. nil is absent: see Run.Absent.
type State struct {
	Accounts uint64    `json:"accounts"`
	Slots    uint64    `json:"slots"`
	Block    uint64    `json:"block"`
	Root     string    `json:"root,omitempty"`
	Roots    []StateAt `json:"roots,omitempty"` // after sampled blocks

	DiskBytes           int64   `json:"disk_bytes"`
	DiskBytesPerAccount float64 `json:"disk_bytes_per_account"`

	BuildSeconds float64       `json:"build_seconds,omitempty"`
	Updates      *StateUpdates `json:"updates,omitempty"`
	OpenNanos    int64         `json:"open_ns,omitempty"`
	Lookups      []Lookups     `json:"lookups,omitempty"`
	Traffic      *StateTraffic `json:"traffic,omitempty"`
}

// StateTraffic is what the blocks of an access list wrote.
type StateTraffic struct {
	Blocks        uint64   `json:"blocks"`
	Writes        uint64   `json:"writes"`   // accounts and slots
	WriteNanos    float64  `json:"write_ns"` // Change and Commit, per write
	CommitNanos   *Latency `json:"commit_ns,omitempty"`
	RootsCompared uint64   `json:"roots_compared"`           // with the blocks' own, and equal
	ReadBackRoot  string   `json:"read_back_root,omitempty"` // of what the layout holds at the end, equal to the last block's
}

// StateAt is the root after a block, in hex.
type StateAt struct {
	Block uint64 `json:"block"`
	Root  string `json:"root"`
}

// StateUpdates is what blocks of changes to existing accounts cost. An update is
// one changed account with its changed slot, if it has one.
type StateUpdates struct {
	Updates              uint64   `json:"updates"`
	Blocks               uint64   `json:"blocks"`
	UserBytes            int64    `json:"user_bytes"` // hashes, accounts and slot values
	UpdateNanos          float64  `json:"update_ns"`  // Change and Commit, per update
	CommitNanos          *Latency `json:"commit_ns,omitempty"`
	ReadCallsPerUpdate   float64  `json:"read_calls_per_update"`
	NodesPerUpdate       *float64 `json:"nodes_per_update,omitempty"` // written
	CPUNanos             float64  `json:"cpu_ns_per_update,omitempty"`
	HashNanos            *float64 `json:"hash_cpu_ns_per_update,omitempty"` // of CPUNanos, in making roots
	DeviceReadsPerUpdate *float64 `json:"device_reads_per_update,omitempty"`
	DeviceReadBytes      float64  `json:"device_read_bytes_per_update"`
	WriteBytes           float64  `json:"write_bytes_per_update"` // what settling wrote included
	WriteSource          string   `json:"write_source"`           // who counted them: "device", "layout" or "process"
	WriteAmplification   float64  `json:"write_amplification"`    // bytes written / user bytes

	// Of blocks that change either accounts without storage or slots of one contract.
	Accounts *StateWrites `json:"account_writes,omitempty"`
	Slots    *StateWrites `json:"slot_writes,omitempty"`
}

// StateWrites is what a write of one kind cost in blocks of nothing else. The commit of
// the block is shared by its writes.
type StateWrites struct {
	Writes     uint64  `json:"writes"`
	Blocks     uint64  `json:"blocks"`
	Nanos      float64 `json:"write_ns"`
	Spread     Range   `json:"write_ns_spread"` // of the mean over the blocks: twice its standard error
	CPUNanos   float64 `json:"cpu_ns_per_write"`
	Reads      float64 `json:"reads_per_write"` // read calls, or page faults where there are more of those
	WriteBytes float64 `json:"write_bytes_per_write"`
}

// Lookups is what one kind of lookup cost in one condition.
type Lookups struct {
	Kind      string  `json:"kind"`
	Condition string  `json:"condition"`
	InFlight  int     `json:"in_flight"`
	Count     uint64  `json:"count"`
	Seconds   float64 `json:"seconds"`

	Nodes        *float64 `json:"nodes_per_lookup,omitempty"`
	Pages        *float64 `json:"pages_per_lookup,omitempty"`
	NodeBytes    *float64 `json:"node_bytes_per_lookup,omitempty"`  // of all its nodes
	BlockReads   *float64 `json:"block_reads_per_lookup,omitempty"` // the layout's own count
	BlockBytes   *float64 `json:"block_read_bytes_per_lookup,omitempty"`
	ReadCalls    float64  `json:"read_calls_per_lookup"` // the kernel's count; none for mapped files
	MajorFaults  float64  `json:"major_faults_per_lookup"`
	CPUNanos     float64  `json:"cpu_ns_per_lookup,omitempty"` // of the process, the harness included
	DeviceReads  *float64 `json:"device_reads_per_lookup,omitempty"`
	ReadsError   *float64 `json:"reads_per_lookup_standard_error,omitempty"` // of the first of the counts of reads that is known; of lookups counted one by one
	ReadsUnknown bool     `json:"reads_unknown,omitempty"`                   // no count has them: mapped files on a filesystem in memory
	DeviceBytes  float64  `json:"device_bytes_per_lookup"`
	ServiceNanos *Latency `json:"service_ns,omitempty"`
	PerSecond    float64  `json:"lookups_per_second"`

	// BlockTypes are those of BlockReads, of stores whose blocks have types.
	BlockTypes *BlockTypes `json:"block_reads_by_type,omitempty"`
}

// BlockTypes are block reads of a lookup: filters, all levels of indexes, and blocks of keys and values.
type BlockTypes struct {
	Filter float64 `json:"filter"`
	Index  float64 `json:"index"`
	Data   float64 `json:"data"`
}

// Reads are the reads of a lookup by the best count there is: the device's, the layout's own, the
// kernel's of calls, or of faults where files are mapped; what was counted, and the field of it.
func (l *Lookups) Reads() (value float64, counted, field string) {
	switch {
	case l.DeviceReads != nil:
		return *l.DeviceReads, "device reads", "device_reads_per_lookup"
	case l.BlockReads != nil:
		return *l.BlockReads, "block reads", "block_reads_per_lookup"
	case l.ReadCalls >= l.MajorFaults:
		return l.ReadCalls, "read calls", "read_calls_per_lookup"
	}
	return l.MajorFaults, "page faults", "major_faults_per_lookup"
}

// Layouts is layouts.json: layouts of one state at several sizes.
type Layouts struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Why
	Started  time.Time         `json:"started"`
	Command  []string          `json:"command"`
	Host     Host              `json:"host"`
	Workload StateWorkload     `json:"workload"`
	Rows     []LayoutRow       `json:"rows"`
	Roots    []LayoutRoots     `json:"roots"`
	Outlook  []LayoutOutlook   `json:"outlook"`
	Absent   map[string]string `json:"absent"`
	Warnings []engine.Warning  `json:"warnings"`
}

// StateWorkload is what every layout was given.
type StateWorkload struct {
	Accounts       []uint64 `json:"accounts"`
	ContractShare  float64  `json:"contract_share"` // of the accounts, that have storage
	SlotsPer       uint64   `json:"slots_per_contract"`
	BlockAccounts  uint64   `json:"block_accounts"`
	UpdateBlocks   uint64   `json:"update_blocks"`
	UpdateAccounts uint64   `json:"update_accounts"` // of a block
	ContractSlots  uint64   `json:"contract_slots,omitempty"`
	CodeBytes      uint64   `json:"code_bytes,omitempty"` // of a contract
	Reads          uint64   `json:"reads"`
	Accesses       string   `json:"accesses,omitempty"` // the access list that was played
	MemoryBytes    int64    `json:"memory_bytes"`
	Seed           uint64   `json:"seed"`
	// At and AtMemory are sizes that were asked for, to be predicted.
	At       []uint64 `json:"at_accounts,omitempty"`
	AtMemory []int64  `json:"at_memory_bytes,omitempty"`
}

// LayoutRow is a layout at one size. layouts.json holds what no run knows; all else is of
// the two runs that stand for the row, and is read from there.
type LayoutRow struct {
	Layout   string `json:"layout"`
	Version  string `json:"version"`
	RootRule string `json:"root_rule"`
	Status   string `json:"status"`
	Error    string `json:"error,omitempty"`
	Why
	Build string `json:"build"` // run folders of the repeat that is shown, relative
	Read  string `json:"read"`
	// Runs are the folders of all repeats, Spread the ranges of figures over them.
	Runs       []string         `json:"runs,omitempty"`
	Spread     map[string]Range `json:"spread,omitempty"`
	Accounts   uint64           `json:"accounts"`
	Durability string           `json:"durability"`
	History    string           `json:"history"`

	PredictedNodes *float64 `json:"predicted_nodes_per_lookup,omitempty"`
	PredictedReads *float64 `json:"predicted_reads_per_lookup,omitempty"` // of a layout whose reads a formula gives
	PredictedBasis string   `json:"predicted_basis,omitempty"`

	// As measured, with the memory that the run had: below the layout's own caches,
	// and below the page cache too.
	PredictedHeldReads   *float64 `json:"predicted_held_reads_per_lookup,omitempty"`
	PredictedDeviceReads *float64 `json:"predicted_device_reads_per_lookup,omitempty"`
	PredictedHeldBasis   string   `json:"predicted_held_basis,omitempty"`

	// Of Build and Read. Those of a lookup are of present accounts, caches warm and memory
	// held, one lookup in flight; Lookups has all others. Versions before 0.2 stored them in
	// layouts.json as well.
	Slots           uint64            `json:"slots,omitempty"`
	Root            string            `json:"root,omitempty"`
	Nodes           *float64          `json:"nodes_per_lookup,omitempty"`
	Pages           *float64          `json:"pages_per_lookup,omitempty"`
	BlockReads      *float64          `json:"block_reads_per_lookup,omitempty"`
	BlockReadSource string            `json:"block_read_source,omitempty"` // "layout" or "read calls"
	DeviceReads     *float64          `json:"device_reads_per_lookup,omitempty"`
	DeviceBytes     *float64          `json:"device_bytes_per_lookup,omitempty"`
	LookupNanos     *Latency          `json:"lookup_ns,omitempty"`
	UpdateNanos     *float64          `json:"update_ns,omitempty"`
	OpenNanos       int64             `json:"open_ns,omitempty"`
	DiskBytes       int64             `json:"disk_bytes,omitempty"`
	DiskPerAccount  float64           `json:"disk_bytes_per_account,omitempty"`
	PeakRSSBytes    int64             `json:"peak_rss_bytes,omitempty"` // of the process that looked up
	Updates         *StateUpdates     `json:"updates,omitempty"`
	Lookups         []Lookups         `json:"lookups,omitempty"`
	Traffic         *StateTraffic     `json:"traffic,omitempty"` // of an access list
	Memory          *Memory           `json:"memory,omitempty"`
	Options         map[string]string `json:"options,omitempty"`
}

// index is the part of the row that layouts.json holds.
func (r LayoutRow) index() LayoutRow {
	return LayoutRow{Layout: r.Layout, Version: r.Version, RootRule: r.RootRule, Status: r.Status, Error: r.Error, Why: r.Why, Build: r.Build, Read: r.Read,
		Runs: r.Runs, Spread: r.Spread, Accounts: r.Accounts, Durability: r.Durability, History: r.History,
		PredictedNodes: r.PredictedNodes, PredictedReads: r.PredictedReads, PredictedBasis: r.PredictedBasis,
		PredictedHeldReads: r.PredictedHeldReads, PredictedDeviceReads: r.PredictedDeviceReads, PredictedHeldBasis: r.PredictedHeldBasis}
}

// Show makes two runs what stands for the row; read is nil where it was not looked up.
func (r *LayoutRow) Show(build, read *Run) {
	r.Options = build.Engine.Options
	if b := build.Figures.State; b != nil {
		r.Slots, r.Root, r.Updates, r.DiskBytes, r.DiskPerAccount = b.Slots, b.Root, b.Updates, b.DiskBytes, b.DiskBytesPerAccount
		if b.Updates != nil {
			r.UpdateNanos = &b.Updates.UpdateNanos
		}
	}
	if read == nil || read.Figures.State == nil {
		return
	}
	s := read.Figures.State
	r.OpenNanos, r.Lookups, r.Traffic, r.Memory, r.PeakRSSBytes = s.OpenNanos, s.Lookups, s.Traffic, read.Memory, read.Figures.PeakRSSBytes
	for _, l := range s.Lookups {
		if (l.Kind == AccountLookup || r.Accounts == 0) && l.Condition == HeldLookups && l.InFlight == 1 {
			r.take(l)
		}
	}
}

// take makes l the row's own figures. Reads that the layout does not count are the
// kernel's count of its read calls; where files are mapped there are none.
func (r *LayoutRow) take(l Lookups) {
	r.Nodes, r.Pages, r.DeviceReads, r.DeviceBytes, r.LookupNanos = l.Nodes, l.Pages, l.DeviceReads, &l.DeviceBytes, l.ServiceNanos
	switch {
	case l.BlockReads != nil:
		r.BlockReads, r.BlockReadSource = l.BlockReads, "layout"
	case l.ReadCalls >= l.MajorFaults && !l.ReadsUnknown: // else it reads mapped files
		r.BlockReads, r.BlockReadSource = &l.ReadCalls, "read calls"
	}
}

// read reads the runs of a row from below dir, unless an older version stored figures.
func (r *LayoutRow) read(dir string) {
	if r.DiskBytes > 0 || len(r.Lookups) > 0 {
		return
	}
	build, err := readBelow(dir, r.Build)
	if err == nil {
		var read *Run
		if read, err = readBelow(dir, r.Read); errors.Is(err, fs.ErrNotExist) && r.Status != OK {
			err = nil // it was built and not looked up
		}
		r.Show(build, read)
	}
	if err != nil && r.Status == OK {
		r.Status, r.Error = Failed, "its runs could not be read: "+err.Error()
	}
}

// LayoutRoots says whether the layouts of one root rule agree at one size.
type LayoutRoots struct {
	RootRule string              `json:"root_rule"`
	Accounts uint64              `json:"accounts"`
	Layouts  []string            `json:"layouts"`
	Verdict  string              `json:"verdict"`
	Compared int                 `json:"blocks_compared"`
	ByRoot   map[string][]string `json:"by_root,omitempty"` // of the first block that differs
	Block    uint64              `json:"first_difference,omitempty"`
}

// LayoutOutlook is a figure at a size that was not built: a prediction, no
// measurement.
type LayoutOutlook struct {
	Layout   string `json:"layout"`
	Figure   string `json:"figure"`
	Accounts uint64 `json:"accounts"`
	// MemoryBytes is the budget of a figure that depends on it. PerAccount tells that it
	// is the run's own, as much for each account.
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	PerAccount  bool    `json:"memory_per_account,omitempty"`
	Value       float64 `json:"value"`
	Basis       string  `json:"basis"`
}

// WriteLayouts writes layouts.json into dir, whole or not at all. Figures are in the runs.
func WriteLayouts(dir string, l *Layouts) error {
	return writeIndex(filepath.Join(dir, LayoutsFile), l, &l.Rows, LayoutRow.index, &l.Schema, LayoutsSchema, &l.Warnings)
}

// ReadLayouts reads dir/layouts.json and the runs of its rows.
func ReadLayouts(dir string) (*Layouts, error) {
	l, err := output.ReadJSON(filepath.Join(dir, LayoutsFile), LayoutsSchema, func(v *Layouts) string { return v.Schema })
	if err != nil {
		return nil, err
	}
	for i := range l.Rows {
		l.Rows[i].read(dir)
	}
	for i, w := range l.Warnings {
		if w.Of == "" { // older versions had the labels in the text alone
			l.Warnings[i].Of, _, _ = strings.Cut(w.Text, ": ")
		}
	}
	return l, nil
}
