package compare

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// made is a run of a test, as a runner would write it.
func made(speed float64, change ...func(*result.Run)) *result.Run {
	reads, device := 2.5, 2.4
	r := &result.Run{Status: result.OK, Verb: "read", PageCache: "direct",
		Engine: result.Engine{
			Name:    "pebble1",
			Version: "v1.1.5",
			Profile: "geth",
			Options: map[string]string{"MemTableSize": "4MiB"},
		},
		Workload: result.Workload{
			Name:       "readrandom",
			Keys:       1000,
			KeyBytes:   32,
			ValueBytes: 110,
			Threads:    1,
			Gets:       1000,
			WarmupGets: 100,
			Seed:       1,
			WriteRate:  10_000,
		},
		Host: result.Host{
			OS:          "linux",
			CPU:         "Example",
			Cores:       2,
			MemoryBytes: 1 << 30,
			Filesystem:  "ext4",
			Device:      "vda",
		},
		Cache: result.Cache{Effective: 1 << 20},
		Figures: result.Figures{
			Set: figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: speed,
				figure.BlockReadsPerGet: reads, figure.DeviceReadsPerGet: device,
				figure.CPUTimePerGet: 1e9 / speed}),
			Gets:         1000,
			ServiceNanos: &result.Latency{P50: int64(1e9 / speed), P99: int64(3e9 / speed)},
		}}

	for _, f := range change {
		f(r)
	}

	return r
}

// group is a side of runs with speeds around one, a little apart.
func group(name string, n int, speed float64, change ...func(*result.Run)) Side {
	g := Group{Axes: map[string]string{}, All: n}
	for i := range n {
		g.Runs = append(g.Runs, made(speed*(1+0.01*float64(i%5)+0.0001*float64(i)), change...))
	}
	return Side{Name: name, Groups: []Group{g}}
}

// noisy is a group whose speeds reach from one to three times of it.
func noisy(name string, n int, speed float64) Side {
	side := group(name, n, speed)
	for i, run := range side.Groups[0].Runs {
		run.Figures.Record(figure.GetsPerSecond, speed*(1+2*float64(i)/float64(n-1)))
	}
	return side
}

// devices is a group of runs with as many device reads per Get.
func devices(name string, reads ...float64) Side {
	side := group(name, len(reads), 1000)
	for i, run := range side.Groups[0].Runs {
		run.Figures.RecordIf(figure.DeviceReadsPerGet, figure.If(&reads[i]))
	}
	return side
}

func moreReads(by float64) func(*result.Run) {
	return func(r *result.Run) {
		r.Figures.Record(figure.BlockReadsPerGet, r.Figures.OrZero(figure.BlockReadsPerGet)+by)
	}
}

func extraRead(r *result.Run) { moreReads(1)(r) }

// keysOf are of a seed, and give block reads an error.
func keysOf(seed uint64, error float64) func(*result.Run) {
	return func(r *result.Run) {
		r.Workload.Seed = seed
		r.Figures.Record(figure.BlockReadsPerGet.Error(), error)
	}
}

// drawnFrom lets the keys be drawn from another program's database of so many bytes.
func drawnFrom(bytes int64) func(*result.Run) {
	return func(r *result.Run) { r.Workload.KeyOrder, r.Database.Bytes = "foreign", bytes }
}

