// Package layoutplan holds layouts of state against each other: every layout at every
// size, a process each; their roots; what formulas and a model of memory predict, for
// the sizes that were run and for those that nobody can build.
//
// It plans and concludes, and measures nothing: that is package layouts, which is all
// that a runner links.
//
// Read in this order: plan.go, rows.go, expect.go, expect_held.go, expect_outlook.go.
package layoutplan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// Plan is a comparison: every layout at every size.
type Plan struct {
	Command  []string
	Base     lookup.Spec // what all share
	Entries  []Entry
	Accounts []uint64
	States   string // folder of the states' files
	Keep     bool   // leave them there
}

// Entry is a layout of a plan.
type Entry struct {
	Label   string
	Profile string
	Info    layout.Info
}

// RunSpec carries a spec out in a process of its own.
type RunSpec func(ctx context.Context, e Entry, spec *lookup.Spec, tell result.Tell) (*result.Run, error)

// Progress is told what a comparison is at; n counts from 1.
type Progress func(n, of int, e Entry, accounts uint64, event result.Event)

// runsDir holds the run folders.
const runsDir = "runs"

// Layouts carries a plan out in the folder out. A layout that fails is a row with an
// error; the error returned is for what kept the comparison from going on.
func Layouts(ctx context.Context, plan Plan, out string, measure RunSpec, progress Progress) (*result.Layouts, error) {
	c := plan.Base.Chain
	l := &result.Layouts{Status: result.Interrupted, Started: time.Now().UTC(), Command: plan.Command, Absent: map[string]string{},
		Rows: []result.LayoutRow{}, Roots: []result.LayoutRoots{}, Outlook: []result.LayoutOutlook{},
		Workload: result.StateWorkload{Accounts: plan.Accounts, ContractShare: c.ContractShare, SlotsPer: c.SlotsPer, BlockAccounts: c.BlockAccounts,
			UpdateBlocks: c.UpdateBlocks, UpdateAccounts: c.UpdateAccounts, Reads: plan.Base.Reads, MemoryBytes: plan.Base.MemoryBytes, Seed: c.Seed}}
	if err := os.MkdirAll(filepath.Join(out, runsDir), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the comparison: %w", err)
	}
	n, of := 0, len(plan.Accounts)*len(plan.Entries)
	var built []*result.Run
	for _, accounts := range plan.Accounts {
		for _, e := range plan.Entries {
			n++
			s := step{plan: plan, out: out, entry: e, accounts: accounts, measure: measure,
				tell: func(event result.Event) { progress(n, of, e, accounts, event) }}
			row, build, err := s.run(ctx, l)
			if err != nil {
				return l, errors.Join(err, result.WriteLayouts(out, l))
			}
			l.Rows, built = append(l.Rows, row), append(built, build)
			if ctx.Err() != nil {
				l.Error = "interrupted: what was measured until then is kept"
				return l, result.WriteLayouts(out, l)
			}
			conclude(l, plan, built)
			if err := result.WriteLayouts(out, l); err != nil {
				return l, err
			}
		}
	}
	l.Status = result.OK
	if err := verdict(l); err != "" {
		l.Status, l.Error = result.Failed, err
	}
	return l, result.WriteLayouts(out, l)
}

// conclude brings what holds rows against each other up to date.
func conclude(l *result.Layouts, plan Plan, built []*result.Run) {
	l.Roots, l.Outlook = rootVerdicts(l.Rows, built), nil
	for _, e := range plan.Entries {
		l.Outlook = append(l.Outlook, outlook(e.Label, l.Rows, l.Workload)...)
	}
}

// verdict is what went wrong, if anything did.
func verdict(l *result.Layouts) string {
	var wrong []string
	for _, v := range l.Roots {
		if v.Verdict == result.Different {
			wrong = append(wrong, fmt.Sprintf("layouts disagree on the root of block %d of %d accounts", v.Block, v.Accounts))
		}
	}
	for _, row := range l.Rows {
		if row.Status != result.OK {
			wrong = append(wrong, fmt.Sprintf("%s failed at %d accounts", row.Layout, row.Accounts))
		}
	}
	return strings.Join(wrong, "; ")
}

// step is a layout at one size.
type step struct {
	plan     Plan
	out      string
	entry    Entry
	accounts uint64
	measure  RunSpec
	tell     result.Tell
}

func (s step) run(ctx context.Context, l *result.Layouts) (row result.LayoutRow, build *result.Run, err error) {
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(s.entry.Label, ":", "-"), s.accounts)
	dir := filepath.Join(s.plan.States, name)
	if err := os.RemoveAll(dir); err != nil {
		return row, nil, fmt.Errorf("clear the state's folder: %w", err)
	}
	build, err = s.stage(ctx, lookup.Build, name, dir)
	if err != nil {
		return row, nil, err
	}
	note(l, s.entry, build)
	var read *result.Run
	if build.Status == result.OK {
		if read, err = s.stage(ctx, lookup.Lookup, name, dir); err != nil {
			return row, nil, err
		}
		note(l, s.entry, read)
	}
	if !s.plan.Keep {
		if err := os.RemoveAll(dir); err != nil {
			return row, nil, fmt.Errorf("remove the state of %s: %w", name, err)
		}
	}
	return s.row(name, build, read, l), build, nil
}

func (s step) stage(ctx context.Context, stage, name, dir string) (*result.Run, error) {
	spec := s.plan.Base
	spec.Schema, spec.Stage, spec.Command = lookup.SpecSchema, stage, s.plan.Command
	spec.Layout, spec.Profile, spec.Chain.Accounts = s.entry.Info.Name, s.entry.Profile, s.accounts
	spec.Dir, spec.Out = dir, filepath.Join(s.out, folder(name, stage))
	return s.measure(ctx, s.entry, &spec, func(e result.Event) {
		e.Phase = strings.TrimPrefix(stage+": "+e.Phase, lookup.Build+": ")
		s.tell(e)
	})
}

func folder(name, stage string) string { return filepath.Join(runsDir, name+"-"+stage) }

// note takes what a run says of the whole comparison.
func note(l *result.Layouts, e Entry, run *result.Run) {
	if l.Host.Kernel == "" {
		l.Host = run.Host
	}
	for figure, why := range run.Absent {
		l.Absent[figure] = why
	}
	for _, w := range run.Warnings {
		w.Text = e.Label + ": " + w.Text
		l.Warnings = append(l.Warnings, w)
	}
}
