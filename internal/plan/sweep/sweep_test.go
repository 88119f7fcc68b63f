package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

const databaseBytes = 1000 << 20

// laboratory stands in for runner processes: it answers each spec as a runner
// would, from a formula, and notes what it was asked.
type laboratory struct {
	measured []string // cache of each read, in order
	inspects int
	loads    []bench.Spec
	accesses []map[string]float64                    // what each read was told
	outcome  func(spec *bench.Spec, run *result.Run) // changes the answer
}

func (l *laboratory) Do(
	_ context.Context, job runners.Job, tell result.EventFunc,
) (*result.Run, error) {
	spec := job.Spec.(*bench.Spec)
	answer := bench.Blank(spec, "1")
	answer.Status = result.OK
	answer.Host.Kernel = "6"
	answer.Database.Bytes = databaseBytes
	tell(result.Event{Phase: "measure"})
	switch spec.Verb {
	case bench.Inspect:
		l.inspects++
	case bench.Load:
		l.loads = append(l.loads, *spec)
		m := &keyspace.Manifest{
			Engine:     spec.Engine,
			Keys:       spec.Keys,
			Loaded:     spec.Keys,
			Settled:    true,
			KeyBytes:   32,
			KeyOrder:   keyspace.Hashed,
			KeyHash:    keyspace.Mix,
			ValueModel: keyspace.Random,
			ValueBytes: 10,
		}

		if err := keyspace.WriteManifest(spec.Dir, m); err != nil {
			return nil, err
		}
	case bench.Read:
		l.measured = append(l.measured, spec.CacheAsked)
		l.accesses = append(l.accesses, spec.Accesses)
		reads := 1 + float64(100<<20)/float64(spec.CacheBytes)
		answer.Figures = result.Figures{
			Set: figure.SetOf(map[figure.Figure]float64{
				figure.BlockReadsPerGet: reads,
			}),
			Gets:                      spec.Gets,
			BlockAccessesPerGetByType: map[string]float64{"data": 1},
		}
	}

	if l.outcome != nil {
		l.outcome(spec, answer)
	}

	if err := os.MkdirAll(spec.Out, 0o755); err != nil {
		return nil, err
	}

	return answer, result.WriteRun(spec.Out, answer)
}

func sweepOf(caches ...string) Sweep {
	var v setting.Value[setting.CacheSize]
	_ = setting.Axis(&v, setting.Cache).Set(strings.Join(caches, ","))
	return Sweep{
		Name: "test",
		Base: bench.Spec{Verb: bench.Read, Engine: "pebble1", Dir: "somewhere", Gets: 10},
		Axes: []Axis{Caches(&v)},
	}
}

// run carries s out in the folder out.
func run(
	ctx context.Context, s Sweep, repeats int, out string, l *laboratory,
) (*result.Sweep, error) {
	how := plan.Plan{Out: out, Repeats: repeats, Seed: 1}
	work := New(s, how, l)
	_, err := plan.Run(ctx, how, work, func(plan.Progress) {})
	return work.Result, err
}

