// Package bugreport collects what somebody needs to know who looks for a fault in statelab: the
// program, the machine, what doctor found, which runners are here and, if asked, the settings and
// warnings of a run.
//
// It is made of a list of facts, never of whole files: keys, values, command lines and the
// environment are not among them. Texts that may contain a name of the machine or of its user, or a
// path, lose it ([Private]). Non-goals: figures, which the folder of a run has, and sending it.
package bugreport

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/result"
)

// Source is what a report is made of.
type Source struct {
	Dir       string // the folder that doctor looked at
	Run       string // folder of results; "": none
	Findings  []host.Finding
	Installed []runners.Installed
	Private   Private
}

// File is a part of a report.
type File struct {
	Name string
	Text []byte // JSON
}

type program struct {
	Version  string            `json:"version"` // as --version prints it
	Settings map[string]string `json:"build_settings"`
	// Variables are the names of those of statelab's own that are set.
	Variables []string `json:"environment_names"`
}

type machine struct {
	result.Host
	AvailableMemory int64  `json:"available_memory_bytes"`
	FreeBytes       int64  `json:"free_bytes"` // of the filesystem of the folder
	FreeUnknown     string `json:"free_bytes_unknown,omitempty"`
}

// Files are the parts of a report, without what is private.
func Files(s Source) ([]File, error) {
	private := s.Private
	private.Folders = append([]string{s.Dir, s.Run}, private.Folders...)

	parts := []struct {
		name string
		of   any
	}{
		{"program.json", thisProgram()},
		{"machine.json", thisMachine(s.Dir)},
		{"doctor.json", s.Findings},
		{"runners.json", s.Installed},
	}

	if s.Run != "" {
		found, err := resultsOf(s.Run)
		if err != nil {
			return nil, err
		}
		parts = append(parts, struct {
			name string
			of   any
		}{"results.json", found})
	}

	var files []File
	for _, part := range parts {
		text, err := private.clean(part.of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		files = append(files, File{part.name, text})
	}

	return files, nil
}

// Write writes a report as a zip archive.
func Write(w io.Writer, files []File) error {
	archive := zip.NewWriter(w)
	for _, file := range files {
		to, err := archive.CreateHeader(&zip.FileHeader{Name: file.Name, Method: zip.Deflate,
			Modified: time.Now().UTC()})
		if err != nil {
			return err
		}

		if _, err := to.Write(file.Text); err != nil {
			return err
		}
	}

	return archive.Close()
}

func thisProgram() program {
	p := program{Version: host.VersionLine(), Settings: map[string]string{},
		Variables: []string{}}
	if build, ok := debug.ReadBuildInfo(); ok {
		p.Settings["module"] = build.Main.Version
		for _, s := range build.Settings {
			// Flags may name folders, and say no more than the others.
			if strings.HasPrefix(s.Key, "GO") || strings.HasPrefix(s.Key, "vcs") ||
				slices.Contains([]string{"CGO_ENABLED", "-tags", "-trimpath", "-compiler"}, s.Key) {
				p.Settings[s.Key] = s.Value
			}
		}
	}

	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "STATELAB_") {
			p.Variables = append(p.Variables, name)
		}
	}

	slices.Sort(p.Variables)
	return p
}

func thisMachine(dir string) machine {
	m := machine{Host: anonymous(host.Describe(dir)), AvailableMemory: host.AvailableMemory()}
	free, err := host.FreeBytes(dir)
	if err != nil {
		m.FreeUnknown = err.Error()
	}

	m.FreeBytes = free
	return m
}

// anonymous leaves out what a cluster calls its nodes, classes and jobs, and the folders among the
// options of a mount, such as those of an overlay.
func anonymous(h result.Host) result.Host {
	h.Node, h.Class, h.Job = "", "", ""
	options := strings.Split(h.Mount, ",")
	for i, option := range options {
		if name, value, given := strings.Cut(option, "="); given && value != "" {
			if _, err := strconv.ParseFloat(value, 64); err != nil {
				options[i] = name
			}
		}
	}

	h.Mount = strings.Join(options, ",")
	return h
}

// results are those of a folder, without figures.
type results struct {
	summary
	Unreadable string   `json:"unreadable,omitempty"`
	Points     []point  `json:"points,omitempty"`
	Watched    *watched `json:"watched,omitempty"`
}

// watched is what a watch saw of a process, without its command line, its options and what was
// looked up.
type watched struct {
	Program       string                  `json:"program"`
	Version       string                  `json:"version,omitempty"`
	Go            string                  `json:"go,omitempty"`
	Engine        string                  `json:"engine"`
	EngineVersion string                  `json:"engine_version,omitempty"`
	Client        string                  `json:"client,omitempty"`
	Cores         int                     `json:"cores"`
	Ended         bool                    `json:"ended,omitempty"`
	Seconds       float64                 `json:"seconds"`
	Watched       float64                 `json:"watched_seconds"`
	Gets          uint64                  `json:"gets"`
	Found         uint64                  `json:"found"`
	Failed        uint64                  `json:"failed"`
	Resolved      uint64                  `json:"resolved_gets"`
	BlockReads    map[string]engine.Tally `json:"block_reads,omitempty"`
	Unexplained   uint64                  `json:"unexplained_reads"`
	Lost          result.WatchLost        `json:"lost"`
	Cost          result.WatchCost        `json:"cost"`
	Cache         result.WatchedCache     `json:"cache"`
	Simulated     *result.WatchSimulated  `json:"simulated,omitempty"`
	Absent        map[string]string       `json:"absent,omitempty"`
}

