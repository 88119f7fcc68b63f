package publish

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/result"
)

// Verdict is what a check found.
type Verdict struct {
	Packed   bool     `json:"packed"`             // it has checksums
	Runs     int      `json:"runs"`               // whose figures were computed again
	Figures  int      `json:"figures"`            // that were
	Problems []string `json:"problems,omitempty"` // none: nothing contradicts
	// PageNotCompared says why the page was not made again; "" if it was.
	PageNotCompared string `json:"page_not_compared,omitempty"`
}

// check collects what contradicts.
type check struct {
	dir string
	Verdict
	runs map[string]*result.Run // by folder, with slashes
}

// Verify checks the results in dir. by is this program, as Pack was told.
func Verify(dir, by string) (*Verdict, error) {
	c := &check{dir: dir, runs: map[string]*result.Run{}}
	var err error
	if c.Packed, c.Problems, err = sums(dir); err != nil {
		return nil, err
	}
	paths, err := files(dir)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s holds no results", dir)
	}
	for _, path := range paths {
		folder, name := filepath.ToSlash(filepath.Dir(path)), filepath.Base(path)
		if name != result.RunFile {
			continue
		}
		run, err := result.ReadRun(filepath.Join(dir, filepath.FromSlash(folder)))
		if err != nil {
			c.problem(path, "%v", err)
			continue
		}
		c.runs[folder] = run
		c.run(folder, run)
	}
	for _, summary := range []func() error{c.sweep, c.replay, c.layouts} {
		if err := summary(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.problem("summary", "%v", err)
		}
	}
	c.page(by)
	return &c.Verdict, nil
}

func (c *check) problem(where, format string, args ...any) {
	c.Problems = append(c.Problems, strings.TrimPrefix(where, "./")+": "+fmt.Sprintf(format, args...))
}

// exact is how far apart two computations of one figure may be.
const exact = 1e-9

// figure compares a figure with what the raw files give.
func (c *check) figure(where, name string, stored, computed, tolerance float64) {
	c.Figures++
	if math.Abs(stored-computed) > tolerance*max(math.Abs(stored), math.Abs(computed)) || math.IsNaN(stored) {
		c.problem(where, "%s is %v, and the raw files give %v", name, stored, computed)
	}
}

