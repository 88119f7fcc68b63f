package result

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// NoRoots is the root rule of a tree that keeps nothing: it has no roots to
// compare and nothing to read.
const NoRoots = "none"

// Files of a replay.
const (
	ReplayFile = "replay.json" // in the folder of a replay of several trees
	RootsFile  = "roots.jsonl" // in a run folder: one RootsAt a line
	StacksFile = "stacks.txt"  // in a run folder: where a call hangs
	// in a run folder: the last version a commit returned, in digits
	AcknowledgedFile = "acknowledged"
	VersionsFile     = "versions.jsonl" // in a run folder: one VersionRow a line
	EventsFile       = "events.jsonl"   // in a run folder: one EventRow a line
)

// Replay is what was replayed into a tree, and its counts. It stands among the other figures in
// run.json; figures of one number each are in the Set of Figures.
type Replay struct {
	Leaves       uint64 `json:"leaves"` // changes applied: Sets and Removes
	Sets         uint64 `json:"sets"`
	Removes      uint64 `json:"removes"`
	Versions     uint64 `json:"versions"` // committed in this run
	FirstVersion int64  `json:"first_version"`
	LastVersion  int64  `json:"last_version"`
	UserBytes    int64  `json:"user_bytes"` // keys and values of the changes

	ApplySeconds  float64  `json:"apply_seconds"`  // in Set and Remove, loop included
	CommitSeconds float64  `json:"commit_seconds"` // in Commit
	SyncSeconds   float64  `json:"sync_seconds"`   // in the final Sync
	WaitSeconds   float64  `json:"wait_seconds"`   // for changes to be decoded: in no rate
	CommitNanos   *Latency `json:"-"`

	Root       *Roots  `json:"root,omitempty"`        // at last_version
	LastWindow *Window `json:"last_window,omitempty"` // when the tree is largest

	RootsChecked uint64 `json:"roots_checked"` // against the change set's own
	// of the combined roots of all versions, chained
	RootsDigest string `json:"roots_digest,omitempty"`
	ResumedAt   *int64 `json:"resumed_at,omitempty"` // the version the tree was found at
	// acknowledged before, gone when it was reopened
	LostVersions *int64 `json:"lost_versions,omitempty"`
}

// Roots are the roots of one version, in hex. Combined is defined in
// docs/trees.md.
type Roots struct {
	Combined string            `json:"combined"`
	Stores   map[string]string `json:"stores,omitempty"`
}

// RootsAt is one line of roots.jsonl.
type RootsAt struct {
	Version int64 `json:"version"`
	Roots
}

// VersionRow is one line of versions.jsonl: a version, or as many as Versions says, the
// last of which is Version.
type VersionRow struct {
	Version  int64 `json:"version"`
	Versions int64 `json:"versions,omitempty"` // 0: one
	// since the replay began, at the end of the commit
	Seconds     float64 `json:"t"`
	Leaves      uint64  `json:"leaves"`
	ApplyNanos  int64   `json:"apply_ns"`
	CommitNanos int64   `json:"commit_ns"`
}

// EventRow is one line of events.jsonl: a step of a tree's work in the background.
type EventRow struct {
	Seconds float64 `json:"t"`                 // since the replay began
	At      int64   `json:"at_version"`        // the last that was committed
	Version int64   `json:"version,omitempty"` // that the step is about
	Step    string  `json:"step"`
}

// Steps of an EventRow: those of tree.Event.
const (
	StepBegun    = "begun"
	StepWritten  = "written"
	StepCaughtUp = "caught up"
	StepSwitched = "switched"
)

// Window is the end of a replay: its last tenth, an hour at most.
type Window struct {
	Seconds float64 `json:"seconds"`
	Leaves  uint64  `json:"leaves"`

	LeavesPerSecond float64 `json:"-"` // over the time in the tree
	// LeavesPerSecond in the tenth before it: the same where the speed is stable
	Before figure.Value `json:"-"`
	DBGets figure.Value `json:"-"`
	// DiskBytesPerLeaf is what a leaf added to the tree's files, between the first and the last
	// look at them since the window began.
	DiskBytesPerLeaf figure.Value `json:"-"`
}

func (w *Window) members() figure.Members {
	return figure.Members{figure.LeavesPerSecond: &w.LeavesPerSecond,
		figure.LeavesPerSecond.Before(): &w.Before,
		figure.DBGets:                   &w.DBGets, figure.DiskBytesPerLeaf: &w.DiskBytesPerLeaf}
}

