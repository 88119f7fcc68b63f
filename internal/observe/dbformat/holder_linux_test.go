package dbformat

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program copies one of the system's under another name, which is the name of its processes.
func program(t *testing.T, of, name string) string {
	t.Helper()
	path, err := exec.LookPath(of)
	if err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}

	return to
}

func TestOrphansAreRunnersWithoutStatelab(t *testing.T) {
	statelab, runner, other := program(t, "sh", "statelab"),
		program(t, "sleep", "statelab-run-pebble"), program(t, "sleep", "geth")
	for _, c := range []struct {
		about, parent, child string
		want                 bool
	}{
		{"a runner of a statelab that lives", statelab, runner, false},
		{"another program", statelab, other, false},
		{"a runner below another program", "sh", runner, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			parent := exec.Command(c.parent, "-c", c.child+" 600 & echo $!; read line; kill $!")
			in, err := parent.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}

			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}

			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}

			child := 0
			text := make([]byte, 20)
			if n, err := io.ReadAtLeast(out, text, 2); err != nil {
				t.Error(err)
			} else if child, err = strconv.Atoi(strings.TrimSpace(string(text[:n]))); err != nil {
				t.Error(err)
			}

			// until it has called exec
			began := time.Now()
			for ; time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
				if name, _ := statusOf(child); strings.HasPrefix(filepath.Base(c.child), name) &&
					name != "sh" && name != "statelab" {
					break
				}
			}

			if got := orphan(child); got != c.want {
				t.Errorf("%v", got)
			}

			if _, err := io.WriteString(in, "\n"); err != nil {
				t.Error(err)
			}

			if err := parent.Wait(); err != nil && !strings.Contains(err.Error(), "signal") {
				t.Log(err)
			}
		})
	}

	if orphan(0) {
		t.Error("nobody")
	}
}
