package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/gas"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/layouts"
	"github.com/statelab/statelab/result"
)

func (a *app) priceVerb() *cobra.Command {
	return a.measuringVerb(experiment.Price, &cobra.Command{
		Use:   "price --layout LIST --accounts LIST --out P",
		Short: "Price accesses to state in gas, by layout, size and hardware",
		Long: `Price builds states with one contract, looks accounts and slots up and changes
them, and computes the gas of each access by the formula of EIP-8038 from the
reads, the CPU time and the disk. Sizes that are not built are predicted.

  statelab price --layout flat-pebble,geth-path --accounts 10k,100k --out P
  statelab price --hardware here,nvme.json,fio.json --at 1M,300M --out P
  statelab price --from L --hardware disk --out P  (price what layouts measured)
  statelab price --resume --out P                  (after Ctrl-C, a kill, a reboot)`,
	})
}

// here stands for the disk under the folder of the results.
const here = "here"

func (a *app) price(f *flags, m *mistakes) error {
	pricing := m.pricing(f)
	var builds []pricedBuild
	if from := f.From.Values(); len(from) > 0 {
		for _, dir := range from {
			pricing.Layouts = append(pricing.Layouts, m.pricedLayouts(dir))
		}
	} else {
		builds = m.pricedBuilds(f)
	}
	if err := m.err(); err != nil {
		return err
	}
	out := outFolder(f.out, f.Measure)
	if f.dryRun {
		return a.dryPrice(f, builds, out)
	}
	if !f.resume {
		if err := refuseOther(out); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the results: %w", err)
	}
	if err := a.storeExperiment(f, out); err != nil {
		return err
	}
	p := a.progress()
	done := &result.Price{Status: result.OK, Started: time.Now().UTC(), Command: a.command(), GasPerSecond: pricing.GasPerSecond,
		Formula: gas.Formula(pricing.GasPerSecond), Parameters: gas.Parameters(), Layouts: f.From.Values()}
	if err := a.hardware(f, out, &pricing, p); err != nil {
		return err
	}
	if err := a.priceBuilds(f, builds, out, p, &pricing, done); err != nil {
		return err
	}
	for _, l := range pricing.Layouts {
		for _, w := range l.Warnings {
			if !result.Told(done.Warnings, w) {
				done.Warnings = append(done.Warnings, w)
			}
		}
	}
	rows, unused := pricing.Rows()
	done.Host, done.Hardware, done.Rows, done.Warnings = pricing.Layouts[0].Host, pricing.Hardware, rows, append(done.Warnings, unused...)
	d := finished{status: done.Status, error: done.Error, why: done.Why, warnings: done.Warnings, out: out}
	err := result.WritePrice(out, done)
	if err == nil && len(done.Rows) > 0 {
		d.explain = func() error { return a.explain(f.json, "", out) }
	}
	return a.finish(f, p, d, err)
}

// pricedBuilds are the layouts to build: every size of the contract, as often as asked.
func (m *mistakes) pricedBuilds(f *flags) (builds []pricedBuild) {
	contracts := f.ContractSlots.Values()
	if len(contracts) == 0 {
		m.add("--contract-slots: give at least one size of the contract (example: --contract-slots 10k)")
	}
	for _, text := range contracts {
		if m.atLeastOne("contract-slots", text, "10k") == 0 {
			continue
		}
		repeats, seed := m.atLeastOne("repeats", f.Repeats, "3"), m.seed(f.Seed)
		for n := range repeats {
			builds = append(builds, pricedBuild{text, n, seed + n, repeats})
		}
		g := builds[len(builds)-1].of(f)
		fixed, _ := m.options(g.Options)
		g.lookupSpec(fixed, m)
	}
	return builds
}

// priceBuilds measures the builds in order, until one is interrupted.
func (a *app) priceBuilds(f *flags, builds []pricedBuild, out string, p *progress, pricing *layouts.Pricing, done *result.Price) error {
	for _, b := range builds {
		l, err := a.priceBuild(f, b, out, p)
		if err != nil {
			return err
		}
		pricing.Layouts, done.Layouts = append(pricing.Layouts, l), append(done.Layouts, b.folder())
		if l.Status != result.OK {
			done.Status, done.Error, done.Why = l.Status, l.Error, l.Why
		}
		for _, row := range l.Rows {
			if row.Status == result.Failed {
				p.say("%s failed at %s accounts: %s", row.Layout, unit.Count(row.Accounts), row.Tell(row.Error))
			}
		}
		if l.Status == result.Interrupted {
			return nil
		}
	}
	return nil
}

// dryPrice estimates the states of every build.
func (a *app) dryPrice(f *flags, builds []pricedBuild, out string) error {
	for _, b := range builds {
		if _, err := a.priceBuild(f, b, out, a.progress()); !errors.As(err, new(dryRun)) {
			return err
		}
	}
	return dryRun{}
}

