//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/livedir/churn"
)

// TestBesideAWriter looks at a folder in which another process replaces a file all the time: what
// is said of the folder is what is said of it at rest, give or take that file.
func TestBesideAWriter(t *testing.T) {
	const content = 64 << 10
	for name, look := range map[string]func(dir string) error{
		"Resident": func(dir string) error {
			_, total, err := Resident(dir)
			return errors.Join(err, within(total, content, 3*content))
		},
		"Evict": func(dir string) error {
			_, err := Evict(t.Context(), dir)
			return err
		},
		"Warm": func(dir string) error { return Warm(t.Context(), dir, func(_, _ int64) {}) },
		"Allocated": func(dir string) error {
			bytes, files, err := Allocated(dir)
			return errors.Join(err, within(bytes, content, 3*content), within(int64(files), 1, 3))
		},
		"FilesIn": func(dir string) error {
			bytes, files := FilesIn(dir)
			return errors.Join(within(bytes, content, 3*content), within(int64(files), 1, 3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			randomFile(t, dir, content)
			inside := filepath.Join(dir, "0") // the first that is listed
			if err := os.Mkdir(inside, 0o755); err != nil {
				t.Fatal(err)
			}

			times := churn.Times
			if name == "Evict" { // which waits for the disk
				times /= 10
			}

			churn.Replace(t, inside, "%06d.log", strings.Repeat("x", content), times,
				func() error { return look(dir) })
		})
	}
}

// TestDirectBesideAWriter has no file but the one that is replaced, so that the probe meets it each
// time.
func TestDirectBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	atRest := DirectSupported(dir) // an error where the filesystem has no direct reads
	content := strings.Repeat("x", 4*directBytes)
	churn.Replace(t, dir, "%06d.log", content, churn.Times, func() error {
		if err := DirectSupported(dir); fmt.Sprint(err) != fmt.Sprint(atRest) {
			return fmt.Errorf("%v, want %v", err, atRest)
		}
		return nil
	})
}

func within(n, low, high int64) error {
	if n < low || n > high {
		return fmt.Errorf("%d, want %d to %d", n, low, high)
	}
	return nil
}

// TestDoctorBesideAWriter judges the page cache and direct reads of a folder as at rest.
func TestDoctorBesideAWriter(t *testing.T) {
	const times = 2 // each watches the machine for half a second
	dir := t.TempDir()
	judged := func() (verdicts string) {
		for _, f := range Doctor(t.Context(), dir)[:2] {
			verdicts += fmt.Sprintln(f.Name, f.State, f.Verdict)
		}
		return verdicts
	}

	atRest := judged()
	churn.Replace(t, dir, "%06d.log", strings.Repeat("x", 4*directBytes), times, func() error {
		if now := judged(); now != atRest {
			return fmt.Errorf("%s, want %s", now, atRest)
		}
		return nil
	})
}
