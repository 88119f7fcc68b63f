package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/replay/replaytest"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/tree"
)

// set writes a container: versions of 20 changes over two stores and a third
// that stays empty; every seventh version is left out, every tenth is empty.
func set(
	t *testing.T, versions int64, roots func(version int64) changeset.Roots,
) (path string, counted result.Replay) {
	return setAfter(t, 0, versions, roots)
}

// setAfter is set with numbers of versions that begin after before.
func setAfter(
	t *testing.T, before, versions int64, roots func(version int64) changeset.Roots,
) (path string, counted result.Replay) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "set.slcs")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	w, err := changeset.NewWriter(f, changeset.Header{
		Order:      changeset.OrderInsertion,
		RootRule:   "replaytest",
		Provenance: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}

	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}

	for _, name := range []string{"bank", "acc", "empty"} {
		_, err := w.Store(name)
		must(err)
	}

	random := rand.New(rand.NewPCG(1, 2))
	for v := int64(1); v <= versions; v++ {
		if v%7 == 0 && v != versions {
			continue
		}

		must(w.Begin(before + v))
		for range 20 {
			if v%10 == 0 {
				break
			}

			c := changeset.Change{
				Store:  random.IntN(2),
				Key:    binary.BigEndian.AppendUint64(nil, random.Uint64N(500)),
				Delete: random.IntN(4) == 0,
			}

			if !c.Delete {
				c.Value = bytes.Repeat([]byte{byte(v)}, random.IntN(40))
			} else {
				counted.Removes++
			}

			counted.Leaves++
			counted.UserBytes += int64(len(c.Key) + len(c.Value))
			must(w.Change(c))
		}

		var r changeset.Roots
		if roots != nil {
			r = roots(v)
		}

		must(w.End(r))
	}

	must(w.Close())
	must(f.Close())
	return path, counted
}

func specFor(t *testing.T, changes string, overrides map[string]string) *protocol.TreeSpec {
	dir := t.TempDir()
	return &protocol.TreeSpec{Schema: schema.TreeSpec, Out: dir, Tree: "replaytest",
		Dir: filepath.Join(dir, "tree"), Overrides: overrides, Changes: changes,
		CommitLimitNanos: int64(time.Minute), Seed: 1}
}

func quiet(result.Event) {}

// The folder has the words of the contract.
func TestStepsAreTheContracts(t *testing.T) {
	for stored, told := range map[string]string{
		result.StepBegun:    tree.Begun,
		result.StepWritten:  tree.Written,
		result.StepCaughtUp: tree.CaughtUp,
		result.StepSwitched: tree.Switched,
	} {
		if stored != told {
			t.Errorf("%q is stored of %q", stored, told)
		}
	}
}

func TestAReplayCountsWhatTheSetHolds(t *testing.T) {
	path, want := set(t, 300, nil)
	spec := specFor(t, path, nil)
	spec.Gets = 2000
	run, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
	if err != nil {
		t.Fatal(err)
	}

	f := run.Figures
	if f.Leaves != want.Leaves || f.Removes != want.Removes ||
		f.Sets != want.Leaves-want.Removes || f.UserBytes != want.UserBytes {
		t.Errorf("counted %+v\nwant %+v", *f.Replay, want)
	}

	if f.Versions != 300 || f.FirstVersion != 1 || f.LastVersion != 300 || f.CommitNanos.N != 300 {
		t.Errorf("%d versions from %d to %d, %d commits timed", f.Versions, f.FirstVersion,
			f.LastVersion, f.CommitNanos.N)
	}

	if f.OrZero(figure.DBSets) != float64(want.Leaves) {
		t.Errorf("the tree counted %v sets, the set has %d", f.OrZero(figure.DBSets), want.Leaves)
	}

	if f.Gets != 2000 || f.Found == 0 || f.Missing < 900 || f.FailedGets != 0 ||
		f.ServiceNanos.N != 2000 {
		t.Errorf("Gets: %d, %d found, %d missing", f.Gets, f.Found, f.Missing)
	}

	if f.Root == nil || len(f.Root.Stores) != 3 || len(f.Root.Combined) != 64 ||
		f.RootsDigest == "" {
		t.Errorf("roots %+v", f.Root)
	}

	stored, err := result.ReadRun(spec.Out)
	if err != nil || stored.Status != result.OK || stored.Figures.Leaves != want.Leaves ||
		stored.Engine.RootRule != "replaytest" {
		t.Errorf("stored %+v, %v", stored, err)
	}

	roots, err := result.ReadRoots(spec.Out)
	if err != nil || len(roots) != 300 || roots[299].Combined != f.Root.Combined {
		t.Errorf("%d roots stored, %v", len(roots), err)
	}

	rows, err := result.ReadVersions(spec.Out)
	if err != nil || len(rows) != 300 {
		t.Fatalf("%d rows of versions, %v", len(rows), err)
	}

	sum := result.VersionRow{}
	for i, row := range rows {
		if sum.Leaves, sum.CommitNanos = sum.Leaves+
			row.Leaves, sum.CommitNanos+row.CommitNanos; row.Version != int64(i+1) {
			t.Fatalf("row %d is of version %d", i, row.Version)
		}
	}

	if sum.Leaves != f.Leaves || float64(sum.CommitNanos)/1e9 != f.CommitSeconds {
		t.Errorf("the rows add up to %+v, the run to %+v", sum, *f.Replay)
	}

	ticks, err := result.ReadSeries(spec.Out)
	if err != nil || len(ticks) == 0 {
		t.Fatalf("series %+v, %v", ticks, err)
	}

	// A run of more than a second leaves out a last interval that is too short for a rate.
	last := ticks[len(ticks)-1].Tree
	if last.Version > 300 || last.Leaves > want.Leaves || last.Version == 300 &&
		float64(*last.TreeSize) != f.OrZero(figure.TreeSize) {
		t.Errorf("the series ends with %+v", last)
	}
}

