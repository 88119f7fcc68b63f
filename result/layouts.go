package result

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// LayoutsFile is in the folder of a comparison of layouts.
const LayoutsFile = "layouts.json"

// Kinds of lookups of state.
const (
	AccountLookup       = "account"
	AbsentAccountLookup = "absent_account"
	SlotLookup          = "slot"
	AbsentSlotLookup    = "absent_slot"
	// a chunk of an account's code, in layouts that keep it in their trie
	CodeLookup       = "code"
	AbsentCodeLookup = "absent_code"
	// the first of an account or slot in a block of an access list
	BlockAccess = "block_access"
)

// Ages of what a block of an access list touches: Recurring is what one of the 256 blocks before
// has touched, too. Of what it writes, Rewritten is what an earlier block of the list has written,
// too.
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

	BuildSeconds float64       `json:"build_seconds,omitempty"`
	Updates      *StateUpdates `json:"updates,omitempty"`
	Lookups      []Lookups     `json:"lookups,omitempty"`
	Traffic      *StateTraffic `json:"traffic,omitempty"`

	DiskBytes           int64   `json:"-"`
	DiskBytesPerAccount float64 `json:"-"`
	// absent of a state that was built and not looked up
	OpenNanos figure.Value `json:"-"`
}

func (s *State) members() figure.Members {
	return figure.Members{figure.DiskBytes: &s.DiskBytes,
		figure.DiskBytesPerAccount: &s.DiskBytesPerAccount,
		figure.OpenTime:            &s.OpenNanos}
}

// MarshalJSON writes the figures by their keys.
func (s State) MarshalJSON() ([]byte, error) {
	type plain State

	return s.members().Marshal(plain(s))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *State) UnmarshalJSON(text []byte) error {
	type plain State

	return s.members().Unmarshal(text, (*plain)(s))
}

// StateTraffic is what the blocks of an access list wrote.
type StateTraffic struct {
	Blocks        uint64 `json:"blocks"`
	Writes        uint64 `json:"writes"`         // accounts and slots
	RootsCompared uint64 `json:"roots_compared"` // with the blocks' own, and equal
	// of what the layout holds at the end, equal to the last block's
	ReadBackRoot string `json:"read_back_root,omitempty"`

	WriteNanos  float64  `json:"-"` // Change and Commit, per write
	CommitNanos *Latency `json:"-"`
}

func (t *StateTraffic) members() figure.Members {
	return figure.Members{figure.WriteTime: &t.WriteNanos, figure.CommitTime: &t.CommitNanos}
}

// MarshalJSON writes the figures by their keys.
func (t StateTraffic) MarshalJSON() ([]byte, error) {
	type plain StateTraffic

	return t.members().Marshal(plain(t))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *StateTraffic) UnmarshalJSON(text []byte) error {
	type plain StateTraffic

	return t.members().Unmarshal(text, (*plain)(t))
}

// StateAt is the root after a block, in hex.
type StateAt struct {
	Block uint64 `json:"block"`
	Root  string `json:"root"`
}

// StateUpdates is what blocks of changes to existing accounts cost. An update is
// one changed account with its changed slot, if it has one.
type StateUpdates struct {
	Updates   uint64 `json:"updates"`
	Blocks    uint64 `json:"blocks"`
	UserBytes int64  `json:"user_bytes"` // hashes, accounts and slot values
	// who counted what was written: "device", "layout" or "process"
	WriteSource string `json:"write_source"`

	// Of blocks that change either accounts without storage or slots of one contract.
	Accounts *StateWrites `json:"account_writes,omitempty"`
	Slots    *StateWrites `json:"slot_writes,omitempty"`

	UpdateNanos          float64      `json:"-"` // Change and Commit, per update
	CommitNanos          *Latency     `json:"-"`
	ReadCallsPerUpdate   float64      `json:"-"`
	NodesPerUpdate       figure.Value `json:"-"` // written
	CPUNanos             figure.Value `json:"-"` // version 0.1.0 did not measure it
	HashNanos            figure.Value `json:"-"` // of CPUNanos, in making roots
	DeviceReadsPerUpdate figure.Value `json:"-"`
	DeviceReadBytes      float64      `json:"-"`
	WriteBytes           float64      `json:"-"` // what settling wrote included
	WriteAmplification   float64      `json:"-"` // bytes written / user bytes
}

