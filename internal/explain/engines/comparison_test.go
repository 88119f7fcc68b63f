package engines

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// setting is one point of a sweep made for a test.
type setting struct {
	engine, threads, rate, handles string
	speed, low, high               float64 // Gets a second, and over its repeats
	repeats                        int
	failed                         string
	change                         func(*result.Run)
}

// enginesSweep writes a sweep folder of engines as the harness does.
func enginesSweep(t testing.TB, settings ...setting) string {
	t.Helper()
	dir := t.TempDir()
	sweep := &result.Sweep{
		Status:   result.OK,
		Source:   "measured",
		Name:     "engines",
		Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Command:  []string{"statelab", "sweep"},
		Database: result.Database{Bytes: 100 * mib},
	}

	axes := map[string][]string{}
	for i, s := range settings {
		rel := fmt.Sprintf("points/%03d", i)
		p := result.Point{
			Axes:   map[string]string{},
			Status: result.OK,
			Run:    rel,
			Spread: map[string]result.Range{},
		}

		for axis, value := range map[string]string{
			"engine":  s.engine,
			"threads": s.threads,
			"rate":    s.rate,
			"handles": s.handles,
		} {
			if value == "" {
				continue
			}

			p.Axes[axis] = value
			if len(axes[axis]) == 0 ||
				!strings.Contains(" "+strings.Join(axes[axis], " ")+" ", " "+value+" ") {
				axes[axis] = append(axes[axis], value)
			}
		}

		repeats := max(1, s.repeats)
		for n := range repeats {
			p.Runs = append(p.Runs, strings.TrimSuffix(fmt.Sprintf("%s-%d", rel, n), "-0"))
		}

		if s.high > 0 {
			p.Spread["gets_per_second"] = result.Range{Low: s.low, High: s.high}
		}

		threads := 1
		fmt.Sscan(s.threads, &threads)
		run := &result.Run{
			Status: result.OK,
			Verb:   "read",
			Engine: result.Engine{Name: s.engine, Version: "v1", Profile: "default",
				Durability: "a power cut takes it all"},
			Workload:  result.Workload{Name: "readrandom", Keys: 1000, Threads: threads, Seed: 1},
			PageCache: "cold",
			Memory: &result.Memory{
				BudgetBytes:    64 * mib,
				PageCacheBytes: ptr(int64(20 * mib)),
				HeldBy:         "memory control group v1",
				Shares: []engine.MemoryShare{{
					Use:   "block cache",
					Bytes: 60 * mib,
					Basis: "limit",
				}},
			},
		}

		if s.failed != "" {
			run.Status, run.Error, p.Status, p.Error = result.Failed, s.failed, result.Failed,
				s.failed
		} else {
			run.Figures = result.Figures{
				Set: figure.SetOf(map[figure.Figure]float64{
					figure.GetsPerSecond:         s.speed,
					figure.BlockReadsPerGet:      1.5,
					figure.DeviceReadsPerGet:     2.0,
					figure.DeviceReadBytesPerGet: 8192.0,
					figure.CPUPercent:            50,
					figure.CPUTimePerGet:         9000,
					figure.PeakMemory:            90 * mib,
					figure.SwitchesPerGet:        2,
					figure.SwitchShare:           0.03,
				}),
				Gets:         1000,
				Found:        1000,
				Seconds:      1,
				ServiceNanos: &result.Latency{P50: 90_000, P99: 300_000, Mean: 100_000, N: 1000},
			}

			if s.change != nil {
				s.change(run)
			}

			p.Figures = run.Figures
		}

		for n, folder := range p.Runs { // evenly from low to high, the point's own first
			one := *run
			if n > 0 && s.failed == "" {
				one.Figures.Record(figure.GetsPerSecond,
					s.low+(s.high-s.low)*float64(n-1)/float64(max(1, repeats-2)))
			}

			must(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
			must(t, result.WriteRun(filepath.Join(dir, folder), &one))
		}

		sweep.Points = append(sweep.Points, p)
	}

	for _, axis := range []string{"engine", "handles", "threads", "rate"} {
		if len(axes[axis]) > 0 {
			sweep.Axes = append(sweep.Axes, result.Axis{Name: axis, Values: axes[axis]})
		}
	}

	must(t, result.WriteSweep(dir, sweep))
	return dir
}

func withDisk(t testing.TB, dir string) string {
	t.Helper()
	must(t,
		result.WriteDisk(dir,
			&result.Disk{Dir: "/data", BlockBytes: 4096, Repeats: 3, Points: []result.DiskPoint{
				{
					InFlight:       1,
					ReadsPerSecond: 10_000,
					MeanNanos:      100_000,
					P99Nanos:       200_000,
					Spread:         result.Range{Low: 9_000, High: 11_000},
				},
				{
					InFlight:       4,
					ReadsPerSecond: 40_000,
					MeanNanos:      100_000,
					P99Nanos:       300_000,
					Spread:         result.Range{Low: 38_000, High: 44_000},
				},
			}}))

	return dir
}

func fourEngines(repeats int) []setting {
	return []setting{
		{engine: "pebble1", threads: "1", speed: 1000, low: 900, high: 1100, repeats: repeats},
		{engine: "pebble1", threads: "4", speed: 3000, low: 2800, high: 3100, repeats: repeats},
		{engine: "rocksdb", threads: "1", speed: 1050, low: 950, high: 1150, repeats: repeats},
		{engine: "rocksdb", threads: "4", speed: 2000, low: 1900, high: 2100, repeats: repeats},
		{engine: "mdbx", threads: "1", speed: 500, low: 480, high: 520, repeats: repeats},
		{
			engine:  "mdbx",
			threads: "4",
			speed:   900,
			low:     800,
			high:    1000,
			repeats: repeats,
			change: func(r *result.Run) {
				r.Figures.Unavailable("not counted", figure.DeviceReadsPerGet)
				r.Figures.BlockReadSource = "major page faults of the process"
			},
		},
		{engine: "badger", threads: "1", failed: "killed by signal 9 in phase warm at op 39,103"},
		{engine: "badger", threads: "4", failed: "killed by signal 9 in phase warm at op 28,054"},
	}
}

func sentences(t testing.TB, dir string) string {
	t.Helper()
	s := read(t, dir).Sweeps[0]
	var all []string
	for _, a := range s.comparisons() {
		all = append(all, a.sentences()...)
	}
	return strings.Join(all, "\n")
}

// Times of machines of different kinds are not ranked, unless the hardware class is an axis.
func TestHardwareIsNotMixed(t *testing.T) {
	on := func(class, axis, cpu string) Point {
		p := Point{Run: &result.Run{Host: result.Host{
			Class:       class,
			CPU:         cpu,
			Cores:       2,
			MemoryBytes: 4 << 30,
		}}}

		p.Status = result.OK
		if axis != "" {
			p.Axes = map[string]string{"class": axis}
		}

		return p
	}

	const a, b = "a, 2 cores, 4 GiB", "b, 2 cores, 4 GiB"
	for _, c := range []struct {
		about string
		pts   []Point
		want  []string
	}{
		{"one kind", []Point{on("", "", "a"), on("", "", "a")}, []string{a}},
		{
			"here and on a node of the same kind",
			[]Point{on("", "", "a"), on("small", "", "a")},
			[]string{a},
		},
		{"two kinds", []Point{on("", "", "a"), on("", "", "b")}, []string{a, b}},
		{
			"two classes",
			[]Point{on("small", "", "a"), on("large", "", "a")},
			[]string{"class small: " + a, "class large: " + a},
		},
		{
			"the class is an axis",
			[]Point{on("small", "small", "a"), on("large", "large", "b")},
			[]string{b},
		},
		{
			"one class of an axis has two kinds",
			[]Point{on("small", "small",
				"a"), on("large", "large", "a"), on("large", "large", "b")},
			[]string{a, b},
		},
	} {
		if diff := cmp.Diff(c.want, mixedKinds(c.pts)); diff != "" {
			t.Errorf("%s: %s", c.about, diff)
		}
	}

	mixed := fourEngines(6)
	mixed[2].change = func(r *result.Run) { r.Host.CPU = "another" }
	dir := enginesSweep(t, mixed...)
	if got := sentences(t, dir); !strings.Contains(got, "With 1 thread, runs on machines of "+
		"different kinds cannot be ranked (") {
		t.Error(got)
	}

	if w := fmt.Sprint(read(t, dir).warnings()); !strings.Contains(w,
		"the points were measured on machines of different kinds") {
		t.Error(w)
	}
}

// Nobody is called faster within the noise, nor after one run.
func TestRanking(t *testing.T) {
	for repeats, want := range map[int]string{
		1: "With 1, 4 threads, too few runs to rank them (1 each; to rank 3, 5 are needed: " +
			"--repeats 5): ",
		2: "With 1, 4 threads, too few runs to rank them (2 each; to rank 3, 5 are needed: " +
			"--repeats 5): ",
		6: "With 1 thread, cannot tell who is fastest of pebble1, rocksdb: pebble1 1k (900 to " +
			"1.1k), rocksdb 1.05k (950 to 1.15k), mdbx 500 (480 to 520) Gets/s with 1 thread.\n" +
			"With 4 threads, pebble1 is fastest: pebble1 3k (2.8k to 3.1k), rocksdb 2k (1.9k to " +
			"2.1k), mdbx 900 (800 to 1k) Gets/s with 4 threads.\n" +
			"2 of 8 points failed.",
	} {
		got := sentences(t, enginesSweep(t, fourEngines(repeats)...))
		if !strings.HasPrefix(got, want) || repeats < 5 && strings.Contains(got, "fastest") {
			t.Errorf("%d repeats:\n%s\nwant\n%s", repeats, got, want)
		}
	}
}

func TestCeiling(t *testing.T) {
	dir := withDisk(t, enginesSweep(t, fourEngines(6)...))
	// 4 in flight give 40,000 reads: 20,000 Gets of 2 reads.
	if got, want := sentences(t, dir),
		"Of this disk's limit at 4 in flight (40k reads/s, 38k to 44k over its repeats): pebble1 "+
			"15%, rocksdb 10%."; !strings.Contains(got, want) {
		t.Errorf("%s\nlacks %s", got, want)
	}

	fast := fourEngines(6)
	fast[1].speed = 21_000 // of 20,000
	if got := sentences(t, withDisk(t, enginesSweep(t, fast...))); !strings.Contains(got,
		"pebble1 105%, rocksdb 10%.") {
		t.Error(got)
	}

	fast[1].speed = 23_000 // more than the disk gives: the probe was disturbed
	if got := sentences(t, withDisk(t, enginesSweep(t, fast...))); strings.Contains(got,
		"this disk's limit") {
		t.Error(got)
	}

	s := read(t, dir).Sweeps[0]
	l, ok := s.limitOf(s.Points[1])
	if !ok || l.getsPerSecond != 20_000 || l.nanosPerGet != 200_000 || l.share != 0.15 ||
		l.beyondMeasured {
		t.Errorf("%+v, %v", l, ok)
	}

	if _, ok := s.limitOf(s.Points[5]); ok {
		t.Error("a limit without device reads")
	}
}

func TestKnee(t *testing.T) {
	at := func(rate string, achieved float64, p99 int64) setting {
		return setting{engine: "pebble1", threads: "4", rate: rate, speed: achieved, repeats: 1,
			change: func(r *result.Run) {
				r.Figures.ResponseNanos = &result.Latency{P50: p99 / 5, P99: p99, N: 1000}
			}}
	}

	for _, c := range []struct {
		name   string
		points []setting
		want   string
	}{
		{"waiting", []setting{at("1k", 1000, 1e6), at("2k", 2000, 2e6), at("4k", 4000, 2_000_001)},
			"Knee at 4k Gets/s offered: 4k achieved, response p99 2.00 ms (1.00 ms at 1k)."},
		{"not achieved", []setting{at("1k", 1000, 1e6), at("2k", 1950, 1e6), at("4k", 2000, 9e6)},
			"Knee at 2k Gets/s offered: 1.95k achieved, response p99 1.00 ms (1.00 ms at 1k)."},
		{"borne again", []setting{at("1k", 1000, 1e6), at("2k", 1000, 1e6), at("4k", 4000, 1e6)},
			"Knee at 2k Gets/s offered: 1k achieved, response p99 1.00 ms (1.00 ms at 1k); but " +
				"4k, a higher rate, was sustained: likely noise, increase --gets."},
		{"none", []setting{at("1k", 1000, 1e6), at("2k", 1990, 1e6)},
			"No knee up to 2k Gets/s offered, response p99 1.00 ms there."},
	} {
		dir := enginesSweep(t, c.points...)
		if got := sentences(t, dir); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}

		if text := page1(t,
			read(t, dir)); !strings.Contains(text, "<h3>Latency against load</h3>") {
			t.Errorf("%s: no chart of latency against load", c.name)
		}
	}
}

