package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/result"
)

func TestEveryGetIsRecordedOnce(t *testing.T) {
	for _, rate := range []float64{0, 200_000} {
		t.Run(fmt.Sprintf("rate %v", rate), func(t *testing.T) {
			s, spec := loaded(t)
			s.gets.Store(0)
			spec.Rate, spec.MissingShare = rate, 0.25
			run := runOn(t, s, spec)
			f := run.Figures
			if calls := uint64(s.gets.Load()); calls != spec.Gets || f.Gets != calls ||
				f.Found+f.Missing != calls {
				t.Errorf("%d calls of %d, %d Gets in run.json, %d found and %d missing", calls,
					spec.Gets, f.Gets, f.Found, f.Missing)
			}

			if f.ServiceNanos.N != spec.Gets {
				t.Errorf("%d service times", f.ServiceNanos.N)
			}

			if rate > 0 && (f.ResponseNanos == nil || f.ResponseNanos.N != spec.Gets) {
				t.Errorf("response times %+v", f.ResponseNanos)
			}

			if phase := run.Phases[len(run.Phases)-1]; phase.Name != "close" {
				t.Errorf("the last phase is %s", phase.Name)
			}
		})
	}
}

// TestARateThatIsNotSustained is told of: no engine answers a Get in two nanoseconds.
func TestARateThatIsNotSustained(t *testing.T) {
	const code = "rate_not_sustained"
	for rate, want := range map[float64]bool{0: false, 1e9: true} {
		s, spec := loaded(t)
		spec.Rate = rate
		run := runOn(t, s, spec)
		if told := slices.ContainsFunc(run.Warnings, func(w engine.Warning) bool {
			return w.Code == code
		}); told != want {
			t.Errorf("%v Gets/s: %+v", rate, run.Warnings)
		}
	}
}

