package watch

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Wanted is a process to watch: by its number, its name, or a database that it has open.
type Wanted struct {
	PID        int
	Name, Dir  string
	CacheBytes int64    // of its block cache; 0: from the files of its database
	OfGets     []string // flags that were given and are about Gets
	Options

	// Attached is called as soon as the process is watched; faults: its page faults instead of its
	// Gets. What it returns hears of each second.
	Attached func(faults bool) (func(result.Tick), error)
}

// Options say how a process is watched.
type Options struct {
	Seconds float64 // 0: until the context ends
	Share   float64 // of the time; 0: as much as costs the process 2 % of a processor
	Sizes   []int64 // caches to simulate besides the present one; nil: otherSizes
	Tick    func(result.Tick)
	// Counts is told each second what has been counted since the watch began; nil: nobody asks.
	Counts func(result.WatchCounts)
	Tell   result.EventFunc

	// mapped are watched beside page faults; nil: noGets says why not.
	mapped *mappedGets
	noGets error

	// opened tells the database's layout and the cache of the process once it surely has it open;
	// nil: it had when the watch began. While a process opens a database, what tells of its cache
	// is not written yet, or from the last time.
	opened func() (Layout, Cache)
}

// Phase is the name of the only phase of what was watched.
const Phase = "watch"

// Possible tells whether other processes can be watched. No measurement depends on it.
func Possible() host.Finding {
	f := host.Finding{
		Name:    "statelab watch",
		State:   "other processes can be watched",
		Verdict: host.OK,
	}

	if wrong := failure.From(possible()); wrong != nil {
		f.State = "no: other processes cannot be watched. "
		if wrong.Remedy != "" {
			f.State += wrong.Remedy + ": "
		}
		f.State += wrong.Error()
	}

	return f
}

// Seen is what came out.
type Seen struct {
	Watch   result.Watch
	Ticks   []result.Tick
	Latency *measure.Histogram
	Trace   []byte   // in the format of model/trace; nil if there is none
	Keys    [][]byte // of the Gets, for --keep-keys
}

// Write writes the folder of a watch: watch.json, and the files of a run with the same figures.
func (s *Seen) Write(dir string, command []string) error {
	s.Watch.Command = command
	run := s.run(command)
	var series bytes.Buffer
	for _, t := range s.Ticks {
		if err := json.NewEncoder(&series).Encode(t); err != nil {
			return err
		}
	}

	ended := s.Watch.Started.Add(time.Duration(s.Watch.Seconds * float64(time.Second)))
	return errors.Join(
		result.WriteWatch(dir, &s.Watch),
		result.WriteRun(dir, run),
		os.WriteFile(filepath.Join(dir, result.SeriesFile), series.Bytes(), 0o644),
		output.Write(filepath.Join(dir, result.LatencyFile), output.Anything, func(
			file *os.File,
		) error {
			return measure.WriteLog(file, s.Watch.Started, []measure.LogEntry{{
				Start:     s.Watch.Started,
				End:       ended,
				Durations: s.Latency,
			}})
		}))
}

// run has the figures of a watch under the names of a measured run.
func (s *Seen) run(command []string) *result.Run {
	w := &s.Watch
	levels := map[string]float64{}
	for name, n := range w.BlockReadsByLevel {
		levels[name] = float64(n) / float64(max(1, w.Gets))
	}

	seconds, reads := w.Watched, w.BlockReads
	if w.GetsSeconds > 0 {
		seconds, reads = w.GetsSeconds, nil // page faults are those of all the time
	}

	run := &result.Run{
		Status:  result.OK,
		Verb:    "watch",
		Started: w.Started,
		Command: command,
		Engine: result.Engine{
			Name:    w.Process.Engine,
			Version: w.Process.EngineVersion,
			Options: map[string]string{},
		},
		Workload:  result.Workload{Name: "watched", KeyOrder: "foreign"},
		Cache:     result.Cache{Requested: w.Cache.Source, Effective: w.Cache.Bytes},
		PageCache: "asis",
		Host:      host.Describe(w.Process.Database),
		Database:  result.Database{Dir: w.Process.Database, Written: "foreign"},
		Phases: []result.Phase{
			{Name: Phase, Seconds: seconds, Ops: w.Gets, Reads: reads},
		},
		Figures: result.Figures{Gets: w.Gets, Found: w.Found, Missing: w.Missing,
			FailedGets: w.Failed, Seconds: seconds,
			BlockReadsPerGetByType: w.BlockReadsPerGetByType, BlockReadsPerGetByLevel: levels,
			HitRate: w.HitRate, ServiceNanos: w.ServiceNanos},
		Absent:   w.Why,
		Warnings: slices.Clone(w.Warnings),
	}

	for _, f := range []figure.Figure{figure.GetsPerSecond, figure.BlockReadsPerGet,
		figure.BlockAccessesPerGet, figure.BlockReadBytesPerGet} {
		run.Figures.RecordIf(f, w.Value(f))
	}

	run.Figures.Explain(w.Set.Absent())
	if w.Process.Go != "" {
		run.Host.Go = w.Process.Go
	}

	return run
}

// WriteTrace writes the block accesses of the Gets to a file, for simulate.
func (s *Seen) WriteTrace(path string, replaces output.Replaces) error {
	return output.Write(path, replaces, func(file *os.File) error {
		_, err := file.Write(s.Trace)
		return err
	})
}

// WriteKeys writes the keys of the Gets to a file that only its owner reads, in hexadecimal, one a
// line.
func (s *Seen) WriteKeys(path string, replaces output.Replaces) error {
	var lines strings.Builder
	for _, key := range s.Keys {
		lines.WriteString(hex.EncodeToString(key) + "\n")
	}

	err := output.Write(path, replaces, func(file *os.File) error {
		_, err := file.WriteString(lines.String())
		return err
	})
	if err != nil {
		return err
	}

	return os.Chmod(path, 0o600)
}