// MarshalJSON writes the figures by their keys.
func (w Window) MarshalJSON() ([]byte, error) {
	type plain Window

	return w.members().Marshal(plain(w))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Window) UnmarshalJSON(text []byte) error {
	type plain Window

	return w.members().Unmarshal(text, (*plain)(w))
}

// TreeTick is what a tick tells of a tree. Counts are of this tick; sizes are at its end. What a
// tree, or the log that a run was imported from, does not tell is nil or an absent Value.
type TreeTick struct {
	Version       int64        `json:"version"`
	Leaves        uint64       `json:"leaves_so_far"`
	RSSBytes      figure.Value `json:"rss_bytes,omitzero"`
	GoHeapBytes   *int64       `json:"go_heap_bytes,omitempty"` // objects, garbage included
	GoCollections *int64       `json:"go_collections,omitempty"`
	WriteBytes    figure.Value `json:"device_write_bytes,omitzero"`
	UserBytes     figure.Value `json:"user_bytes,omitzero"`

	// over the time in the tree; absent of a tick that the tree was not asked in
	LeavesPerSecond figure.Value `json:"-"`
	Nodes           *int64       `json:"-"`
	NodesPerSecond  *float64     `json:"-"`
	TreeSize        *int64       `json:"-"`
	TreeHeight      *int         `json:"-"`
	CacheHits       *int64       `json:"-"`
	CacheMisses     *int64       `json:"-"`
	DBGets          *int64       `json:"-"`
	DBGetsPerSecond *float64     `json:"-"`
	LogHits         *int64       `json:"-"`
	DiskBytes       *int64       `json:"-"`
}

func (t *TreeTick) members() figure.Members {
	return figure.Members{figure.LeavesPerSecond: &t.LeavesPerSecond, figure.NodesWritten: &t.Nodes,
		figure.NodesPerSecond: &t.NodesPerSecond, figure.TreeSize: &t.TreeSize,
		figure.TreeHeight: &t.TreeHeight,
		figure.CacheHits:  &t.CacheHits, figure.CacheMisses: &t.CacheMisses,
		figure.DBGets:          &t.DBGets,
		figure.DBGetsPerSecond: &t.DBGetsPerSecond, figure.LogHits: &t.LogHits,
		figure.DiskBytes: &t.DiskBytes}
}

// MarshalJSON writes the figures by their keys.
func (t TreeTick) MarshalJSON() ([]byte, error) {
	type plain TreeTick

	return t.members().Marshal(plain(t))
}

// UnmarshalJSON reads a tick of any version. Versions before 0.3 stored 0 of what the log that a
// run was imported from does not tell; the memory of a process is never 0, so that shows it.
func (t *TreeTick) UnmarshalJSON(text []byte) error {
	type plain TreeTick
	if err := t.members().Unmarshal(text, (*plain)(t)); err != nil {
		return err
	}

	if t.RSSBytes.OrZero() > 0 {
		return nil
	}

	for _, v := range []*figure.Value{&t.RSSBytes, &t.WriteBytes, &t.UserBytes} {
		if v.OrZero() == 0 {
			*v = figure.Value{}
		}
	}

	return nil
}

// ChangeSet is what was replayed.
type ChangeSet struct {
	Path       string   `json:"path"`
	Format     string   `json:"format"`
	Order      string   `json:"order"` // insertion, sorted-net, unknown
	Stores     []string `json:"stores"`
	First      int64    `json:"first_version"` // that was asked for
	Last       int64    `json:"last_version"`
	RootRule   string   `json:"root_rule,omitempty"` // of the roots in the set
	Provenance string   `json:"provenance,omitempty"`
}

// ReplayOf is replay.json: one change set replayed into several trees.
type ReplayOf struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	FailureInfo
	Started  time.Time        `json:"started"`
	Command  []string         `json:"command"`
	Host     Host             `json:"host"`
	Changes  ChangeSet        `json:"changes"`
	Trees    []ReplayedTree   `json:"trees"`
	Roots    []RootsVerdict   `json:"roots"` // one for each rule of roots
	Counters []CountersAgree  `json:"counters"`
	Warnings []engine.Warning `json:"warnings"`
}

