package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/result"
)

// What is harvested from a tree's database is what was replayed into it.

func TestHarvestGivesBackWhatWasReplayed(t *testing.T) {
	onPath(t, "statelab-run-iavl1")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	must(t, "changeset", "generate", "--profile", "bank,skewed", "--versions", "120", "--scale",
		"0.003", "--empty-store", "--empty-values", "5%", "--out",
		file("set.slcs"))
	must(t, "changeset", "import", file("set.slcs"), "--sort", "--out", file("sorted.slcs"))
	must(t, "replay", "--tree", "iavl1", "--changes", file("set.slcs"), "--out", file("R"),
		"--quiet")
	db := file("R/trees/iavl1/application.db")

	o := must(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--out", file("whole.slcs"))
	if !o.says("in 120 versions (1 to 120), 3 stores, order sorted-net") {
		t.Error(o)
	}

	want := changesOf(t, file("sorted.slcs"))
	if diff := cmp.Diff(want, changesOf(t, file("whole.slcs"))); diff != "" {
		t.Errorf("harvested otherwise than replayed:\n%.2000s", diff)
	}

	must(t, "changeset", "verify", file("whole.slcs"), "--strict")

	must(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--from", "50", "--to", "59",
		"--out", file("some.slcs"))
	c := startSlurm(t, []slurmNode{{Name: "n1"}, {Name: "n2"}})
	t.Setenv("SLURM_CONF", c.Conf)
	inParts(t, db, file("whole.slcs"))
	inParts(t, db, file("some.slcs"), "--from", "50", "--to", "59")
	must(t, "changeset", "import", file("whole.slcs"), "--from", "50", "--to", "59", "--out",
		file("window.slcs"))
	if diff := cmp.Diff(changesOf(t, file("window.slcs")),
		changesOf(t, file("some.slcs"))); diff != "" {
		t.Errorf("versions 50 to 59:\n%.2000s", diff)
	}

	refused(t,
		statelab(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--from", "121",
			"--out", file("none.slcs")), exitFailed,
		"has the versions 1 to 120, and none in the range of --from and --to")

	refused(t,
		statelab(t, "changeset", "harvest", "--tree", "iavl1", "--db", dir, "--out",
			file("none.slcs")), exitFailed, "statelab-run-iavl1", "no LevelDB")

	if !strings.Contains(must(t, "changeset", "info", file("some.slcs")).stdout,
		"without the state before version 50") {
		t.Error("the set does not say that it lacks the state it begins on")
	}

	o = statelab(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--from", "50", "--to",
		"130", "--strict", "--out", file("none.slcs"))
	refused(t, o, exitStrict,
		"versions 1 to 120 only: the set holds 50 to 120",
		"begins with version 50 on a state that it does not hold")

	// The roots of the replay become the set's; the order they came from is kept.
	run := file("R/points/iavl1")
	o = must(t, "changeset", "import", file("set.slcs"), "--roots", run, "--out",
		file("rooted.slcs"))
	if !o.says("Expected roots (iavl) of 120 versions") {
		t.Error(o)
	}

	must(t, "replay", "--tree", "iavl1", "--changes", file("rooted.slcs"), "--out", file("R2"),
		"--quiet")
	if f := readRun(t, file("R2/points/iavl1")).Figures; f.RootsChecked != 120 {
		t.Errorf("the roots of %d versions were checked, want 120", f.RootsChecked)
	}

	refused(t,
		statelab(t, "changeset", "import", file("set.slcs"), "--sort", "--roots", run, "--out",
			file("none.slcs")), exitUsage,
		"order insertion, but this set has order sorted-net")

	refused(t,
		statelab(t, "changeset", "import", file("set.slcs"), "--roots", dir, "--out",
			file("none.slcs")), exitUsage, "--roots")

	interruptedHarvest(t, db, file("again.slcs"))
	if diff := cmp.Diff(want, changesOf(t, file("again.slcs"))); diff != "" {
		t.Errorf("after an interrupt:\n%.2000s", diff)
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, e := range entries {
		if strings.Contains(e.Name(), "parts") || strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

// inParts harvests whole in parts, which make the same file.
func inParts(t *testing.T, db, whole string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	var parts []string
	for k := range 3 {
		parts = append(parts, filepath.Join(dir, fmt.Sprint(k)))
		must(t,
			append([]string{"changeset", "harvest", "--tree", "iavl1", "--db", db, "--out",
				parts[k], fmt.Sprintf("--part=%d/3", k+1)}, args...)...)
	}

	merged := filepath.Join(dir, "merged.slcs")
	must(t, append([]string{"changeset", "harvest", "--merge", "--out", merged}, parts...)...)
	if !bytes.Equal(read(t, merged), read(t, whole)) {
		t.Errorf("%v: merged otherwise than whole", args)
	}

	refused(t,
		statelab(t, "changeset", "harvest", "--merge", parts[0], parts[2], "--out",
			filepath.Join(dir, "none.slcs")), exitFailed,
		"name all parts in their order")

	merged = filepath.Join(dir, "nodes.slcs")
	must(t,
		append([]string{"changeset", "harvest", "--tree", "iavl1", "--db", db, "--out", merged,
			"--on", "slurm", "--scratch", t.TempDir()}, args...)...)
	if !bytes.Equal(read(t, merged), read(t, whole)) {
		t.Errorf("%v: harvested otherwise on nodes", args)
	}
}

// interruptedHarvest stops a harvest at its first part, then lets it go on.
func interruptedHarvest(t *testing.T, db, out string) {
	t.Helper()
	s := start(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--jobs", "1", "--out",
		out)
	parts := out + ".parts-1-120"
	var first os.FileInfo
	for deadline := time.Now().Add(time.Minute); first == nil; time.Sleep(5 * time.Millisecond) {
		if found, err := filepath.Glob(filepath.Join(parts,
			"*.slcs")); err == nil && len(found) > 0 {
			if first, err = os.Stat(found[0]); err != nil {
				t.Fatal(err)
			}
		} else if time.Now().After(deadline) {
			t.Fatal("no part is written")
		}
	}

	s.signal(syscall.SIGINT)
	refused(t, s.wait(), exitFailed, "interrupted")
	kept, err := os.Stat(filepath.Join(parts, first.Name()))
	if err != nil || !kept.ModTime().Equal(first.ModTime()) {
		t.Fatalf("the first part was not kept: %v", err)
	}

	must(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--out", out)
}

type harvested struct {
	Version int64
	Changes []string
}

// changesOf is a sorted set without deletes of keys that are not there: a version
// that creates and deletes a key leaves no trace of it in a tree.
func changesOf(t *testing.T, path string) (versions []harvested) {
	t.Helper()
	set, err := changeset.Open(os.DirFS(filepath.Dir(path)), filepath.Base(path), "")
	if err != nil {
		t.Fatal(err)
	}

	live := map[string]bool{}
	err = changeset.Each(set, &changeset.Batch{}, func(b *changeset.Batch) error {
		if len(versions) == 0 || versions[len(versions)-1].Version != b.Version {
			versions = append(versions, harvested{Version: b.Version})
		}

		v := &versions[len(versions)-1]
		for _, c := range b.Changes {
			key := set.Info().Stores[c.Store] + "/" + string(c.Key)
			switch {
			case !c.Delete:
				v.Changes = append(v.Changes, key+" = "+string(c.Value))
			case live[key]:
				v.Changes = append(v.Changes, key)
			}

			live[key] = !c.Delete
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := set.Close(); err != nil {
		t.Fatal(err)
	}

	return versions
}

// TestEveryFormReplaysToItsRoot: a set in another tool's form is the same set; the
// order within a version is part of it.
func TestEveryFormReplaysToItsRoot(t *testing.T) {
	onPath(t, "statelab-run-iavl1")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	must(t, "changeset", "generate", "--profile", "bank,skewed", "--versions", "40", "--scale",
		"0.003", "--empty-store", "--out", file("set.slcs"))
	must(t, "changeset", "import", file("set.slcs"), "--sort", "--out", file("sorted.slcs"))
	must(t, "changeset", "export", file("set.slcs"), "--format", "iavl-bench", "--out",
		file("bench"))
	must(t, "changeset", "export", file("sorted.slcs"), "--format", "cronos", "--out",
		file("cronos"))
	root := func(set string) string {
		out := file("R-" + filepath.Base(set))
		must(t, "replay", "--tree", "iavl1-map", "--changes", file(set), "--out", out, "--quiet")
		run, err := result.ReadRun(filepath.Join(out, "points", "iavl1-map"))
		if err != nil {
			t.Fatal(err)
		}

		if run.Figures.Replay == nil || run.Figures.Versions != 40 {
			t.Fatalf("%s: %+v", set, run.Figures.Replay)
		}

		return run.Figures.Root.Combined
	}

	inserted, sorted := root("set.slcs"), root("sorted.slcs")
	if inserted == sorted {
		t.Error("the order of the changes made no difference")
	}

	if got := root("bench"); got != inserted {
		t.Errorf("iavl-bench form: root %s, want %s", got, inserted)
	}

	if got := root("cronos"); got != sorted {
		t.Errorf("cronos form: root %s, want %s", got, sorted)
	}
}

// TestHarvestKeepsTheChainsRoots: the SDK writes the roots of every version into its
// database; a set harvested from the first version on has them, and trees must. The SDK writes in
// the order of keys, as what is harvested is.
func TestHarvestKeepsTheChainsRoots(t *testing.T) {
	onPath(t, "statelab-run-iavl1")
	onPath(t, "statelab-run-cosmosstore")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	must(t, "changeset", "generate", "--profile", "bank,skewed", "--versions", "20", "--scale",
		"0.001", "--sort", "--out", file("set.slcs"))
	must(t, "replay", "--tree", "cosmosstore", "--changes", file("set.slcs"), "--out", file("R"),
		"--quiet")
	db := file("R/trees/cosmosstore/application.db")
	o := must(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--out", file("whole.slcs"))
	if !o.says("Expected roots (iavl) of 20 versions") {
		t.Error(o)
	}

	o = must(t, "changeset", "harvest", "--tree", "iavl1", "--db", db, "--from", "5", "--out",
		file("some.slcs"))
	if o.says("Expected roots") || !strings.Contains(o.stderr, "earlier versions were left out") {
		t.Error(o)
	}

	must(t, "replay", "--tree", "iavl1", "--changes", file("whole.slcs"), "--out", file("R2"),
		"--quiet")
	if f := readRun(t, file("R2/points/iavl1")).Figures; f.RootsChecked != 20 {
		t.Errorf("the roots of %d versions were checked, want 20", f.RootsChecked)
	}
}
