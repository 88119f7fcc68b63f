package experiment

import (
	"bytes"
	std "cmp"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/base/setting"
)

// A flag that has another name now is set by its earlier one as well, and listed by the new one.
func TestEarlierFlagsAreAccepted(t *testing.T) {
	known := map[string]bool{}
	for _, verb := range Measures() {
		for now, earlier := range earlierFlags {
			e := New(verb)
			f, is := e.ByFlag(now)
			if !is {
				continue
			}

			known[now] = true
			value := strings.ReplaceAll(sample(f), " ", "-") // settings are words
			same, _ := New(verb).ByFlag(now)
			if err := same.Dest.Set(value); err != nil {
				t.Fatal(err)
			}

			flags := pflag.NewFlagSet(verb, pflag.ContinueOnError)
			e.Flags(flags)
			if err := flags.Parse([]string{"--" + earlier, value}); err != nil {
				t.Errorf("%s --%s: %v", verb, earlier, err)
			}

			if text := f.Dest.String(); text != same.Dest.String() || !flags.Changed(now) ||
				!flags.Changed(earlier) {
				t.Errorf("%s --%s %s: --%s is %q", verb, earlier, value, now, text)
			}

			if usage := flags.FlagUsages(); strings.Contains(usage, "--"+earlier+" ") ||
				!strings.Contains(usage, "--"+now+" ") {
				t.Errorf("%s lists:\n%s", verb, usage)
			}

			with, err := New(verb).WithSettings(earlier + "=" + value)
			if err != nil {
				t.Errorf("%s with %s=%s: %v", verb, earlier, value, err)
			} else if f, _ := with.ByFlag(now); f.Dest.String() != same.Dest.String() {
				t.Errorf("%s with %s=%s: %q", verb, earlier, value, f.Dest.String())
			}
		}
	}

	for now := range earlierFlags {
		if !known[now] {
			t.Errorf("no verb has --%s", now)
		}
	}
}

// sample is a value of a field that is not its default, as it is typed.
func sample(f Field) string {
	kinds := map[string]string{
		"engine":   "a:b",
		"size":     "3MiB",
		"count":    "7k",
		"int":      "12",
		"uint":     "8",
		"number":   "2.5",
		"seconds":  "3",
		"share":    "30%",
		"rate":     "9k",
		"duration": "5s",
		"bool":     "true",
	}

	if kind := kinds[f.Dest.Type()]; kind != "" {
		return kind
	}

	special := map[string]string{
		"on":            "slurm:a b",
		"warmup":        "0.3%",
		"key-hash":      "keccak256",
		"value-model":   "table32",
		"load-workload": "fillsorted",
		"age":           "steady",
		"batch-order":   "sorted",
		"page-cache":    "cold",
		"scheme":        "hash",
	}

	if f.Flag == "workload" {
		return map[string]string{"fillrandom": "fillsorted", "readrandom": "overwrite"}[f.Value]
	}

	return std.Or(special[f.Flag], "x: #"+f.Flag)
}

// every sets each field that a verb takes to a value that is not its default.
func every(t *testing.T, verb string) *Experiment {
	t.Helper()
	e := New(verb)
	for _, f := range e.Fields() {
		texts := []string{sample(f)}
		switch f.Dest.Form() {
		case setting.List:
			texts[0] += "," + texts[0]
		case setting.Mapping:
			texts = []string{"A=1", "B.c=2,3", "*d=&x"}
		}

		for _, text := range texts {
			if err := errors.Join(append(f.Dest.Errs(), f.Dest.Set(text))...); err != nil ||
				len(f.Dest.Errs()) > 0 {
				t.Fatalf("%s %s: %q: %v, %v", verb, f.Key, text, err, f.Dest.Errs())
			}
		}

		if f.Dest.String() == f.Value {
			t.Errorf("%s: %q is the default", f.Key, f.Value)
		}
	}

	return e
}

