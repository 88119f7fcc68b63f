package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

func TestSettingsAreTheProductOfTheAxes(t *testing.T) {
	p := Plan{Axes: []result.Axis{
		{Name: EngineAxis, Values: []string{"pebble1", "pebble2"}},
		{Name: HandlesAxis, Values: []string{"500"}},
		{Name: CacheAxis, Values: []string{"0.5%", "64MiB", "1GiB"}},
	}}
	settings, err := p.Settings()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, s := range settings {
		if s.Number != i {
			t.Errorf("setting %d has number %d", i, s.Number)
		}
		spec := p.spec(s, 1000<<20)
		got = append(got, strings.Join([]string{s.Values["engine"], s.Values["handles"], s.Values["cache"]}, " "))
		if spec.Engine != s.Values["engine"] || spec.Handles != 500 || spec.CacheAsked != s.Values["cache"] {
			t.Errorf("spec %+v of %v", spec, s.Values)
		}
	}
	want := []string{"pebble1 500 0.5%", "pebble1 500 64MiB", "pebble1 500 1GiB", "pebble2 500 0.5%", "pebble2 500 64MiB", "pebble2 500 1GiB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, bytes := range []int64{5 << 20, 64 << 20, 1 << 30} {
		if got := p.spec(settings[i], 1000<<20).CacheBytes; got != bytes {
			t.Errorf("cache %s of 1000 MiB is %d bytes, want %d", settings[i].Values["cache"], got, bytes)
		}
	}
}

func TestNoAxisIsOnePoint(t *testing.T) {
	settings, err := Plan{Base: bench.Spec{Threads: 3}}.Settings()
	if err != nil || len(settings) != 1 || (Plan{Base: bench.Spec{Threads: 3}}).spec(settings[0], 0).Threads != 3 {
		t.Errorf("%+v, %v", settings, err)
	}
}

// TestOrderIsABBA: a drift of the machine hits every setting alike, since the
// mean place of all settings in the order is the same.
func TestOrderIsABBA(t *testing.T) {
	const settings, repeats = 7, 4
	steps := Order(settings, repeats, 1)
	places := make([]int, settings)
	seen := map[Step]bool{}
	for place, step := range steps {
		places[step.Setting] += place
		seen[step] = true
	}
	if len(steps) != settings*repeats || len(seen) != len(steps) {
		t.Errorf("%d steps, %d different", len(steps), len(seen))
	}
	for setting, sum := range places {
		if sum != places[0] {
			t.Errorf("setting %d comes at places that sum to %d, setting 0 to %d", setting, sum, places[0])
		}
	}
	if !slices.Equal(steps, Order(settings, repeats, 1)) {
		t.Error("one seed, two orders")
	}
	if slices.Equal(steps, Order(settings, repeats, 2)) {
		t.Error("two seeds, one order")
	}
	first := steps[:settings]
	if slices.IsSortedFunc(first, func(a, b Step) int { return a.Setting - b.Setting }) {
		t.Error("the first pass is not shuffled: a trend along the axis could be the machine's")
	}
}

func TestParseCache(t *testing.T) {
	for _, c := range []struct {
		text  string
		bytes int64
		share float64
		wrong string
	}{
		{"64MiB", 64 << 20, 0, ""},
		{"64M", 64 << 20, 0, ""},
		{"1048576", 1 << 20, 0, ""},
		{"0.1%", 0, 0.001, ""},
		{"100%", 0, 1, ""},
		{" 2 % ", 0, 0.02, ""},
		{"0%", 0, 0, "0.1% to 100%"},
		{"101%", 0, 0, "0.1% to 100%"},
		{"-1%", 0, 0, "no percentage"},
		{"0", 0, 0, "64MiB or 0.1%"},
		{"3q", 0, 0, "64MiB or 0.1%"},
		{"", 0, 0, "64MiB or 0.1%"},
	} {
		bytes, share, err := ParseCache(c.text)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: %v, want %q", c.text, err, c.wrong)
			}
			continue
		}
		if err != nil || bytes != c.bytes || share != c.share {
			t.Errorf("%q: %d, %v, %v", c.text, bytes, share, err)
		}
	}
}

func TestCheckNamesEveryMistake(t *testing.T) {
	errs := Plan{Axes: []result.Axis{
		{Name: CacheAxis, Values: []string{"1MiB", "3q"}},
		{Name: ThreadsAxis, Values: []string{"0", "x", "8"}},
		{Name: HandlesAxis, Values: []string{}},
		{Name: "colour", Values: []string{"red"}},
	}}.Check()
	text := errors.Join(errs...).Error()
	for _, want := range []string{`--cache: "3q"`, `--threads: "0"`, `--threads: "x"`, "--handles is empty", `no axis is called "colour"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if len(errs) != 5 {
		t.Errorf("%d mistakes:\n%s", len(errs), text)
	}
}

func TestPlanIsReadBack(t *testing.T) {
	dir := t.TempDir()
	want := Plan{Schema: PlanSchema, Name: "mine", Command: []string{"statelab", "sweep"}, Base: bench.Spec{Engine: "pebble2", Gets: 7},
		Axes: []result.Axis{{Name: CacheAxis, Values: []string{"1MiB"}}}, Repeats: 3, Seed: 9}
	if err := WritePlan(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadPlan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, wrong := range map[string]string{
		"{":                            "damaged",
		`{"schema":"statelab.plan/9"}`: "this version reads",
		`{"schema":"statelab.plan/1","repeats":1,"axes":[{"name":"threads","values":["none"]}]}`: "--threads",
	} {
		if err := os.WriteFile(filepath.Join(dir, PlanFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPlan(dir); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
	if _, err := ReadPlan(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no sweep to resume") {
		t.Error(err)
	}
}

// FuzzPlan: a plan from a folder that lies is refused or makes legal settings.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"schema":"statelab.plan/1","axes":[{"name":"cache","values":["1%","64MiB"]},{"name":"threads","values":["1","8"]}],"repeats":2}`))
	f.Add([]byte(`{"schema":"statelab.plan/1","axes":[{"name":"keys","values":["20B"]}],"repeats":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, PlanFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := ReadPlan(dir)
		if err != nil {
			return
		}
		settings, err := p.Settings()
		if err != nil {
			t.Fatalf("read without an error, but: %v", err)
		}
		if p.Repeats < 1 || len(Order(len(settings), p.Repeats, p.Seed)) != len(settings)*p.Repeats {
			t.Fatalf("%d settings, %d repeats", len(settings), p.Repeats)
		}
	})
}

func FuzzParseCache(f *testing.F) {
	for _, text := range []string{"64MiB", "0.1%", "1e3", "-5", "9999999999TiB", "NaN%", "%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bytes, share, err := ParseCache(text)
		if err == nil && (bytes > 0) == (share > 0) {
			t.Fatalf("%q: %d bytes and a share of %v", text, bytes, share)
		}
		if err == nil && (bytes < 0 || !(share <= 1)) {
			t.Fatalf("%q: %d bytes, a share of %v", text, bytes, share)
		}
	})
}
