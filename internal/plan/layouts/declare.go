package layouts

import (
	"slices"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/layout"
)

// Every stands for every layout that is here, with the profiles that published claims are about.
const Every = "all"

// StatesOf are the settings of the states that layouts and price build.
func StatesOf(e *experiment.Experiment) *experiment.States {
	if p, is := e.Subject.(*experiment.Priced); is {
		return &p.States
	}
	return experiment.Of[*experiment.States](e)
}

// Declared is the comparison that e declares; what is wrong with it goes to m. leftOut hears which of
// all layouts are not here.
func Declared(e *experiment.Experiment, here *runners.Table[layout.Info], command []string, leftOut func(label string, why error),
	m *setting.Mistakes) Layouts {
	s := StatesOf(e)
	l := Layouts{Command: command, Keep: s.Keep.V(), Class: e.Constraint.V(), At: s.Ahead.All(), AtMemory: s.AheadMemory.All()}
	l.Base, l.Accounts = specOf(e, m)
	l.Entries = entries(s.Layout.All(), e.Options.All(), l.Base, here, leftOut, m)
	if s.AheadMemory.Given() && !s.Ahead.Given() {
		m.At("at-memory", "", "say with how many accounts (example: %s)", m.Name("at", "50M"))
	}
	return l
}

// specOf is what all layouts share, and the sizes of the states.
func specOf(e *experiment.Experiment, m *setting.Mistakes) (base protocol.LayoutSpec, sizes []uint64) {
	s := StatesOf(e)
	for _, n := range s.Accounts.All() {
		if n == 0 && !s.Accesses.Given() {
			m.At("accounts", "0", "must be at least 1 (example: 10k,100k,1M); 0 needs %s", m.Name("accesses", "LIST"))
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
	base = protocol.LayoutSpec{Accesses: output.Absolute(s.Accesses.V()), MemoryBytes: s.Memory.V(), Overrides: e.Options.Fixed(), Reads: s.Lookup.V(),
		First: s.First.V(),
		Chain: protocol.Chain{Seed: e.Seed.V(), ContractShare: s.Contracts.V(), SlotsPer: s.Slots.V(), BlockAccounts: s.Block.V(),
			UpdateBlocks: s.UpdateBlocks.V(), UpdateAccounts: s.Updates.V(), ContractSlots: s.ContractSlots.V(), CodeBytes: s.Code.V()}}
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
func entries(labels []string, options []setting.Option, base protocol.LayoutSpec, here *runners.Table[layout.Info], leftOut func(string, error),
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
		m.At("layout", "", "name at least one layout, such as %s", m.Name("layout", subject.Layouts()[0].Label))
	}
	settings, names := setting.Points(options)
	for _, l := range here.Choose("layout", labels, m) {
		for i, overrides := range settings {
			m.All("layout "+l.Label, l.Check(protocol.LayoutQuestion{Layout: l.Info.Name, Profile: l.Profile,
				MemoryBytes: base.MemoryBytes, Overrides: overrides}))
			entries = append(entries, Entry{Label: l.Label + names[i], Profile: l.Profile, Options: overrides, Info: l.Info})
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
