package experiment

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// every sets each field that a verb takes to a value that is not its default.
func every(verb string) *Experiment {
	e := New(verb)
	for _, f := range e.taken() {
		switch to := f.target.(type) {
		case *string:
			*to = "x: #" + f.flag
		case *List:
			if *to = List(f.flag); f.isList(verb) {
				*to += ",2,0.1%"
			}
		case *bool:
			*to = true
		case *[]string:
			*to = []string{"A=1", "B.c=2,3", "*d=&x"}
		}
	}
	return e
}

func TestFileAndValueAreTheSameForEveryVerb(t *testing.T) {
	for _, verb := range Measures() {
		for _, want := range []*Experiment{New(verb), every(verb)} {
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
		want, got := every(verb), New(verb)
		set := pflag.NewFlagSet(verb, pflag.ContinueOnError)
		got.Flags(set)
		var args []string
		for i, f := range want.taken() {
			switch from := f.target.(type) {
			case *string:
				if f.flag == "" {
					*got.taken()[i].target.(*string) = *from
					continue
				}
				args = append(args, "--"+f.flag+"="+*from)
			case *List:
				args = append(args, "--"+f.flag+"="+string(*from))
			case *bool:
				args = append(args, "--"+f.flag)
			case *[]string:
				for _, text := range *from {
					args = append(args, "--"+f.flag+"="+text)
				}
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
	_, err := Parse("e.yaml", []byte(`measure: layouts
schema: statelab.experiment/9
colour: red
state:
  contract_slots: [1, 2]
  contract_slots: 3
  reads: {a: 1}
subject:
  tree: iavl1
  options: [a]
workload:
  gest: 5
database:
  keep: perhaps
load: 7
`))
	want := []string{
		`e.yaml:2:9: schema: "statelab.experiment/9" is not known to this version, which reads statelab.experiment/1`,
		`e.yaml:3:1: colour: there is no such field; statelab run --schema lists them`,
		`e.yaml:5:19: state.contract_slots: layouts takes one value here (price takes several)`,
		`e.yaml:6:3: state.contract_slots: given twice`,
		`e.yaml:7:10: state.reads: one value`,
		`e.yaml:9:3: subject.tree: layouts does not take it (replay do)`,
		`e.yaml:10:12: subject.options: a mapping of names to values`,
		`e.yaml:12:3: workload.gest: there is no such field; statelab run --schema lists them`,
		`e.yaml:14:9: database.keep: true or false`,
		`e.yaml:15:7: load: a section with indented fields below it`,
	}
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
}

// Until version 0.3, one point was measured by read: its files are sweeps now.
func TestAReadIsASweepOfOnePoint(t *testing.T) {
	d, err := Parse("e.yaml", []byte("measure: read\nsubject:\n  cache: 1%\n"))
	if err != nil || d.Measure != Sweep || d.Cache != "1%" || d.Age != New(Sweep).Age {
		t.Errorf("%+v, %v", d.Experiment, err)
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
		if _, err := Parse("e.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMessageNamesThePlaceInTheFile(t *testing.T) {
	d, err := Parse("e.yaml", []byte("measure: sweep\nworkload:\n  gets: 0\n  threads: [1, x]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`--gets "0": must be at least 1, such as --gets 500k`: `e.yaml:3:9: workload.gets: "0": must be at least 1, such as workload.gets: 500k`,
		"the lists are too long: shorten --threads":           "e.yaml: the lists are too long: shorten workload.threads",
		"or add --read-only, with which they take nothing":    "e.yaml: or add database.read_only: true, with which they take nothing",
	} {
		if got := d.Message(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSchemaKnowsEveryField(t *testing.T) {
	text, err := json.Marshal(JSONSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields(new(Experiment)) {
		if name := f.key[strings.Index(f.key, ".")+1:]; !strings.Contains(string(text), `"`+name+`":`) {
			t.Errorf("%s is not in the schema", f.key)
		}
	}
}

func TestFieldsAreDeclaredOnce(t *testing.T) {
	keys, flags := map[string]bool{}, map[string]bool{}
	for _, f := range fields(new(Experiment)) {
		if keys[f.key] {
			t.Errorf("%s is declared twice", f.key)
		}
		keys[f.key] = true
		for _, verb := range strings.Fields(f.of) {
			if f.flag != "" && flags[verb+" --"+f.flag] {
				t.Errorf("%s --%s is declared twice", verb, f.flag)
			}
			flags[verb+" --"+f.flag] = true
		}
		for _, verb := range strings.Fields(f.of + " " + f.lists) {
			if !slices.Contains(Measures(), verb) {
				t.Errorf("%s: there is no verb %s", f.key, verb)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("measure: sweep\nsubject:\n  cache: [1%, 2%]\n"))
	f.Add([]byte("measure: replay\nsubject: {options: {A: [1, 2]}}\n"))
	f.Add([]byte("measure: sweep\nsubject: {cache: '1%, 2%', options: {A: '1, 2'}}\n"))
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
