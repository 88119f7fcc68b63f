package serve

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/result"
)

// stillRunning is how long ago a runner may have written its last line: it writes one a
// second while it measures, none while an engine settles.
const stillRunning = 15 * time.Second

type newest struct {
	folder string
	at     time.Time
}

// newestSeries is the run of a plan that wrote last.
func newestSeries(dir string) (n newest) {
	paths, err := filepath.Glob(filepath.Join(dir, result.PointsDir, "*", result.SeriesFile))
	if err != nil {
		return n
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(n.at) {
			n = newest{filepath.Dir(path), info.ModTime()}
		}
	}
	return n
}

// Live is what a plan is at, as the page asks for every second.
type Live struct {
	Status string      `json:"status"`
	Done   int         `json:"runs_done"`
	Total  int         `json:"runs_total"` // 0: not known
	Left   string      `json:"left"`       // estimate from the runs that are done; "" of none
	Phase  string      `json:"phase"`
	Run    string      `json:"run"`
	Ticks  []liveTick  `json:"ticks"`
	Points []livePoint `json:"points"`
}

type liveTick struct {
	Seconds float64  `json:"t"`
	Rate    float64  `json:"ops_per_second"`
	Reads   *float64 `json:"block_reads_per_op"`
}

// livePoint is a point that is measured: where it stands on the curve so far.
type livePoint struct {
	Label string   `json:"label"`
	Reads *float64 `json:"block_reads_per_get"`
	Rate  float64  `json:"gets_per_second"`
}

// mostTicks are drawn; the page is no archive.
const mostTicks = 300

var repeatsLine = regexp.MustCompile(`(?m)^\s*repeats:\s*"?(\d+)`)

// points remembers the points that were read, by the folder of their run: a page asks every
// second, on a machine that measures.
type points struct{ known sync.Map }

func (m *points) read(dir string, sweep *result.Sweep) {
	for i := range sweep.Points {
		p := &sweep.Points[i]
		key := [2]string{filepath.Join(dir, p.Run), sweep.Started.String()}
		if known, ok := m.known.Load(key); ok && len(known.(result.Point).Runs) == len(p.Runs) {
			*p = known.(result.Point)
			continue
		}
		if p.Read(dir); p.Problem == nil {
			p.Of = nil // would fill the memory
			m.known.Store(key, *p)
		}
	}
}

// live reads how far the plan in a folder is.
func (m *points) live(dir string, now time.Time) (*Live, error) {
	sweep, err := result.ReadIndex(dir)
	if err != nil {
		return nil, err
	}
	m.read(dir, sweep)
	out := &Live{Status: sweep.Status, Total: runsOf(sweep, dir), Ticks: []liveTick{}, Points: []livePoint{}}
	for _, p := range sweep.Points {
		out.Done += len(p.Runs)
		label := p.Axes["cache"]
		if p.CacheBytes > 0 {
			label = view.ShortBytes(p.CacheBytes)
		}
		for _, axis := range []string{"engine", "threads", "rate"} {
			if v := p.Axes[axis]; v != "" {
				label = axis + " " + v + " " + label
			}
		}
		if p.Status == result.OK {
			out.Points = append(out.Points, livePoint{label, p.Figures.BlockReadsPerGet, p.Figures.GetsPerSecond})
		}
	}
	series := newestSeries(dir)
	if out.Status == result.Interrupted && now.Sub(series.at) < stillRunning {
		out.Status = running
		if out.Done > 0 && out.Total > out.Done {
			left := now.Sub(sweep.Started) / time.Duration(out.Done) * time.Duration(out.Total-out.Done)
			out.Left = unit.Nanos(float64(left))
		}
	}
	if series.folder == "" {
		return out, nil
	}
	ticks, err := result.ReadSeries(series.folder)
	if err != nil {
		return nil, err
	}
	out.Run = filepath.Base(series.folder)
	clock, last, phase := 0.0, 0.0, ""
	for _, t := range ticks {
		if t.Phase != phase {
			last, phase = 0, t.Phase
		}
		clock, last = clock+max(0, t.Seconds-last), t.Seconds
		rate := t.OpsPerSecond
		if rate == 0 {
			rate = t.PutsPerSecond
		}
		if view.Sane(rate) {
			out.Ticks = append(out.Ticks, liveTick{clock, rate, t.BlockReadsPerOp})
		}
	}
	out.Phase, out.Ticks = phase, out.Ticks[max(0, len(out.Ticks)-mostTicks):]
	return out, nil
}

// runsOf is how many runs a sweep in a folder has when it is complete.
func runsOf(sweep *result.Sweep, dir string) int {
	total := 1
	for _, axis := range sweep.Axes {
		total *= max(1, len(axis.Values))
	}
	text, err := os.ReadFile(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		return total
	}
	if found := repeatsLine.FindSubmatch(text); found != nil {
		if n, err := strconv.Atoi(string(found[1])); err == nil {
			total *= max(1, n)
		}
	}
	return total
}