func (u *StateUpdates) members() figure.Members {
	return figure.Members{figure.UpdateTime: &u.UpdateNanos, figure.CommitTime: &u.CommitNanos,
		figure.ReadCallsPerUpdate: &u.ReadCallsPerUpdate, figure.NodesPerUpdate: &u.NodesPerUpdate,
		figure.CPUTimePerUpdate: &u.CPUNanos, figure.HashTimePerUpdate: &u.HashNanos,
		figure.DeviceReadsPerUpdate:     &u.DeviceReadsPerUpdate,
		figure.DeviceReadBytesPerUpdate: &u.DeviceReadBytes,
		figure.WriteBytesPerUpdate:      &u.WriteBytes,
		figure.WriteAmplification:       &u.WriteAmplification}
}

// MarshalJSON writes the figures by their keys.
func (u StateUpdates) MarshalJSON() ([]byte, error) {
	type plain StateUpdates

	return u.members().Marshal(plain(u))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (u *StateUpdates) UnmarshalJSON(text []byte) error {
	type plain StateUpdates

	return u.members().Unmarshal(text, (*plain)(u))
}

// StateWrites is what a write of one kind cost in blocks of nothing else. The commit of
// the block is shared by its writes.
type StateWrites struct {
	Writes uint64 `json:"writes"`
	Blocks uint64 `json:"blocks"`

	Nanos      float64 `json:"-"`
	Spread     Range   `json:"-"` // of Nanos, the mean over the blocks: twice its standard error
	CPUNanos   float64 `json:"-"`
	Reads      float64 `json:"-"` // read calls, or page faults where there are more of those
	WriteBytes float64 `json:"-"`
}

func (w *StateWrites) members() figure.Members {
	return figure.Members{figure.WriteTime: &w.Nanos, figure.WriteTime.Spread(): &w.Spread,
		figure.CPUTimePerWrite: &w.CPUNanos, figure.ReadsPerWrite: &w.Reads,
		figure.WriteBytesPerWrite: &w.WriteBytes}
}

// MarshalJSON writes the figures by their keys.
func (w StateWrites) MarshalJSON() ([]byte, error) {
	type plain StateWrites

	return w.members().Marshal(plain(w))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *StateWrites) UnmarshalJSON(text []byte) error {
	type plain StateWrites

	return w.members().Unmarshal(text, (*plain)(w))
}

// Lookups is what one kind of lookup cost in one condition.
type Lookups struct {
	Kind      string  `json:"kind"`
	Condition string  `json:"condition"`
	InFlight  int     `json:"in_flight"`
	Count     uint64  `json:"count"`
	Seconds   float64 `json:"seconds"`
	// no count has them: mapped files on a filesystem in memory
	ReadsUnknown bool `json:"reads_unknown,omitempty"`

	// BlockTypes are those of BlockReads, of stores whose blocks have types.
	BlockTypes *BlockTypes `json:"block_reads_by_type,omitempty"`

	Nodes       figure.Value `json:"-"`
	Pages       figure.Value `json:"-"`
	NodeBytes   figure.Value `json:"-"` // of all its nodes
	BlockReads  figure.Value `json:"-"` // the layout's own count
	BlockBytes  figure.Value `json:"-"`
	ReadCalls   float64      `json:"-"` // the kernel's count; none for mapped files
	MajorFaults float64      `json:"-"`
	// of the process, the harness included; version 0.1.0 did not measure it
	CPUNanos    figure.Value `json:"-"`
	DeviceReads figure.Value `json:"-"`
	// standard error of the first of the counts of reads that is known; of lookups counted one by
	// one
	ReadsError   figure.Value `json:"-"`
	DeviceBytes  float64      `json:"-"`
	ServiceNanos *Latency     `json:"-"`
	PerSecond    float64      `json:"-"`
}

// members are the figures of a lookup.
func (l *Lookups) members() figure.Members {
	return figure.Members{
		figure.NodesPerLookup:                 &l.Nodes,
		figure.PagesPerLookup:                 &l.Pages,
		figure.NodeBytesPerLookup:             &l.NodeBytes,
		figure.BlockReadsPerLookup:            &l.BlockReads,
		figure.BlockReadBytesPerLookup:        &l.BlockBytes,
		figure.ReadCallsPerLookup:             &l.ReadCalls,
		figure.MajorFaultsPerLookup:           &l.MajorFaults,
		figure.CPUTimePerLookup:               &l.CPUNanos,
		figure.DeviceReadsPerLookup:           &l.DeviceReads,
		figure.ReadsPerLookup.StandardError(): &l.ReadsError,
		figure.DeviceBytesPerLookup:           &l.DeviceBytes,
		figure.ServiceTime:                    &l.ServiceNanos,
		figure.LookupsPerSecond:               &l.PerSecond,
	}
}

// MarshalJSON writes the figures by their keys.
func (l Lookups) MarshalJSON() ([]byte, error) {
	type plain Lookups

	return l.members().Marshal(plain(l))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Lookups) UnmarshalJSON(text []byte) error {
	type plain Lookups

	return l.members().Unmarshal(text, (*plain)(l))
}

// Value is a figure of the lookups: one that they have, or a quantile of their service time.
func (l *Lookups) Value(f figure.Figure) figure.Value { return valueIn(l.members(), f) }

// ofLookups is a figure of those lookups that are of its kind, in a state that does not fit in
// memory, caches warm, one at a time.
func ofLookups(all []Lookups, f figure.Figure) figure.Value {
	for i, l := range all {
		if l.Kind == f.Lookup && l.Condition == HeldLookups && l.InFlight == 1 {
			return all[i].Value(f)
		}
	}
	return figure.Value{}
}

// BlockTypes are block reads of a lookup: filters, all levels of indexes, and blocks of keys and
// values.
type BlockTypes struct {
	Filter float64 `json:"filter"`
	Index  float64 `json:"index"`
	Data   float64 `json:"data"`
}

// Reads are the reads of a lookup by the best count there is: the device's, the layout's own, the
// kernel's of calls, or of faults where files are mapped; what was counted, and the figure.
func (l *Lookups) Reads() (value float64, counted string, of figure.Figure) {
	if device, known := l.DeviceReads.Number(); known {
		return device, "device reads", figure.DeviceReadsPerLookup
	}

	if blocks, known := l.BlockReads.Number(); known {
		return blocks, "block reads", figure.BlockReadsPerLookup
	}

	if l.ReadCalls >= l.MajorFaults {
		return l.ReadCalls, "read calls", figure.ReadCallsPerLookup
	}

	return l.MajorFaults, "page faults", figure.MajorFaultsPerLookup
}

// Layouts is layouts.json: layouts of one state at several sizes.
type Layouts struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	FailureInfo
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
	FailureInfo
	Build string `json:"build"` // run folders of the repeat that is shown, relative
	Read  string `json:"read"`
	// Runs are the folders of all repeats, Spread the ranges of figures over them.
	Runs       []string         `json:"runs,omitempty"`
	Spread     map[string]Range `json:"spread,omitempty"`
	Accounts   uint64           `json:"accounts"`
	Durability string           `json:"durability"`
	History    string           `json:"history"`

	PredictedBasis     string `json:"predicted_basis,omitempty"`
	PredictedHeldBasis string `json:"predicted_held_basis,omitempty"`

	// Of Build and Read. Those of a lookup are of present accounts, caches warm and memory
	// held, one lookup in flight; Lookups has all others. Versions before 0.2 stored them in
	// layouts.json as well.
	Slots uint64 `json:"slots,omitempty"`
	Root  string `json:"root,omitempty"`
	// "layout" or "read calls"
	BlockReadSource string            `json:"block_read_source,omitempty"`
	Updates         *StateUpdates     `json:"updates,omitempty"`
	Lookups         []Lookups         `json:"lookups,omitempty"`
	Traffic         *StateTraffic     `json:"traffic,omitempty"` // of an access list
	Memory          *Memory           `json:"memory,omitempty"`
	Options         map[string]string `json:"options,omitempty"`
	Overrides       map[string]string `json:"-"` // of them, those that somebody set

	// As predicted: of a lookup without a cache; and as measured, with the memory that the run
	// had: below the layout's own caches (held), and below the page cache too (device).
	PredictedNodes       figure.Value `json:"-"`
	PredictedReads       figure.Value `json:"-"` // of a layout whose reads a formula gives
	PredictedHeldReads   figure.Value `json:"-"`
	PredictedDeviceReads figure.Value `json:"-"`

	Nodes          figure.Value `json:"-"`
	Pages          figure.Value `json:"-"`
	BlockReads     figure.Value `json:"-"`
	DeviceReads    figure.Value `json:"-"`
	DeviceBytes    figure.Value `json:"-"`
	LookupNanos    *Latency     `json:"-"`
	UpdateNanos    figure.Value `json:"-"`
	OpenNanos      figure.Value `json:"-"`
	DiskBytes      figure.Value `json:"-"`
	DiskPerAccount figure.Value `json:"-"`
	PeakRSSBytes   figure.Value `json:"-"` // of the process that looked up
}

