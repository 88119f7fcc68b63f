package sweep

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/mem"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/run/bench"
)

// axesOf are the axes that flags of a sweep without a database make, such as threads=1,2.
func axesOf(t *testing.T, flags ...string) []Axis {
	t.Helper()
	e := experiment.New(experiment.Sweep)
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		f, is := e.ByFlag(name)
		if !is || f.Dest.Set(value) != nil || len(f.Dest.Errs()) > 0 {
			t.Fatalf("%s: %v", flag, f.Dest.Errs())
		}
	}

	return slices.DeleteFunc(axes(e, &e.Options), func(a Axis) bool {
		return a.Name == "threads" && len(a.Values) == 1
	})
}

func TestSettingsAreTheProductOfTheAxes(t *testing.T) {
	p := Sweep{Axes: axesOf(t, "engine=pebble1,rocksdb:partitioned", "handles=500",
		"set=MemTableSize=4MiB,8MiB", "cache=0.5%,64MiB,1GiB")}
	settings := p.Settings()
	var got []string
	for i, s := range settings {
		if s.Number != i {
			t.Errorf("setting %d has number %d", i, s.Number)
		}

		spec := s.Spec(1000 << 20)
		got = append(got,
			strings.Join([]string{s.Values["engine"], s.Values["handles"], s.Values["cache"],
				s.Values["set.MemTableSize"]}, " "))
		named := experiment.Named{Name: spec.Engine, Profile: spec.Profile}
		if named.String() != s.Values["engine"] || spec.Handles != 500 ||
			spec.CacheAsked != s.Values["cache"] ||
			spec.Overrides["MemTableSize"] != s.Values["set.MemTableSize"] ||
			s.Load.Overrides["MemTableSize"] != s.Values["set.MemTableSize"] {
			t.Errorf("spec %+v of %v", spec, s.Values)
		}
	}

	var want []string
	for _, name := range []string{"pebble1", "rocksdb:partitioned"} {
		for _, cache := range []string{"0.5%", "64MiB", "1GiB"} {
			want = append(want, name+" 500 "+cache+" 4MiB", name+" 500 "+cache+" 8MiB")
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	for i, bytes := range []int64{5 << 20, 5 << 20, 64 << 20, 64 << 20, 1 << 30, 1 << 30} {
		if got := settings[i].Spec(1000 << 20).CacheBytes; got != bytes {
			t.Errorf("cache %s of 1000 MiB is %d bytes, want %d", settings[i].Values["cache"], got,
				bytes)
		}
	}
}

func TestEveryAxisReachesThePoint(t *testing.T) {
	p := Sweep{
		Load: new(bench.Spec),
		Axes: axesOf(t, "constraint=big", "engine=mem", "keys=7k", "age=3",
			"profile=p",
			"page-cache=direct,cold", "handles=9", "threads=5,6", "rate=2k",
			"workload=multireadrandom", "batch-gets=8", "batch-order=sorted",
			"in-flight=4", "procs=2", "memory=1MiB"),
	}

	s := p.Settings()[3]
	r := s.Read
	if s.Class != "big" || r.Engine != "mem" || s.Load.Keys != 7000 || s.Load.Age != "3" ||
		r.Profile != "p" || r.PageCache != "cold" || r.Handles != 9 ||
		r.Threads != 6 || r.Rate != 2000 || r.BatchGets != 8 || !r.BatchSorted ||
		r.InFlight != 4 || r.Procs != 2 || r.MemoryBytes != 1<<20 {
		t.Errorf("%+v", s)
	}

	if name := s.LoadSpec(0).Dir; name != "mem-p-7000-age-3" {
		t.Errorf("a database called %s", name)
	}
}

func TestNoAxisIsOnePoint(t *testing.T) {
	settings := Sweep{Base: bench.Spec{Threads: 3}}.Settings()
	if len(settings) != 1 || settings[0].Spec(0).Threads != 3 {
		t.Errorf("%+v", settings)
	}
}

// only knows the engine mem.
type only struct{ t *testing.T }

func (o only) Find(names ...string) engine.Engine {
	if slices.Contains(names, "mem") {
		return mem.Engine{}
	}
	o.t.Errorf("asked for %q", names)
	return nil
}

func (only) Known(name string) bool { return name == "mem" }

func (only) UseLibrary(...map[string]string) {}

func (only) MemTables(string, string, int64, bool) int64 { return 0 }

func TestDeclaredNamesEveryMistake(t *testing.T) {
	e := experiment.New(experiment.Sweep)
	s := experiment.SubjectAs[*experiment.SweepConfig](e)
	s.Keys.SetValues(1000)
	s.Memory.SetValues(1 << 20)
	s.Cache.SetValues(setting.Bytes(1 << 20))
	s.Engine.SetValues(experiment.Named{Name: "mem"}, experiment.Named{Name: "mem"})
	s.InFlight.SetValues(3)
	m := new(setting.Mistakes)
	p := Declared(e, only{t}, nil, m)
	text := strings.Join(m.Found, "\n")
	for _, want := range []string{"--memory and --cache: a memory budget covers the cache",
		"--engine: mem is listed twice",
		"--in-flight: only with --workload multireadrandom",
		"--memory: mem does not support a memory budget: use --cache"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}

	if len(p.Axes) == 0 || p.Load.Keys != 1000 || p.Load.CacheBytes != loadCache ||
		p.Base.Threads != 1 || p.Base.Gets != 500_000 {
		t.Errorf("%+v", p)
	}

	var many []int
	for i := range 400 {
		many = append(many, i+1)
	}

	s.Threads.SetValues(many...)
	s.Handles.SetValues(slices.Collect(func(yield func(uint64) bool) {
		for i := range uint64(400) {
			if !yield(i + 1) {
				return
			}
		}
	})...)

	m = new(setting.Mistakes)
	Declared(e, only{t}, nil, m)
	if text := strings.Join(m.Found, "\n"); !strings.Contains(text,
		"the lists make more than 100000 points: shorten --threads") {
		t.Errorf("%s", text)
	}
}
