package adapter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

type settings struct {
	bytes int64
	count int
	on    bool
	word  string
	page  int
}

func (s *settings) options() []Option {
	return []Option{
		Size("Bytes", "4MiB", &s.bytes, 10), Count("Count", "4", &s.count, 2), Switch("On", &s.on),
		Choice("Word", &s.word, "yes", "no"), PowerOfTwo("Page", "4096", &s.page, 1024, 8192),
	}
}

func TestOverride(t *testing.T) {
	var s settings
	errs := Override(s.options(), map[string]string{
		"Bytes": " 1MiB ",
		"Count": "2",
		"On":    "true",
		"Word":  "no",
		"Page":  "8KiB",
	})

	if want := (settings{1 << 20, 2, true, "no", 8192}); len(errs) > 0 || s != want {
		t.Errorf("%+v, %v; want %+v", s, errs, want)
	}
}

// TestOverrideTellsAllMistakes wants one error per mistake, with a legal example.
func TestOverrideTellsAllMistakes(t *testing.T) {
	var s settings
	given := map[string]string{
		"Bytes": "9",
		"Count": "1",
		"On":    "perhaps",
		"Word":  "maybe",
		"Page":  "3000",
		"Other": "1",
	}

	errs := Override(s.options(), given)
	if len(errs) != len(given) || s != (settings{}) {
		t.Errorf("%d errors for %d mistakes, %+v: %v", len(errs), len(given), s, errs)
	}

	for i, example := range []string{"Bytes=4MiB", "Count=4", "On=true", "Word=yes", "Page=4096",
		"Bytes, Count, On"} {
		if i < len(errs) && !strings.Contains(errs[i].Error(), example) {
			t.Errorf("%v: want the example %s", errs[i], example)
		}
	}
}

func TestCheck(t *testing.T) {
	able := engine.Info{
		Name: "able",
		Capabilities: []engine.Capability{engine.CanBudget, engine.CanDirect,
			engine.CanTraceAccesses},
	}

	for name, c := range map[string]struct {
		options    engine.Options
		able, bare int // mistakes
	}{
		"nothing said": {engine.Options{}, 0, 0},
		"all at once": {engine.Options{CacheBytes: -1, Handles: -1, MemoryBytes: -1},
			3, 3},
		"cache and budget":     {engine.Options{CacheBytes: 1, MemoryBytes: 1}, 1, 1},
		"budget":               {engine.Options{MemoryBytes: 1}, 0, 1},
		"direct":               {engine.Options{Direct: true}, 0, 1},
		"accesses":             {engine.Options{TraceAccesses: true}, 0, 1},
		"created, not written": {engine.Options{Create: true, ReadOnly: true}, 1, 1},
	} {
		if errs := Check(able, c.options); len(errs) != c.able {
			t.Errorf("%s: %v, want %d mistakes", name, errs, c.able)
		}

		if errs := Check(engine.Info{Name: "bare"}, c.options); len(errs) != c.bare {
			t.Errorf("%s of an engine that can do nothing: %v, want %d mistakes", name, errs,
				c.bare)
		}
	}
}

func TestFind(t *testing.T) {
	profiles := []Profile[int]{{engine.Profile{Name: "a"}, 1}, {engine.Profile{Name: "b"}, 2}}
	for name, want := range map[string]int{"": 1, "a": 1, "b": 2} {
		if got, err := Find(profiles, name); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", name, got, err, want)
		}
	}

	if _, err := Find(profiles, "c"); err == nil || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("error %v, want one that names a and b", err)
	}
}

func TestDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := MakeEmpty(dir); err != nil {
		t.Fatal(err)
	}

	if err := os.Mkdir(filepath.Join(dir, engine.OwnFolder), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := CheckEmpty(dir); err != nil {
		t.Errorf("a directory with the harness's own folder: %v", err)
	}

	var not *engine.NotADatabaseError
	if err := CheckHolds(dir, "CURRENT"); !errors.As(err, &not) {
		t.Errorf("error %v, want a NotADatabaseError", err)
	}

	if err := os.WriteFile(filepath.Join(dir, "CURRENT"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	if err := CheckHolds(dir, "CURRENT"); err != nil {
		t.Error(err)
	}

	if err := MakeEmpty(dir); err == nil {
		t.Error("a directory in use passes for empty")
	}
}

// TestUnknownOptions: a mistyped name is answered with the one that was probably meant.
func TestUnknownOptions(t *testing.T) {
	legal := []string{"BlockSize", "IndexBlockSize", "MemTableSize", "table"}
	for typed, meant := range map[string]string{
		"MemTabelSize": "(did you mean MemTableSize?)",
		"blocksize":    "(did you mean BlockSize?)",
		"BlokSize":     "(did you mean BlockSize?)",
		"tables":       "(did you mean table?)",
	} {
		if err := Unknown(typed, legal); !strings.Contains(err.Error(), meant) {
			t.Errorf("%s: %v", typed, err)
		}
	}

	if err := Unknown("max_open_files", legal); strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
}
