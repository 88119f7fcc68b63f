// Package layouts measures layouts of state at several sizes, builds and lookups in
// processes of their own, and compares them: their roots; what formulas and a model of
// memory predict, for the sizes that were run and for those that nobody can build.
//
// Non-goals: the order of runs and what is finished (plan), measuring (lookup), drawing
// (explain).
//
// Read in this order: layouts.go, expect.go, price.go.
package layouts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Entry is a layout with a profile.
type Entry = plan.Entry[layout.Info]

// Layouts is what to measure: every layout at every size.
type Layouts struct {
	Command  []string
	Base     protocol.LayoutSpec // what all share
	Entries  []Entry
	Accounts []uint64
	States   string   // folder of the states' files
	Keep     bool     // leave them there
	At       []uint64 // accounts to predict besides, and the memory there
	AtMemory []int64
	Class    string // hardware that it asks for; empty: any
}

// Runs are the two processes of a step; Read is nil where the build failed.
type Runs struct{ Build, Read *result.Run }

// Work is a comparison while it is carried out.
type Work struct {
	Layouts
	plan     plan.Plan
	executor plan.Executor
	Result   *result.Layouts

	absent reasons
}

// New is the work of measuring l in the folder of p.
func New(l Layouts, p plan.Plan, executor plan.Executor) *Work {
	c := l.Base.Chain
	return &Work{Layouts: l, plan: p, executor: executor,
		Result: &result.Layouts{
			Started: time.Now().UTC(),
			Command: l.Command,
			Workload: result.StateWorkload{
				Accounts:       l.Accounts,
				ContractShare:  c.ContractShare,
				SlotsPer:       c.SlotsPer,
				BlockAccounts:  c.BlockAccounts,
				UpdateBlocks:   c.UpdateBlocks,
				UpdateAccounts: c.UpdateAccounts,
				Reads:          l.Base.Reads,
				Accesses:       l.Base.Accesses,
				MemoryBytes:    l.Base.MemoryBytes,
				Seed:           c.Seed,
				ContractSlots:  c.ContractSlots,
				CodeBytes:      c.CodeBytes,
				At:             l.At,
				AtMemory:       l.AtMemory,
			},
		}}
}

// at are the size and the layout of a point.
func (w *Work) at(point int) (accounts uint64, e Entry) {
	return w.Accounts[point/len(w.Entries)], w.Entries[point%len(w.Entries)]
}

// Points are the layouts at each size.
func (w *Work) Points() (points []plan.Point) {
	for i := range len(w.Accounts) * len(w.Entries) {
		accounts, e := w.at(i)
		points = append(points, plan.Point{
			Name:  plan.FileName(fmt.Sprintf("%s-%d", e.Label, accounts)),
			Label: fmt.Sprintf("%s, %s accounts", e.Label, unit.ShortCount(float64(accounts))),
			Class: w.Class,
		})
	}

	return points
}

// Status of both runs.
func (w *Work) Status(r Runs) string {
	if r.Build.Status != result.OK {
		return r.Build.Status
	}
	return r.Read.Status
}

// Stored reads the runs of a step; the second is there if the first is ok.
func (w *Work) Stored(folder string) (r Runs, ok bool) {
	var err error
	if r.Build, err = result.ReadRun(filepath.Join(folder, protocol.Build)); err != nil {
		return r, false
	}

	if r.Build.Status == result.OK {
		if r.Read, err = result.ReadRun(filepath.Join(folder, protocol.Lookup)); err != nil {
			return Runs{}, false
		}
	}

	return r, true
}

// Measure builds a state and looks it up.
func (w *Work) Measure(
	ctx context.Context, s plan.Step, folder string, tell result.EventFunc,
) (r Runs, err error) {
	accounts, e := w.at(s.Point)
	dir := filepath.Join(w.States, filepath.Base(folder))
	if err := plan.Clear(dir, w.plan.Out); err != nil {
		return r, fmt.Errorf("clear the state's folder: %w", err)
	}

	// Lookups of an earlier attempt are of another state.
	if err := os.RemoveAll(filepath.Join(w.plan.Out, folder, protocol.Lookup)); err != nil {
		return r, fmt.Errorf("remove the lookups of an earlier attempt: %w", err)
	}

	stage := func(name string) (*result.Run, error) {
		spec := w.Base
		spec.Schema, spec.Stage, spec.Command = schema.LayoutSpec, name, w.Command
		spec.Layout, spec.Profile, spec.Overrides, spec.Chain.Accounts = e.Info.Name, e.Profile,
			e.Options, accounts
		if accounts == 0 {
			spec.Chain.UpdateBlocks, spec.Chain.UpdateAccounts = 0, 0
		}

		spec.Dir, spec.Out = dir, filepath.Join(w.plan.Out, folder, name)
		return w.executor.Do(ctx, runners.Job{
			Spec: &spec, Blank: func() *result.Run { return lookup.Blank(&spec, e.Info) },
		}, func(event result.Event) {
			event.Phase = strings.TrimPrefix(name+": "+event.Phase, protocol.Build+": ")
			tell(event)
		})
	}

	if r.Build, err = stage(protocol.Build); err != nil {
		return r, err
	}

	if r.Build.Status == result.OK {
		if r.Read, err = stage(protocol.Lookup); err != nil {
			return r, err
		}
	}

	if !w.Keep {
		if err := plan.Release(dir, w.plan.Out); err != nil {
			return r, fmt.Errorf("remove the state of %s: %w", e.Label, err)
		}
	}

	return r, nil
}

