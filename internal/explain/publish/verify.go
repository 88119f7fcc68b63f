package publish

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/result"
)

// Verdict is what a check found.
type Verdict struct {
	Packed bool `json:"packed"` // it has checksums
	Runs   int  `json:"runs"`   // whose figures were computed again
	kinds.Findings
	// PageNotCompared says why the page was not made again; "" if it was.
	PageNotCompared string `json:"page_not_compared,omitempty"`
}

// check collects what contradicts.
type check struct {
	kinds.Check
	verdict *Verdict
}

// Verify checks the results in dir. by is this program, as Pack was told.
func Verify(dir, by string) (*Verdict, error) {
	out := new(Verdict)
	c := &check{kinds.Check{Dir: dir, Runs: map[string]*result.Run{}, Findings: &out.Findings}, out}
	var err error
	if out.Packed, out.Problems, err = sums(dir); err != nil {
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
			c.Problem(path, "%v", err)
			continue
		}
		c.Runs[folder] = run
		c.run(folder, run)
	}
	for _, k := range kinds.All() {
		if k.Check == nil {
			continue
		}
		if err := k.Check(&c.Check); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Problem("summary", "%v", err)
		}
	}
	c.page(by)
	return out, nil
}

// run computes the figures of a run from its phases, its series and its histograms.
func (c *check) run(folder string, run *result.Run) {
	if run.Verb != "inspect" { // which looks at a database and measures nothing
		c.verdict.Runs++
	}
	where, f := folder+"/"+result.RunFile, run.Figures
	i := slices.IndexFunc(run.Phases, func(p result.Phase) bool { return p.Name == "measure" })
	if i >= 0 && f.Gets > 0 && f.State == nil && f.Replay == nil {
		c.gets(where, run, run.Phases[i])
	}
	if r := f.Replay; r != nil && r.ApplySeconds+r.CommitSeconds > 0 {
		c.Figure(where, "leaves_per_second", r.LeavesPerSecond, float64(r.Leaves)/(r.ApplySeconds+r.CommitSeconds), 1e-6)
	}
	ticks, err := result.ReadSeries(filepath.Join(c.Dir, filepath.FromSlash(folder)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Problem(folder, "%v", err)
	}
	if len(ticks) > 0 && f.State == nil {
		ops := map[string]uint64{}
		for _, t := range ticks {
			ops[t.Phase] += t.Ops
		}
		for _, p := range run.Phases {
			// The end of a phase that is shorter than a tick is in no line.
			if c.Figures++; ops[p.Name] > p.Ops {
				c.Problem(folder+"/"+result.SeriesFile, "%d operations of phase %s, and the run has %d", ops[p.Name], p.Name, p.Ops)
			}
		}
	}
	c.latencies(folder, run)
}

// gets are the figures of Gets, from the counters of the measured phase.
func (c *check) gets(where string, run *result.Run, p result.Phase) {
	f, gets := run.Figures, float64(run.Figures.Gets)
	c.Figure(where, "gets", gets, float64(f.Found+f.Missing+f.FailedGets), kinds.Exact)
	c.Figure(where, "gets_per_second", f.GetsPerSecond, gets/p.Seconds, kinds.Exact)
	if f.BlockReadsPerGet != nil && f.BlockReadSource == "" {
		var total engine.Tally
		for kind, t := range p.Reads {
			total.Count, total.Bytes = total.Count+t.Count, total.Bytes+t.Bytes
			c.Figure(where, "block_reads_per_get_by_type."+kind, f.BlockReadsPerGetByType[kind], float64(t.Count)/gets, kinds.Exact)
		}
		c.Figure(where, "block_reads_per_get", *f.BlockReadsPerGet, float64(total.Count)/gets, kinds.Exact)
		if f.BlockReadBytesPerGet != nil {
			c.Figure(where, "block_read_bytes_per_get", *f.BlockReadBytesPerGet, float64(total.Bytes)/gets, kinds.Exact)
		}
		levels := 0.0
		for _, v := range f.BlockReadsPerGetByLevel {
			levels += v
		}
		c.Figure(where, "sum of block_reads_per_get_by_level", levels, *f.BlockReadsPerGet, 1e-6)
		if f.DeviceReadsPerGet != nil && f.Agreement != nil {
			c.Figure(where, "agreement", *f.Agreement, *f.DeviceReadsPerGet / *f.BlockReadsPerGet, kinds.Exact)
		}
	}
	if io := p.Process; io != nil {
		c.Figure(where, "cpu_ns_per_get", f.CPUNanosPerGet, float64(io.UserNanos+io.SystemNanos)/gets, kinds.Exact)
		c.Figure(where, "read_calls_per_get", f.ReadCallsPerGet, float64(io.ReadCalls)/gets, kinds.Exact)
		c.Figure(where, "major_faults_per_get", f.MajorFaultsPerGet, float64(io.MajorFaults)/gets, kinds.Exact)
		if f.DeviceReadBytesPerGet != nil {
			bytes := io.ReadBytes
			if p.Device != nil {
				bytes = p.Device.ReadBytes
			}
			c.Figure(where, "device_read_bytes_per_get", *f.DeviceReadBytesPerGet, float64(bytes)/gets, kinds.Exact)
		}
	}
	if p.Device != nil && f.DeviceReadsPerGet != nil {
		c.Figure(where, "device_reads_per_get", *f.DeviceReadsPerGet, float64(p.Device.Reads)/gets, kinds.Exact)
	}
}

// outside is the comment of a histogram log on durations that the format cannot hold.
var outside = regexp.MustCompile(`Outside the range: Tag=(\S*) too_long=(\d+) negative=(\d+)`)

// resolution of an HdrHistogram with three digits.
const resolution = 1.0 / 1000

// latencies compares quantiles with those of the histograms in latency.hlog.
func (c *check) latencies(folder string, run *result.Run) {
	path := filepath.Join(c.Dir, filepath.FromSlash(folder), result.LatencyFile)
	text, err := os.ReadFile(path)
	where := folder + "/" + result.LatencyFile
	if err != nil {
		if run.Figures.ServiceNanos != nil && run.Status == result.OK {
			c.Problem(where, "missing, and the run has latencies")
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
		c.Problem(where, "%v", err)
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
			c.Problem(folder, "%s is damaged: it holds no %s times", result.LatencyFile, cmp.Or(tag, "service"))
			continue
		}
		name := strings.TrimPrefix(tag+"_", "_")
		c.Figure(where, name+"count", float64(l.N), float64(h.TotalCount())+float64(missing[tag]), kinds.Exact)
		if missing[tag] > 0 {
			continue // the histogram has not all
		}
		for _, q := range []struct {
			name  string
			at    float64
			value int64
		}{{"p50", 50, l.P50}, {"p90", 90, l.P90}, {"p99", 99, l.P99}, {"p999", 99.9, l.P999}, {"max", 100, l.Max}} {
			c.Figure(where, name+q.name, float64(q.value), float64(h.ValueAtQuantile(q.at)), resolution)
		}
		c.Figure(where, name+"mean", l.Mean, h.Mean(), resolution)
	}
}

// page makes the page again and compares it, if the same program made it.
func (c *check) page(by string) {
	if !c.verdict.Packed {
		c.verdict.PageNotCompared = "the folder was not packed by statelab pack create"
		return
	}
	made, err := os.ReadFile(filepath.Join(c.Dir, MadeBy))
	if err == nil && strings.TrimSpace(string(made)) != by {
		c.verdict.PageNotCompared = fmt.Sprintf("it was made by %q, and this is %q", strings.TrimSpace(string(made)), by)
	}
	stored, err2 := os.ReadFile(filepath.Join(c.Dir, result.ReportFile))
	if err = errors.Join(err, err2); err != nil {
		c.Problem(result.ReportFile, "%v", err)
	}
	if err != nil || c.verdict.PageNotCompared != "" {
		return
	}
	page, err := pageOf(c.Dir)
	if err != nil {
		c.Problem(result.ReportFile, "cannot be made again: %v", err)
	} else if !bytes.Equal(page, stored) {
		c.Problem(result.ReportFile, "it is not the page that these results give")
	}
}