// watchOf reads the folder of a watch.
func watchOf(dir string) (found results) {
	w, err := result.ReadWatch(dir)
	if err != nil {
		found.Unreadable = withoutKeys(err.Error())
		return found
	}

	found.summary = summary{Status: result.OK, Warnings: w.Warnings}.withoutKeys()
	of := w.Process
	found.Watched = &watched{
		Program:       of.Program,
		Version:       of.Version,
		Go:            of.Go,
		Engine:        of.Engine,
		EngineVersion: of.EngineVersion,
		Client:        of.Client,
		Cores:         of.Cores,
		Ended:         of.Ended,
		Seconds:       w.Seconds,
		Watched:       w.Watched,
		Gets:          w.Gets,
		Found:         w.Found,
		Failed:        w.Failed,
		Resolved:      w.Resolved,
		BlockReads:    w.BlockReads,
		Unexplained:   w.UnexplainedReads,
		Lost:          w.Lost,
		Cost:          w.Cost,
		Cache:         w.Cache,
		Simulated:     w.Simulated,
		Absent:        map[string]string{},
	}

	for fact, reason := range w.Why {
		found.Watched.Absent[fact] = withoutKeys(reason)
	}

	return found
}

// summary is what every index of several runs has.
type summary struct {
	Status string `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	result.FailureInfo
	Warnings []engine.Warning `json:"warnings"`
}

// point is a run, or why there is none.
type point struct {
	Axes       map[string]string `json:"axes,omitempty"`
	Unreadable string            `json:"unreadable,omitempty"`
	*run
}

type run struct {
	Verb      string            `json:"verb"`
	Engine    result.Engine     `json:"engine"`
	Workload  result.Workload   `json:"workload"`
	Cache     result.Cache      `json:"cache"`
	PageCache string            `json:"page_cache"`
	Memory    *result.Memory    `json:"memory,omitempty"`
	Host      result.Host       `json:"host"`
	Machine   *result.Machine   `json:"machine,omitempty"`
	Bytes     int64             `json:"database_bytes"`
	Files     int               `json:"database_files"`
	Written   string            `json:"database_written_by,omitempty"`
	Format    string            `json:"database_format,omitempty"`
	Absent    map[string]string `json:"absent,omitempty"`
	Checks    []result.Check    `json:"checks,omitempty"`
	summary
}

// resultsOf reads a folder. What cannot be read is told: it may be what the report is about.
func resultsOf(dir string) (found results, err error) {
	if _, err := os.Stat(filepath.Join(dir, result.WatchFile)); err == nil {
		return watchOf(dir), nil
	}

	for _, name := range []string{result.SweepFile, result.ReplayFile, result.LayoutsFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		var index summary
		if err = errors.Join(err, json.Unmarshal(text, &index)); err != nil {
			found.Unreadable = err.Error()
			continue
		}
		found.summary = index.withoutKeys()
	}

	found.Points = []point{}
	points, err := result.Points(dir)
	if engine.CodeOf(err) == engine.CodeNoResult {
		return found, err
	}

	if err != nil {
		found.Unreadable = err.Error()
		return found, nil
	}

	for measured := range points {
		p := point{Axes: measured.Axes}
		if measured.Err != nil {
			p.Unreadable = withoutKeys(measured.Err.Error())
		}

		if r := measured.Run; r != nil {
			said := summary{r.Status, r.Error, r.FailureInfo, r.Warnings}
			p.run = &run{Verb: r.Verb, Engine: r.Engine, Workload: r.Workload, Cache: r.Cache,
				PageCache: r.PageCache, Memory: r.Memory, Host: anonymous(r.Host),
				Machine: r.Machine, Bytes: r.Database.Bytes, Files: r.Database.Files,
				Written: r.Database.Written, Format: r.Database.Format, Absent: r.Absent,
				Checks: r.Checks, summary: said.withoutKeys()}
		}

		found.Points = append(found.Points, p)
	}

	return found, nil
}

// withoutKeys is a summary whose texts have no key of a database.
func (s summary) withoutKeys() summary {
	s.Error, s.Remedy = withoutKeys(s.Error), withoutKeys(s.Remedy)
	s.Warnings = slices.Clone(s.Warnings)
	for i, w := range s.Warnings {
		s.Warnings[i].Text, s.Warnings[i].Remedy = withoutKeys(w.Text), withoutKeys(w.Remedy)
	}

	return s
}

// clean is v as JSON, its texts without what is private.
func (p Private) clean(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}

	return json.MarshalIndent(walk(tree, p.cleaner()), "", "  ")
}

// walk replaces every text of a value of JSON, but for the names of members.
func walk(v any, clean func(string) string) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = walk(v[i], clean)
		}
	case map[string]any:
		for name := range v {
			v[name] = walk(v[name], clean)
		}
	}

	return v
}
