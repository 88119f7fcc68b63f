// Package iavlbench turns the result lines of iavl-bench (--log-type json) into the
// folder of a replay, so that its runs and ours stand in one page.
//
// Only what a log says is taken: what it cannot tell is absent with the reason, and a
// run that did not end is a failed one.
// Non-goals: its text logs; correcting what it measures.
package iavlbench

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Pattern is what its logs are called.
const Pattern = "*.jsonl"

const (
	maxLineBytes = 4 << 20
	maxVersions  = 10_000_000
)

// Import reads the logs in dir and writes one replay folder with a run for each.
// Nothing is written unless every log could be read.
func Import(dir fs.FS, out string) error {
	names, err := fs.Glob(dir, Pattern)
	if err != nil {
		return fmt.Errorf("list logs: %w", err)
	}

	var logs []*runLog
	for _, name := range names {
		l, err := openLog(dir, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		logs = append(logs, l)
	}

	of := &result.ReplayOf{Status: result.OK, Command: []string{}}
	for _, l := range logs {
		folder := path.Join("runs", l.name)
		run := l.run()
		if err := l.write(filepath.Join(out, filepath.FromSlash(folder)), run); err != nil {
			return err
		}

		if of.Started.IsZero() || run.Started.Before(of.Started) {
			of.Started = run.Started
		}

		if run.Status != result.OK {
			of.Status, of.Error = result.Failed, "some runs did not come to their end"
		}

		of.Changes = *run.Changes
		of.Trees = append(of.Trees, result.ReplayedTree{
			Tree:       "iavl-bench " + l.name,
			Version:    l.treeType,
			RootRule:   "not compared",
			Durability: notTold,
			History:    notTold,
			Run:        folder,
			Runs:       []string{folder},
			Status:     run.Status,
			Error:      run.Error,
			Figures:    run.Figures,
		})
	}

	return result.WriteReplay(out, of)
}

const notTold = "the log does not tell"

// line is what is read of a log's lines: what a message does not have stays empty.
type line struct {
	Time     time.Time `json:"time"`
	Message  string    `json:"msg"`
	Module   string    `json:"module"`
	Version  int64     `json:"version"`
	Duration int64     `json:"duration"` // ns
	Count    uint64    `json:"count"`
	Error    any       `json:"error"`

	StartVersion  *int64          `json:"start_version"`
	TargetVersion int64           `json:"target_version"`
	Applied       *int64          `json:"versions_applied"` // where the run is complete
	TreeType      string          `json:"tree_type"`
	Options       json.RawMessage `json:"db_options"`
	Changes       string          `json:"changeset_dir"`
	Changeset     struct {
		Versions   int64    `json:"versions"`
		StoreNames []string `json:"store_names"`
	} `json:"changeset_info"`

	Alloc     string `json:"alloc"` // "224 MB"
	NumGC     int64  `json:"num_gc"`
	Size      string `json:"size"`       // of the disk
	DiskUsage string `json:"disk_usage"` // of older logs, where a version is committed
	MemStats  *struct {
		Alloc int64 `json:"Alloc"`
		NumGC int64 `json:"NumGC"`
	} `json:"mem_stats"`
}

// runLog is what one log says.
type runLog struct {
	name, treeType, changes string
	options                 map[string]any
	stores                  []string
	wanted                  int64 // versions of the set
	target                  int64 // version with which the run ends; 0: the log does not tell
	begins                  bool  // version is known before the first one

	started, last time.Time
	complete      bool
	problem       string // an error that was logged

	version  int64 // the last of versions
	versions []result.VersionRow
	events   []result.EventRow
	ticks    []result.Tick
	leaves   uint64
	nanos    int64
	ticked   struct { // at the last tick
		leaves  uint64
		nanos   int64
		seconds float64
	}
	disk *int64
}

func openLog(dir fs.FS, name string) (*runLog, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}

	defer f.Close()
	l, err := parse(f)
	if err == nil {
		l.name = strings.TrimSuffix(name, ".jsonl")
	}

	return l, err
}

func parse(r io.Reader) (*runLog, error) {
	l := &runLog{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	var before []byte
	var wrong error // of the line before: only the last one may be cut short
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}

		if wrong != nil {
			return nil, fmt.Errorf("%w, and lines follow it: several lines in one, or a line that "+
				"was cut; take the log as iavl-bench wrote it", wrong)
		}

		if n == 1 && text[0] != '{' {
			return nil, errors.New("not a JSON log of iavl-bench: run it with --log-type json; " +
				"if the file is a Git LFS pointer, git lfs pull fetches its content")
		}

		var of line
		if err := json.Unmarshal(text, &of); err != nil {
			if l.started.IsZero() {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			wrong = fmt.Errorf("line %d: %w", n, err)
			continue
		}

		if bytes.Equal(text, before) {
			return nil, fmt.Errorf("line %d is the same as the line before it, and at the same "+
				"time: it is there twice; remove one of them", n)
		}
		before = append(before[:0], text...)

		if err := l.add(of); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}

	if wrong != nil {
		l.problem = cmp.Or(l.problem, fmt.Sprintf("the last line of the log is cut short "+
			"(%v)", wrong))
	}

	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("a line is longer than %s: no log of iavl-bench",
			unit.Bytes(maxLineBytes))
	case err != nil:
		return nil, err
	case l.started.IsZero():
		return nil, errors.New("no line \"starting run\": no log of iavl-bench")
	}

	return l, nil
}