func TestFileAndValueAreTheSameForEveryVerb(t *testing.T) {
	for _, verb := range Measures() {
		for _, want := range []*Experiment{New(verb), every(t, verb)} {
			var text bytes.Buffer
			if err := want.Write(&text); err != nil {
				t.Fatal(err)
			}

			got, err := Parse("e.yaml", text.Bytes())
			if err != nil {
				t.Fatalf("%s: %v\n%s", verb, err, &text)
			}

			if diff := cmp.Diff(want, &got.Experiment); diff != "" {
				t.Errorf("%s: %s\n%s", verb, diff, &text)
			}
		}
	}
}

func TestFlagsAndFileAreTheSameForEveryVerb(t *testing.T) {
	for _, verb := range Measures() {
		want, got := every(t, verb), New(verb)
		set := pflag.NewFlagSet(verb, pflag.ContinueOnError)
		got.Flags(set)
		var args []string
		for i, f := range want.Fields() {
			options, are := f.Dest.(*setting.Options)
			switch {
			case f.Flag == "":
				_ = got.Fields()[i].Dest.Set(f.Dest.String())
			case are:
				for _, option := range options.All() {
					args = append(args, "--"+f.Flag+"="+option.Name+"="+
						strings.Join(option.Values, ","))
				}
			default:
				args = append(args, "--"+f.Flag+"="+f.Dest.String())
			}
		}

		if err := set.Parse(args); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", verb, diff)
		}
	}
}

