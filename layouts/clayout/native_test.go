//go:build cgo

package clayout

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

const (
	// builtLibrary names a library that is built already, to have it admitted.
	builtLibrary = "STATELAB_STATE_TEST_LIBRARY"
	// keepsContracts, if set, says that it cannot delete an account that has code.
	keepsContracts = "STATELAB_STATE_TEST_KEEPS_CONTRACTS"
)

func TestAdmitted(t *testing.T) {
	library := libtest.Once(t, builtLibrary, func(t *testing.T) string { return compileMap(t) })
	layouttest.TestLayout(
		t,
		Layout{Library: library},
		layouttest.Expectations{KeepsContracts: os.Getenv(keepsContracts) != ""},
	)
}

func compileMap(t testing.TB, flags ...string) string {
	t.Helper()
	return libtest.Compile(t, "../../native", "testdata/map.c", flags...)
}

// TestFind: a broken library is found like the others, and goes by its file's name. One with a
// runner of its own is found for that alone.
func TestFind(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"lib/libstatelab_broken.so": "not ELF",
		"lib/librocksdb.so":         "",
		"lib/libstatelab_x.so.part": "",
		"statelab":                  "",
		"lib/libstatelab_apart.so":  "not ELF",
		"statelab-run-apart":        "",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Rename(compileMap(t), filepath.Join(folder, "libstatelab_sorted.so")); err != nil {
		t.Fatal(err)
	}

	t.Setenv(LibraryEnv, "/no/such/libmine.so")
	alone, err := Find(filepath.Join(folder, "statelab-run-apart"))
	if want := []layout.Layout{
		Layout{Library: "/no/such/libmine.so"},
		Layout{Library: filepath.Join(folder, "lib/libstatelab_apart.so")},
	}; err != nil ||
		!slices.Equal(alone, want) {
		t.Errorf("for a runner of its own: %v, %v, want %v", alone, err, want)
	}

	found, err := Find(filepath.Join(folder, "statelab-run-states"))
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, l := range found {
		names = append(names, l.Info().Name)
		broken := len(l.Check(layout.Options{Create: true})) > 0
		if wantBroken := l.Info().Name != "map"; broken != wantBroken {
			t.Errorf("%s is broken: %v, want %v", l.Info().Name, broken, wantBroken)
		}
	}

	if want := []string{"libmine", "broken", "map"}; !slices.Equal(names, want) {
		t.Errorf("found %v, want %v", names, want)
	}
}

// TestErrorsOfOpen: those that the contract names.
func TestErrorsOfOpen(t *testing.T) {
	l, dir := Layout{Library: compileMap(t)}, t.TempDir()
	_, err := l.Open(t.Context(), layout.Options{Dir: dir})
	var none *engine.NotADatabaseError
	if !errors.As(err, &none) || none.Dir != dir {
		t.Errorf("an empty folder: %v", err)
	}

	first := open(t, l, dir)
	_, err = l.Open(t.Context(), layout.Options{Dir: dir})
	var locked *engine.LockedError
	if !errors.As(err, &locked) || locked.Dir != dir {
		t.Errorf("a state that is held: %v", err)
	}

	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