// steps are what memiavl logs of its snapshots.
var steps = map[string]string{
	"start rewriting snapshot":         result.StepBegun,
	"finished rewriting snapshot":      result.StepWritten,
	"finished best-effort WAL catchup": result.StepCaughtUp,
	"switched to new snapshot":         result.StepSwitched,
}

// add takes a line. Versions and memory before "starting run" are not of a run.
func (l *runLog) add(of line) (err error) {
	if of.Message == "starting run" {
		if !l.started.IsZero() {
			return errors.New("a second run starts: import each log by itself")
		}

		if l.target = of.TargetVersion; of.StartVersion != nil {
			l.version, l.begins = *of.StartVersion, true
		}

		l.started, l.treeType, l.changes, l.stores, l.wanted = of.Time, of.TreeType, of.Changes,
			of.Changeset.StoreNames, of.Changeset.Versions
		if len(of.Options) == 0 { // a tree may have none
			return nil
		}

		if err := json.Unmarshal(of.Options, &l.options); err != nil {
			return fmt.Errorf("the options of the tree: %w", err)
		}

		return nil
	}

	if l.started.IsZero() {
		return nil
	}

	seconds := of.Time.Sub(l.started).Seconds()
	l.last = of.Time
	switch of.Message {
	case "committed version":
		return l.commit(of, seconds)
	case "mem stats":
		var heap int64
		if heap, err = unit.ParseBytes(of.Alloc); err == nil {
			l.tick(seconds, heap, of.NumGC)
		}
		return err
	case "full post-commit stats":
		if of.MemStats != nil {
			l.tick(seconds, of.MemStats.Alloc, of.MemStats.NumGC)
		}
	case "disk usage":
		return l.setDisk(of.Size)
	case "benchmark run complete":
		if l.complete {
			return errors.New("the run is complete a second time: the line is there twice")
		}

		if l.target > 0 && l.version != l.target {
			return fmt.Errorf("the run is complete after version %d, and its target is version "+
				"%d: lines of versions are missing", l.version, l.target)
		}

		if of.Applied != nil && *of.Applied != int64(len(l.versions)) {
			return fmt.Errorf("the run has applied %d versions, and the log has the lines of %d: "+
				"lines are missing", *of.Applied, len(l.versions))
		}

		l.complete = true
	case "panic occurred":
		l.problem = fmt.Sprint("panic: ", of.Error)
	}

	if step, is := steps[of.Message]; is {
		l.events = append(l.events, result.EventRow{
			Seconds: seconds,
			At:      l.version,
			Version: of.Version,
			Step:    step,
		})
	}

	return nil
}

// commit takes a version. The one duration that a log has is of reading the version's
// file, of its changes and of the commit.
func (l *runLog) commit(of line, seconds float64) error {
	if of.Duration < 0 || of.Version <= l.version || len(l.versions) >= maxVersions {
		return fmt.Errorf("version %d in %d ns after version %d, %d versions so far: no log of "+
			"one run", of.Version, of.Duration, l.version, len(l.versions))
	}

	if (l.begins || l.version > 0) && of.Version != l.version+1 {
		return fmt.Errorf("version %d after version %d: the lines of the versions between them "+
			"are missing; take the log as iavl-bench wrote it", of.Version, l.version)
	}

	l.versions = append(l.versions, result.VersionRow{
		Version:    of.Version,
		Seconds:    seconds,
		Leaves:     of.Count,
		ApplyNanos: of.Duration,
	})

	l.version, l.leaves, l.nanos = of.Version, l.leaves+of.Count, l.nanos+of.Duration
	if of.DiskUsage != "" {
		return l.setDisk(of.DiskUsage)
	}

	return nil
}

func (l *runLog) setDisk(text string) error {
	bytes, err := unit.ParseBytes(text)
	if err == nil {
		l.disk = &bytes
	}
	return err
}

