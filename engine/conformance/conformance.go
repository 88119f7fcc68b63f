// Package conformance is what the conformance suites of engines, trees and layouts share: running
// their tests, processes that are killed, folders that hold none of what is tested, counters that
// only grow, and what a Close has to end (with package closetest).
//
// Non-goals: what an engine, a tree or a layout promises; that is in enginetest, treetest and
// layouttest.
package conformance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/closetest"
	"github.com/statelab/statelab/internal/base/livedir"
)

// Runner runs tests of a suite by their names, if they apply: to what claims the capability.
func Runner[S any](
	t *testing.T, suite S,
) func(name string, test func(S, *testing.T), applies bool) {
	return func(name string, test func(S, *testing.T), applies bool) {
		if applies {
			t.Run(name, func(t *testing.T) { test(suite, t) })
		}
	}
}

// Must ends the test with an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NewDir is a path for a folder of the test alone, which is not there yet.
func NewDir(t testing.TB) string {
	t.Helper()

	return filepath.Join(t.TempDir(), "db")
}

// Child is a command that runs the test of that name, and no other, in a process of its own. The
// suite that finds env set does there what it is to be killed in.
func Child(test string, env ...string) *exec.Cmd {
	var pattern []string
	for _, name := range strings.Split(test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(name)+"$")
	}

	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(pattern, "/"))
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr

	return cmd
}

// Interrupted runs work, such as a Settle, with a context that ends while it works, and accepts
// that it fails for this alone.
func Interrupted(t *testing.T, work func(context.Context) error) {
	t.Helper()
	soon, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := work(soon); err != nil && soon.Err() == nil {
		t.Fatal(err)
	}
}

// CloseEndsAllWork runs session, which opens something in a new folder, uses and closes it: when
// that returns, nothing of it works on. It runs once before, since a library keeps what it starts
// at its first use.
func CloseEndsAllWork(t *testing.T, session func(dir string)) {
	t.Helper()
	session(NewDir(t))

	before, dir := closetest.Now(t), NewDir(t)
	session(dir)
	closetest.Closed(t, dir, before)
}

// Opened is what an Open has returned.
type Opened interface{ Close() error }

// NotADatabase is the error of an Open that finds nothing it could open.
func NotADatabase(err error) bool {
	_, is := errors.AsType[*engine.NotADatabaseError](err)

	return is
}

// RefusesForeignFolders opens a folder that is missing, an empty one and one with a note in it,
// without asking to create anything: each is refused with the right error, and left as it was.
func RefusesForeignFolders(
	t *testing.T, isRight func(error) bool, open func(dir string) (Opened, error),
) {
	t.Helper()
	missing, empty, junk := NewDir(t), t.TempDir(), t.TempDir()
	Must(t, os.WriteFile(filepath.Join(junk, "notes.txt"), []byte("hello"), 0o644))

	for name, dir := range map[string]string{"missing": missing, "empty": empty, "junk": junk} {
		opened, err := open(dir)
		if !isRight(err) {
			t.Errorf("%s: error %v, want one that says that there is none: a "+
				"*engine.NotADatabaseError (with package engine/simple, one that wraps "+
				"fs.ErrNotExist)", name, err)
		}

		if err == nil {
			Must(t, opened.Close())
		}
	}

	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Error("the missing directory was made")
	}

	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("the empty directory holds %v, %v", entries, err)
	}

	if entries, err := os.ReadDir(junk); err != nil || len(entries) != 1 {
		t.Errorf("the directory of a note holds %v, %v", entries, err)
	}
}

// RefusesToOverwrite creates something where dir holds a closed one already: that is refused, and
// every file stays as it was.
func RefusesToOverwrite(t *testing.T, dir string, create func(dir string) (Opened, error)) {
	t.Helper()
	before := Fingerprint(t, dir)
	if opened, err := create(dir); err == nil {
		t.Error("something was created over another")
		Must(t, opened.Close())
	}

	ExpectSame(t, dir, before)
}

// Fingerprint is a line for every file of dir: its name, time of change and hash.
func Fingerprint(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	Must(t, livedir.Walk(dir, func(path string, entry os.DirEntry) error {
		info, err := entry.Info()
		if err != nil {
			return err
		}

		line := fmt.Sprint(path, " ", info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(content))
		}

		lines = append(lines, line)

		return nil
	}))

	slices.Sort(lines)

	return strings.Join(lines, "\n")
}

// ExpectSame wants dir to be as it was when its Fingerprint was taken.
func ExpectSame(t testing.TB, dir, before string) {
	t.Helper()
	if after := Fingerprint(t, dir); after != before {
		t.Errorf("%s changed from\n%s\nto\n%s", dir, before, after)
	}
}

// Grown wants counters, by name, to be no lower than before, and reported if and only if they were.
func Grown(t testing.TB, when string, before, after map[string]*int64) {
	t.Helper()
	for name, n := range after {
		was := before[name]
		switch {
		case (was == nil) != (n == nil):
			t.Errorf("%s: %s was reported: %v, is: %v", when, name, was != nil, n != nil)
		case n != nil && *n < *was:
			t.Errorf("%s: %s fell from %d to %d", when, name, *was, *n)
		}
	}
}
