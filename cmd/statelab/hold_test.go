package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/output"
)

// A folder that another process writes into is not continued beside it.
func TestOneCommandWritesIntoAFolder(t *testing.T) {
	db := database(t, "pebble1")
	out := filepath.Join(t.TempDir(), "S")
	sweep := []string{"sweep", "--db", db, "--cache", "1MiB", "--gets", "500", "--warmup", "100", "--access-gets", "100", "--out", out}
	must(t, sweep...)
	held, ok, err := output.Hold(out)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	second := statelab(t, "sweep", "--resume", "--out", out)
	if second.exit != exitFailed || !strings.Contains(second.stderr, "another statelab command is writing into "+out) {
		t.Errorf("%+v", second)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, "sweep", "--resume", "--out", out)
}
