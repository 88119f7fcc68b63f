package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestALayoutOfTheUsersOwn comes as a shared library. A broken one beside the runner
// hides no other, and says what is wrong with it when it is asked for.
func TestALayoutOfTheUsersOwn(t *testing.T) {
	library := filepath.Join(t.TempDir(), "mine.so")
	beside(t, "statelab-run-states")
	native(t, "cc", "-O2", "-shared", "-fPIC", "-I../../native", "-o", library,
		"../../layouts/clayout/testdata/map.c")
	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Join(scratch, "lib")); err != nil {
			t.Error(err)
		}
	})

	if err := os.Mkdir(filepath.Join(scratch, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(scratch, "lib", "libstatelab_broken.so"),
		[]byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}

	layouts := func(layout, out string) outcome {
		return statelab(t, "layouts", "--layout", layout, "--accounts", "1k",
			"--accounts-per-block", "500", "--updates", "50", "--update-blocks", "2",
			"--reads", "200", "--out", out)
	}

	refused(t, layouts("map", t.TempDir()), exitUsage,
		`unknown layout "map" (known: flat-pebble, `, "holds no layout map",
		"a runner named statelab-run-map", "$STATELAB_STATE_LIBRARY")
	refused(t, layouts("qmdb", t.TempDir()), exitUsage, "holds no layout qmdb", "make runners")
	refused(t, layouts("broken", t.TempDir()), exitUsage, "load the library: ",
		"libstatelab_broken.so: file too short")

	t.Setenv("STATELAB_STATE_LIBRARY", library)
	refused(t, layouts("other", t.TempDir()), exitUsage, "holds no layout other",
		"$STATELAB_STATE_LIBRARY")
	if o := layouts("map", filepath.Join(t.TempDir(), "L")); o.exit != exitDone {
		t.Fatal(o)
	}
}
