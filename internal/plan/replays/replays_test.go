package replays

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/tree"
)

func rooted(name string, roots ...string) competitor {
	c := competitor{name: name, roots: map[int64]result.Roots{}}
	for i, root := range roots {
		if root != "" {
			c.roots[int64(i+1)] = result.Roots{
				Combined: root,
				Stores:   map[string]string{"bank": root, "acc": "same"},
			}
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
		{
			"identical",
			[]competitor{rooted("a", "1", "2", "3"), rooted("b", "1", "2", "3")},
			result.RootsVerdict{Verdict: result.Identical, Compared: 3},
		},
		{
			"one fell short",
			[]competitor{rooted("a", "1", "2", "3"), rooted("b", "1")},
			result.RootsVerdict{Verdict: result.Identical, Compared: 1},
		},
		{
			"different",
			[]competitor{rooted("a", "1", "2", "3", "4"), rooted("b", "1", "2", "x", "4"),
				rooted("c", "1", "", "3", "4")},
			result.RootsVerdict{
				Verdict:         result.Different,
				Compared:        3,
				FirstDifference: 3,
				LastAgreement:   2,
				ByRoot:          map[string][]string{"3": {"a", "c"}, "x": {"b"}},
				DifferingStores: []string{"bank"},
			},
		},
		{
			"one tree",
			[]competitor{rooted("a", "1", "2")},
			result.RootsVerdict{
				Verdict: result.CannotTell,
				Why:     "no version has the roots of two runs",
			},
		},
		{"no version in common", []competitor{rooted("a", "1", ""), rooted("b", "", "2")},
			result.RootsVerdict{
				Verdict: result.CannotTell,
				Why:     "no version has the roots of two runs",
			}},
	} {
		if diff := cmp.Diff(c.want, judge(c.all)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestCountersOfASecondPass(t *testing.T) {
	pass := func(nodes, diskBytes float64, digest string) *result.Figures {
		return &result.Figures{Replay: &result.Replay{Leaves: 10, RootsDigest: digest},
			Set: figure.SetOf(map[figure.Figure]float64{
				figure.NodesWritten: nodes, figure.DBGets: 7, figure.DiskBytes: diskBytes})}
	}

	first, same, other := pass(30, 1, "a"), pass(30, 2, "a"), pass(31, 1, "b")
	if v := agree([]*result.Figures{first, same}, true); v.Verdict != result.Identical ||
		len(v.Values) != 3 {
		t.Errorf("%+v", v)
	}

	if v := agree([]*result.Figures{first, other}, true); v.Verdict != result.Different ||
		!slices.Equal(v.Differ, []string{"nodes", "roots"}) {
		t.Errorf("%+v", v)
	}

	if v := agree([]*result.Figures{first}, true); v.Verdict != result.CannotTell {
		t.Errorf("%+v", v)
	}
}

// answers stand in for runner processes.
type answers func(spec *protocol.TreeSpec, run *result.Run) error

func (a answers) Do(_ context.Context, job runners.Job, _ result.EventFunc) (*result.Run, error) {
	run := job.Blank()
	run.Status = result.OK
	if err := os.MkdirAll(job.Spec.Head().Out, 0o755); err != nil {
		return nil, err
	}

	if err := a(job.Spec.(*protocol.TreeSpec), run); err != nil {
		return nil, err
	}

	return run, result.WriteRun(job.Spec.Head().Out, run)
}

// What is finished is not run again, what is not goes on with its tree.
func TestRunsGoOn(t *testing.T) {
	out := t.TempDir()
	r := Replays{
		Trees: filepath.Join(out, "trees"),
		Entries: []Entry{{Label: "a", Info: tree.Info{Name: "a", RootRule: "r"}},
			{Label: "b:p", Info: tree.Info{Name: "b", RootRule: "r"}}},
	}

	var order []string
	ctx, cancel := context.WithCancelCause(context.Background())
	left := 3
	by := answers(func(spec *protocol.TreeSpec, run *result.Run) error {
		order = append(order, filepath.Base(spec.Out))
		if left == 0 && spec.Resume != (len(order) == 4) {
			t.Errorf("%s: resume is %v", spec.Out, spec.Resume)
		}

		if left > 0 {
			if left--; left == 0 {
				run.Status = result.Interrupted
				cancel(errors.New("stopped"))
			}
		}

		run.Figures.Record(figure.LeavesPerSecond, float64(len(order)))
		if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
			return err
		}

		return errors.Join(os.WriteFile(filepath.Join(spec.Dir, "data"), nil, 0o644),
			os.WriteFile(filepath.Join(spec.Out, result.AcknowledgedFile), []byte("7"), 0o644))
	})

	measure := func(ctx context.Context) *result.ReplayOf {
		how := plan.Plan{Out: out, Repeats: 2, Seed: 1}
		work := New(r, how, by)
		if _, err := plan.Run(ctx, how, work, func(plan.Progress) {}); err != nil {
			t.Fatal(err)
		}

		return work.Result
	}

	if r := measure(ctx); r.Status != result.Interrupted {
		t.Fatal(r.Status, r.Error)
	}

	for _, name := range order[:2] {
		if _, err := os.Stat(filepath.Join(r.Trees, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the tree of a repeat that is done still takes room", name)
		}
	}

	done := measure(context.Background())
	if done.Status != result.OK || len(done.Trees) != 2 {
		t.Fatalf("%+v", done)
	}

	if len(order) != 5 || order[2] != order[3] {
		t.Errorf("order %q: the third run goes on as the fourth", order)
	}

	for _, tree := range done.Trees {
		spread := tree.Spread["leaves_per_second"]
		leaves := tree.Figures.OrZero(figure.LeavesPerSecond)
		if leaves != spread.Low {
			t.Errorf("of two repeats the slower is shown: %v of %v", leaves, spread)
		}
	}
}