func startedIn(year int) func(*result.Run) {
	return func(r *result.Run) { r.Started = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
}

// inTurns gives runs without one the times of A B, A B, ...
func inTurns(sides []Side) {
	for n, side := range sides {
		for _, g := range side.Groups {
			for i, run := range g.Runs {
				if run.Started.IsZero() {
					run.Started = time.Unix(int64(10*i+n+1), 0)
				}
			}
		}
	}
}

func find(t *testing.T, c *Comparison, name string) Figure {
	t.Helper()
	for _, f := range c.Pairs[0].Figures {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no figure %s in %+v", name, c.Pairs[0])
	return Figure{}
}

func compared(t *testing.T, sides ...Side) *Comparison {
	t.Helper()
	inTurns(sides)
	c, err := Sides(sides, Options{Margin: difference.Margin})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name, figure string
		verdict      difference.Verdict
		sentence     string
		a, b         Side
	}{
		{"an extra read, one run each", "block_reads_per_get", difference.Changed,
			"40 % more block reads per Get (exact count, 1 run each; 2.50 and 3.50)",
			group("a", 1, 1000), group("b", 1, 1000, extraRead)},
		{"the same count", "block_reads_per_get", difference.Same,
			"the same block reads per Get: 2.50 (exact count)", group("a", 1, 1000),
			group("b", 1, 1500)},
		{
			"two threads are no exact count",
			"block_reads_per_get",
			difference.CannotTell,
			"block reads per Get: cannot tell: needs 5 runs each, has 2: --repeats 5 (middle " +
				"runs 2.50 and 3.50)",
			group("a", 2, 1000, func(r *result.Run) { r.Workload.Threads = 2 }),
			group("b", 2, 1000, func(r *result.Run) { r.Workload.Threads = 2 }, extraRead),
		},
		{"other seeds are no exact count", "block_reads_per_get", difference.CannotTell,
			"block reads per Get: cannot tell: the keys differ, and the runs do not say how much " +
				"that matters: use the same --seed on both sides (2.50 and 3.50)",
			group("a", 1, 1000),
			group("b", 1, 1000, func(r *result.Run) { r.Workload.Seed = 2 }, extraRead)},
		{"faster", "gets_per_second", difference.Differs, "20 % more Gets per second (95 % CI 18 " +
			"to 23 %, 10 runs each; middle runs 1,020 and 1,226)",
			group("a", 10, 1000), group("b", 10, 1202)},
		{"slower", "service_p99_ns", difference.Differs, "20 % higher p99 service time (95 % CI " +
			"18 to 22 %, 10 runs each; middle runs 2,941 us and 3,529 us)",
			group("a", 10, 1000), group("b", 10, 1000/1.2)},
		{"noise", "gets_per_second", difference.NotFound,
			"no difference found in Gets per second (95 % CI −1.0 to +1.1 %, 20 runs each; " +
				"middle runs 1,021 and 1,021)", group("a", 20, 1000), group("b", 20, 1000.5)},
		{"an interval wider than the margin", "gets_per_second", difference.CannotTell,
			"Gets per second: cannot tell: needs about 11 runs each, has 10: --repeats 11 " +
				"(95 % CI −1.9 to +2.1 %, 10 runs each; middle runs 1,020 and 1,021)",
			group("a", 10, 1000), group("b", 10, 1000.5)},
		{"an interval much wider than the margin", "gets_per_second", difference.CannotTell,
			"Gets per second: cannot tell: the variance between runs is too large: measure " +
				"longer runs, or on a quieter machine " +
				"(95 % CI −40 to +67 %, 10 runs each; middle runs 1,889 and 1,891)",
			noisy("a", 10, 1000), noisy("b", 10, 1001)},
		{"device reads that no decision depends on", "device_reads_per_get", difference.NotFound,
			"no difference found in device reads per Get (at most 0.0010 either way with 95 % " +
				"confidence, 5 runs each; middle runs 0.0000 and 0.0000)",
			devices("a", 0, 0.00002, 0.00001, 0.00003, 0),
			devices("b", 0.00001, 0, 0, 0.00002, 0.00002)},
		{"one extra read in a thousand Gets", "block_reads_per_get", difference.Changed,
			"0.040 % more block reads per Get, too little to matter (exact count, 1 run each; " +
				"2.50000 and 2.50100)",
			group("a", 1, 1000), group("b", 1, 1000, moreReads(0.001))},
		{"copies of other keys", "block_reads_per_get", difference.NotFound,
			"no difference found in block reads per Get (95 % CI −0.31 to +0.39 %, sampling " +
				"error of the keys, 6 runs each; 2.50 and 2.50)",
			group("a", 6, 1000, keysOf(1, 0.002)),
			group("b", 6, 1000, keysOf(2, 0.002), moreReads(0.001))},
		{"too few other keys", "block_reads_per_get", difference.CannotTell,
			"block reads per Get: cannot tell: the key samples differ: use the same --seed on " +
				"both sides, or about 13 times as many Gets " +
				"(95 % CI −6.3 to +7.6 %, sampling error of the keys, 6 runs each; 2.50 and 2.51)",
			group("a", 6, 1000, keysOf(1, 0.04)),
			group("b", 6, 1000, keysOf(2, 0.04), moreReads(0.01))},
		{"an extra read of other keys", "block_reads_per_get", difference.Differs,
			"40 % more block reads per Get (95 % CI 36 to 44 %, sampling error of the keys, 6 " +
				"runs each; 2.50 and 3.50)",
			group("a", 6, 1000, keysOf(1, 0.02)), group("b", 6, 1000, keysOf(2, 0.02), extraRead)},
		{"keys of two databases with one seed", "block_reads_per_get", difference.NotFound,
			"no difference found in block reads per Get (95 % CI −0.31 to +0.39 %, sampling " +
				"error of the keys, 1 run each; 2.50 and 2.50)",
			group("a", 1, 1000, keysOf(1, 0.002), drawnFrom(1e9)),
			group("b", 1, 1000, keysOf(1, 0.002), drawnFrom(2e9), moreReads(0.001))},
		{"keys of copies of one database", "block_reads_per_get", difference.Changed,
			"0.040 % more block reads per Get, too little to matter (exact count, 1 run each; " +
				"2.50000 and 2.50100)",
			group("a", 1, 1000, drawnFrom(1e9)),
			group("b", 1, 1000, drawnFrom(1e9), moreReads(0.001))},
		{"one side after the other", "gets_per_second", difference.CannotTell,
			"Gets per second: cannot tell: its runs were not interleaved (middle runs 1,020 and " +
				"1,226)",
			group("a", 10, 1000, startedIn(2020)), group("b", 10, 1202, startedIn(2021))},
	} {
		result := compared(t, c.a, c.b)
		f := find(t, result, c.figure)
		if got := result.Pairs[0].Sentence(f); f.Verdict != c.verdict || got != c.sentence {
			t.Errorf("%s: %s\n got %s\nwant %s", c.name, f.Verdict, got, c.sentence)
		}
	}
}

func TestDifferentConditionsAreRefused(t *testing.T) {
	a := group("a", 1, 1000)
	b := group("b", 1, 1000, func(r *result.Run) {
		r.Workload.Keys, r.PageCache, r.Host.CPU = 2000, "cold", "Other"
	})
	_, err := Sides([]Side{a, b}, Options{Margin: difference.Margin})
	const want = "a and b were measured under different conditions: keys (1000 and 2000), " +
		"page-cache (direct and cold), cpu (Example and Other). " +
		"Measure both alike, or compare them all the same with --allow keys,page-cache,cpu"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}

	c, err := Sides(
		[]Side{a, b},
		Options{Allow: []string{"keys", "page-cache", "cpu"}, Margin: difference.Margin},
	)

	if err != nil || len(c.Pairs[0].Allowed) != 3 {
		t.Errorf("%+v, %v", c, err)
	}

	replay := group("r", 1, 1, func(r *result.Run) { r.Changes = &result.ChangeSet{} })
	if _, err := Sides([]Side{a, replay}, Options{}); err == nil ||
		!strings.Contains(err.Error(), "r holds a replay of changes into state trees") {
		t.Error(err)
	}

	// What people compare is no condition, and is named.
	c = compared(t, a,
		group("b", 1, 1000,
			func(r *result.Run) { r.Engine.Name, r.Workload.Threads = "rocksdb", 4 }))
	if got := c.Pairs[0].differing(); got != "They differ in engine (pebble1 and rocksdb), "+
		"threads (1 and 4)." {
		t.Error(got)
	}

	// Writers have conditions of their own.
	writes := func(rate float64) func(*result.Run) {
		return func(r *result.Run) { r.Figures.Puts, r.Workload.WriteRate = 10, rate }
	}
	_, err = Sides(
		[]Side{group("a", 1, 1, writes(5)), group("b", 1, 1, writes(6))},
		Options{Margin: difference.Margin},
	)

	if err == nil || !strings.Contains(err.Error(), "write-rate (5 and 6)") {
		t.Error(err)
	}
}