// Conclude writes layouts.json.
func (w *Work) Conclude(done map[plan.Step]Runs, so plan.Outcome) error {
	l := w.Result
	l.Rows, l.Roots, l.Outlook, l.Warnings = []result.LayoutRow{}, []result.LayoutRoots{},
		[]result.LayoutOutlook{}, nil
	w.absent = reasons{}
	var builds []built
	for i := range w.Points() {
		accounts, e := w.at(i)
		var repeats []plan.Repeat[result.LayoutRow]
		for _, r := range plan.Repeats(w.plan, w.Points(), i, done) {
			w.note(e, r.Of)
			row := w.row(e, accounts, r)
			builds = append(builds, built{row: row, run: r.Of.Build})
			if r.Of.Read != nil && r.Of.Build.Figures.State != nil {
				builds = append(builds, built{row, r.Of.Read, r.Of.Build.Figures.State.Block})
			}

			repeats = append(repeats, plan.Repeat[result.LayoutRow]{
				Number: r.Number,
				Folder: r.Folder,
				Of:     row,
			})
		}

		if len(repeats) > 0 {
			l.Rows = append(l.Rows, rowOf(repeats))
		}
	}

	l.Absent = w.absent.stated()
	l.Roots = rootVerdicts(builds)
	for _, e := range w.Entries {
		l.Outlook = append(l.Outlook, outlook(e.Label, l.Rows, l.Workload)...)
	}

	l.Status, l.Error, l.FailureInfo = so.Status, so.Error, so.FailureInfo
	if wrong := wrong(l); wrong != "" && so.Status != result.Interrupted {
		l.Status, l.Error, l.FailureInfo = result.Failed, wrong, result.FailureInfo{}
	}

	return result.WriteLayouts(w.plan.Out, l)
}

// rowOf is what the repeats of a point come to.
func rowOf(repeats []plan.Repeat[result.LayoutRow]) result.LayoutRow {
	s := plan.Summarize(repeats, result.LayoutRule(), func(row result.LayoutRow) plan.End {
		return plan.End{Status: row.Status, Error: row.Error, FailureInfo: row.FailureInfo}
	})
	row := s.Shown.Of
	row.Runs, row.Status, row.Error, row.FailureInfo, row.Spread = s.Runs, s.Status, s.Error,
		s.FailureInfo, s.Spread
	return row
}

// wrong is what went wrong, if anything did.
func wrong(l *result.Layouts) string {
	var wrong []string
	for _, v := range l.Roots {
		if v.Verdict == result.Different {
			wrong = append(wrong,
				fmt.Sprintf("layouts disagree on the root of block %d of %d accounts", v.Block,
					v.Accounts))
		}
	}

	for _, row := range l.Rows {
		if row.Status != result.OK {
			wrong = append(wrong, fmt.Sprintf("%s failed at %d accounts", row.Layout, row.Accounts))
		}
	}

	return strings.Join(wrong, "; ")
}

// note takes what the runs of a step say of the whole comparison.
func (w *Work) note(e Entry, runs Runs) {
	l := w.Result
	for _, run := range []*result.Run{runs.Build, runs.Read} {
		if run == nil {
			continue
		}

		if l.Host.Kernel == "" {
			l.Host = run.Host
		}

		w.absent.add(e.Label, run.Reasons())
		for _, warning := range run.Warnings {
			l.Warnings = plan.AddWarning(l.Warnings, e.Label, warning)
		}
	}
}

// reasons are why figures are absent, by figure and reason the layouts of which it is true.
type reasons struct {
	labels []string // of all layouts that were measured
	of     map[string]map[string][]string
}

// add takes the reasons of a run of a layout.
func (r *reasons) add(label string, absent map[string]string) {
	if !slices.Contains(r.labels, label) {
		r.labels = append(r.labels, label)
	}

	for name, why := range absent {
		if r.of == nil {
			r.of = map[string]map[string][]string{}
		}

		if r.of[name] == nil {
			r.of[name] = map[string][]string{}
		}

		if !slices.Contains(r.of[name][why], label) {
			r.of[name][why] = append(r.of[name][why], label)
		}
	}
}

