// Package serve is one local page over a folder of results: a list, every report, chosen
// runs overlaid, and what is being measured now.
//
// It reads folders only; pages load nothing from elsewhere. Non-goals: users and rights
// (it listens on this machine unless told otherwise), storing (folders do).
package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

// Entry is a folder of results in the list.
type Entry struct {
	Path string // relative to the folder that is served, with slashes
	// run, read, sweep, replay, layouts, prices, disk, advice, prediction, simulation
	Kind     string
	Status   string // of package result, running or damaged
	Error    string
	Name     string
	Subjects []string // engines, trees or layouts
	Workload string
	Host     string
	Started  time.Time
	Readable bool // its summary: it has a report, even if a run below it is damaged
}

// Statuses that only a list has.
const (
	damaged = "damaged"
	running = "running"
)

// index remembers what it read of files that have not changed.
type index struct {
	root  string
	row   *template.Template // of one Entry
	known sync.Map           // listed, by folder
}

// listed is an entry with its row of the page, and the file that both were made from.
type listed struct {
	Entry
	Row  template.HTML // of the page, made once
	size int64
	at   time.Time
}

// readers is how many folders are read at a time: more than processors, because a disk
// answers several requests at once.
const readers = 16

// list finds all folders of results below the root, the newest first. It does not look
// into those that it finds: their runs belong to them.
func (x *index) list() (all []listed, err error) {
	var mutex sync.Mutex
	var group errgroup.Group
	group.SetLimit(readers)
	var visit func(dir string) error
	visit = func(dir string) error {
		if k, ok := kinds.Detect(dir); ok {
			found, err := x.entry(dir, k)
			// it is measured again, or removed, since it was found
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}

			if err != nil {
				return err
			}

			mutex.Lock()
			all = append(all, found)
			mutex.Unlock()
			return nil
		}

		inside, err := os.ReadDir(dir)
		if err != nil && dir == x.root { // below it: not ours to read
			return err
		}

		for _, f := range inside {
			if !f.IsDir() {
				continue
			}

			deeper := func() error { return visit(filepath.Join(dir, f.Name())) }
			if !group.TryGo(deeper) { // all readers are busy: this one goes on itself
				if err := deeper(); err != nil {
					return err
				}
			}
		}

		return nil
	}

	group.Go(func() error { return visit(x.root) })
	err = group.Wait()
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.Path, b.Path))
	})
	return all, err
}

func (x *index) entry(dir string, kind kinds.Kind) (listed, error) {
	path := filepath.Join(dir, kind.File)
	info, err := os.Stat(path)
	if err != nil {
		return listed{}, err
	}

	was, _ := x.known.Load(dir)
	now, _ := was.(listed)
	if now.size != info.Size() || !now.at.Equal(info.ModTime()) {
		rel, err := filepath.Rel(x.root, dir)
		if err != nil {
			rel = dir
		}

		now = listed{
			Entry: Entry{Path: filepath.ToSlash(rel), Kind: kind.Name},
			size:  info.Size(),
			at:    info.ModTime(),
		}

		err = now.read(path, kind)
		if now.Readable = err == nil; now.Readable {
			err = damage(dir)
		}

		if err != nil {
			now.Status, now.Error = damaged, err.Error()
		}
	}

	// A plan that is going on has the status of one that was interrupted; but it writes.
	if now.Status == result.Interrupted || now.Status == running {
		now.Status, now.Row = result.Interrupted, ""
		if time.Since(newestSeries(dir).at) < stillRunning {
			now.Status = running
		}
	}

	if now.Row == "" {
		var text strings.Builder
		if err := x.row.Execute(&text, now.Entry); err != nil {
			return now, err
		}
		now.Row = template.HTML(text.String())
	}

	x.known.Store(dir, now)
	return now, nil
}

// maxHeadBytes bounds what is read of a file for the list.
const maxHeadBytes = 1 << 20

// read takes what the list shows from the beginning of a summary: its long parts stand
// behind, and thousands of files are read for one list.
func (e *Entry) read(path string, kind kinds.Kind) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}

	defer f.Close()
	if err := ended(f); err != nil {
		return err
	}

	schema, err := e.readHead(json.NewDecoder(io.LimitReader(f, maxHeadBytes)), kind)
	if err != nil {
		return err
	}

	if schema != kind.Schema {
		return fmt.Errorf("schema is %q, this version reads %q", schema, kind.Schema)
	}

	if e.Status == "" { // of a kind that is stored only when it is whole
		e.Status = result.OK
	}

	if kind.File == result.SweepFile {
		e.readFirstRun(filepath.Dir(path))
	}

	return nil
}