func TestWhatGoesWrongInATreeIsAResult(t *testing.T) {
	good, _ := set(t, 40, nil)
	spec := specFor(t, good, nil)
	run, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
	if err != nil {
		t.Fatal(err)
	}

	_ = run
	for _, c := range []struct {
		what, value, says string
		gets              uint64
	}{
		{replaytest.WrongVersionAt, "13", "the commit returned version 12, not 13: the tree lost " +
			"or repeated a version", 0},
		{replaytest.FailAt, "13", "commit version 13: the node store is closed", 0},
		{replaytest.ForgetAt, "1", "found, but it was removed or never written", 2000},
	} {
		t.Run(c.what, func(t *testing.T) {
			spec := specFor(t, good, map[string]string{c.what: c.value})
			spec.Gets = c.gets
			run, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
			if err == nil || run.Status != result.Failed || !strings.Contains(run.Error, c.says) {
				t.Errorf("%s: %q, want %q", run.Status, run.Error, c.says)
			}

			if c.gets == 0 && run.Figures.LastVersion != 12 {
				t.Errorf("the last version is %d", run.Figures.LastVersion)
			}
		})
	}
}

func TestACommitThatDoesNotReturnIsReportedWithItsStack(t *testing.T) {
	path, _ := set(t, 40, nil)
	spec := specFor(t, path, map[string]string{replaytest.HangAt: "13"})
	spec.CommitLimitNanos = int64(2 * time.Second) // a busy machine delays sound commits too
	run, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
	var stuck *stuckError
	if !errors.As(err, &stuck) || run.Status != result.Failed ||
		!strings.Contains(run.Error, "Commit at version 13 did not return within 2s") {
		t.Fatalf("%s: %q", run.Status, run.Error)
	}

	stacks, err := os.ReadFile(filepath.Join(spec.Out, result.StacksFile))
	if err != nil {
		t.Fatal(err)
	}

	if first, _, _ := strings.Cut(string(stacks), "\n\n"); !strings.Contains(first,
		"replaytest.hang") {
		t.Errorf("the first stack is not the guilty one:\n%s", stacks)
	}

	if strings.Contains(string(stacks), "testing.(*M)") ||
		strings.Contains(string(stacks), "(*ahead).run") {
		t.Errorf("stacks of the innocent:\n%s", stacks)
	}

	stored, err := result.ReadRun(spec.Out)
	if err != nil || stored.Status != result.Failed || stored.Figures.LastVersion != 12 ||
		stored.Figures.Root == nil {
		t.Errorf("stored %+v, %v", stored, err)
	}
}

func TestRootsAreHeldAgainstTheSets(t *testing.T) {
	path, _ := set(t, 40, nil)
	spec := specFor(t, path, nil)
	if _, err := Run(context.Background(), replaytest.Tree{}, spec, quiet); err != nil {
		t.Fatal(err)
	}

	stored, err := result.ReadRoots(spec.Out)
	if err != nil {
		t.Fatal(err)
	}

	with, _ := set(t, 40, func(version int64) changeset.Roots {
		var r changeset.Roots
		for _, name := range []string{"bank", "acc", "empty"} {
			root, err := fromHex(stored[version-1].Stores[name])
			if err != nil {
				t.Fatal(err)
			}
			r.Stores = append(r.Stores, root)
		}

		return r
	})

	run, err := Run(context.Background(), replaytest.Tree{}, specFor(t, with, nil), quiet)
	if err != nil || run.Figures.RootsChecked != 35 { // 40 without 7, 14, 21, 28, 35
		t.Errorf("%d roots checked, %v", run.Figures.RootsChecked, err)
	}

	run, err = Run(context.Background(), replaytest.Tree{},
		specFor(t, with, map[string]string{replaytest.WrongRootAt: "20"}), quiet)
	if run.Status != result.Failed || run.Code != engine.CodeWrongAnswer ||
		!strings.Contains(err.Error(), "wrong root at version 20, store bank: ") {
		t.Errorf("%v", err)
	}
}