func TestParseNamesEveryMistakeWithItsPlace(t *testing.T) {
	_, err := Parse("e.yaml", []byte(`measure: read
schema: statelab.experiment/9
colour: red
subject:
  cache: [1%, 2q, 0]
  cache: 3%
  tree: iavl1
  options: [a]
workload:
  gets: {a: 1}
  gest: 5
database:
  read_only: perhaps
load: 7
`))

	want := []string{
		`e.yaml:2:9: schema: "statelab.experiment/9" is not known to this version, ` +
			`which reads statelab.experiment/1`,
		`e.yaml:3:1: colour: there is no such field; statelab run --schema lists them`,
		`e.yaml:5:10: subject.cache: invalid cache size "2q" (examples: 64MiB, 0.1%)`,
		`e.yaml:5:10: subject.cache: the cache must be larger than 0 (examples: 64MiB, 0.1%)`,
		`e.yaml:6:3: subject.cache: given twice`,
		`e.yaml:7:3: subject.tree: sweep does not take it (replay do)`,
		`e.yaml:8:12: subject.options: a mapping of names to values`,
		`e.yaml:10:9: workload.gets: one value`,
		`e.yaml:11:3: workload.gest: there is no such field; statelab run --schema lists them`,
		`e.yaml:13:14: database.read_only: "perhaps": must be true or false`,
		`e.yaml:14:7: load: a section with indented fields below it`,
	}
	if err == nil {
		t.Fatal("no error")
	}

	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefusesWhatIsNoExperiment(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "not an experiment file, which is YAML",
		"7":                               "mapping",
		"measure: dance":                  `invalid value "dance"`,
		"name: x":                         "measure: missing",
		"a: b\n---\n\tc: d":               "not an experiment file, which is YAML",
		"measure: disk\n---\na: b":        "second document",
		"measure: sweep\nseed: *a":        "not an experiment file, which is YAML",
		"a: &a [1]\nmeasure: load\nb: *a": "no such field",
	} {
		if _, err := Parse("e.yaml", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMistakesNameThePlaceInTheFile(t *testing.T) {
	d, err := Parse("e.yaml", []byte("measure: sweep\nworkload:\n  gets: 7\n  threads: [1, 2]\n"))
	if err != nil {
		t.Fatal(err)
	}

	of := func(in setting.Written) string {
		m := setting.Mistakes{In: in}
		m.At("gets", "7", "too few, such as %s", m.Name("gets", "500k"))
		m.Add("the lists are too long: shorten %s", m.Name("threads", ""))
		m.At("cache", "", "or add %s", m.Name("read-only", ""))
		m.At("out", "S", "exists")
		return strings.Join(m.Found, "\n")
	}

	want := `e.yaml:3:9: workload.gets: 7: too few, such as workload.gets: 500k
e.yaml: the lists are too long: shorten workload.threads
e.yaml: subject.cache: or add database.read_only: true
e.yaml: --out S: exists`

	if diff := cmp.Diff(want, of(d)); diff != "" {
		t.Error(diff)
	}

	want = `--gets 7: too few, such as --gets 500k
the lists are too long: shorten --threads
--cache: or add --read-only
--out S: exists`

	if diff := cmp.Diff(want, of(nil)); diff != "" {
		t.Error(diff)
	}
}

// Files of earlier versions call a sweep of one point read.
func TestReadIsASweep(t *testing.T) {
	d, err := Parse("e.yaml", []byte("measure: read\nsubject:\n  cache: 1%\n"))
	if err != nil || d.Measure != Sweep {
		t.Fatalf("%v, %+v", err, d)
	}
	if s := SubjectAs[*SweepConfig](&d.Experiment); s.Cache.Value().Share != 0.01 {
		t.Errorf("%+v", s)
	}
}

func TestSchemaKnowsEveryField(t *testing.T) {
	text, err := json.Marshal(JSONSchema())
	if err != nil {
		t.Fatal(err)
	}

	fields, _ := known()
	for _, f := range fields {
		if name := f.Key[strings.Index(f.Key, ".")+1:]; !strings.Contains(string(text),
			`"`+name+`":`) {
			t.Errorf("%s is not in the schema", f.Key)
		}
	}
}

func TestFieldsAreDeclaredOnceAndHaveGoodDefaults(t *testing.T) {
	for _, verb := range Measures() {
		seen := map[string]bool{}
		for _, f := range New(verb).Fields() {
			if seen[f.Key] || f.Flag != "" && seen["--"+f.Flag] {
				t.Errorf("%s: %s is declared twice", verb, f.Key)
			}

			seen[f.Key], seen["--"+f.Flag] = true, true
			if wrong := f.Dest.Errs(); len(wrong) > 0 {
				t.Errorf("%s: the default of %s is wrong: %v", verb, f.Key, wrong)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("measure: sweep\nsubject:\n  cache: [1%, 2%]\n"))
	f.Add([]byte("measure: replay\nsubject: {options: {A: [1, 2]}}\n"))
	f.Add([]byte("measure: sweep\nsubject: {cache: '1%, 2%', options: {A: '1, 2'}}\n"))
	f.Add([]byte("measure: sweep\nsubject: {cache: '1%, 2%', options: {A: ' ,12'}}\n"))
	f.Add([]byte("measure: sweep\nworkload: {gets: '', threads: ' ', page_cache: [' ', cold]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("e.yaml", text)
		if err != nil {
			return
		}

		var again bytes.Buffer
		if err := d.Write(&again); err != nil {
			t.Fatal(err)
		}

		e, err := Parse("e.yaml", again.Bytes())
		if err != nil {
			t.Fatalf("written as\n%s\nwhich is refused: %v", &again, err)
		}

		if diff := cmp.Diff(d.Experiment, e.Experiment); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A database that is given was loaded as its manifest says: the defaults of a load would describe
// another one.
func TestDefaultsOfALoadAreNotThoseOfAGivenDatabase(t *testing.T) {
	e := New(Sweep)
	for _, f := range e.Fields() {
		f.Dest.SetDefault(f.Value)
	}

	for _, db := range []string{"", "D"} {
		has := db == ""
		if db != "" {
			e.DB.SetValues(db)
		}

		var out strings.Builder
		if err := e.Write(&out); err != nil {
			t.Fatal(err)
		}

		if strings.Contains(out.String(), "value_bytes: 110") != has {
			t.Errorf("database %q:\n%s", db, out.String())
		}

		again, err := Parse("experiment.yaml", []byte(out.String()))
		if err != nil || again == nil {
			t.Errorf("database %q: it cannot be read again: %v", db, err)
		}
	}
}
