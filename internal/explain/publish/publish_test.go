package publish

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sweep writes a sweep of two repeats, whose figures are those of their counters.
func sweep(t *testing.T, dir, engineName string, reads int64) {
	t.Helper()
	s := result.Sweep{
		Status: result.OK,
		Source: "measured",
		Name:   engineName,
		Axes:   []result.Axis{{Name: "cache", Values: []string{"1MiB"}}},
	}

	var runs []*result.Run
	var folders []string
	for _, name := range []string{"points/000-0", "points/000-1"} {
		perGet := float64(reads) / 100
		run := &result.Run{
			Status:   result.OK,
			Verb:     "read",
			Started:  time.Unix(1, 0).UTC(),
			Engine:   result.Engine{Name: engineName, Version: "1"},
			Workload: result.Workload{Name: "readrandom", Threads: 1, Gets: 100},
			Cache:    result.Cache{Effective: 1 << 20},
			Phases: []result.Phase{{
				Name:    "measure",
				Seconds: 2,
				Ops:     100,
				Reads:   map[string]engine.Tally{"data": {Count: reads, Bytes: 100}},
				Process: &result.ProcessIO{UserNanos: 1000},
			}},
			Figures: result.Figures{
				Set: figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: 50,
					figure.BlockReadsPerGet: perGet, figure.CPUTimePerGet: 10}),
				Gets:                    100,
				Found:                   100,
				Seconds:                 2,
				BlockReadsPerGetByType:  map[string]float64{"data": perGet},
				BlockReadsPerGetByLevel: map[string]float64{"L0": perGet},
			},
		}

		folder := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(folder, 0o755))
		must(t, result.WriteRun(folder, run))
		runs, folders = append(runs, run), append(folders, name)
	}

	shown, spread := result.RepresentativeRun(runs)
	s.Points = []result.Point{{
		Axes:       map[string]string{"cache": "1MiB"},
		CacheBytes: 1 << 20,
		Run:        folders[1],
		Runs:       folders,
		Status:     result.OK,
		Figures:    shown.Figures,
		Spread:     spread,
	}}

	s.Answers = result.Answers(s.Points, 1.1)
	must(t, result.WriteSweep(dir, &s))
	must(t, os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("not a result"), 0o644))
}

func pack(t *testing.T, dir, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	must(t,
		errors.Join(Pack(f, dir, strings.TrimSuffix(filepath.Base(path), ".zip"), "test"),
			f.Close()))
}

func verify(t *testing.T, path, by string) *Verdict {
	t.Helper()
	dir, remove, err := Open(path)
	must(t, err)
	found, err := Verify(dir, by)
	must(t, errors.Join(err, remove()))
	return found
}

func TestPackPasses(t *testing.T) {
	root := t.TempDir()
	sweep(t, filepath.Join(root, "S"), "pebble1", 120)
	path := filepath.Join(root, "a.zip")
	pack(t, filepath.Join(root, "S"), path)
	if found := verify(t, path, "test"); len(found.Problems) > 0 || !found.Packed ||
		found.Runs != 2 || found.Figures < 15 || found.PageNotCompared != "" {
		t.Errorf("%+v", found)
	}

	if found := verify(t, path, "another version"); len(found.Problems) > 0 ||
		found.PageNotCompared == "" {
		t.Errorf("%+v", found)
	}

	dir, remove, err := Open(path)
	must(t, err)
	for file, says := range map[string]string{Figure: `width="3.500in"`, TidyCSV: "gets_per_second",
		Caption: "Block reads per Get", Citation: "@misc{statelab,"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), says) {
			t.Errorf("%s lacks %q (%v)", file, says, err)
		}
	}

	must(t, remove())
	first, err := os.ReadFile(path)
	must(t, err)
	if bytes.Contains(first, []byte("secret")) {
		t.Error("a file that is no result was packed")
	}

	must(t, os.Symlink(filepath.Join(root, "S"), filepath.Join(root, "link")))
	pack(t, filepath.Join(root, "link"), path)
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Error("equal results give different packs")
	}
}