func TestSustained(t *testing.T) {
	for _, c := range []struct {
		what                          string
		offered, achieved, gets, late float64
		want                          bool
	}{
		{"as offered", 1000, 999, 10_000, 1e-4, true},
		{"a tenth is missing: of 10 s, the last Get is late by one, the mean one by half of that",
			1000, 900, 9000, 0.5, false},
		{"half is missing", 1000, 500, 5000, 2.5, false},
		{"100 Gets in time, of which the last took 10 ms", 1000, 917, 100, 1e-4, true},
		{"a stall that was made up for", 1000, 990, 10_000, 0.3, true},
	} {
		if got := sustained(c.offered, c.achieved, c.gets, c.late); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestSameSeedSameGets: what is asked depends on the seed alone.
func TestSameSeedSameGets(t *testing.T) {
	s, spec := loaded(t)
	spec.MissingShare = 0.25
	first := runOn(t, s, spec).Figures.Missing
	if again := runOn(t, s, spec).Figures.Missing; again != first {
		t.Errorf("%d missing, then %d", first, again)
	}

	spec.Seed = 2
	if other := runOn(t, s, spec).Figures.Missing; other == first {
		t.Errorf("%d missing with two seeds", other)
	}
}

func TestAFailedGetFailsTheRun(t *testing.T) {
	s, spec := loaded(t)
	begin := s.gets.Load()
	s.onGet = func(call int64, _, value []byte, found bool) ([]byte, bool, error) {
		if call == begin+5000 {
			return nil, false, errors.New("disk on fire")
		}
		return value, found, nil
	}

	spec.Gets = 1 << 40 // which do not end unless the other threads stop, too
	run, err := Run(context.Background(), s, spec, func(result.Event) {})
	if err == nil || run.Status != result.Failed || !strings.Contains(run.Error, "get key ") ||
		!strings.Contains(run.Error, "disk on fire") {
		t.Errorf("%s: %s (%v)", run.Status, run.Error, err)
	}

	stored, err := result.ReadRun(spec.Out)
	if err != nil || stored.Error != run.Error {
		t.Errorf("stored: %+v, %v", stored, err)
	}
}

// TestWarmUpEndsWhenTheReadsPerGetAreSteady: the last quarter of all windows has to
// read what the quarter before it read, within 1 % and chance.
func TestWarmUpEndsWhenTheReadsPerGetAreSteady(t *testing.T) {
	const window = 5_000 // the least there is
	for _, c := range []struct {
		name    string
		reads   func(window int64) int64
		windows int
		ended   string
		rule    string
	}{
		{"steady at once", func(int64) int64 { return 2 }, 8, result.WarmupSteady,
			"until steady: 8 windows of 5000 Gets"},
		{"steady after seven", func(w int64) int64 { return max(1, 7-w) }, 10, result.WarmupSteady,
			"1.0000 in the quarter before"},
		{"never", func(w int64) int64 { return 1 + w }, 64, result.WarmupGivenUp,
			"given up after 64 windows"},
		{"no reads", func(int64) int64 { return 0 }, 8, result.WarmupSteady,
			"0.0000 block reads per Get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, spec := loaded(t)
			begin := s.gets.Load()
			s.reads = func(call int64) int64 { return c.reads((call - begin - 1) / window) }
			spec.WarmupAuto, spec.Threads, spec.Gets = true, 1, 1000
			run := runOn(t, s, spec)
			w := run.Workload.Warmup
			if w == nil || w.Windows != c.windows ||
				run.Workload.WarmupGets != uint64(c.windows)*window || w.Ended != c.ended {
				t.Fatalf("%d Gets, %+v, want %d windows, %s", run.Workload.WarmupGets, w,
					c.windows, c.ended)
			}

			if !strings.Contains(run.Workload.WarmupRule, c.rule) {
				t.Errorf("rule %q, want %q", run.Workload.WarmupRule, c.rule)
			}

			for i, reads := range w.ReadsPerGet[engine.Data.String()] {
				if want := float64(c.reads(int64(i))); reads != want {
					t.Errorf("window %d: %v reads per Get, want %v", i, reads, want)
				}
			}

			warned := slices.ContainsFunc(run.Warnings, func(w engine.Warning) bool {
				return w.Code == "not_steady"
			})
			if warned != (c.ended == result.WarmupGivenUp) {
				t.Errorf("warnings %+v", run.Warnings)
			}
		})
	}
}

// A type that falls as another rises is no steady state, whatever their sum.
func TestSteadyOfEveryType(t *testing.T) {
	w, counts := &result.Warmup{WindowGets: 100_000}, warmCounts{}
	for range minWarmWindows {
		w.Windows++
		counts.add(map[string]int64{
			"data":  90_000 + 2000*int64(w.Windows),
			"index": 90_000 - 2000*int64(w.Windows),
		}, w)
	}

	if counts.steady(w) || math.Abs(w.Last-1.8) > 1e-9 || math.Abs(w.Before-1.8) > 1e-9 {
		t.Errorf("%+v is called steady", w)
	}

	for range 4 * minWarmWindows {
		w.Windows++
		counts.add(map[string]int64{"data": 98_000, "index": 82_000, "filter": 50}, w)
	}

	if !counts.steady(w) || len(w.ReadsPerGet["filter"]) != w.Windows ||
		w.ReadsPerGet["filter"][0] != 0 {
		t.Errorf("%+v is not called steady", w)
	}
}

func TestWarmUpOfAGivenNumber(t *testing.T) {
	s, spec := loaded(t)
	s.gets.Store(0)
	spec.WarmupGets, spec.WarmupRule = 2500, "a count"
	run := runOn(t, s, spec)
	if run.Workload.WarmupGets != 2500 || s.gets.Load() != 2500+int64(spec.Gets) ||
		run.Figures.Gets != spec.Gets {
		t.Errorf("warm-up %d, calls %d, measured %d", run.Workload.WarmupGets, s.gets.Load(),
			run.Figures.Gets)
	}
}

// TestAnInterruptKeepsWhatWasMeasured: the figures are those of the Gets so far.
func TestAnInterruptKeepsWhatWasMeasured(t *testing.T) {
	s, spec := loaded(t)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	begin := s.gets.Load()
	s.onGet = func(call int64, _, value []byte, found bool) ([]byte, bool, error) {
		if call == begin+3000 {
			cancel(stopped)
		}
		return value, found, nil
	}

	spec.Rate, spec.Gets = 20_000, 1_000_000
	run, err := Run(ctx, s, spec, func(result.Event) {})
	if !errors.Is(err, stopped) || run.Status != result.Interrupted {
		t.Errorf("%s, %v", run.Status, err)
	}

	if f := run.Figures; f.Gets < 3000 || f.Gets > 100_000 || f.ServiceNanos.N != f.Gets {
		t.Errorf("%d Gets, %+v", f.Gets, f.ServiceNanos)
	}
}

func TestOverwrittenValuesAreAcceptedInEveryVersion(t *testing.T) {
	s, spec := loaded(t)
	spec.Workload, spec.Puts, spec.Threads = workload.Overwrite, 5000, 1
	if f := runOn(t, s, spec).Figures; f.Puts != 5000 || f.PutNanos.N != 50 {
		t.Errorf("%d puts in %d commits", f.Puts, f.PutNanos.N)
	}

	m, err := keyspace.ReadManifest(spec.Dir)
	if err != nil || m.MaxVersion != 1 {
		t.Fatalf("%+v, %v", m, err)
	}

	spec.Workload = workload.ReadWhileWriting
	begin, written := s.gets.Load(), s.commits.Load()
	s.onGet = func(call int64, _, value []byte, found bool) ([]byte, bool, error) {
		for call == begin+1 && s.commits.Load() == written { // until the writer has come in
			time.Sleep(time.Millisecond)
		}
		return value, found, nil
	}

	f := runOn(t, s, spec).Figures
	if f.Found != spec.Gets || f.Puts == 0 {
		t.Errorf("%d of %d found while %d were written", f.Found, spec.Gets, f.Puts)
	}
}

// TestALostUpdateFailsTheRun: an engine that goes on returning what a key was before an
// acknowledged commit is wrong, also while others write.
func TestALostUpdateFailsTheRun(t *testing.T) {
	for _, stale := range []bool{false, true} {
		s, spec := loaded(t)
		before, begin, loading := maps.Clone(s.pairs), s.gets.Load(), s.commits.Load()
		s.onGet = func(call int64, key, value []byte, found bool) ([]byte, bool, error) {
			for call == begin+1 && s.commits.Load() < loading+100 { // of 100 keys each
				time.Sleep(time.Millisecond)
			}

			if stale {
				value = before[string(key)]
			}

			return value, found, nil
		}

		spec.Workload, spec.Threads = workload.ReadWhileWriting, 1
		run, err := Run(context.Background(), s, spec, func(result.Event) {})
		if !stale && err != nil ||
			stale &&
				!strings.Contains(run.Error, "lost update: version 0 of the value, but version 1 "+
					"was acknowledged before the Get") {
			t.Errorf("stale %v: %v", stale, err)
		}
	}
}

func TestALoadThatLostKeysIsNoticed(t *testing.T) {
	s, spec := loaded(t)
	for key := range s.pairs {
		delete(s.pairs, key)
		break
	}

	spec.Verb, spec.Resume, spec.Workload = Load, true, workload.FillRandom
	spec.Gets = 0
	// 2,000 Gets ask for the same sixth of the keys every time: lose keys until one is among them.
	for range 200 {
		if _, err := Run(context.Background(), s, spec, func(result.Event) {}); err != nil {
			if !strings.Contains(err.Error(), "verify: get key ") {
				t.Error(err)
			}
			return
		}

		for key := range s.pairs {
			delete(s.pairs, key)
			break
		}
	}

	t.Error("200 of 10,000 keys are gone and verify saw none missing")
}

func TestFullDiskNamesTheWayOut(t *testing.T) {
	s, spec := loaded(t)
	begin := s.gets.Load()
	s.onGet = func(call int64, _, value []byte, found bool) ([]byte, bool, error) {
		if call == begin+1 {
			return nil, false, fmt.Errorf("write: %w", unix.ENOSPC)
		}
		return value, found, nil
	}

	_, err := Run(context.Background(), s, spec, func(result.Event) {})
	var f *engine.Failure
	if !errors.As(err, &f) || f.Code != engine.CodeDiskFull ||
		f.Remedy != "free some space and do it again" {
		t.Errorf("%v: %+v", err, f)
	}

	if _, err := os.Stat(filepath.Join(spec.Out, result.RunFile)); err != nil {
		t.Error(err)
	}
}

func TestFiguresOfMemoryAloneCarryAWarning(t *testing.T) {
	// the shelf's 10,000 bytes exceed its cache of 4096
	for reads, want := range map[int64]bool{0: true, 1: false} {
		s, spec := loaded(t)
		s.reads = func(int64) int64 { return reads }
		run := runOn(t, s, spec)
		at := slices.IndexFunc(run.Warnings, func(w engine.Warning) bool {
			return w.Code == "fits_in_memory"
		})
		if (at >= 0) != want || want && !strings.Contains(run.Warnings[at].Remedy, "--cache") {
			t.Errorf("%d reads a Get: warnings %+v", reads, run.Warnings)
		}
	}

	if got := fits(100, 100, 7, "the cache"); !strings.Contains(got,
		"100 B is smaller than the cache of 100 B") {
		t.Errorf("a database as large as the cache: %q", got)
	}

	if got := fits(101, 100, 7, "the cache") + fits(0, 100, 7, "the cache"); got != "" {
		t.Errorf("a larger database, or one of unknown size: %q", got)
	}
}

// TestAnotherEnginesDatabase: neither a read nor a load that starts again touches
// files that another engine has put where ours were.
func TestAnotherEnginesDatabase(t *testing.T) {
	s, spec := loaded(t)
	theirs := filepath.Join(spec.Dir, "marker.format-version.000001.013")
	if err := os.WriteFile(theirs, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}

	m, err := keyspace.ReadManifest(spec.Dir)
	if err != nil {
		t.Fatal(err)
	}

	m.Loaded = 0 // what there is would be removed
	if err := keyspace.WriteManifest(spec.Dir, m); err != nil {
		t.Fatal(err)
	}

	for _, verb := range []string{Read, Load} {
		spec.Verb, spec.Resume, spec.Out = verb, true, t.TempDir()
		if _, err := Run(context.Background(), s, spec, func(result.Event) {}); err == nil ||
			!strings.Contains(err.Error(), "of pebble2, not of shelf") {
			t.Errorf("%s: %v", verb, err)
		}
	}

	if text, err := os.ReadFile(theirs); err != nil || string(text) != "theirs" {
		t.Errorf("%q, %v", text, err)
	}
}