func TestRunMeasuresEveryPointOnce(t *testing.T) {
	l := new(laboratory)
	out := t.TempDir()
	done, err := run(context.Background(), sweepOf("1%", "100MiB", "2GiB"), 1, out, l)
	if err != nil || done.Status != result.OK {
		t.Fatal(err, done)
	}

	if len(l.measured) != 3 || l.inspects != 1 {
		t.Errorf("measured %v, inspected %d times", l.measured, l.inspects)
	}

	var got []string
	for _, p := range done.Points {
		got = append(got, fmt.Sprintf("%s: %d bytes, %.2f%%, %.2f reads, %s", p.Axes["cache"],
			p.CacheBytes, p.CachePercent, p.Figures.OrZero(figure.BlockReadsPerGet), p.Run))
	}

	want := []string{
		"1%: 10485760 bytes, 1.00%, 11.00 reads, points/000",
		"100MiB: 104857600 bytes, 10.00%, 2.00 reads, points/001",
		"2GiB: 2147483648 bytes, 204.80%, 1.05 reads, points/002",
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// The accesses of a Get do not depend on the cache: found once, told to the rest.
	if l.accesses[0] != nil || l.accesses[1]["data"] != 1 || l.accesses[2]["data"] != 1 {
		t.Errorf("accesses told: %v", l.accesses)
	}

	stored, err := result.ReadSweep(out)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(done.Points, stored.Points, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(result.Point{}, "Of")); diff != "" {
		t.Error(diff)
	}

	if a := stored.Answers; len(a) != 2 || a[0].CacheBytes != 2<<30 ||
		a[0].NotAtCacheBytes != 100<<20 || a[1].CacheBytes != 2<<30 {
		t.Errorf("answers %+v", a)
	}
}

func TestResumeSkipsWhatIsFinished(t *testing.T) {
	const repeats = 1
	p := sweepOf("1MiB", "2MiB", "4MiB", "8MiB")
	out := t.TempDir()
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	first := &laboratory{}
	first.outcome = func(spec *bench.Spec, run *result.Run) {
		if len(first.measured) == 3 {
			cancel(stopped)
			run.Status = result.Interrupted // the third is cut short
		}
	}

	done, err := run(ctx, p, repeats, out, first)
	if err != nil || done.Status != result.Interrupted || len(done.Points) != 2 {
		t.Fatalf("%v, %s, %d points", err, done.Status, len(done.Points))
	}

	again := p
	second := new(laboratory)
	done, err = run(context.Background(), again, repeats, out, second)
	if err != nil || done.Status != result.OK || len(done.Points) != 4 || done.Error != "" {
		t.Errorf("%v, %s (%s), %d points", err, done.Status, done.Error, len(done.Points))
	}

	if want := []string{first.measured[2]}; len(second.measured) != 2 ||
		second.measured[0] != want[0] {
		t.Errorf("first %v, then %v", first.measured, second.measured)
	}

	if second.accesses[0]["data"] != 1 {
		t.Errorf("the accesses that a finished point has found were not told: %v", second.accesses)
	}

	third := new(laboratory)
	if _, err := run(context.Background(), again, repeats, out, third); err != nil ||
		len(third.measured) != 0 {
		t.Errorf("%v: a finished sweep measured %v again", err, third.measured)
	}
}

// An interrupt in the last step leaves a sweep that is not finished.
func TestAnInterruptInTheLastStepIsNoSuccess(t *testing.T) {
	for _, caches := range [][]string{{"1MiB"}, {"1MiB", "2MiB"}} {
		ctx, cancel := context.WithCancelCause(context.Background())
		l := new(laboratory)
		l.outcome = func(spec *bench.Spec, run *result.Run) {
			if len(l.measured) == len(caches) {
				cancel(errors.New("interrupted"))
				run.Status = result.Interrupted
			}
		}

		done, err := run(ctx, sweepOf(caches...), 1, t.TempDir(), l)
		if err != nil || done.Status != result.Interrupted || len(done.Points) != len(caches)-1 {
			t.Errorf("%d points: %v, %s, %d of them", len(caches), err, done.Status,
				len(done.Points))
		}
	}
}

// A runner that ends by itself as if it were interrupted is not a success either.
func TestARunInterruptedByAnotherIsAFailure(t *testing.T) {
	l := &laboratory{outcome: func(spec *bench.Spec, run *result.Run) {
		if spec.Verb == bench.Read {
			run.Status = result.Interrupted
		}
	}}

	if done, err := run(context.Background(), sweepOf("1MiB"), 1, t.TempDir(), l); err != nil ||
		done.Status != result.Failed {
		t.Errorf("%v, %s", err, done.Status)
	}
}

func TestAFailedPointDoesNotStopTheOthers(t *testing.T) {
	l := &laboratory{outcome: func(spec *bench.Spec, run *result.Run) {
		if spec.CacheAsked == "2MiB" {
			run.Status, run.Error, run.Figures = result.Failed, "killed by signal 9",
				result.Figures{}
		}
	}}

	out := t.TempDir()
	done, err := run(context.Background(), sweepOf("1MiB", "2MiB", "4MiB"), 1, out, l)
	if err != nil || done.Status != result.Failed || done.Error != "1 of 3 runs failed" ||
		len(done.Points) != 3 {
		t.Errorf("%v, %s (%s), %d points", err, done.Status, done.Error, len(done.Points))
	}

	if p := done.Points[1]; p.Status != result.Failed || p.Error != "killed by signal 9" {
		t.Errorf("%+v", p)
	}

	well := new(laboratory)
	if done, err = run(context.Background(), sweepOf("1MiB", "2MiB", "4MiB"), 1, out,
		well); err != nil || done.Status != result.OK {
		t.Errorf("%v, %s", err, done.Status)
	}

	if diff := cmp.Diff([]string{"2MiB"}, well.measured); diff != "" {
		t.Errorf("measured again: %s", diff)
	}
}

func TestRepeatsGiveMedianAndSpread(t *testing.T) {
	n := 0
	l := &laboratory{outcome: func(spec *bench.Spec, run *result.Run) {
		if spec.Verb == bench.Read {
			reads := []float64{5, 1, 3}[n%3]
			n++
			run.Figures.Record(figure.BlockReadsPerGet, reads)
			run.Figures.Record(figure.GetsPerSecond, 100*reads)
		}
	}}

	p := sweepOf("1MiB")
	const repeats = 3
	out := t.TempDir()
	done, err := run(context.Background(), p, repeats, out, l)
	if err != nil {
		t.Fatal(err)
	}

	point := done.Points[0]
	if shown, err := result.ReadRun(filepath.Join(out, point.Run)); err != nil ||
		shown.Figures.OrZero(figure.BlockReadsPerGet) != 3 {
		t.Errorf("%s is shown as the run of these figures: %v", point.Run, err)
	}

	if point.Figures.OrZero(figure.BlockReadsPerGet) != 3 || len(point.Runs) != 3 {
		t.Errorf("%v block reads, runs %v", point.Figures.OrZero(figure.BlockReadsPerGet),
			point.Runs)
	}

	if got := point.Spread["block_reads_per_get"]; got != (result.Range{Low: 1, High: 5}) {
		t.Errorf("spread %+v", point.Spread)
	}

	if got := point.Spread["gets_per_second"]; got != (result.Range{Low: 100, High: 500}) {
		t.Errorf("spread %+v", point.Spread)
	}
}

// TestASweepLoadsItsOwnDatabases: one for each engine and number of keys.
func TestASweepLoadsItsOwnDatabases(t *testing.T) {
	l := new(laboratory)
	const repeats = 1
	p := sweepOf("1MiB", "2MiB")
	p.Base.Dir, p.Base.Profile = "", "bench-kvdb"
	p.Load = &bench.Spec{Verb: bench.Load, Keys: 5}
	p.Axes = append(axesOf(t, "engine=pebble1,pebble2", "keys=1k,2k"), p.Axes...)
	out := t.TempDir()
	if _, err := run(context.Background(), p, repeats, out, l); err != nil {
		t.Fatal(err)
	}

	dirs := map[string]bool{}
	for _, load := range l.loads {
		dirs[filepath.Base(load.Dir)] = true
		if load.Profile != "bench-kvdb" ||
			filepath.Dir(load.Dir) != filepath.Join(out, "databases") {
			t.Errorf("load %+v", load)
		}
	}

	want := map[string]bool{
		"pebble1-bench-kvdb-1000": true,
		"pebble1-bench-kvdb-2000": true,
		"pebble2-bench-kvdb-1000": true,
		"pebble2-bench-kvdb-2000": true,
	}

	if diff := cmp.Diff(want, dirs); diff != "" || len(l.loads) != 4 {
		t.Errorf("%d loads: %s", len(l.loads), diff)
	}

	if len(l.measured) != 8 {
		t.Errorf("measured %v", l.measured)
	}
}

// TestEveryValueOfAnOptionHasItsDatabase: an option may be stored in the files.
func TestEveryValueOfAnOptionHasItsDatabase(t *testing.T) {
	l := new(laboratory)
	p := sweepOf("1MiB", "2MiB")
	p.Base.Dir = ""
	p.Load = &bench.Spec{
		Verb:      bench.Load,
		Engine:    "pebble1",
		Keys:      5,
		Overrides: map[string]string{"Compression": "none"},
	}

	p.Axes = append(p.Axes, axesOf(t, "set=BlockSize=4KiB,16KiB", "set=library=/a/x.so,/b/x.so")...)
	if _, err := run(context.Background(), p, 1, t.TempDir(), l); err != nil {
		t.Fatal(err)
	}

	loads := map[string]map[string]string{}
	for _, load := range l.loads {
		loads[filepath.Base(load.Dir)] = load.Overrides
	}

	if len(loads) != 4 || len(l.loads) != 4 {
		t.Fatalf("loads %v", loads)
	}

	for _, of := range loads {
		if of["Compression"] != "none" || of["BlockSize"] == "" || of["library"] == "" {
			t.Errorf("loaded with %v", of)
		}
	}

	p.Axes = p.Axes[:2]
	const want = "pebble1-5-BlockSize=16KiB-Compression=none"
	if name := p.Settings()[1].LoadSpec(0).Dir; name != want {
		t.Errorf("a database called %s", name)
	}
}

func TestAnUnreadableDatabaseEndsTheSweep(t *testing.T) {
	l := &laboratory{outcome: func(spec *bench.Spec, run *result.Run) {
		if spec.Verb == bench.Inspect {
			run.Status, run.Error = result.Failed, "open somewhere: no such database"
		}
	}}

	done, err := run(context.Background(), sweepOf("1MiB"), 1, t.TempDir(), l)
	if err == nil || done.Status != result.Failed ||
		done.Error != "open somewhere: no such database" || len(l.measured) != 0 {
		t.Errorf("%v, %+v", err, done)
	}
}

// TestLoads: a point has several databases of its own, from seeds that no other load has; its
// repeats read them in turn, and what is there is not loaded again.
func TestLoads(t *testing.T) {
	p := sweepOf("1MiB", "2MiB")
	p.Base.Dir = ""
	p.Load = &bench.Spec{Verb: bench.Load, Engine: "pebble1", Keys: 5, Seed: 7, KeyBytes: 32,
		ValueModel: keyspace.Random, ValueBytes: 10}
	out := t.TempDir()
	how := plan.Plan{Out: out, Repeats: 6, Loads: 3, Seed: 1}
	read := map[string][]string{}
	l := &laboratory{outcome: func(spec *bench.Spec, run *result.Run) {
		if spec.Verb == bench.Read {
			dir := filepath.Base(spec.Dir)
			read[dir] = append(read[dir], filepath.Base(spec.Out))
		}
	}}

	for range 2 { // the second continues
		if _, err := plan.Run(context.Background(), how, New(p, how, l),
			func(plan.Progress) {}); err != nil {
			t.Fatal(err)
		}
	}

	for _, runs := range read {
		slices.Sort(runs)
	}

	want := map[string][]string{
		"pebble1-5":        {"000-0", "000-3", "001-0", "001-3"},
		"pebble1-5-load-2": {"000-1", "000-4", "001-1", "001-4"},
		"pebble1-5-load-3": {"000-2", "000-5", "001-2", "001-5"},
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}

	seeds := map[uint64]bool{}
	for _, load := range l.loads {
		seeds[load.Seed] = true
	}

	if len(l.loads) != 3 || len(seeds) != 3 || l.loads[0].Seed != 7 ||
		loadSeed(7, 1) == loadSeed(8, 1) {
		t.Errorf("loads with seeds %v", seeds)
	}

	steps, err := p.Steps(how, estimate.Machine{}, func(string) bool { return false }, false)
	if err != nil {
		t.Fatal(err)
	}

	loads := 0
	for _, step := range steps {
		if step.DiskBytes > 0 {
			loads++
		}
	}

	if loads != 3 {
		t.Errorf("the estimate counts %d loads, 3 expected", loads)
	}
}
