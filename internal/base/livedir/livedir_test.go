package livedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

// TestRetry tells a file that is missing from one that somebody replaces all the time.
func TestRetry(t *testing.T) {
	dir := t.TempDir()
	calls := 0
	missing := func() error {
		calls++
		_, err := os.Open(filepath.Join(dir, "000001.sst"))
		return err
	}

	if err := Retry(dir, missing); !errors.Is(err, fs.ErrNotExist) || engine.CodeOf(err) != "" ||
		calls != attempts {
		t.Errorf("a missing file: %v after %d calls", err, calls)
	}

	replaced := func() error {
		err := missing()
		return errors.Join(err,
			os.WriteFile(filepath.Join(dir, "LOG"), []byte(strings.Repeat("x", calls)), 0o644))
	}

	if err := Retry(dir, replaced); engine.CodeOf(err) != engine.CodeInUse ||
		!strings.Contains(err.Error(), "another process changed the files of "+dir) {
		t.Errorf("beside a writer: %v", err)
	}

	calls = 0
	there := func() error {
		if calls == 2 {
			return os.WriteFile(filepath.Join(dir, "000001.sst"), nil, 0o644)
		}
		return missing()
	}

	if err := Retry(dir, there); err != nil || calls != 2 {
		t.Errorf("a file that comes: %v after %d calls", err, calls)
	}

	own, other := errors.New("cut short"), errors.New("damaged")
	calls = 0
	cut := func() error {
		if calls++; calls < 3 {
			return own
		}
		return other
	}

	if err := Retry(dir, cut, own); !errors.Is(err, other) || calls != 3 {
		t.Errorf("a further error: %v after %d calls", err, calls)
	}
}

// TestWalk passes over what vanishes while it is visited, but not over a root that is not there.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	var opened []string
	err := Walk(dir, func(path string, entry fs.DirEntry) error {
		if entry.Name() == "b" {
			if err := os.Remove(path); err != nil {
				return err
			}
		}

		f, err := os.Open(path)
		if err == nil {
			opened, err = append(opened, entry.Name()), f.Close()
		}

		return err
	})

	if err != nil || strings.Join(opened[1:], " ") != "a c" {
		t.Errorf("opened %v, error %v", opened, err)
	}

	if err := Walk(filepath.Join(dir, "none"),
		func(string, fs.DirEntry) error { return nil }); !errors.Is(
		err,
		fs.ErrNotExist,
	) {
		t.Errorf("error %v", err)
	}
}