func TestMissCost(t *testing.T) {
	at := func(handles string, opens, meta, mean float64) setting {
		return setting{
			engine:  "pebble1",
			handles: handles,
			speed:   1000,
			repeats: 1,
			change: func(r *result.Run) {
				r.Figures.RecordIf(figure.TableOpensPerGet, figure.If(&opens))
				r.Figures.BlockReadsPerGetByType = map[string]float64{"data": 1, "meta": meta}
				r.Figures.ServiceNanos.Mean = mean
			},
		}
	}

	var out bytes.Buffer
	must(t,
		render.Terminal(&out,
			read(t, enginesSweep(t, at("3", 0.6, 3.1, 250_000), at("500", 0.1, 0.6, 100_000))).
				Document()))

	// 0.5 opens more cost 150 us and 2.5 reads more.
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got,
		"a closed table costs about 300 us and 5.00 reads (0.600 against 0.100 opens per Get)") {
		t.Error(got)
	}
}

// The study's figures are next to ours where both of its engines are there.
func TestPublishedFigures(t *testing.T) {
	in := read(t, enginesSweep(t, fourEngines(6)...))
	got := map[string]doc.Table{}
	for _, f := range in.Sweeps[0].published() {
		got[f.Title] = f.Table
	}

	if len(got) != 2 {
		t.Fatalf("%d studies, want 2", len(got))
	}

	io := got["Published rocksdb and mdbx figures"]
	var rows []string
	for _, r := range io.Rows {
		rows = append(rows, strings.Join(r.Cells, " | "))
	}

	want := "1 | mdbx | here | 0.500 | 100 | 50.0\n1 | rocksdb | here | 1.05 | 100 | 50.0\n2 | " +
		"mdbx | theirs | 21.0 | 85.0 | 0.800\n2 | rocksdb | theirs | 12.0 | 160 | 1.10\n" +
		"4 | mdbx | here | 0.900 | 100 | 50.0\n4 | mdbx | theirs | 48.0"

	if text := strings.Join(rows, "\n"); !strings.HasPrefix(text, want) || len(rows) != 16 {
		t.Errorf("%s\nwant\n%s", text, want)
	}

	only := read(t, enginesSweep(
		t,
		setting{engine: "pebble1", threads: "1", speed: 1},
		setting{engine: "pebble2", threads: "1", speed: 1},
		setting{engine: "pebble1", threads: "4", speed: 1},
		setting{engine: "pebble2", threads: "4", speed: 1},
	))

	if f := only.Sweeps[0].published(); len(f) != 0 {
		t.Errorf("studies of other engines: %+v", f)
	}
}