// stated are the reasons in words. One that is not true of every layout names those of which it is.
func (r *reasons) stated() map[string]string {
	stated := map[string]string{}
	for name, by := range r.of {
		var all []string
		for _, why := range slices.Sorted(maps.Keys(by)) {
			text := why
			if len(by[why]) < len(r.labels) {
				text = strings.Join(by[why], ", ") + ": " + why
			}
			all = append(all, text)
		}

		stated[name] = strings.Join(all, "; ")
	}

	return stated
}

// built is a build with the row that it belongs to.
type built struct {
	row result.LayoutRow
	run *result.Run
	// after: of roots up to this block another run tells.
	after uint64
}

// row is what both runs found.
func (w *Work) row(e Entry, accounts uint64, r plan.Repeat[Runs]) result.LayoutRow {
	info, build, read := e.Info, r.Of.Build, r.Of.Read
	row := result.LayoutRow{
		Layout:      e.Label,
		Version:     info.Version,
		RootRule:    string(info.Root),
		Status:      build.Status,
		Error:       build.Error,
		FailureInfo: build.FailureInfo,
		Build:       filepath.Join(r.Folder, protocol.Build),
		Read:        filepath.Join(r.Folder, protocol.Lookup),
		Accounts:    accounts,
		Durability:  info.Durability,
		History:     info.History,
	}

	row.Show(build, read)
	if read == nil || read.Figures.State == nil {
		return row
	}

	row.Status, row.Error, row.FailureInfo = read.Status, read.Error, read.FailureInfo
	if root := read.Figures.State.Root; root != row.Root && row.Status == result.OK {
		row.Status, row.Error = result.Failed,
			"the state was left at root "+row.Root+" and is opened at root "+root
	}

	if accounts == 0 { // formulas are of uniform lookups
		return row
	}

	f := expected(row.Layout, modelled(row, w.Result.Workload, float64(row.Accounts)))
	row.PredictedNodes, row.PredictedReads, row.PredictedBasis = figure.If(f.Nodes),
		figure.If(f.Reads), f.Basis
	held := expectedHeld(row, w.Result.Workload, w.Result.Host.Cores)
	row.PredictedHeldReads, row.PredictedDeviceReads,
		row.PredictedHeldBasis = figure.If(held.reads), figure.If(held.device), held.basis
	return row
}

// rootVerdicts holds the roots of every rule against each other, size by size.
func rootVerdicts(builds []built) (verdicts []result.LayoutRoots) {
	type group struct {
		rule     string
		accounts uint64
	}

	var order []group
	members := map[group][]string{}
	roots := map[group]map[uint64]map[string][]string{} // block -> root -> layouts
	for _, b := range builds {
		row, state := b.row, b.run.Figures.State
		g := group{row.RootRule, row.Accounts}
		if g.rule == string(layout.NoRoot) || g.rule == string(layout.OwnRoot) || state == nil {
			continue // a rule of a layout's own has nobody to agree with
		}

		if roots[g] == nil {
			order, roots[g] = append(order, g), map[uint64]map[string][]string{}
		}

		if !slices.Contains(members[g], row.Layout) {
			members[g] = append(members[g], row.Layout)
		}

		for _, at := range state.Roots {
			if at.Block <= b.after {
				continue
			}

			if roots[g][at.Block] == nil {
				roots[g][at.Block] = map[string][]string{}
			}

			roots[g][at.Block][at.Root] = append(roots[g][at.Block][at.Root], row.Layout)
		}
	}

	slices.SortStableFunc(order,
		func(a, b group) int { return cmp.Compare(a.accounts, b.accounts) })
	for _, g := range order {
		verdicts = append(verdicts, agreement(g.rule, g.accounts, members[g], roots[g]))
	}

	return verdicts
}

func agreement(
	rule string, accounts uint64, members []string, roots map[uint64]map[string][]string,
) result.LayoutRoots {
	v := result.LayoutRoots{
		RootRule: rule,
		Accounts: accounts,
		Layouts:  members,
		Verdict:  result.CannotTell,
	}

	for block, by := range roots {
		tellers := 0
		for _, of := range by {
			tellers += len(of)
		}

		if tellers < 2 {
			continue
		}

		v.Compared++
		if v.Verdict == result.CannotTell {
			v.Verdict = result.Identical
		}

		if len(by) > 1 && (v.Verdict != result.Different || block < v.Block) {
			v.Verdict, v.Block, v.ByRoot = result.Different, block, by
		}
	}

	return v
}

// Every stands for every layout that is here, with the profiles that published claims are about.
const Every = "all"