func TestSweepsAreMatchedByTheirAxes(t *testing.T) {
	sweep := func(name string, axes ...map[string]string) Side {
		s := Side{Name: name}
		for _, a := range axes {
			g := group("", 1, 1000).Groups[0]
			g.Axes = a
			s.Groups = append(s.Groups, g)
		}

		return s
	}

	at := func(engine, cache string) map[string]string {
		return map[string]string{"engine": engine, "cache": cache}
	}
	c := compared(t, sweep("a", at("pebble1", "1%"), at("pebble1", "2%")),
		sweep("b", at("pebble2", "2%"), at("pebble2", "4%")))
	if len(c.Pairs) != 1 || c.Pairs[0].At != "cache 2%" || len(c.Unmatched) != 2 {
		t.Errorf("%+v", c)
	}

	sides, err := sweep("s", at("pebble1", "1%"), at("pebble2", "1%"), at("rocksdb", "1%")).
		Split("engine")
	if err != nil || len(sides) != 3 || sides[2].Name != "engine rocksdb" {
		t.Errorf("%+v, %v", sides, err)
	}

	if _, err := sweep("s", at("pebble1", "1%")).Split("engine"); err == nil ||
		!strings.Contains(err.Error(), "two are needed (its axes: cache, engine)") {
		t.Error(err)
	}
}