// tick is the line of the series that a line about memory makes.
func (l *runLog) tick(seconds float64, heap, collections int64) {
	leaves, nanos := l.leaves-l.ticked.leaves, l.nanos-l.ticked.nanos
	t := result.Tick{
		Phase:   "replay",
		Seconds: seconds,
		Ops:     leaves,
		Tree: &result.TreeTick{Version: l.version, Leaves: l.leaves, GoHeapBytes: &heap,
			GoCollections: &collections, DiskBytes: l.disk},
	}

	if passed := seconds - l.ticked.seconds; passed > 0 {
		t.OpsPerSecond = float64(leaves) / passed
	}

	if nanos > 0 {
		t.Tree.LeavesPerSecond = figure.Known(float64(leaves) / (float64(nanos) / 1e9))
	}

	l.ticks = append(l.ticks, t)
	l.ticked.leaves, l.ticked.nanos, l.ticked.seconds = l.leaves, l.nanos, seconds
	l.disk = nil // said once
}

// run is the log as a run.
func (l *runLog) run() *result.Run {
	f := &result.Replay{
		Leaves:       l.leaves,
		Versions:     uint64(len(l.versions)),
		ApplySeconds: float64(l.nanos) / 1e9,
	}

	if n := len(l.versions); n > 0 {
		f.FirstVersion, f.LastVersion = l.versions[0].Version, l.versions[n-1].Version
		f.LastWindow = l.lastWindow()
	}

	figures := result.Figures{Replay: f, Seconds: l.last.Sub(l.started).Seconds()}
	if l.nanos > 0 {
		figures.Record(figure.LeavesPerSecond, float64(l.leaves)/f.ApplySeconds)
		figures.Record(figure.LeavesPerSecond.Settled(), float64(l.leaves)/f.ApplySeconds)
		figures.Record(figure.ApplyTimePerLeaf, float64(l.nanos)/float64(max(l.leaves, 1)))
	}

	for _, t := range l.ticks {
		figures.RecordIf(figure.DiskBytes, figure.If(t.Tree.DiskBytes))
	}

	figures.RecordIf(figure.DiskBytes, figure.If(l.disk))
	figures.Unavailable("the log has one time for reading a version, applying it and committing it",
		figure.CommitTime)
	figures.Unavailable(notTold, figure.TreeSize, figure.CacheHits)
	figures.Unavailable("the log has Go's memory, not the process's", figure.PeakMemory)
	run := &result.Run{
		Status:    result.OK,
		Verb:      "replay",
		Started:   l.started,
		Command:   []string{"iavl-bench"},
		PageCache: "asis",
		Engine: result.Engine{
			Name:       l.name,
			Version:    l.treeType,
			Options:    map[string]string{},
			RootRule:   "not compared",
			Durability: notTold,
			History:    notTold,
		},
		Workload: result.Workload{Name: "replay", Threads: 1},
		Changes: &result.ChangeSet{
			Path:   l.changes,
			Format: "delimpb",
			Stores: l.stores,
			First:  f.FirstVersion,
			Last:   f.LastVersion,
		},
		Figures: figures,
		Warnings: []engine.Warning{{Code: "not_checked", Text: "not checked: a log of iavl-bench " +
			"numbers versions, and nothing else: lines about memory, the disk and snapshots that " +
			"are missing or have changed places cannot be seen"}},
		Absent: map[string]string{"root": "iavl-bench prints no roots", "user_bytes": notTold},
	}

	for name, value := range l.options {
		run.Engine.Options[name] = fmt.Sprint(value)
	}

	switch {
	case l.problem != "":
		run.Status, run.Error = result.Failed, l.problem
	case !l.complete:
		run.Status, run.Error = result.Failed,
			fmt.Sprintf("the log ends at version %d of %d, without \"benchmark run complete\"",
				f.LastVersion, l.wanted)
	}

	return run
}

// lastWindow is the last tenth of the run, an hour at most; nil for a run of a few
// versions.
func (l *runLog) lastWindow() *result.Window {
	last := l.versions[len(l.versions)-1]
	begin := last.Seconds - min(last.Seconds/10, time.Hour.Seconds())
	at, _ := slices.BinarySearchFunc(l.versions, begin, func(v result.VersionRow, t float64) int {
		return cmp.Compare(v.Seconds, t)
	})
	if at == 0 || at == len(l.versions) {
		return nil
	}

	w := &result.Window{Seconds: last.Seconds - l.versions[at-1].Seconds}
	nanos := int64(0)
	for _, v := range l.versions[at:] {
		w.Leaves, nanos = w.Leaves+v.Leaves, nanos+v.ApplyNanos
	}

	if nanos > 0 {
		w.LeavesPerSecond = float64(w.Leaves) / (float64(nanos) / 1e9)
	}

	return w
}

func (l *runLog) write(dir string, run *result.Run) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make run folder: %w", err)
	}
	return errors.Join(result.WriteRun(dir, run),
		writeLines(filepath.Join(dir, result.SeriesFile), l.ticks),
		writeLines(filepath.Join(dir, result.VersionsFile), l.versions),
		writeLines(filepath.Join(dir, result.EventsFile), l.events))
}

func writeLines[T any](file string, all []T) error {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	for _, v := range all {
		if err := out.Encode(v); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