// Each change is found, whether or not the checksums were made to fit.
func TestTamperedPacksAreRefused(t *testing.T) {
	root := t.TempDir()
	source := filepath.Join(root, "S")
	sweep(t, source, "pebble1", 120)
	path := filepath.Join(root, "a.zip")
	pack(t, source, path)
	for name, c := range map[string]struct{ file, from, to, problem string }{
		"fewer reads in a run": {"points/000-1/run.json", `"block_reads_per_get": 1.2`,
			`"block_reads_per_get": 0.2`, "raw files give 1.2"},
		"more speed in a run": {"points/000-0/run.json", `"gets_per_second": 50`,
			`"gets_per_second": 500`, "gets_per_second is 500"},
		"another counter": {"points/000-0/run.json", `"count": 120`, `"count": 12`,
			"block_reads_per_get is 1.2"},
		"figures of its own": {"sweep.json", `"run": "points/000-1",`,
			`"run": "points/000-1", "figures": {"gets": 50},`,
			"figures: not what its runs give"},
		"another repeat": {"sweep.json", `"run": "points/000-1"`, `"run": "points/000-0"`,
			"in the middle"},
		"another spread": {"sweep.json", `"high": 50`, `"high": 60`, "spread"},
		"another answer": {"sweep.json", `"limit": 1.1`, `"limit": 1.3`, "answers"},
		"another page":   {"report.html", "1.2", "0.2", "not the page"},
		"another figure": {Figure, ">1.20<", ">0.20<", Figure + ": it is not what these"},
		"another row":    {TidyCSV, "1.2", "0.2", TidyCSV + ": it is not what these"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, remove, err := Open(path)
			must(t, err)
			defer func() { must(t, remove()) }()
			file := filepath.Join(dir, filepath.FromSlash(c.file))
			text, err := os.ReadFile(file)
			must(t, err)
			changed := bytes.Replace(text, []byte(c.from), []byte(c.to), 1)
			if bytes.Equal(text, changed) {
				t.Fatalf("%s has no %s", c.file, c.from)
			}

			must(t, os.WriteFile(file, changed, 0o644))
			found, err := Verify(dir, "test")
			must(t, err)
			if !strings.Contains(strings.Join(found.Problems, "\n"), c.file+": its checksum") {
				t.Errorf("the checksum is not missed: %q", found.Problems)
			}

			was, is := sha256.Sum256(text), sha256.Sum256(changed)
			list, err := os.ReadFile(filepath.Join(dir, Sums))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, Sums), bytes.ReplaceAll(list,
				[]byte(hex.EncodeToString(was[:])+"  "+c.file),
				[]byte(hex.EncodeToString(is[:])+"  "+c.file)), 0o644))
			found, err = Verify(dir, "test")
			must(t, err)
			if all := strings.Join(found.Problems, "\n"); strings.Contains(all, "checksum") ||
				!strings.Contains(all, c.problem) {
				t.Errorf("%q", found.Problems)
			}
		})
	}

	dir, remove, err := Open(path)
	must(t, err)
	defer func() { must(t, remove()) }()
	must(t, os.Remove(filepath.Join(dir, "points", "000-0", "run.json")))
	must(t, os.WriteFile(filepath.Join(dir, "more"), nil, 0o644))
	found, err := Verify(dir, "test")
	must(t, err)
	for _, problem := range []string{"run.json: listed", "more: not listed",
		"its run points/000-0 is missing"} {
		if !strings.Contains(strings.Join(found.Problems, "\n"), problem) {
			t.Errorf("no %q in %q", problem, found.Problems)
		}
	}
}

func TestDamagedLatencies(t *testing.T) {
	c := check{Check: kinds.Check{Dir: t.TempDir(), Findings: new(kinds.Findings)}}
	must(t, os.WriteFile(filepath.Join(c.Dir, result.LatencyFile), []byte("\x01\x02\n"), 0o644))
	figures := result.Figures{ServiceNanos: &result.Latency{N: 1}}
	c.latencies(".", &result.Run{Status: result.OK, Figures: figures})
	if want := ".: latency.hlog is damaged: it holds no service times"; len(c.Problems) != 1 ||
		c.Problems[0] != want {
		t.Errorf("%q", c.Problems)
	}
}

