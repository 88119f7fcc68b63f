package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

func rooted(name string, roots ...string) competitor {
	c := competitor{name: name, roots: map[int64]result.Roots{}}
	for i, root := range roots {
		if root != "" {
			c.roots[int64(i+1)] = result.Roots{Combined: root, Stores: map[string]string{"bank": root, "acc": "same"}}
		}
	}
	return c
}

func TestTheFirstDifferenceIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []competitor
		want result.RootsVerdict
	}{
		{"identical", []competitor{rooted("a", "1", "2", "3"), rooted("b", "1", "2", "3")}, result.RootsVerdict{Verdict: result.Identical, Compared: 3}},
		{"one fell short", []competitor{rooted("a", "1", "2", "3"), rooted("b", "1")}, result.RootsVerdict{Verdict: result.Identical, Compared: 1}},
		{"different", []competitor{rooted("a", "1", "2", "3", "4"), rooted("b", "1", "2", "x", "4"), rooted("c", "1", "", "3", "4")},
			result.RootsVerdict{Verdict: result.Different, Compared: 3, FirstDifference: 3, LastAgreement: 2,
				ByRoot: map[string][]string{"3": {"a", "c"}, "x": {"b"}}, DifferingStores: []string{"bank"}}},
		{"one tree", []competitor{rooted("a", "1", "2")}, result.RootsVerdict{Verdict: result.CannotTell, Why: "no version has the roots of two runs"}},
		{"no version in common", []competitor{rooted("a", "1", ""), rooted("b", "", "2")}, result.RootsVerdict{Verdict: result.CannotTell, Why: "no version has the roots of two runs"}},
	} {
		if diff := cmp.Diff(c.want, judge(c.all)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestCountersOfASecondPass(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	first := &result.Replay{Leaves: 10, Nodes: n(30), DBGets: n(7), RootsDigest: "a", DiskBytes: n(1)}
	same := &result.Replay{Leaves: 10, Nodes: n(30), DBGets: n(7), RootsDigest: "a", DiskBytes: n(2)}
	other := &result.Replay{Leaves: 10, Nodes: n(31), DBGets: n(7), RootsDigest: "b"}
	if v := agree([]*result.Replay{first, same}, true); v.Verdict != result.Identical || len(v.Values) != 3 {
		t.Errorf("%+v", v)
	}
	if v := agree([]*result.Replay{first, other}, true); v.Verdict != result.Different || !slices.Equal(v.Differ, []string{"nodes", "roots"}) {
		t.Errorf("%+v", v)
	}
	if v := agree([]*result.Replay{first}, true); v.Verdict != result.CannotTell {
		t.Errorf("%+v", v)
	}
}

// TestRunsAreInterleavedAndGoOn: forwards, backwards; what is finished is not
// run again, what is not goes on with its tree.
func TestRunsAreInterleavedAndGoOn(t *testing.T) {
	out := t.TempDir()
	plan := Plan{Repeats: 2, Trees: filepath.Join(out, "trees"), Entries: []Entry{{Label: "a", Info: tree.Info{Name: "a", RootRule: "r"}},
		{Label: "b:p", Info: tree.Info{Name: "b", RootRule: "r"}}}}
	var order []string
	stop := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	fail := 3
	measure := func(_ context.Context, e Entry, spec *replay.Spec, _ result.Tell) (*result.Run, error) {
		order = append(order, fmt.Sprintf("%s resume=%v", filepath.Base(spec.Out), spec.Resume))
		run := replay.Blank(spec, e.Info)
		run.Status = result.OK
		if fail--; fail == 0 {
			run.Status = result.Interrupted
			cancel(stop)
		}
		run.Figures.LeavesPerSecond = float64(len(order))
		for _, dir := range []string{spec.Out, spec.Dir} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(spec.Dir, "data"), nil, 0o644); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(spec.Out, result.AcknowledgedFile), []byte("7"), 0o644); err != nil {
			return nil, err
		}
		return run, result.WriteRun(spec.Out, run)
	}
	quiet := func(int, int, Entry, int, result.Event) {}
	if r, err := Run(ctx, plan, out, measure, quiet); !errors.Is(err, stop) || r.Status != result.Interrupted {
		t.Fatal(r.Status, err)
	}
	if _, err := os.Stat(filepath.Join(plan.Trees, "a-1")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the tree of a repeat that is done still takes room")
	}
	read, err := ReadPlan(out)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), read, out, measure, quiet)
	if err != nil || r.Status != result.OK || len(r.Trees) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := []string{"a-1 resume=false", "b-p-1 resume=false", "b-p-2 resume=false", "b-p-2 resume=true", "a-2 resume=false"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q\nwant  %q", order, want)
	}
	if a := r.Trees[0]; a.Figures.LeavesPerSecond != 1 || a.Spread["leaves_per_second"] != (result.Range{Low: 1, High: 5}) {
		t.Errorf("of two repeats the slower is told: %v, %v", a.Figures.LeavesPerSecond, a.Spread)
	}
}
