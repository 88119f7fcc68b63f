package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/observe/host"
)

// TestOneCommandWritesIntoAFolder: whatever makes a folder of results refuses one that another
// process writes into, leaves it as it is, and works when that has ended.
func TestOneCommandWritesIntoAFolder(t *testing.T) {
	testring.Outer(t, "it starts every pair of commands that write")
	db := database(t, "pebble1")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	sweep := []string{"sweep", "--db", db, "--cache", "1MiB", "--gets", "500", "--warmup", "100",
		"--access-gets", "100", "--out", in("S")}
	must(t, sweep...)
	must(t, "trace", "--db", db, "--gets", "500", "--warmup", "100", "--out", in("T"))
	for _, args := range [][]string{
		{"sweep", "--resume", "--out", in("S")},
		{"load", "--db", in("D"), "--keys", "1k", "--out", in("load")},
		{"sweep", "--db", db, "--cache", "1MiB", "--gets", "500", "--warmup", "100",
			"--access-gets", "100", "--out", in("sweep")},
		{"disk", dir, "--in-flight", "1", "--seconds", "0.1", "--with", "none", "--repeats", "1",
			"--out", in("disk")},
		{"simulate", in("T"), "--cache", "1MiB", "--out", in("simulate")},
		{"predict", "--db", db, "--cache", "1MiB", "--gets", "1k", "--warmup", "1k", "--out",
			in("predict")},
		{"advise", db, "--probe-seconds", "0", "--out", in("advise")},
		{"layouts", "--layout", "flat-pebble", "--accounts", "1k", "--reads", "100",
			"--update-blocks", "0", "--out", in("layouts")},
		{"price", "--layout", "flat-pebble", "--accounts", "1k", "--contract-slots", "1k",
			"--reads", "100", "--hardware", in("disk"), "--out", in("price")},
	} {
		if (args[0] == "disk" || args[0] == "price") && host.DirectSupported(dir) != nil {
			continue // the disk is measured with O_DIRECT
		}

		out := args[len(args)-1]
		tidy, err := output.MakeFolder(out)
		if args[1] == "--resume" {
			held, wrong := output.LockDir(out)
			tidy, err = func() error { return held.Close() }, wrong
		}

		if err != nil {
			t.Fatal(err)
		}

		before := entriesOf(t, out)
		second := statelab(t, args...)
		if second.exit == exitDone ||
			!strings.Contains(second.stderr, "another statelab command is writing into "+out+
				": wait until it has ended") {
			t.Errorf("%s: %+v", args[0], second)
		}

		if after := entriesOf(t, out); len(after) != len(before) {
			t.Errorf("%s: %v", args[0], after)
		}

		if err := tidy(); err != nil {
			t.Fatal(err)
		}

		must(t, args...)
	}
}
