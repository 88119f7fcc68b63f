package adapter

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

func TestRetryOpen(t *testing.T) {
	for _, c := range []struct {
		name                string
		lockCounts, changes bool // the lock is not ignored, each failure comes with a change
		err                 error
		failures            int // before an open that succeeds
		tries               int
		remedy              bool
	}{
		{name: "Opens", tries: 1},
		{name: "ChangedTwice", changes: true, err: io.ErrUnexpectedEOF, failures: 2, tries: 3},
		{name: "Damaged", err: io.ErrUnexpectedEOF, failures: 100, tries: 1},
		{name: "Locked", changes: true, err: &engine.LockedError{}, failures: 100, tries: 1},
		{
			name:       "LockCounts",
			lockCounts: true,
			changes:    true,
			err:        io.ErrUnexpectedEOF,
			failures:   100,
			tries:      1,
		},
		{
			name:     "NeverStill",
			changes:  true,
			err:      io.ErrUnexpectedEOF,
			failures: 100,
			tries:    retryOpenTries,
			remedy:   true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, tries := t.TempDir(), 0
			got, err := RetryOpen(t.Context(), dir, !c.lockCounts, func() (int, error) {
				tries++
				if tries > c.failures {
					return 7, nil
				}

				if c.changes {
					if err := os.WriteFile(filepath.Join(dir, "log"), make([]byte, tries),
						0o600); err != nil {
						t.Fatal(err)
					}
				}

				return 0, c.err
			})

			if tries != c.tries {
				t.Errorf("%d tries, want %d", tries, c.tries)
			}

			if c.failures < tries {
				if err != nil || got != 7 {
					t.Fatalf("got %d, %v", got, err)
				}
				return
			}

			busy, _ := errors.AsType[*engine.Failure](err)
			remedy := busy != nil && strings.Contains(busy.Remedy, "checkpoint")
			if !errors.Is(err, c.err) || remedy != c.remedy {
				t.Errorf("error %v; a remedy is wanted: %t", err, c.remedy)
			}
		})
	}
}