// run computes the figures of a run from its phases, its series and its histograms.
func (c *check) run(folder string, run *result.Run) {
	if run.Verb != "inspect" { // which looks at a database and measures nothing
		c.Runs++
	}
	where, f := folder+"/"+result.RunFile, run.Figures
	i := slices.IndexFunc(run.Phases, func(p result.Phase) bool { return p.Name == "measure" })
	if i >= 0 && f.Gets > 0 && f.State == nil && f.Replay == nil {
		c.gets(where, run, run.Phases[i])
	}
	if r := f.Replay; r != nil && r.ApplySeconds+r.CommitSeconds > 0 {
		c.figure(where, "leaves_per_second", r.LeavesPerSecond, float64(r.Leaves)/(r.ApplySeconds+r.CommitSeconds), 1e-6)
	}
	ticks, err := result.ReadSeries(filepath.Join(c.dir, filepath.FromSlash(folder)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.problem(folder, "%v", err)
	}
	if len(ticks) > 0 && f.State == nil {
		ops := map[string]uint64{}
		for _, t := range ticks {
			ops[t.Phase] += t.Ops
		}
		for _, p := range run.Phases {
			// The end of a phase that is shorter than a tick is in no line.
			if c.Figures++; ops[p.Name] > p.Ops {
				c.problem(folder+"/"+result.SeriesFile, "%d operations of phase %s, and the run has %d", ops[p.Name], p.Name, p.Ops)
			}
		}
	}
	c.latencies(folder, run)
}

// gets are the figures of Gets, from the counters of the measured phase.
func (c *check) gets(where string, run *result.Run, p result.Phase) {
	f, gets := run.Figures, float64(run.Figures.Gets)
	c.figure(where, "gets", gets, float64(f.Found+f.Missing+f.FailedGets), exact)
	c.figure(where, "gets_per_second", f.GetsPerSecond, gets/p.Seconds, exact)
	if f.BlockReadsPerGet != nil && f.BlockReadSource == "" {
		var total engine.Tally
		for kind, t := range p.Reads {
			total.Count, total.Bytes = total.Count+t.Count, total.Bytes+t.Bytes
			c.figure(where, "block_reads_per_get_by_type."+kind, f.BlockReadsPerGetByType[kind], float64(t.Count)/gets, exact)
		}
		c.figure(where, "block_reads_per_get", *f.BlockReadsPerGet, float64(total.Count)/gets, exact)
		if f.BlockReadBytesPerGet != nil {
			c.figure(where, "block_read_bytes_per_get", *f.BlockReadBytesPerGet, float64(total.Bytes)/gets, exact)
		}
		levels := 0.0
		for _, v := range f.BlockReadsPerGetByLevel {
			levels += v
		}
		c.figure(where, "sum of block_reads_per_get_by_level", levels, *f.BlockReadsPerGet, 1e-6)
		if f.DeviceReadsPerGet != nil && f.Agreement != nil {
			c.figure(where, "agreement", *f.Agreement, *f.DeviceReadsPerGet / *f.BlockReadsPerGet, exact)
		}
	}
	if io := p.Process; io != nil {
		c.figure(where, "cpu_ns_per_get", f.CPUNanosPerGet, float64(io.UserNanos+io.SystemNanos)/gets, exact)
		c.figure(where, "read_calls_per_get", f.ReadCallsPerGet, float64(io.ReadCalls)/gets, exact)
		c.figure(where, "major_faults_per_get", f.MajorFaultsPerGet, float64(io.MajorFaults)/gets, exact)
		if f.DeviceReadBytesPerGet != nil {
			bytes := io.ReadBytes
			if p.Device != nil {
				bytes = p.Device.ReadBytes
			}
			c.figure(where, "device_read_bytes_per_get", *f.DeviceReadBytesPerGet, float64(bytes)/gets, exact)
		}
	}
	if p.Device != nil && f.DeviceReadsPerGet != nil {
		c.figure(where, "device_reads_per_get", *f.DeviceReadsPerGet, float64(p.Device.Reads)/gets, exact)
	}
}

// outside is the comment of a histogram log on durations that the format cannot hold.
var outside = regexp.MustCompile(`Outside the range: Tag=(\S*) too_long=(\d+) negative=(\d+)`)

// resolution of an HdrHistogram with three digits.
const resolution = 1.0 / 1000

// latencies compares quantiles with those of the histograms in latency.hlog.
func (c *check) latencies(folder string, run *result.Run) {
	path := filepath.Join(c.dir, filepath.FromSlash(folder), result.LatencyFile)
	text, err := os.ReadFile(path)
	where := folder + "/" + result.LatencyFile
	if err != nil {
		if run.Figures.ServiceNanos != nil && run.Status == result.OK {
			c.problem(where, "missing, and the run has latencies")
		}
		return
	}
	missing := map[string]uint64{}
	for _, found := range outside.FindAllSubmatch(text, -1) {
		long, _ := strconv.ParseUint(string(found[2]), 10, 64)
		negative, _ := strconv.ParseUint(string(found[3]), 10, 64)
		missing[string(found[1])] += long + negative
	}
	all, err := engines.ReadLatencies(bytes.NewReader(text))
	if err != nil {
		c.problem(where, "%v", err)
		return
	}
	commits := run.Figures.PutNanos
	if r := run.Figures.Replay; r != nil {
		commits = r.CommitNanos
	}
	stored := map[string]*result.Latency{"": run.Figures.ServiceNanos, "response": run.Figures.ResponseNanos, "commit": commits}
	if s := run.Figures.State; s != nil {
		stored = map[string]*result.Latency{} // its tags name kinds and conditions
	}
	for _, tag := range slices.Sorted(maps.Keys(stored)) {
		l, h := stored[tag], all[tag]
		if l == nil || l.N == 0 {
			continue
		}
		if h == nil {
			c.problem(folder, "%s is damaged: it holds no %s times", result.LatencyFile, cmp.Or(tag, "service"))
			continue
		}
		name := strings.TrimPrefix(tag+"_", "_")
		c.figure(where, name+"count", float64(l.N), float64(h.TotalCount())+float64(missing[tag]), exact)
		if missing[tag] > 0 {
			continue // the histogram has not all
		}
		for _, q := range []struct {
			name  string
			at    float64
			value int64
		}{{"p50", 50, l.P50}, {"p90", 90, l.P90}, {"p99", 99, l.P99}, {"p999", 99.9, l.P999}, {"max", 100, l.Max}} {
			c.figure(where, name+q.name, float64(q.value), float64(h.ValueAtQuantile(q.at)), resolution)
		}
		c.figure(where, name+"mean", l.Mean, h.Mean(), resolution)
	}
}

// sweep computes the points and answers of a sweep from its runs.
func (c *check) sweep() error {
	s, err := result.ReadSweep(c.dir)
	if err != nil {
		return err
	}
	for i, p := range s.Points {
		where := fmt.Sprintf("%s: point %d", result.SweepFile, i)
		runs, folders := c.ok(where, p.Runs)
		if len(runs) == 0 || s.Source != "measured" {
			continue
		}
		shown, spread := result.OfPoint(runs)
		c.summary(where, p.Run, folders[shown], p.Figures, shown.Figures)
		c.same(where, "spread", p.Spread, spread)
		c.figure(where, "cache_bytes", float64(p.CacheBytes), float64(shown.Cache.Effective), exact)
	}
	var limits []float64
	for _, a := range s.Answers {
		limits = append(limits, a.Limit)
	}
	c.same(result.SweepFile, "answers", s.Answers, result.Answers(s.Points, limits...))
	return nil
}

// replay computes what stands for each tree from its runs.
func (c *check) replay() error {
	r, err := result.ReadReplay(c.dir)
	if err != nil {
		return err
	}
	for _, t := range r.Trees {
		where := result.ReplayFile + ": " + t.Tree
		if runs, folders := c.ok(where, t.Runs); len(runs) > 0 && t.Status == result.OK {
			shown, spread := result.OfTree(runs)
			c.summary(where, t.Run, folders[shown], t.Figures, shown.Figures)
			c.same(where, "spread", t.Spread, spread)
		}
	}
	return nil
}

// layouts compares each row with the runs it names.
func (c *check) layouts() error {
	l, err := result.ReadLayouts(c.dir)
	if err != nil {
		return err
	}
	for _, row := range l.Rows {
		if row.Status != result.OK {
			continue
		}
		where := fmt.Sprintf("%s: %s of %d accounts", result.LayoutsFile, row.Layout, row.Accounts)
		read, build := c.runs[row.Read], c.runs[row.Build]
		if read == nil || read.Figures.State == nil || build == nil || build.Figures.State == nil {
			c.problem(where, "its runs %s and %s are missing or have no figures", row.Build, row.Read)
			continue
		}
		c.same(where, "lookups", row.Lookups, read.Figures.State.Lookups)
		c.same(where, "updates", row.Updates, build.Figures.State.Updates)
		c.figure(where, "disk_bytes", float64(row.DiskBytes), float64(build.Figures.State.DiskBytes), exact)
		c.figure(where, "peak_rss_bytes", float64(row.PeakRSSBytes), float64(read.Figures.PeakRSSBytes), exact)
	}
	return nil
}

// ok are the runs of folders that succeeded.
func (c *check) ok(where string, folders []string) (runs []*result.Run, of map[*result.Run]string) {
	of = map[*result.Run]string{}
	for _, folder := range folders {
		run := c.runs[filepath.ToSlash(folder)]
		if run == nil {
			c.problem(where, "its run %s is missing", folder)
			continue
		}
		if run.Status == result.OK {
			runs, of[run] = append(runs, run), folder
		}
	}
	return runs, of
}

// summary compares what a summary shows with the run that stands for its repeats.
func (c *check) summary(where, run, shouldBe string, stored, computed result.Figures) {
	if run != shouldBe {
		c.problem(where, "it shows run %s, and the one in the middle of its repeats is %s", run, shouldBe)
	}
	c.same(where, "figures", stored, computed)
}

func (c *check) same(where, what string, stored, computed any) {
	c.Figures++
	if empty(stored) && empty(computed) || reflect.DeepEqual(stored, computed) {
		return
	}
	c.problem(where, "its %s: not what its runs give", what)
}

func empty(v any) bool {
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.Len() == 0
}

// page makes the page again and compares it, if the same program made it.
func (c *check) page(by string) {
	if !c.Packed {
		c.PageNotCompared = "the folder was not packed by statelab publish"
		return
	}
	made, err := os.ReadFile(filepath.Join(c.dir, MadeBy))
	if err == nil && strings.TrimSpace(string(made)) != by {
		c.PageNotCompared = fmt.Sprintf("it was made by %q, and this is %q", strings.TrimSpace(string(made)), by)
	}
	stored, err2 := os.ReadFile(filepath.Join(c.dir, result.ReportFile))
	if err = errors.Join(err, err2); err != nil {
		c.problem(result.ReportFile, "%v", err)
	}
	if err != nil || c.PageNotCompared != "" {
		return
	}
	page, err := pageOf(c.dir)
	if err != nil {
		c.problem(result.ReportFile, "cannot be made again: %v", err)
	} else if !bytes.Equal(page, stored) {
		c.problem(result.ReportFile, "it is not the page that these results give")
	}
}