// members are the figures of a row.
func (r *LayoutRow) members() figure.Members {
	return figure.Members{
		figure.NodesPerLookup.Predicted():        &r.PredictedNodes,
		figure.ReadsPerLookup.Predicted():        &r.PredictedReads,
		figure.ReadsPerLookup.Held().Predicted(): &r.PredictedHeldReads,
		figure.DeviceReadsPerLookup.Predicted():  &r.PredictedDeviceReads,

		figure.NodesPerLookup:       &r.Nodes,
		figure.PagesPerLookup:       &r.Pages,
		figure.BlockReadsPerLookup:  &r.BlockReads,
		figure.DeviceReadsPerLookup: &r.DeviceReads,
		figure.DeviceBytesPerLookup: &r.DeviceBytes,
		figure.LookupTime:           &r.LookupNanos,
		figure.UpdateTime:           &r.UpdateNanos,
		figure.OpenTime:             &r.OpenNanos,
		figure.DiskBytes:            &r.DiskBytes,
		figure.DiskBytesPerAccount:  &r.DiskPerAccount,
		figure.PeakMemory:           &r.PeakRSSBytes,
	}
}

// MarshalJSON writes the figures by their keys.
func (r LayoutRow) MarshalJSON() ([]byte, error) {
	type plain LayoutRow

	return r.members().Marshal(plain(r))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *LayoutRow) UnmarshalJSON(text []byte) error {
	type plain LayoutRow

	return r.members().Unmarshal(text, (*plain)(r))
}

