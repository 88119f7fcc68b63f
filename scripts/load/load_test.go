package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEverythingEnds: the command's exit code is load's, and neither a process nor a file of the
// load is left.
func TestEverythingEnds(t *testing.T) {
	if len(os.Getenv(role)) > 0 {
		t.Fatal("the role of a child is set: ", os.Getenv(role))
	}

	dir := t.TempDir()
	program := filepath.Join(dir, "load")
	if text, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	scratch := filepath.Join(dir, "tmp")
	if err := os.Mkdir(scratch, 0o755); err != nil {
		t.Fatal(err)
	}

	command := exec.Command(program, "sh", "-c", "ls $TMPDIR; exit 7")
	command.Env = append(os.Environ(), "TMPDIR="+scratch)
	text, err := command.CombinedOutput()
	if command.ProcessState.ExitCode() != 7 || !strings.Contains(string(text), "statelab-load-") {
		t.Errorf("%v\n%s", err, text)
	}

	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	processes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}

	for _, process := range processes {
		if path, err := os.Readlink(process); err == nil && strings.HasPrefix(path, program) {
			t.Errorf("%s still runs", process)
		}
	}
}