func fromHex(text string) ([]byte, error) {
	var b []byte
	_, err := fmt.Sscanf(text, "%x", &b)
	return b, err
}

func TestAnInterruptedReplayGoesOnToTheSameRoot(t *testing.T) {
	for _, before := range []int64{0, 5000} { // a set of a chain's later versions
		t.Run(fmt.Sprint("after version ", before), func(t *testing.T) {
			testInterruptedReplay(t, before)
		})
	}
}

func testInterruptedReplay(t *testing.T, before int64) {
	path, want := setAfter(t, before, 200, nil)
	whole, err := Run(context.Background(), replaytest.Tree{}, specFor(t, path, nil), quiet)
	if err != nil {
		t.Fatal(err)
	}

	spec := specFor(t, path, map[string]string{replaytest.CommitMillis: "5"})
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(context.Background())
	first, err := Run(ctx, replaytest.Tree{}, spec, func(e result.Event) {
		if e.Phase == replayPhase && e.Done > 0 {
			cancel(interrupted)
		}
	})

	if !errors.Is(err, interrupted) || first.Status != result.Interrupted ||
		first.Figures.LastVersion < before+1 {
		t.Fatalf("%s: %v", first.Status, err)
	}

	spec.Resume, spec.Overrides, spec.Gets = true, nil, 1000
	second, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
	if err != nil {
		t.Fatal(err)
	}

	if at := *second.Figures.ResumedAt; at != first.Figures.LastVersion ||
		*second.Figures.LostVersions != 0 || second.Figures.FirstVersion != at+1 {
		t.Errorf("resumed at %d after %d, lost %d", at, first.Figures.LastVersion,
			*second.Figures.LostVersions)
	}

	if second.Figures.Root.Combined != whole.Figures.Root.Combined ||
		first.Figures.Leaves+second.Figures.Leaves != want.Leaves {
		t.Errorf("root %s, want %s; %d + %d leaves, want %d", second.Figures.Root.Combined,
			whole.Figures.Root.Combined, first.Figures.Leaves,
			second.Figures.Leaves, want.Leaves)
	}

	roots, err := result.ReadRoots(spec.Out)
	if err != nil || len(roots) != 200 || roots[0].Version != before+1 ||
		roots[199].Version != before+200 {
		t.Errorf("%d roots stored, %v", len(roots), err)
	}

	// As after a kill between the last commit and the run folder.
	spec.Gets = 0
	third, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
	if err != nil {
		t.Fatal(err)
	}

	if third.Figures.Root == nil || third.Figures.Root.Combined != whole.Figures.Root.Combined {
		t.Errorf("nothing was left to replay: root %+v", third.Figures.Root)
	}
}

func TestATruncatedSetFailsAfterItsLastWholeVersion(t *testing.T) {
	path, _ := set(t, 1500, nil)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.Truncate(path, info.Size()-info.Size()/8); err != nil {
		t.Fatal(err)
	}

	run, err := Run(context.Background(), replaytest.Tree{}, specFor(t, path, nil), quiet)
	var damage *changeset.DamageError
	if !errors.As(err, &damage) || run.Status != result.Failed {
		t.Fatalf("%s, %v", run.Status, err)
	}

	if last := run.Figures.LastVersion; last < 300 || last >= 1500 ||
		len(run.Figures.Root.Stores) != 3 {
		t.Errorf("replayed up to %d: %+v", last, run.Figures.Root)
	}
}

func TestANewTreeNeedsAnEmptyFolder(t *testing.T) {
	path, _ := set(t, 3, nil)
	spec := specFor(t, path, nil)
	for n := range 2 {
		_, err := Run(context.Background(), replaytest.Tree{}, spec, quiet)
		if n == 0 && err != nil ||
			n == 1 && (err == nil || !strings.Contains(err.Error(), "--resume")) {
			t.Errorf("run %d: %v", n, err)
		}
	}
}

// Of the harness alone: no tree stays below 10 us a leaf.
func BenchmarkHarness(b *testing.B) {
	clock, sum := measure.NewClock(), 0.0
	for b.Loop() {
		sum += HarnessFloor(clock)
	}
	b.ReportMetric(sum/float64(b.N), "ns/leaf")
}

// lean is a tree without a harness' excuse: nothing may be allocated per change.
type lean struct {
	tree.Forest
	n int
}

func (l *lean) Set(int, []byte, []byte) error { l.n++; return nil }

func (l *lean) Remove(int, []byte) error { l.n++; return nil }

func TestAChangeCostsNoAllocation(t *testing.T) {
	changes := make([]changeset.Change, 1000)
	forest := &lean{}
	if allocs := testing.AllocsPerRun(10, func() {
		if _, err := change(forest, changes); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
