//go:build cgo

package cengine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

// lieEnv tells testdata/null.c in which way to break the contract.
const lieEnv = "NATIVE_LIE"

// TestLiesAreNamed: whatever a library says that cannot be is an error that says
// what, not a figure.
func TestLiesAreNamed(t *testing.T) {
	library := compile(t, "testdata/null.c")
	for lie, says := range map[string]string{
		"no table": "statelab_engine_v1 returned NULL",
		"other version": "is built for version 2 of statelab_engine.h, this program " +
			"reads version 1",
		"other size":         "its table has 16 bytes, want",
		"no get":             "get is NULL in its table",
		"capability":         `declares the capability "ingest", which a library cannot have`,
		"silent failure":     "the library returned error -1 without a message",
		"unknown code":       "the library answered 77, which means nothing here",
		"endless sentence":   strings.Repeat("a", 1024),
		"no database":        "open said it was done but gave nothing",
		"negative counter":   "the counter cache_misses is -3: it cannot be negative",
		"unknown counter":    `the counter "reads.dta" is none of statelab_engine.h`,
		"lonely counter":     "the counter reads.data is reported without read_bytes.data",
		"counter told twice": "the counter cache_hits is reported twice",
		"no reads": "the capability block_reads is declared, but no counter " +
			"reads.TYPE is reported",
		"guessed memory": `basis "guess": want a positive size known by limit, measured or ` +
			`estimate`,
		"no effective cache":      "cache_bytes is not among the effective settings",
		"no reader":               "the library said it was done but gave no reader",
		"value beyond the buffer": "the library answered a value of 65 bytes in a buffer of 64",
		"too small but fits": "the library found a buffer of 64 bytes too small for a value " +
			"of 64",
		"huge value":        "the library speaks of a value of 1099511627776 bytes",
		"ever larger value": "the library found every buffer too small",
		"negative shape":    "shape of -1 bytes in 0 files",
		"failing get":       "null: the library returned error -1",
	} {
		t.Run(lie, func(t *testing.T) {
			t.Setenv(lieEnv, lie)
			err := useOnce(engine.Options{
				Dir:       t.TempDir(),
				Create:    true,
				Overrides: map[string]string{LibraryOption: library},
			}, lie)

			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v, want one that says %q", err, says)
			}
		})
	}
}

// useOnce opens a database and calls what a run calls; the first error ends it.
func useOnce(o engine.Options, lie string) (err error) {
	opened, err := Engine{}.Open(context.Background(), o)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, opened.Close()) }()
	if lie == "negative shape" {
		_, err = opened.Shape()
		return err
	}

	r, err := opened.Reader()
	if err != nil {
		return err
	}

	_, _, err = r.Get([]byte("key"), make([]byte, 0, 64))
	return err
}

func TestLibrariesThatAreNone(t *testing.T) {
	for path, says := range map[string]string{
		"": "write --set library=/path/to/engine.so or set " +
			"STATELAB_NATIVE_LIBRARY",
		"no/such/library.so": "no such file",
		"testdata/null.c":    "load the library:", // no shared object
		compile(t, "testdata/no.c"): "it does not export statelab_engine_v1 (see " +
			"native/statelab_engine.h)",
	} {
		t.Setenv(LibraryEnv, path)
		errs := Engine{}.Check(engine.Options{Dir: t.TempDir()})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), says) {
			t.Errorf("%q: %v, want one error that says %q", path, errs, says)
		}

		if ready := (Engine{}).Ready(); (ready == nil) != (path == "") {
			t.Errorf("%q: ready: %v", path, ready)
		}

		if i := (Engine{}).Info(); i.Name != "native" || i.Version != "ABI 1" {
			t.Errorf("%q: %+v", path, i)
		}
	}
}

// TestAFallingCounterIsLeftOut: during a run there is nobody to give an error to.
func TestAFallingCounterIsLeftOut(t *testing.T) {
	t.Setenv(lieEnv, "falling counter")
	d := openNull(t, nil)
	c := d.Counters()
	if c.CacheHits != nil || c.CacheMisses == nil {
		t.Errorf("hits %v, misses %v: only the hits fall", c.CacheHits, c.CacheMisses)
	}

	d.Counters()
	w := d.Warnings()
	if len(w) != 1 || w[0].Code != "native_counter" ||
		!strings.Contains(w[0].Text, "cache_hits went from 99 to 98") {
		t.Errorf("warnings %+v", w)
	}
}

func TestSettleCanBeInterrupted(t *testing.T) {
	t.Setenv(lieEnv, "never settled")
	d := openNull(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := 0
	err := d.Settle(ctx, func(s engine.Settling) {
		if told += s.Running; told == 3 {
			cancel()
		}
	})

	if !errors.Is(err, context.Canceled) || told != 3 {
		t.Errorf("%v after %d tellings", err, told)
	}
}

// TestNothingReachesAClosedDatabase: the library would read freed memory.
func TestNothingReachesAClosedDatabase(t *testing.T) {
	d := openNull(t, nil)
	r, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}

	w, err := d.Writer()
	if err != nil {
		t.Fatal(err)
	}

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	_, _, got := r.Get(nil, nil)
	_, noReader := d.Reader()
	_, noWriter := d.Writer()
	_, noShape := d.Shape()
	for i, err := range []error{got, noReader, noWriter, noShape, w.Put(nil, nil), w.Delete(nil),
		w.Commit(), d.Sync(t.Context()), d.Settle(t.Context(), nil)} {
		if !errors.Is(err, errClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}

	if c := d.Counters(); c != (engine.Counters{}) {
		t.Errorf("counters %+v", c)
	}

	for _, again := range []error{r.Close(), w.Close(), d.Close()} {
		if again != nil {
			t.Error(again)
		}
	}
}

func openNull(t testing.TB, settings map[string]string) engine.DB {
	t.Helper()
	overrides := map[string]string{LibraryOption: compile(t, "testdata/null.c")}
	for name, value := range settings {
		overrides[name] = value
	}

	d, err := Engine{}.Open(context.Background(), engine.Options{
		Dir:       t.TempDir(),
		Create:    true,
		Overrides: overrides,
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})

	return d
}