// pricedBuild is a comparison of layouts with one size of the contract. A repeat has other
// accounts: where the contract lies among them is chance, and so is what it shares blocks with.
type pricedBuild struct {
	slots  string
	n      uint64 // from 0
	seed   uint64
	builds uint64
}

func (b pricedBuild) folder() string {
	if b.n == 0 {
		return "contract-" + b.slots
	}
	return fmt.Sprintf("contract-%s-build-%d", b.slots, b.n+1)
}

func (b pricedBuild) label() string {
	if b.builds == 1 {
		return "contract of " + b.slots + " slots: "
	}
	return fmt.Sprintf("contract of %s slots, build %d of %d: ", b.slots, b.n+1, b.builds)
}

// of are the flags of the build.
func (b pricedBuild) of(f *flags) *flags {
	g := *f
	g.Experiment = *experiment.New(experiment.Layouts)
	g.Name, g.Where, g.Layout, g.Memory, g.Options, g.DB, g.Keep = f.Name, f.Where, f.Layout, f.Memory, f.Options, f.DB, f.Keep
	g.Accounts, g.Contracts, g.Slots, g.Block, g.Updates, g.UpdateBlocks = f.Accounts, f.Contracts, f.Slots, f.Block, f.Updates, f.UpdateBlocks
	g.Lookup, g.First, g.Seed, g.ContractSlots = f.Lookup, f.First, strconv.FormatUint(b.seed, 10), experiment.List(b.slots)
	return &g
}

// priceBuild measures the layouts of one build below out, or goes on with it.
func (a *app) priceBuild(f *flags, b pricedBuild, out string, p *progress) (*result.Layouts, error) {
	g := b.of(f)
	g.out = filepath.Join(out, b.folder())
	_, err := os.Stat(filepath.Join(g.out, experiment.File))
	if g.resume = f.resume && err == nil; g.resume {
		g.Experiment, err = stored(g.out)
		if err != nil {
			return nil, err
		}
	}
	work, _, so, err := a.measureLayouts(g, new(mistakes), p, b.label())
	if err != nil {
		return nil, err
	}
	if so.Status == result.Interrupted {
		work.Result.Status, work.Result.Error = so.Status, so.Error
	}
	return work.Result, nil
}

// stored is the experiment in a folder of results.
func stored(out string) (experiment.Experiment, error) {
	d, err := experiment.ReadFile(filepath.Join(out, experiment.File))
	if err != nil {
		return experiment.Experiment{}, err
	}
	return d.Experiment, nil
}

// pricing reads what price takes besides what it measures.
func (m *mistakes) pricing(f *flags) (p layouts.Pricing) {
	p.GasPerSecond = float64(m.atLeastOne("gas-per-second", f.GasPerSecond, "100M"))
	for _, accounts := range f.At.Values() {
		for _, slots := range f.ContractAt.Values() {
			p.Ahead = append(p.Ahead, layouts.Size{Accounts: m.atLeastOne("at", accounts, "300M"), ContractSlots: m.atLeastOne("contract-at", slots, "100M")})
		}
	}
	if len(f.Hardware.Values()) == 0 {
		m.add("--hardware: name at least one disk (example: --hardware here)")
	}
	for _, name := range f.Hardware.Values() {
		if name == here {
			continue
		}
		if h := m.hardware(name); h != nil {
			p.Hardware = append(p.Hardware, *h)
		}
	}
	return p
}

// pricedLayouts reads a comparison of layouts that can be priced.
func (m *mistakes) pricedLayouts(dir string) *result.Layouts {
	l, err := result.ReadLayouts(dir)
	if err != nil {
		m.cannotRead("--from: %v", err)
		return nil
	}
	if l.Workload.ContractSlots == 0 {
		m.add("--from %s: its states have no large contract, so slots have no price: measure them with statelab layouts --contract-slots 10k", dir)
	}
	return l
}

// hardware adds the disk under out where the experiment names it.
func (a *app) hardware(f *flags, out string, pricing *layouts.Pricing, p *progress) error {
	if !strings.Contains(","+string(f.Hardware)+",", ","+here+",") {
		return nil
	}
	_, err := result.ReadDisk(out)
	if errors.Is(err, os.ErrNotExist) {
		var d *result.Disk
		d, err = host.Limit(a.ctx, host.LimitPlan{Dir: out, InFlight: []int{1, 2, 4, 8, 16, 32, 64}, Seconds: ceilingSeconds, Repeats: ceilingRepeats},
			func(text string) { p.tell("", result.Event{Phase: text}) })
		if err == nil {
			d.Command = a.command()
			err = result.WriteDisk(out, d)
		}
	}
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	h, err := result.ReadHardware(out)
	if err != nil {
		return err
	}
	h.Name = here
	pricing.Hardware = append([]result.Hardware{*h}, pricing.Hardware...)
	return nil
}