// testdata/noise.csv has 430 real runs of one configuration on a busy machine. In windows
// of twenty, run in the order of compare --run (A B, B A, ...), at most 5 % of the pairs
// of ten may be called different in any figure; nor where the order is random, which
// drift of the machine does not balance.
func TestNothingInCommon(t *testing.T) {
	layouts := group("L", 1, 100, func(r *result.Run) { r.Figures.State = new(result.State) })
	layouts.Groups[0].Axes = map[string]string{"layout": "flat", "accounts": "10"}
	sweep, other := group("S", 1, 100), group("T", 1, 100)
	more := sweep.Groups[0]
	sweep.Groups[0].Axes, more.Axes = map[string]string{"cache": "1MiB"},
		map[string]string{"cache": "2MiB"}
	other.Groups[0].Axes = map[string]string{"cache": "4MiB"}
	sweep.Groups = append(sweep.Groups, more)
	for want, with := range map[string]Side{
		"S holds operations of engines, L holds lookups in state layouts": layouts,
		"cache 4MiB (T only). Measure one of these settings in both; --":  other,
	} {
		if _, err := Sides([]Side{sweep, with}, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestFalseAlarmsOfRealNoise(t *testing.T) {
	f, err := os.Open("testdata/noise.csv")
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	reader := csv.NewReader(f)
	reader.Comment = '#'
	rows, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	var runs []*result.Run
	for _, row := range rows[1:] {
		v := make([]float64, len(row))
		for i := range row {
			if v[i], err = strconv.ParseFloat(row[i], 64); err != nil {
				t.Fatal(err)
			}
		}

		runs = append(runs, made(v[0], func(r *result.Run) {
			r.Workload.Threads = 2
			r.Figures.ServiceNanos = &result.Latency{P50: int64(v[1]), P99: int64(v[2])}
			r.Figures.Record(figure.CPUTimePerGet, v[3])
			r.Figures.Record(figure.DeviceReadsPerGet, v[4])
		}))
	}

	turns := func(i int) int { return (i + i/2) % 2 }
	for name, c := range map[string]struct {
		order func(i int) int
		loads int
	}{
		"in turns":          {turns, 1},
		"at random":         {nil, 1},
		"in turns on loads": {turns, 5},
	} {
		t.Run(name, func(t *testing.T) { falseAlarms(t, runs, c.order, c.loads) })
	}
}

func falseAlarms(t *testing.T, runs []*result.Run, order func(int) int, loads int) {
	const pairs, each = 200, 10
	rng := rand.New(rand.NewPCG(1, 2))
	alarms := 0
	for n := range pairs {
		window := slices.Clone(runs[2*n : 2*n+2*each])
		if order == nil {
			rng.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
		}

		sides := []Side{
			{Name: "a", Groups: []Group{{All: each}}},
			{Name: "b", Groups: []Group{{All: each}}},
		}

		for i, run := range window {
			side := &sides[i/each].Groups[0]
			if order != nil {
				side = &sides[order(i)].Groups[0]
			}

			if loads > 1 {
				of := *run
				of.Database.Dir = fmt.Sprint(order(i), i/2%loads)
				run = &of
			}

			side.Runs = append(side.Runs, run)
		}

		for _, f := range compared(t, sides...).Pairs[0].Figures {
			if f.Certain() {
				alarms++
				break
			}
		}
	}

	t.Logf("%d false alarms in %d pairs", alarms, pairs)
	if alarms > pairs*5/100 {
		t.Errorf("%d of %d pairs of one configuration are called different", alarms, pairs)
	}
}

func TestLimits(t *testing.T) {
	more := compared(t, group("a", 1, 1000), group("b", 1, 1000, extraRead))
	for text, want := range map[string]string{
		"block_reads_per_get > +2%":  "40 % more block reads per Get",
		"block-reads-per-get > +0.5": "40 % more block reads per Get",
		"block_reads_per_get > +50%": "",
		"block_reads_per_get > +1.5": "",
		"block_reads_per_get < -2%":  "",
		"gets_per_second < -2%":      "cannot tell",
		"leaves_per_second < -2%":    "do not have this figure",
	} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}

		got := strings.Join(more.Failures(l), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}

	// An interval that reaches beyond the limit cannot tell that it is kept; one that does not,
	// can.
	wide := compared(t, noisy("a", 10, 1000), noisy("b", 10, 1001))
	for text, want := range map[string]string{
		"gets_per_second < -10%":  "cannot tell",
		"gets_per_second < -50%":  "",
		"gets_per_second > +100%": "",
	} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}

		got := strings.Join(wide.Failures(l), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) ||
			wide.Known([]Limit{l}) != (want == "") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}

	for text, want := range map[string]string{
		"x":                       "no > or <",
		"reads > 2%":              `unknown figure "reads"`,
		"gets_per_second < fast":  `invalid change "fast"`,
		"block_reads_per_get > 2": "needs a sign: +2, or -2",
	} {
		if _, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A page shows names as text; folders are read from disk as they are written.
func TestFoldersAndPage(t *testing.T) {
	var dirs []string
	for i, name := range []string{"a", `b <script>"x"`} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		run := made(1000)
		if i == 1 {
			extraRead(run)
		}

		if err := result.WriteRun(dir, run); err != nil {
			t.Fatal(err)
		}

		dirs = append(dirs, dir)
	}

	var sides []Side
	for _, dir := range dirs {
		side, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		sides = append(sides, side)
	}

	c := compared(t, sides...)
	var page, text, bench bytes.Buffer
	for _, err := range []error{render.Page(&page, c.Document()),
		render.Terminal(&text, c.Document()), c.Bench(&bench)} {
		if err != nil {
			t.Fatal(err)
		}
	}

	if strings.Contains(page.String(), "<script>\"x\"") ||
		!strings.Contains(page.String(), "b &lt;script&gt;") {
		t.Error("the page does not escape a name")
	}

	if !strings.Contains(strings.Join(strings.Fields(text.String()), " "),
		"Worse: block reads per Get. Cannot tell: device reads per Get, ") {
		t.Error(text.String())
	}

	if got := strings.Count(bench.String(),
		"\nBenchmarkReadrandom/threads=1 1000 2.5 block-reads/op"); got != 1 {
		t.Error(bench.String())
	}

	if _, err := Open(t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "is not a folder of results") {
		t.Error(err)
	}
}

// What the sides differ in is not in the names of their benchmarks: benchstat compares equal
// names.
func TestBenchmarksOfBothSidesHaveOneName(t *testing.T) {
	side := func(engine, threads string) Side {
		g := group(engine, 1, 1000)
		s := Side{Name: engine}
		for _, cache := range []string{"1MiB", "2MiB"} {
			axes := map[string]string{
				"engine":  engine,
				"cache":   cache,
				"keys":    "1k",
				"threads": threads,
			}

			s.Groups = append(s.Groups, Group{Axes: axes, Runs: g.Groups[0].Runs, All: 1})
		}

		return s
	}

	for _, c := range []struct{ threads, name string }{
		{"1", "BenchmarkReadrandom/threads=1/cache=1MiB "},
		{"2", "BenchmarkReadrandom/cache=1MiB "},
	} {
		var out strings.Builder
		compared := Comparison{sides: []Side{side("pebble1", "1"), side("pebble2", c.threads)}}
		if err := compared.Bench(&out); err != nil {
			t.Fatal(err)
		}

		if strings.Count(out.String(), c.name) != 2 ||
			!strings.HasPrefix(out.String(), "keys: 1k\nside: pebble1\n") {
			t.Errorf("%s", out.String())
		}
	}
}

// A comparison shows the run that a sweep of the same runs shows.
func TestMiddleRunIsThatOfASweep(t *testing.T) {
	two := group("two", 2, 1000)
	two.Groups[0].Runs[1].Figures.Record(figure.GetsPerSecond, 3000)
	shown, _ := result.RepresentativeRun(two.Groups[0].Runs)
	f := find(t, compared(t, two, group("b", 2, 1000)), "gets_per_second")
	if f.A != 1000 || f.A != shown.Figures.OrZero(figure.GetsPerSecond) {
		t.Errorf("compare shows %v, a sweep %v", f.A, shown.Figures.OrZero(figure.GetsPerSecond))
	}

	rows := Boards([]Side{two})[2].Rows
	if rows[0].Middle != 1000 {
		t.Errorf("a board shows %v", rows[0].Middle)
	}
}

// Two databases that are told apart are not told in the same words.
func TestShapesDiffer(t *testing.T) {
	at := func(bytes int64, files int) result.Database {
		return result.Database{Bytes: bytes, Files: files}
	}
	for _, c := range []struct {
		a, b result.Database
		want string
	}{
		{at(44<<20, 22), at(46<<20, 23), "44 MiB in 22 files and 46 MiB in 23 files"},
		{at(44<<20, 22), at(44<<20+9, 22), "46,137,344 bytes in 22 files and 46,137,353 bytes in " +
			"22 files"},
	} {
		if got := shapes(c.a, c.b); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// testdata/seeds.csv has the counts of 200 seeds of one configuration, and the error that each run
// gave its own. The counts scatter as the errors say; of pairs of seeds, each repeated, at most 5 %
// are called different; the same pairs are told apart where a cache saves a tenth of the reads. A
// seed with itself shows an extra read in a thousand Gets.
func TestErrorsOfKeysAreThoseOfOtherSeeds(t *testing.T) {
	f, err := os.Open("testdata/seeds.csv")
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	reader := csv.NewReader(f)
	reader.Comment = '#'
	rows, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}

	of := func(row []string, times float64) Side {
		return group(row[0], 6, 1000, keysOf(uint64(number(row[0])), number(row[2])*times),
			func(r *result.Run) { r.Figures.Record(figure.BlockReadsPerGet, number(row[1])*times) })
	}

	var sum, squares, errors, n float64
	alarms, missed := 0, 0
	for i, row := range rows[1:] {
		reads, chance := number(row[1]), number(row[2])
		sum, squares, errors, n = sum+reads, squares+reads*reads, errors+chance*chance, n+1
		if i%2 == 0 {
			continue
		}

		before := of(rows[i], 1)
		if find(t, compared(t, before, of(row, 1)), "block_reads_per_get").Certain() {
			alarms++
		}

		if better := find(t, compared(t, before, of(row, .9)),
			"block_reads_per_get").Better; better == nil || !*better {
			missed++
		}

		extra := find(t,
			compared(t, before, group("", 6, 1000, keysOf(uint64(number(rows[i][0])), 0),
				func(r *result.Run) {
					r.Figures.Record(figure.BlockReadsPerGet,
						number(rows[i][1])+.001)
				})), "block_reads_per_get")

		if extra.Verdict != difference.Changed || !extra.Within {
			t.Errorf("an extra read in a thousand Gets: %+v", extra)
		}
	}

	scatter := math.Sqrt((squares - sum*sum/n) / (n - 1))
	if said := math.Sqrt(errors / n); said < .8*scatter || said > 1.5*scatter {
		t.Errorf("the errors are %.5f, the counts scatter by %.5f", said, scatter)
	}

	if alarms > 5 || missed > 5 {
		t.Errorf("of 100 pairs %d are called different, and %d with a tenth fewer reads are not "+
			"called better", alarms, missed)
	}
}
