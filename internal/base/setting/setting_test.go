package setting

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestKindsReadWhatTheyAreOf(t *testing.T) {
	check := func(name, got, want string) {
		t.Helper()
		if got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	for _, c := range []struct {
		text  string
		want  CacheSize
		wrong string
	}{
		{"64MiB", CacheSize{Bytes: 64 << 20}, ""},
		{"64M", CacheSize{Bytes: 64 << 20}, ""},
		{"1048576", CacheSize{}, "add a unit (examples: 64MiB, 0.1%)"},
		{"0.1%", CacheSize{Share: 0.001}, ""},
		{"100%", CacheSize{Share: 1}, ""},
		{" 2 % ", CacheSize{Share: 0.02}, ""},
		{"0%", CacheSize{}, "at most 100%"},
		{"101%", CacheSize{Share: 1.01}, "at most 100%"},
		{"-1%", CacheSize{}, "invalid percentage"},
		{"0", CacheSize{}, "(examples: 64MiB, 0.1%)"},
		{"3q", CacheSize{}, "(examples: 64MiB, 0.1%)"},
		{"", CacheSize{}, "(examples: 64MiB, 0.1%)"},
	} {
		got, err := Cache.Parse(c.text)
		if err != nil {
			check(c.text, err.Error(), c.wrong)
		} else if c.wrong != "" || got != c.want {
			t.Errorf("%q: %+v, want %+v, %q", c.text, got, c.want, c.wrong)
		}
	}

	for _, c := range []struct {
		parse func(v string) error
		text  string
		wrong string
	}{
		{wrongOf(Threads), "0", "must be from 1 to 4096 (example: 8)"},
		{wrongOf(Threads), "8", ""},
		{wrongOf(Count(1, "500k")), "0", "must be at least 1 (example: 500k)"},
		{wrongOf(Count(1, "500k")), "many", `invalid number "many"`},
		{wrongOf(Share), "200%", "must be a share from 0% to 100% (example: 20%)"},
		{wrongOf(Share), "20", "must be a share"},
		{wrongOf(Number), "NaN", "must be a number that is not negative"},
		{wrongOf(Rate), "20k/s", ""},
		{wrongOf(Rate), "fast", "must be a number of operations per second"},
		{wrongOf(Seed), "one", "must be a whole number"},
		{wrongOf(Duration("60s")), "60", "must be a duration (example: 60s)"},
		{wrongOf(Duration("60s")), "0", ""},
		{wrongOf(Memory), "0", "the memory budget must be larger than 0"},
		{wrongOf(Choice("a", "b")), "c", "must be one of a, b"},
		{wrongOf(WarmupKind), "some", "must be auto, a number such as 100k"},
		{wrongOf(TargetKind), "slurm:", "must be local, slurm or slurm:PARTITION"},
		{wrongOf(TargetKind), "slurm:fast", ""},
		{wrongOf(Bool), "perhaps", "must be true or false"},
	} {
		text := ""
		if err := c.parse(c.text); err != nil {
			text = err.Error()
		}
		check(c.text, text, c.wrong)
	}
}

func wrongOf[T any](kind Kind[T]) func(string) error {
	return func(text string) error {
		_, err := kind.Parse(text)
		return err
	}
}

func TestMistakesDoNotStopTheParser(t *testing.T) {
	var v Value[int]
	Axis(&v, Threads).SetDefault("1")
	if err := v.Set("2, x,0, 8"); err != nil {
		t.Fatal(err)
	}

	if got := v.All(); !slices.Equal(got, []int{2, 8}) || v.String() != "2,8" {
		t.Errorf("%v, %q", got, v.String())
	}

	m := new(Mistakes)
	m.CheckSetting("threads", &v)
	want := []string{`--threads "x": must be from 1 to 4096 (example: 8)`,
		`--threads "0": must be from 1 to 4096 (example: 8)`}
	if !slices.Equal(m.Found, want) {
		t.Errorf("%q", m.Found)
	}

	// A setting that is wrong as a whole has its default, so that nothing else is said about it.
	if _ = v.Set("x"); v.Value() != 1 || !v.IsSet() {
		t.Errorf("%v", v.All())
	}
}

func TestValuesInAFile(t *testing.T) {
	for text, want := range map[string]string{
		"[1, 2]": "1,2",
		"7":      "7",
		"'1, 2'": "1,2",
		"[]":     "4",
		"''":     "4",
		"~":      "4",
		"null":   "4",
	} {
		var v Value[int]
		Axis(&v, Threads).SetDefault("4")
		if err := yaml.Unmarshal([]byte(text), &v); err != nil || v.String() != want {
			t.Errorf("%s: %q, %v, want %q", text, v.String(), err, want)
		}
	}

	var one Value[string]
	One(&one, Text)
	if err := yaml.Unmarshal([]byte("null"), &one); err != nil { // an engine's name
		t.Error(err)
	}

	if err := yaml.Unmarshal([]byte("[a, b]"), &one); err == nil ||
		err.Error() != "takes one value here" {
		t.Errorf("%v", err)
	}
}

func TestLetIsReadBack(t *testing.T) {
	same := func(name, shown, want string, wrong error) {
		t.Helper()
		if shown != want || wrong != nil {
			t.Errorf("%s: shown as %q, want %q; %v", name, shown, want, wrong)
		}
	}

	var share Value[float64]
	One(&share, Share).SetValues(0.125)
	same("share", share.String(), "12.5%", wrongOf(Share)(share.String()))
	var cache Value[CacheSize]
	Axis(&cache, Cache).SetValues(Bytes(5000), CacheSize{Share: 0.01})
	same("cache", cache.String(), "5000B,1%", wrongOf(Cache)("5000B"))
	var limit Value[time.Duration]
	One(&limit, Duration("1s")).SetValues(90 * time.Second)
	same("duration", limit.String(), "1m30s", wrongOf(Duration("1s"))(limit.String()))
	var where Value[Target]
	One(&where, TargetKind).SetValues(Target{Cluster: true, Partition: "fast"})
	same("where", where.String(), "slurm:fast", wrongOf(TargetKind)(where.String()))
	var warmup Value[Warmup]
	One(&warmup, WarmupKind).SetValues(Warmup{Share: 0.0005})
	same("warmup", warmup.String(), "0.05%", wrongOf(WarmupKind)(warmup.String()))
}

func TestOptionsAreAxesOrFixed(t *testing.T) {
	var o Options
	for _, text := range []string{"A=1", "B=2,3", "C=", "D", "=x"} {
		_ = o.Set(text)
	}

	if fixed := o.Fixed(); len(o.All()) != 3 || len(fixed) != 2 || fixed["A"] != "1" ||
		len(o.Errs()) != 2 {
		t.Errorf("%v, %v, %v", o.All(), fixed, o.Errs())
	}

	points, labels := Points(o.All())
	if len(points) != 2 || points[1]["B"] != "3" || points[1]["A"] != "1" || labels[1] != " B=3" {
		t.Errorf("%v, %q", points, labels)
	}
}

func FuzzCache(f *testing.F) {
	for _, text := range []string{"64MiB", "0.1%", "1e3", "-5", "9999999999TiB", "NaN%", "%"} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		c, err := Cache.Parse(text)
		if err == nil && ((c.Bytes > 0) == (c.Share > 0) || c.Bytes < 0 || !(c.Share <= 1)) {
			t.Fatalf("%q: %+v", text, c)
		}
	})
}

func TestPointsAreEveryCombination(t *testing.T) {
	settings, labels := Points([]Option{{"A", []string{"1"}}, {"B", []string{"x", "y"}}})
	if diff := cmp.Diff([]map[string]string{{"A": "1", "B": "x"}, {"A": "1", "B": "y"}},
		settings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{" B=x", " B=y"}, labels); diff != "" {
		t.Error(diff)
	}
}