// index is the part of the row that layouts.json holds.
func (r LayoutRow) index() LayoutRow {
	return LayoutRow{
		Layout:               r.Layout,
		Version:              r.Version,
		RootRule:             r.RootRule,
		Status:               r.Status,
		Error:                r.Error,
		FailureInfo:          r.FailureInfo,
		Build:                r.Build,
		Read:                 r.Read,
		Runs:                 r.Runs,
		Spread:               r.Spread,
		Accounts:             r.Accounts,
		Durability:           r.Durability,
		History:              r.History,
		PredictedNodes:       r.PredictedNodes,
		PredictedReads:       r.PredictedReads,
		PredictedBasis:       r.PredictedBasis,
		PredictedHeldReads:   r.PredictedHeldReads,
		PredictedDeviceReads: r.PredictedDeviceReads,
		PredictedHeldBasis:   r.PredictedHeldBasis,
	}
}

// Show makes two runs what stands for the row; read is nil where it was not looked up.
func (r *LayoutRow) Show(build, read *Run) {
	r.Options, r.Overrides = build.Engine.Options, build.Engine.Overrides
	if b := build.Figures.State; b != nil {
		r.Slots, r.Root, r.Updates = b.Slots, b.Root, b.Updates
		r.DiskBytes, r.DiskPerAccount = figure.Known(float64(b.DiskBytes)),
			figure.Known(b.DiskBytesPerAccount)
		if b.Updates != nil {
			r.UpdateNanos = figure.Known(b.Updates.UpdateNanos)
		}
	}

	if read == nil || read.Figures.State == nil {
		return
	}

	s := read.Figures.State
	r.Lookups, r.Traffic, r.Memory = s.Lookups, s.Traffic, read.Memory
	r.OpenNanos, r.PeakRSSBytes = s.OpenNanos, read.Figures.Value(figure.PeakMemory)
	for _, l := range s.Lookups {
		if (l.Kind == AccountLookup || r.Accounts == 0) && l.Condition == HeldLookups &&
			l.InFlight == 1 {
			r.take(l)
		}
	}
}

// take makes l the row's own figures. Reads that the layout does not count are the
// kernel's count of its read calls; where files are mapped there are none.
func (r *LayoutRow) take(l Lookups) {
	r.Nodes, r.Pages, r.DeviceReads, r.LookupNanos = l.Nodes, l.Pages, l.DeviceReads, l.ServiceNanos
	r.DeviceBytes = figure.Known(l.DeviceBytes)
	switch {
	case l.BlockReads.IsKnown():
		r.BlockReads, r.BlockReadSource = l.BlockReads, "layout"
	case l.ReadCalls >= l.MajorFaults && !l.ReadsUnknown: // else it reads mapped files
		r.BlockReads, r.BlockReadSource = figure.Known(l.ReadCalls), "read calls"
	}
}

// read reads the runs of a row from below dir, unless an older version stored figures.
func (r *LayoutRow) read(dir string) {
	r.readRuns(dir)
	if r.Status == OK {
		r.Spread = withoutAbsent(r.Spread, func(key string) bool {
			of := LayoutRule().Ranges[key]
			return of == nil || of(*r).IsKnown()
		})
	}
}

func (r *LayoutRow) readRuns(dir string) {
	if r.DiskBytes.IsKnown() || len(r.Lookups) > 0 {
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
	return writeIndex(filepath.Join(dir, LayoutsFile), l, &l.Rows, LayoutRow.index, &l.Schema,
		schema.Layouts, &l.Warnings)
}

// ReadLayouts reads dir/layouts.json and the runs of its rows.
func ReadLayouts(dir string) (*Layouts, error) {
	l, err := output.ReadJSON(filepath.Join(dir, LayoutsFile), schema.Layouts,
		func(v *Layouts) string { return v.Schema })
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