// StatesOf are the settings of the states that layouts and price build.
func StatesOf(e *experiment.Experiment) *experiment.LayoutConfig {
	if p, is := e.Subject.(*experiment.PriceConfig); is {
		return &p.LayoutConfig
	}
	return experiment.SubjectAs[*experiment.LayoutConfig](e)
}

// Declared is the comparison that e declares; what is wrong with it goes to m. leftOut hears which
// of all layouts are not here.
func Declared(e *experiment.Experiment, here *runners.Table[layout.Info], command []string,
	leftOut func(label string, why error),
	m *setting.Mistakes) Layouts {
	s := StatesOf(e)
	l := Layouts{
		Command:  command,
		Keep:     s.Keep.Value(),
		Class:    e.Constraint.Value(),
		At:       s.Ahead.All(),
		AtMemory: s.AheadMemory.All(),
	}

	l.Base, l.Accounts = specOf(e, m)
	l.Entries = entries(s.Layout.All(), e.Options.All(), l.Base, here, leftOut, m)
	if s.AheadMemory.IsSet() && !s.Ahead.IsSet() {
		m.At("predict-memory", "", "say with how many accounts (example: %s)",
			m.Name("predict-accounts", "50M"))
	}

	return l
}

// specOf is what all layouts share, and the sizes of the states.
func specOf(
	e *experiment.Experiment, m *setting.Mistakes,
) (base protocol.LayoutSpec, sizes []uint64) {
	s := StatesOf(e)
	for _, n := range s.Accounts.All() {
		if n == 0 && !s.Accesses.IsSet() {
			m.At("accounts", "0", "must be at least 1 (example: 10k,100k,1M); 0 needs %s",
				m.Name("accesses", "LIST"))
			n = 1
		}

		if slices.Contains(sizes, n) {
			m.At("accounts", unit.ShortCount(float64(n)), "named twice")
		}

		sizes = append(sizes, n)
	}

	if len(sizes) == 0 {
		m.At("accounts", "", "give at least one size (example: %s)", m.Name("accounts", "10k,100k"))
	}

	slices.Sort(sizes)
	base = protocol.LayoutSpec{
		Accesses:    output.Absolute(s.Accesses.Value()),
		MemoryBytes: s.Memory.Value(),
		Overrides:   e.Options.Fixed(),
		Reads:       s.Lookup.Value(),
		First:       s.First.Value(),
		Chain: protocol.Chain{
			Seed:           e.Seed.Value(),
			ContractShare:  s.Contracts.Value(),
			SlotsPer:       s.Slots.Value(),
			BlockAccounts:  s.Block.Value(),
			UpdateBlocks:   s.UpdateBlocks.Value(),
			UpdateAccounts: s.Updates.Value(),
			ContractSlots:  s.ContractSlots.Value(),
			CodeBytes:      s.Code.Value(),
		},
	}

	if base.Chain.UpdateAccounts == 0 {
		base.Chain.UpdateBlocks = 0 // a block without a change is no update
	}

	for _, n := range sizes {
		spec := base
		spec.Chain.Accounts = n
		m.All("", spec.Check())
	}

	return base, sizes
}

// entries are the layouts of a list, with every setting of their options.
func entries(labels []string, options []setting.Option, base protocol.LayoutSpec,
	here *runners.Table[layout.Info], leftOut func(string, error),
	m *setting.Mistakes) (entries []Entry) {
	if slices.Equal(labels, []string{Every}) {
		labels = nil
		for _, l := range subject.Layouts() {
			if _, err := here.Find(l.Name()); err != nil {
				leftOut(l.Label, err)
			} else {
				labels = append(labels, l.Label)
			}
		}
	}

	if len(labels) == 0 {
		m.At("layout", "", "name at least one layout, such as %s",
			m.Name("layout", subject.Layouts()[0].Label))
	}

	settings, names := setting.Points(options)
	for _, l := range here.Choose("layout", labels, m) {
		for i, overrides := range settings {
			m.All("layout "+l.Label,
				l.Check(protocol.LayoutQuestion{Layout: l.Info.Name, Profile: l.Profile,
					MemoryBytes: base.MemoryBytes, Overrides: overrides}))
			entries = append(entries, Entry{
				Label:   l.Label + names[i],
				Profile: l.Profile,
				Options: overrides,
				Info:    l.Info,
			})
		}
	}

	return entries
}

// Steps are what each run will take.
func (l Layouts) Steps(how plan.Plan, on estimate.Machine) (steps []estimate.Step) {
	of := len(l.Entries)
	for _, step := range plan.Order(len(l.Accounts)*of, how.Repeats, how.Seed) {
		spec := l.Base
		spec.Layout, spec.Chain.Accounts = l.Entries[step.Point%of].Label, l.Accounts[step.Point/of]
		steps = append(steps, estimate.Layout(spec, l.Keep, on))
	}
	return steps
}