// ReplayedTree is what came of one tree: the repeat with the median rate.
type ReplayedTree struct {
	Tree       string   `json:"tree"`
	Version    string   `json:"version"`
	RootRule   string   `json:"root_rule"`
	Durability string   `json:"durability"`
	History    string   `json:"history"`
	Run        string   `json:"run"` // folder of the median repeat, relative
	Runs       []string `json:"runs"`
	Status     string   `json:"status"`
	Error      string   `json:"error,omitempty"` // of the first repeat that failed
	FailureInfo
	Spread map[string]Range `json:"spread,omitempty"`

	// Figures are Run's. Versions before 0.2 stored them in replay.json as well.
	Figures Figures `json:"figures,omitzero"`
	// Phases and Warnings are Run's, too: what each phase cost, and whether others used the machine
	// meanwhile. Never stored.
	Phases   []Phase          `json:"phases,omitempty"`
	Warnings []engine.Warning `json:"warnings,omitempty"`
	Of       *Run             `json:"-"` // Run, as ReadReplay found it; nil: Problem
	Problem  error            `json:"-"` // why it could not be read
}

// Verdicts on roots and counters.
const (
	Identical  = "identical"
	Different  = "different"
	CannotTell = "cannot_tell"
)

// RootsVerdict says whether the trees of one root rule agree.
type RootsVerdict struct {
	RootRule string   `json:"root_rule"`
	Trees    []string `json:"trees"`
	Verdict  string   `json:"verdict"`
	Compared int      `json:"versions_compared"` // with the roots of two trees at least
	// Where trees differ: the first version seen to, the last before it at which
	// all agree (0: none), and the trees by their combined root.
	FirstDifference int64               `json:"first_difference,omitempty"`
	LastAgreement   int64               `json:"last_agreement,omitempty"`
	ByRoot          map[string][]string `json:"by_root,omitempty"`
	DifferingStores []string            `json:"differing_stores,omitempty"`
	Why             string              `json:"why,omitempty"` // it cannot be told
}

// CountersAgree holds counters of one tree against a second pass of it.
type CountersAgree struct {
	Tree    string             `json:"tree"`
	Verdict string             `json:"verdict"`
	Values  map[string][]int64 `json:"values,omitempty"` // by counter, one a pass
	Differ  []string           `json:"differ,omitempty"`
	Why     string             `json:"why,omitempty"`
}

// WriteReplay writes replay.json into dir, whole or not at all. Figures are in the runs.
func WriteReplay(dir string, r *ReplayOf) error {
	return writeIndex(filepath.Join(dir, ReplayFile), r, &r.Trees,
		func(t ReplayedTree) ReplayedTree {
			t.Figures, t.Phases, t.Warnings = Figures{}, nil, nil
			return t
		}, &r.Schema, schema.Replay, &r.Warnings)
}

// ReadReplay reads dir/replay.json and of every tree the run that stands for it.
func ReadReplay(dir string) (*ReplayOf, error) {
	r, err := output.ReadJSON(filepath.Join(dir, ReplayFile), schema.Replay,
		func(v *ReplayOf) string { return v.Schema })
	if err != nil {
		return nil, err
	}

	for i := range r.Trees {
		t := &r.Trees[i]
		switch t.Of, t.Problem = readBelow(dir, t.Run); {
		case t.Problem != nil:
		case t.Figures.IsZero():
			t.Figures, t.Phases, t.Warnings = t.Of.Figures, t.Of.Phases, t.Of.Warnings
		default: // an older version, which had the reasons in the run alone
			t.Figures.Explain(t.Of.Figures.Absent())
		}

		if t.Of != nil {
			t.Spread = withoutAbsent(t.Spread, t.Figures.hasKey)
		}
	}

	return r, nil
}

// ReadRoots reads dir/roots.jsonl, which need not exist.
func ReadRoots(dir string) ([]RootsAt, error) {
	return readLines[RootsAt](filepath.Join(dir, RootsFile))
}

// ReadVersions reads dir/versions.jsonl, which need not exist.
func ReadVersions(dir string) ([]VersionRow, error) {
	return readLines[VersionRow](filepath.Join(dir, VersionsFile))
}

// ReadEvents reads dir/events.jsonl, which need not exist.
func ReadEvents(dir string) ([]EventRow, error) {
	return readLines[EventRow](filepath.Join(dir, EventsFile))
}

// maxLinesBytes bounds what is read from a folder that may lie.
const maxLinesBytes = 256 << 20

// readLines reads a file of a JSON object a line. A last line cut short by a kill
// is left out; damage anywhere else is an error.
func readLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	defer f.Close()
	var all []T
	lines := bufio.NewReader(io.LimitReader(f, maxLinesBytes))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return all, nil // what is left without its newline was cut short
		}

		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}

		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, n, err)
		}

		all = append(all, v)
	}
}