// TestQuantilesOfFewTimes: of 620 times, the 99.9 % quantile is the longest one, which is told by
// their order.
func TestQuantilesOfFewTimes(t *testing.T) {
	dir := t.TempDir()
	h, times := measure.NewHistogram(), make([]int64, 620)
	for i := range times {
		times[i] = int64(i+1) * int64(i+1) * 1000
		h.Add(times[i])
	}

	var log bytes.Buffer
	must(t,
		measure.WriteLog(&log, time.Unix(1, 0), []measure.LogEntry{{
			Tag:       "commit",
			Start:     time.Unix(1, 0),
			End:       time.Unix(2, 0),
			Durations: h,
		}}))

	must(t, os.WriteFile(filepath.Join(dir, result.LatencyFile), log.Bytes(), 0o644))
	run := &result.Run{Figures: result.Figures{Replay: &result.Replay{CommitNanos: &result.Latency{
		N:    620,
		Mean: h.Mean(),
		P50:  times[309],
		P90:  times[557],
		P99:  times[613],
		P999: times[619],
		Max:  times[619],
	}}}}

	c := &check{kinds.Check{Dir: dir, Findings: new(kinds.Findings)}, new(Verdict)}
	if c.latencies(".", run); len(c.Problems) > 0 || c.Figures != 7 {
		t.Errorf("%d figures, %q", c.Figures, c.Problems)
	}
}

func TestNoPack(t *testing.T) {
	dir := t.TempDir()
	for name, paths := range map[string][]string{
		"out.zip":      {"../evil"},
		"two.zip":      {"a/run.json", "b/run.json"},
		"empty.zip":    nil,
		"unsealed.zip": {"a/run.json"},
	} {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		must(t, err)
		z := zip.NewWriter(f)
		for _, p := range paths {
			_, err := z.Create(p)
			must(t, err)
		}

		must(t, errors.Join(z.Close(), f.Close()))
		if into, _, err := Open(path); err == nil {
			t.Errorf("%s was opened as %s", name, into)
		}
	}

	path := filepath.Join(dir, "text.zip")
	must(t, os.WriteFile(path, []byte("text"), 0o644))
	if _, _, err := Open(path); err == nil {
		t.Error("text is a pack")
	}
}

// The site ranks packs of the same conditions by question, and leaves tampered ones out.
func TestSite(t *testing.T) {
	root := t.TempDir()
	for name, reads := range map[string]int64{"slow": 240, "fast": 120, `<b id=x>`: 180} {
		sweep(t, filepath.Join(root, "S", name), "engine-"+name, reads)
		pack(t, filepath.Join(root, "S", name), filepath.Join(root, name+".zip"))
	}

	must(t, os.WriteFile(filepath.Join(root, "bad.zip"), []byte("PK"), 0o644))
	packs, err := Packs(root)
	must(t, err)
	web := filepath.Join(root, "web")
	must(t, os.Mkdir(web, 0o755))
	shown, err := Site(web, packs, "Published results", "test")
	must(t, err)
	if len(shown) != 4 {
		t.Fatalf("%+v", shown)
	}

	text, err := os.ReadFile(filepath.Join(web, "index.html"))
	must(t, err)
	page := string(text)
	fast, middle, slow := strings.Index(page, "engine-fast 1"),
		strings.Index(page, "engine-&lt;b id=x&gt; 1"), strings.Index(page, "engine-slow 1")
	if !(0 < fast && fast < middle && middle < slow) {
		t.Errorf("the order is %d, %d, %d", fast, middle, slow)
	}

	for _, want := range []string{"How many blocks does a Get read?", "100 % more than the first",
		"bad is left out", `href="./fast.html"`, `href="./fast.zip"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}

	for _, file := range []string{"fast.html", "slow.zip"} {
		if _, err := os.Stat(filepath.Join(web, file)); err != nil {
			t.Error(err)
		}
	}

	if _, err := os.Stat(filepath.Join(web, "bad.html")); err == nil {
		t.Error("a damaged pack has a page")
	}
}

// TestCheckedFiguresHaveATolerance: a tolerance without a recomputation would check nothing, and a
// recomputation without one would refuse the last bit.
func TestCheckedFiguresHaveATolerance(t *testing.T) {
	checked := map[string]bool{}
	for _, r := range recomputations() {
		checked[r.of.Key] = true
	}

	// Of layouts, these are compared with those of the runs (kinds.Check).
	for _, f := range []figure.Figure{figure.PeakMemory, figure.DiskBytes} {
		checked[f.Key] = true
	}

	for _, f := range figure.All() {
		if (f.Tolerance > 0) != checked[f.Key] {
			t.Errorf("%s: a tolerance of %g, recomputed: %v", f.Key, f.Tolerance, checked[f.Key])
		}
	}
}
