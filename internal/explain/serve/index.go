// Package serve is one local page over a folder of results: a list, every report, chosen
// runs overlaid, and what is being measured now.
//
// It reads folders only; pages load nothing from elsewhere. Non-goals: users and rights
// (it listens on this machine unless told otherwise), storing (folders do).
package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statelab/statelab/result"
)

// Entry is a folder of results in the list.
type Entry struct {
	Path     string // relative to the folder that is served, with slashes
	Kind     string // run, sweep, replay, layouts, disk, advice, prediction, simulation
	Status   string // of package result, running or damaged
	Error    string
	Name     string
	Subjects []string // engines, trees or layouts
	Workload string
	Host     string
	Started  time.Time
}

// Statuses that only a list has.
const (
	damaged = "damaged"
	running = "running"
)

// kinds are the files by which a folder of results is recognised.
var kinds = []struct{ file, kind string }{{result.SweepFile, "sweep"}, {result.ReplayFile, "replay"}, {result.LayoutsFile, "layouts"},
	{result.RunFile, "run"}, {result.AdviceFile, "advice"}, {result.PredictionFile, "prediction"}, {result.SimulationFile, "simulation"},
	{result.DiskFile, "disk"}}

// index remembers what it read of files that have not changed.
type index struct {
	root  string
	mutex sync.Mutex
	known map[string]remembered
}

type remembered struct {
	size  int64
	at    time.Time
	entry Entry
}

// list finds all folders of results below the root. It does not look into those that it
// finds: their runs belong to them.
func (x *index) list() (all []Entry, err error) {
	err = filepath.WalkDir(x.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == x.root {
				return err
			}
			return fs.SkipDir // not ours to read
		}
		if !d.IsDir() {
			return nil
		}
		for _, k := range kinds {
			info, err := os.Stat(filepath.Join(path, k.file))
			if err == nil && !info.IsDir() {
				all = append(all, x.entry(path, k.file, k.kind, info))
				return fs.SkipDir
			}
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b Entry) int { return b.Started.Compare(a.Started) })
	return all, err
}

func (x *index) entry(dir, file, kind string, info fs.FileInfo) Entry {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if r, ok := x.known[dir]; ok && r.size == info.Size() && r.at.Equal(info.ModTime()) {
		return x.state(dir, r.entry)
	}
	rel, err := filepath.Rel(x.root, dir)
	if err != nil {
		rel = dir
	}
	e := Entry{Path: filepath.ToSlash(rel), Kind: kind}
	if err := e.read(filepath.Join(dir, file)); err != nil {
		e.Status, e.Error = damaged, err.Error()
	}
	x.known[dir] = remembered{info.Size(), info.ModTime(), e}
	return x.state(dir, e)
}

// state tells a plan that is going on from one that was interrupted: both have that
// status, but the former writes.
func (x *index) state(dir string, e Entry) Entry {
	if e.Status == result.Interrupted && time.Since(newestSeries(dir).at) < stillRunning {
		e.Status = running
	}
	return e
}

// maxHeadBytes bounds what is read of a file for the list.
const maxHeadBytes = 1 << 20

// read takes what the list shows from the beginning of a summary: its long parts stand
// behind, and thousands of files are read for one list.
func (e *Entry) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := ended(f); err != nil {
		return err
	}
	d := json.NewDecoder(io.LimitReader(f, maxHeadBytes))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	schema := ""
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var to any = new(json.RawMessage)
		var engine named
		var trace struct{ Engine string }
		var workload struct{ Name string }
		var host result.Host
		var axes []result.Axis
		var trees []struct{ Tree string }
		var rows []struct{ Layout string }
		switch key {
		case "schema":
			to = &schema
		case "status":
			to = &e.Status
		case "error":
			to = &e.Error
		case "name":
			to = &e.Name
		case "started":
			to = &e.Started
		case "engine":
			to = &engine
		case "trace":
			to = &trace
		case "workload":
			to = &workload
		case "host":
			to = &host
		case "axes":
			to = &axes
		case "trees":
			to = &trees
		case "rows":
			to = &rows
		}
		if err := d.Decode(to); err != nil {
			return fmt.Errorf("%v: %w", key, err)
		}
		e.add(string(engine))
		e.add(trace.Engine)
		for _, t := range trees {
			e.add(t.Tree)
		}
		for _, r := range rows {
			e.add(r.Layout)
		}
		for _, a := range axes {
			if a.Name == "engine" {
				for _, v := range a.Values {
					e.add(v)
				}
			}
		}
		e.Workload += workload.Name
		if host.CPU != "" {
			e.Host = strings.TrimSpace(fmt.Sprintf("%s, %d cores", host.CPU, host.Cores))
		}
		if key == "host" && e.Kind == "run" || key == "axes" || key == "trees" || key == "rows" {
			break // what follows is long
		}
	}
	if !strings.HasPrefix(schema, "statelab.") {
		return fmt.Errorf("schema is %q", schema)
	}
	if e.Status == "" { // of a kind that is stored only when it is whole
		e.Status = result.OK
	}
	if e.Kind == "sweep" { // engine and workload are its runs'
		if paths, err := filepath.Glob(filepath.Join(filepath.Dir(path), result.PointsDir, "*", result.RunFile)); err == nil && len(paths) > 0 {
			run := Entry{Kind: "run"}
			if run.read(paths[0]) == nil {
				if e.Workload = run.Workload; len(e.Subjects) == 0 {
					e.Subjects = run.Subjects
				}
				if e.Host == "" {
					e.Host = run.Host
				}
			}
		}
	}
	return nil
}

// named is an engine as runs store it, with its settings, or a name alone.
type named string

// UnmarshalJSON reads either form.
func (n *named) UnmarshalJSON(text []byte) error {
	var whole struct{ Name string }
	if err := json.Unmarshal(text, (*string)(n)); err == nil {
		return nil
	}
	err := json.Unmarshal(text, &whole)
	*n = named(whole.Name)
	return err
}

// ended tells a summary that was cut short, of which the beginning alone is read.
func ended(f *os.File) error {
	tail := make([]byte, 2)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(tail, max(0, info.Size()-2)); err != nil || string(tail) != "}\n" {
		return fmt.Errorf("%s is cut short", filepath.Base(f.Name()))
	}
	return nil
}

func (e *Entry) add(subject string) {
	if subject != "" && !slices.Contains(e.Subjects, subject) {
		e.Subjects = append(e.Subjects, subject)
	}
}
