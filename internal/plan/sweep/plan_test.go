package sweep

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

func TestSettingsAreTheProductOfTheAxes(t *testing.T) {
	p := Sweep{Axes: []result.Axis{
		{Name: EngineAxis, Values: []string{"pebble1", "pebble2"}},
		{Name: HandlesAxis, Values: []string{"500"}},
		{Name: OptionAxis + "MemTableSize", Values: []string{"4MiB"}},
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
		spec := p.Spec(s, 1000<<20)
		got = append(got, strings.Join([]string{s.Values["engine"], s.Values["handles"], s.Values["cache"]}, " "))
		if spec.Engine != s.Values["engine"] || spec.Handles != 500 || spec.CacheAsked != s.Values["cache"] ||
			spec.Overrides["MemTableSize"] != s.Values["set.MemTableSize"] {
			t.Errorf("spec %+v of %v", spec, s.Values)
		}
	}
	want := []string{"pebble1 500 0.5%", "pebble1 500 64MiB", "pebble1 500 1GiB", "pebble2 500 0.5%", "pebble2 500 64MiB", "pebble2 500 1GiB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, bytes := range []int64{5 << 20, 64 << 20, 1 << 30} {
		if got := p.Spec(settings[i], 1000<<20).CacheBytes; got != bytes {
			t.Errorf("cache %s of 1000 MiB is %d bytes, want %d", settings[i].Values["cache"], got, bytes)
		}
	}
}

func TestNoAxisIsOnePoint(t *testing.T) {
	settings, err := Sweep{Base: bench.Spec{Threads: 3}}.Settings()
	if err != nil || len(settings) != 1 || (Sweep{Base: bench.Spec{Threads: 3}}).Spec(settings[0], 0).Threads != 3 {
		t.Errorf("%+v, %v", settings, err)
	}
}

// TestOrderIsABBA: a drift of the machine hits every setting alike, since the
// mean place of all settings in the order is the same.
func TestParseCache(t *testing.T) {
	for _, c := range []struct {
		text  string
		bytes int64
		share float64
		wrong string
	}{
		{"64MiB", 64 << 20, 0, ""},
		{"64M", 64 << 20, 0, ""},
		{"1048576", 0, 0, "add a unit (examples: 64MiB, 0.1%)"},
		{"0.1%", 0, 0.001, ""},
		{"100%", 0, 1, ""},
		{" 2 % ", 0, 0.02, ""},
		{"0%", 0, 0, "at most 100%"},
		{"101%", 0, 0, "at most 100%"},
		{"-1%", 0, 0, "invalid percentage"},
		{"0", 0, 0, "(examples: 64MiB, 0.1%)"},
		{"3q", 0, 0, "(examples: 64MiB, 0.1%)"},
		{"", 0, 0, "(examples: 64MiB, 0.1%)"},
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
	errs := Sweep{Axes: []result.Axis{
		{Name: CacheAxis, Values: []string{"1MiB", "3q"}},
		{Name: ThreadsAxis, Values: []string{"0", "x", "8"}},
		{Name: HandlesAxis, Values: []string{}},
		{Name: "colour", Values: []string{"red"}},
	}}.Check()
	text := errors.Join(errs...).Error()
	for _, want := range []string{`--cache: invalid cache size "3q"`, `--threads: invalid number "0"`, `--threads: invalid number "x"`, "--handles is empty",
		`no axis is called "colour"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if len(errs) != 5 {
		t.Errorf("%d mistakes:\n%s", len(errs), text)
	}
}

func TestBareNumbersOfStoredPlansAreBytes(t *testing.T) {
	plan := Sweep{Axes: []result.Axis{{Name: CacheAxis, Values: []string{"1048576"}}, {Name: MemoryAxis, Values: []string{"2097152"}}}}
	if errs := plan.Check(); len(errs) != 2 {
		t.Errorf("typed without a unit: %v", errs)
	}
	settings, err := plan.Settings()
	if err != nil || settings[0].CacheBytes != 1<<20 || settings[0].MemoryBytes != 2<<20 {
		t.Errorf("%v, %v", settings, err)
	}
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
