package tree

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

var interval = Override{Name: "interval", Default: 1000, Low: 1, High: 5000}

func info() Info {
	return Info{Name: "oak", Profiles: []engine.Profile{{Name: "sync"}, {Name: "async"}}}
}

func TestProblemsAreAllNamedAtOnce(t *testing.T) {
	legal := Options{
		Profile:   "async",
		Stores:    []string{"bank", "acc"},
		Overrides: map[string]string{"interval": " 5000 "},
	}

	if errs := legal.Problems(info(), interval); len(errs) > 0 {
		t.Errorf("legal options: %v", errs)
	}

	wrong := Options{
		Profile:      "fast",
		CacheNodes:   -1,
		FirstVersion: -1,
		Stores:       []string{"bank", "a/b", "bank", ""},
		Overrides:    map[string]string{"interval": "0", "other": "1"},
	}

	said := errors.Join(wrong.Problems(info(), interval)...).Error()
	for _, want := range []string{
		`unknown profile "fast": use sync`, "cache of -1 nodes", "first version -1", `store "a/b"`,
		"store bank is named twice",
		"store 3 has no name", "interval=0 is illegal: write interval=1000 (1 to 5000)",
		"unknown option other: oak knows interval=1000",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not among the problems:\n%s", want, said)
		}
	}

	if errs := (Options{}).Problems(info()); len(errs) != 1 {
		t.Errorf("no stores: %v", errs)
	}
}

func TestOverrideIn(t *testing.T) {
	for text, want := range map[string]int64{"": 1000, "7": 7, "5000": 5000} {
		o := Options{Overrides: map[string]string{}}
		if text != "" {
			o.Overrides["interval"] = text
		}

		if got := interval.In(o); got != want {
			t.Errorf("interval of %q is %d, want %d", text, got, want)
		}
	}
}

func TestSameStores(t *testing.T) {
	o := Options{Stores: []string{"b", "a"}}
	if err := o.SameStores([]string{"a", "b"}); err != nil {
		t.Error(err)
	}
	if err := o.SameStores([]string{"a", "b", "c"}); err == nil {
		t.Error("another store passes")
	}
}

func TestKeepCopies(t *testing.T) {
	key, value := []byte("key"), []byte("value")
	keptKey, keptValue := CloneKV(key, value)
	clear(key)
	clear(value)
	if string(keptKey) != "key" || string(keptValue) != "value" {
		t.Errorf("kept %q and %q", keptKey, keptValue)
	}

	if longer := append(keptKey, '!'); !bytes.Equal(keptValue, []byte("value")) {
		t.Errorf("%q overwrote the value: %q", longer, keptValue)
	}

	if _, empty := CloneKV(nil, nil); empty == nil {
		t.Error("an empty value became nil")
	}
}
