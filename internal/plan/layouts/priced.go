package layouts

import (
	"fmt"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan/experiment"
)

// Build is a comparison of layouts with one size of the contract, which is then priced. A repeat
// has other accounts: where the contract lies among them is chance, and so is what it shares
// blocks with.
type Build struct {
	text   string // of slots
	slots  uint64
	n      uint64 // from 0
	seed   uint64
	builds uint64
}

// Builds are the comparisons that a price table is made from: every size of the contract, as often
// as asked.
func Builds(e *experiment.Experiment, m *setting.Mistakes) (builds []Build) {
	s := experiment.Of[*experiment.Priced](e)
	if !s.ContractSlots.Given() {
		m.At("contract-slots", "", "give at least one size of the contract (example: %s)", m.Name("contract-slots", "10k"))
	}
	for i, slots := range s.ContractSlots.All() {
		for n := range e.Repeats.V() {
			builds = append(builds, Build{s.ContractSlots.Texts()[i], slots, n, e.Seed.V() + n, e.Repeats.V()})
		}
		specOf(builds[len(builds)-1].Of(e), m)
	}
	return builds
}

// Folder of the build in that of the price table.
func (b Build) Folder() string {
	if b.n == 0 {
		return "contract-" + b.text
	}
	return fmt.Sprintf("contract-%s-build-%d", b.text, b.n+1)
}

// Label is what progress lines begin with.
func (b Build) Label() string {
	if b.builds == 1 {
		return "contract of " + b.text + " slots: "
	}
	return fmt.Sprintf("contract of %s slots, build %d of %d: ", b.text, b.n+1, b.builds)
}

// Of is the experiment of the build.
func (b Build) Of(e *experiment.Experiment) *experiment.Experiment {
	build := experiment.New(experiment.Layouts)
	build.Name, build.Where, build.Options, build.DB = e.Name, e.Where, e.Options, e.DB
	s := experiment.Of[*experiment.States](build)
	*s = *StatesOf(e)
	s.ContractSlots.Let(b.slots)
	build.Seed.Let(b.seed)
	return build
}

// PricingOf is what s says of the prices.
func PricingOf(s *experiment.Priced) (p Pricing) {
	p.GasPerSecond = float64(s.GasPerSecond.V())
	for _, accounts := range s.At.All() {
		for _, slots := range s.ContractAt.All() {
			p.Ahead = append(p.Ahead, Size{Accounts: accounts, ContractSlots: slots})
		}
	}
	return p
}