// Block reads that are page faults are called so, and give way to bytes where
// read-ahead hides reads from them.
func TestPageFaultsAreNamed(t *testing.T) {
	point := func(faults, bytes float64) Point {
		p := Point{Run: &result.Run{Memory: &result.Memory{BudgetBytes: 64 * mib}}}
		p.Figures = result.Figures{
			Set: figure.SetOf(map[figure.Figure]float64{figure.BlockReadsPerGet: faults,
				figure.DeviceReadBytesPerGet: bytes}),
			BlockReadSource: "major page faults of the process",
		}

		return p
	}

	for want, p := range map[string]Point{
		"0.930 page faults per Get in a budget of 64 MiB": point(0.93, 4100),
		"41,000 bytes per Get from the device (0.007 page faults: read-ahead hides the rest from " +
			"that count) in a budget of 64 MiB": point(0.007, 41_000),
	} {
		if got := readsAt(p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Failed engines stay in the legend, as failed; those of which some points
// failed too.
func TestLegendOfFailures(t *testing.T) {
	settings := fourEngines(6)
	settings[5].failed = "no memory left"
	pic := read(t, enginesSweep(t, settings...)).Sweeps[0].comparisons()[0].enginesChart()
	if got, want := strings.Join(pic.Legend(), ", "),
		"pebble1, rocksdb, mdbx (1 failed), badger (failed)"; got != want {
		t.Errorf("legend %q, want %q", got, want)
	}
}

// An engine that maps its files has reads of pages, which have no types.
func TestPagesHaveNoTypes(t *testing.T) {
	of := readsOf("data reads", engine.Data)
	point := func(reads map[string]float64) Point {
		return Point{Point: result.Point{Figures: result.Figures{BlockReadsPerGetByType: reads}}}
	}
	if v := of.Value(point(map[string]float64{"page": 0})); v != nil {
		t.Errorf("%v data reads of pages", *v)
	}

	if v := of.Value(point(map[string]float64{"index": 1})); v == nil || *v != 0 {
		t.Errorf("data reads that were counted: %v", v)
	}
}

// Counts come first, one for each engine or size, not that of the last one alone.
func TestReadsOfEach(t *testing.T) {
	reads := func(perGet float64) func(*result.Run) {
		return func(r *result.Run) {
			r.Figures.Record(figure.BlockReadsPerGet, perGet)
			r.Figures.Record(figure.DeviceReadsPerGet, perGet)
		}
	}

	for _, c := range []struct {
		about    string
		settings []setting
		want     string
	}{
		{"engines", []setting{
			{engine: "pebble1", threads: "1", speed: 1000, change: reads(1.5)},
			{engine: "rocksdb", threads: "1", speed: 900, change: reads(2)},
		}, "1.50 block reads per Get of pebble1, 2.00 of rocksdb (1.50 to 2.00 device reads)"},
		{"one engine", []setting{
			{engine: "pebble1", threads: "1", handles: "100", speed: 1000, change: reads(3)},
			{engine: "pebble1", threads: "1", handles: "200", speed: 900, change: reads(2)},
		}, "3.00 block reads per Get with 100 handles, 2.00 with 200 (2.00 to 3.00 device reads)"},
		{"alike", []setting{
			{engine: "pebble1", threads: "1", speed: 1000, change: reads(2)},
			{engine: "pebble1", threads: "2", speed: 900, change: reads(2)},
		}, "1k Gets/s with 1 thread, 900 Gets/s with 2 threads; too few runs"},
	} {
		if got := sentences(t, enginesSweep(t, c.settings...)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.about, got, c.want)
		}
	}
}