// readHead reads members of a JSON object up to the first that is long.
func (e *Entry) readHead(d *json.Decoder, kind kinds.Kind) (schema string, err error) {
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return "", errors.New("not a JSON object")
	}

	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}

		switch {
		case key == "schema":
			err = d.Decode(&schema)
		case key == kind.Listed && kind.Subjects != nil:
			var member json.RawMessage
			var names []string
			if err = d.Decode(&member); err == nil {
				names, err = kind.Subjects(member)
			}
			e.add(names...)
		default:
			err = e.readMember(key, d)
		}

		if err != nil {
			return "", fmt.Errorf("%v: %w", key, err)
		}

		if key == kind.Listed {
			break // what follows is long
		}
	}

	return schema, nil
}

func (e *Entry) readMember(key json.Token, d *json.Decoder) error {
	var engine named
	var trace struct{ Engine string }
	var workload struct{ Name string }
	var host struct {
		CPU   string
		Cores int
	}

	var command []string
	to, known := map[json.Token]any{
		"status":   &e.Status,
		"error":    &e.Error,
		"name":     &e.Name,
		"started":  &e.Started,
		"engine":   &engine,
		"trace":    &trace,
		"workload": &workload,
		"host":     &host,
		"command":  &command,
	}[key]

	var whole struct{ Name string } // an engine of a run, long and therefore read once
	if !known {
		to = new(json.RawMessage)
	} else if key == "engine" && e.Kind == "run" {
		to = &whole
	}

	if err := d.Decode(to); err != nil {
		return err
	}

	if e.Kind == "sweep" && len(command) > 1 && command[1] == "read" {
		e.Kind = "read"
	}

	e.add(cmp.Or(string(engine), whole.Name), trace.Engine)
	e.Workload += workload.Name
	if host.CPU != "" {
		e.Host = strings.TrimSpace(fmt.Sprintf("%s, %d cores", host.CPU, host.Cores))
	}

	return nil
}

// readFirstRun takes what a sweep does not say itself from the first of its runs that is whole.
func (e *Entry) readFirstRun(dir string) {
	folders, err := filepath.Glob(filepath.Join(dir, result.PointsDir, "*"))
	if err != nil {
		return
	}

	for _, folder := range folders {
		kind, ok := kinds.Detect(folder)
		run := Entry{Kind: kind.Name}
		if !ok || run.read(filepath.Join(folder, kind.File), kind) != nil {
			continue
		}

		if e.Workload = run.Workload; len(e.Subjects) == 0 {
			e.Subjects = run.Subjects
		}

		e.Host = cmp.Or(e.Host, run.Host)
		return
	}
}

// named is an engine as runs store it, with its settings, or a name alone.
type named string

// UnmarshalJSON reads either form.
func (n *named) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, (*string)(n))
	}
	var whole struct{ Name string }
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

// damage tells of the runs of a folder, and of itself, whether a file is cut short or is not
// what its name says. It reads the ends of files only: a report reads them whole.
func damage(dir string) error {
	runs, err := filepath.Glob(filepath.Join(dir, result.PointsDir, "*"))
	if err != nil {
		return err
	}

	for _, folder := range append(runs, dir) {
		for _, file := range []struct {
			name  string
			check func(*os.File) error
		}{{result.RunFile, ended}, {result.LatencyFile, histograms}} {
			f, err := os.Open(filepath.Join(folder, file.name))
			if err != nil {
				break // not measured yet, or without latencies
			}

			if err = errors.Join(file.check(f), f.Close()); err != nil && folder != dir {
				return fmt.Errorf("%s/%s: %w", result.PointsDir, filepath.Base(folder), err)
			} else if err != nil {
				return err
			}
		}
	}

	return nil
}

// histograms tells a file that is no histogram log.
func histograms(f *os.File) error {
	const begins = "#[Histogram log format"
	head := make([]byte, len(begins))
	if _, err := io.ReadFull(f, head); err != nil || string(head) != begins {
		return fmt.Errorf("%s is no histogram log", filepath.Base(f.Name()))
	}
	return nil
}

func (e *Entry) add(subjects ...string) {
	e.Subjects = doc.Without(doc.Distinct(append(e.Subjects, subjects...), strings.Clone))
}
