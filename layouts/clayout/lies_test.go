//go:build cgo

package clayout

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
	"github.com/statelab/statelab/layout"
)

// TestLiesAreNamed: whatever a library says that cannot be is an error that says what,
// and names the library, not a figure.
func TestLiesAreNamed(t *testing.T) {
	for lie, says := range map[string]string{
		"NO_TABLE": "statelab_state_v1 returned NULL",
		"OTHER_VERSION": "is built for version 2 of statelab_state.h, this program reads " +
			"version 1",
		"OTHER_SIZE":       "its table has 16 bytes, want",
		"NO_ACCOUNT":       "account is NULL in its table",
		"NO_PROFILE":       "its table names 0 profiles",
		"ENDLESS_PROFILES": "its table names 64 profiles",
		"OTHER_RULE":       `its root is made by the rule "secret"`,
		"SILENT_CHECK":     "the library returned error -1 without a message",
		"UNKNOWN_CODE":     "the library answered 77, which means nothing here",
		"NO_STATE":         "open said it was done but gave nothing",
		"NOT_NEW":          "a new state is at block 7",
		"NEGATIVE_COUNTER": "the counter write_bytes is -3: it cannot be negative",
		"UNKNOWN_COUNTER":  `the counter "raeds" is none of statelab_state.h`,
		"COUNTER_TWICE":    "the counter writes is reported twice",
		"GUESSED_MEMORY": `basis "guess": want a positive size known by limit, measured or ` +
			`estimate`,
		"NO_READER":        "the library said it was done but gave no reader",
		"NO_LENGTH":        "the library answered a value of -1 bytes: want 1 to 32",
		"LONG_VALUE":       "the library answered a value of 33 bytes: want 1 to 32",
		"NEGATIVE_VALUE":   "the library answered a value of -4 bytes: want 1 to 32",
		"WORKING_LOOKUP":   "look up: the library answered 3, which means nothing here",
		"FAILING_LOOKUP":   "read block 17: Input/output error",
		"STANDING_BLOCK":   "commit block 1: after it the newest block is 0",
		"OTHER_ROOT":       "then the newest root is",
		"ROOT_OF_NONE":     "its rule is that there is none",
		"FALLING_COUNTER":  "the library's counter writes went from 99 to 98",
		"FALLING_TOUCHED":  "the library's counter touched nodes went from 98 to 96",
		"NEGATIVE_TOUCHED": "the library's counter touched nodes went from -1 to -2",
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			library := compileMap(t, "-DLIE="+lie)
			err := useOnce(Layout{Library: library}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Fatalf("error %v, want one that says %q", err, says)
			}

			if text := err.Error(); !strings.Contains(text, library) &&
				!strings.Contains(text, "map: ") {
				t.Errorf("%v: does not name the library", err)
			}
		})
	}

	if err := useOnce(Layout{Library: compileMap(t)}, t.TempDir()); err != nil {
		t.Errorf("the honest library: %v", err)
	}
}

var (
	someAccount = layout.Hash{1}
	someSlot    = layout.Hash{2}
)

// useOnce calls what a run calls; the first error ends it.
func useOnce(l layout.Layout, dir string) (err error) {
	ctx := context.Background()
	s, err := l.Open(ctx, layout.Options{Dir: dir, Create: true})
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, s.Close()) }()
	change := layout.Change{
		Account: someAccount,
		New:     &layout.Account{Nonce: 1},
		Slots:   []layout.Slot{{Key: someSlot, Value: []byte{7}}},
	}

	if err := s.Change(change); err != nil {
		return err
	}

	if _, err := s.Commit(ctx); err != nil {
		return err
	}

	r, err := s.Reader()
	if err != nil {
		return err
	}

	for range 2 {
		if _, _, err := r.Account(someAccount); err != nil {
			return err
		}

		if _, _, err := r.Slot(someAccount, someSlot, nil); err != nil {
			return err
		}

		r.Touched()
		s.Counters()
	}

	return r.Close()
}

func TestLibrariesThatAreNone(t *testing.T) {
	for path, says := range map[string]string{
		"no/such/library.so": "no such file",
		"testdata/map.c":     "load the library:", // no shared object
		libtest.Compile(t, "../../native", "../../engines/cengine/testdata/no.c"): "it does not " +
			"export statelab_state_v1 (see native/statelab_state.h)",
	} {
		l := Layout{Library: path}
		if errs := l.Check(layout.Options{}); len(errs) != 1 ||
			!strings.Contains(errs[0].Error(), says) {
			t.Errorf("%q: %v, want one error that says %q", path, errs, says)
		}

		if _, err := l.Open(t.Context(),
			layout.Options{Dir: t.TempDir(), Create: true}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that says %q", path, err, says)
		}
	}
}

// TestWhatFallsIsLeftOut: a figure that has been wrong is none.
func TestWhatFallsIsLeftOut(t *testing.T) {
	s := open(t, Layout{Library: compileMap(t, "-DLIE=FALLING_COUNTER")}, t.TempDir())
	if c := s.Counters(); c.Writes != nil || c.WriteBytes == nil {
		t.Errorf("writes %v, their bytes %v: only the former fall", c.Writes, c.WriteBytes)
	}
	if err := s.Close(); err == nil {
		t.Error("a counter fell, and nobody says so")
	}
}

func TestSettleCanBeInterrupted(t *testing.T) {
	s := open(t, Layout{Library: compileMap(t, "-DLIE=NEVER_SETTLED")}, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}

	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestNothingReachesAClosedState: the library would read freed memory.
func TestNothingReachesAClosedState(t *testing.T) {
	s := open(t, Layout{Library: compileMap(t)}, t.TempDir())
	r, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	_, _, account := r.Account(someAccount)
	_, _, slot := r.Slot(someAccount, someSlot, nil)
	_, commit := s.Commit(t.Context())
	_, reader := s.Reader()
	for i, err := range []error{account, slot, r.Refresh(), commit, reader,
		s.Change(layout.Change{}), s.Settle(t.Context())} {
		if !errors.Is(err, errClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}

	if s.Counters() != (layout.Counters{}) || s.Block() != 0 || s.Root() != (layout.Hash{}) ||
		len(s.Memory()) > 0 || r.Touched() != (layout.Touched{}) {
		t.Error("a closed state tells figures")
	}

	if err := errors.Join(r.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// open makes a state in an empty directory.
func open(t testing.TB, l layout.Layout, dir string) layout.State {
	t.Helper()
	s, err := l.Open(context.Background(), layout.Options{Dir: dir, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
