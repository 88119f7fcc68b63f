package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/gas"
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
  statelab price --accesses list.slal --out P      (also by the age of what blocks touch)
  statelab price --resume --out P                  (after Ctrl-C, a kill, a reboot)`,
	})
}

// here stands for the disk under the folder of the results.
const here = "here"

func (a *app) price(f *flags, m *mistakes) error {
	s := experiment.Of[*experiment.Priced](f.Experiment)
	pricing := m.pricing(s)
	m.accessList(s.Accesses.V())
	var builds []layouts.Build
	if from := s.From.All(); len(from) > 0 {
		for _, dir := range from {
			if l := m.pricedLayouts(dir); l != nil {
				pricing.Layouts = append(pricing.Layouts, l)
			}
		}
		if err := layouts.SameSettings(pricing.Layouts); err != nil {
			m.At("from", s.From.String(), "%v", err)
		}
	} else {
		builds = layouts.Builds(f.Experiment, &m.Mistakes)
	}
	if err := m.err(); err != nil {
		return err
	}
	out := outFolder(f.out, f.Measure)
	if f.dryRun {
		if err := a.dryPrice(f, builds, out); !errors.As(err, new(dryRun)) {
			return err
		}
		if text := a.ahead(f, pricing); text != "" {
			fmt.Fprintln(a.stdout, text)
		}
		return dryRun{}
	}
	if !f.resume {
		if err := refuseOther(out); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the results: %w", err)
	}
	if err := a.hold(out); err != nil {
		return err
	}
	if err := a.storeExperiment(f, out); err != nil {
		return err
	}
	p := a.progress()
	done := &result.Price{Status: result.Interrupted, Error: "not finished: statelab price --resume --out " + out, Started: time.Now().UTC(), Command: a.command(),
		GasPerSecond: pricing.GasPerSecond, Formula: gas.Formula(pricing.GasPerSecond), Parameters: gas.Parameters(), Layouts: s.From.All()}
	if err := result.WritePrice(out, done); err != nil { // until it is finished, the folder says what it is
		return err
	}
	done.Status, done.Error = result.OK, ""
	if text := a.ahead(f, pricing); text != "" {
		p.Say("%s", text)
	}
	if err := a.hardware(s, out, &pricing, p); err != nil {
		return err
	}
	if err := a.priceBuilds(f, builds, out, p, &pricing, done); err != nil {
		return err
	}
	if done.Status != result.Interrupted {
		err := pricing.Forecast(a.ctx, func(done, of int) {
			p.Tell("", result.Event{Phase: "predict the sizes that are not built", Done: uint64(done), Total: uint64(of), Unit: "predictions"})
		})
		p.Done()
		if err != nil {
			done.Status, done.Error = result.Interrupted, "interrupted: sizes that are not built are not predicted; statelab price --resume --out "+out
		}
	}
	if done.Status == result.Interrupted {
		pricing.Ahead = nil
	}
	rows, unused := pricing.Rows()
	done.Host, done.Hardware, done.Rows, done.Warnings = pricing.Layouts[0].Host, pricing.Hardware, rows, append(pricing.Warnings(), unused...)
	d := finished{status: done.Status, error: done.Error, why: done.Why, warnings: done.Warnings, out: out}
	err := result.WritePrice(out, done)
	if err == nil && len(done.Rows) > 0 {
		d.explain = func() error { return a.explain(f.json, "", out) }
	}
	return a.finish(f, p, d, err)
}

// ahead says what predicting takes, which comes after the builds; "" if nothing is predicted.
func (a *app) ahead(f *flags, pricing layouts.Pricing) string {
	of := layouts.StatesOf(f.Experiment).Layout.All()
	if slices.Contains(of, layouts.Every) {
		of = slices.DeleteFunc(a.tables.layouts.Names(), func(name string) bool {
			_, err := a.tables.layouts.Find(name)
			return err != nil // it is left out
		})
	}
	return pricing.AheadText(max(1, len(of)), int(f.Repeats.V()))
}

// priceBuilds measures the builds in order, until one is interrupted.
func (a *app) priceBuilds(f *flags, builds []layouts.Build, out string, p *console.Progress, pricing *layouts.Pricing, done *result.Price) error {
	for _, b := range builds {
		l, err := a.priceBuild(f, b, out, p)
		if err != nil {
			return err
		}
		pricing.Layouts, done.Layouts = append(pricing.Layouts, l), append(done.Layouts, b.Folder())
		if l.Status != result.OK {
			done.Status, done.Error, done.Why = l.Status, l.Error, l.Why
		}
		for _, row := range l.Rows {
			if row.Status == result.Failed {
				p.Say("%s failed at %s accounts: %s", row.Layout, unit.Count(row.Accounts), row.Tell(row.Error))
			}
		}
		if l.Status == result.Interrupted {
			return nil
		}
	}
	return nil
}

// dryPrice estimates the states of every build.
func (a *app) dryPrice(f *flags, builds []layouts.Build, out string) error {
	for _, b := range builds {
		if _, err := a.priceBuild(f, b, out, a.progress()); !errors.As(err, new(dryRun)) {
			return err
		}
	}
	return dryRun{}
}

// priceBuild measures the layouts of one build below out, or goes on with it.
func (a *app) priceBuild(f *flags, b layouts.Build, out string, p *console.Progress) (*result.Layouts, error) {
	copied := *f
	g := &copied
	g.Experiment = b.Of(f.Experiment)
	g.out, g.goOn = filepath.Join(out, b.Folder()), "statelab price --resume --out "+out
	_, err := os.Stat(filepath.Join(g.out, experiment.File))
	if g.resume = f.resume && err == nil; g.resume {
		d, err := experiment.Stored(g.out, "")
		if err != nil {
			return nil, err
		}
		g.Experiment = &d.Experiment
	}
	work, _, so, err := a.measureLayouts(g, new(mistakes), p, b.Label())
	if err != nil {
		return nil, err
	}
	if so.Status == result.Interrupted {
		work.Result.Status, work.Result.Error = so.Status, so.Error
	}
	return work.Result, nil
}

// pricing reads what price takes besides what it measures.
func (m *mistakes) pricing(s *experiment.Priced) (p layouts.Pricing) {
	p = layouts.PricingOf(s)
	if !s.Hardware.Given() {
		m.At("hardware", "", "name at least one disk (example: %s)", m.Name("hardware", here))
	}
	for _, name := range s.Hardware.All() {
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
		m.Unread("from", "", "%v", err)
		return nil
	}
	if l.Workload.ContractSlots == 0 {
		m.At("from", dir, "its states have no large contract, so slots have no price: measure them with statelab layouts --contract-slots 10k")
	}
	return l
}

// hardware adds the disk under out where the experiment names it.
func (a *app) hardware(s *experiment.Priced, out string, pricing *layouts.Pricing, p *console.Progress) error {
	if !slices.Contains(s.Hardware.All(), here) {
		return nil
	}
	h, err := a.diskLook(p).Hardware(a.ctx, out)
	if err != nil {
		return err
	}
	h.Name = here
	pricing.Hardware = append([]result.Hardware{*h}, pricing.Hardware...)
	return nil
}
