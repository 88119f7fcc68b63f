package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/console"
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

  statelab price --layout flat-pebble --accounts 100k,1M --contract-slots 100k \
    --memory 16MiB --at 300M --slots-at 3G --at-memory 16GiB --out P
  statelab price --layout flat-pebble,geth-path --hardware here,nvme.json,fio.json --out P
  statelab price --from L --hardware disk --out P  (price what layouts measured)
  statelab price --accesses list.slal --out P      (also by the age of what blocks touch)
  statelab price --resume --out P                  (after Ctrl-C, a kill, a reboot)`,
	})
}

func (a *app) price(f *flags, m *mistakes) error {
	s := experiment.SubjectAs[*experiment.PriceConfig](f.Experiment)
	pricing, builds := layouts.PricingOf(f.Experiment, &m.Mistakes)
	m.accessList(s.Accesses.Value())
	if err := m.Err(); err != nil {
		return err
	}

	out := outFolder(f.out, f.Measure)
	if f.dryRun {
		if err := a.dryPrice(f, builds, out); !errors.As(err, new(dryRun)) {
			return err
		}

		for _, text := range a.ahead(f, pricing) {
			fmt.Fprintln(a.stdout, text)
		}

		return dryRun{}
	}

	if !f.resume {
		if err := refuseOther(out); err != nil {
			return err
		}
	}

	if err := a.claim(f, out); err != nil {
		return err
	}

	p := a.progress()
	again := "statelab price --resume --out " + out
	done := pricing.Begun(a.command(), again, s.From.All())
	// until it is finished, the folder says what it is
	if err := result.WritePrice(out, done); err != nil {
		return err
	}

	for _, text := range a.ahead(f, pricing) {
		p.Printf("%s", text)
	}

	if err := a.hardware(s, out, &pricing, p); err != nil {
		return err
	}

	measure := func(b layouts.Build) (*result.Layouts, error) { return a.priceBuild(f, b, out, p) }
	if err := pricing.Measure(builds, done, measure, p.Printf); err != nil {
		return err
	}

	pricing.Finish(a.ctx, done, again, func(e result.Event) { p.Report("", e) })
	p.Done()

	// what was measured may be older than what prices it
	here := host.Describe(out)
	done.Host.Statelab, done.Host.Commit = here.Statelab, here.Commit
	d := finished{
		status:   done.Status,
		error:    done.Error,
		why:      done.FailureInfo,
		warnings: done.Warnings,
		out:      out,
	}

	err := result.WritePrice(out, done)
	if err == nil && len(done.Rows) > 0 {
		d.explain = func() error { return a.explain(f.json, "", out) }
	}

	return a.finish(f, p, d, err)
}

// ahead says what is predicted after the builds, and what is not; nothing if nothing is asked for.
func (a *app) ahead(f *flags, pricing layouts.Pricing) []string {
	if len(pricing.Layouts) > 0 { // of --from
		return pricing.AheadTexts(pricing.Measured())
	}

	s := experiment.SubjectAs[*experiment.PriceConfig](f.Experiment)
	of := s.Layout.All()
	if slices.Contains(of, layouts.Every) {
		of = slices.DeleteFunc(a.tables.Layouts.Names(), func(name string) bool {
			_, err := a.tables.Layouts.Find(name)
			return err != nil // it is left out
		})
	}

	return pricing.AheadTexts(of)
}

// dryPrice estimates the states of every size of the contract; repeats take as long.
func (a *app) dryPrice(f *flags, builds []layouts.Build, out string) error {
	for _, b := range builds {
		if b.IsRepeat() {
			continue
		}

		if _, err := a.priceBuild(f, b, out, a.progress()); !errors.As(err, new(dryRun)) {
			return err
		}
	}

	if n := f.Repeats.Value(); n > 1 && len(builds) > 0 {
		fmt.Fprintf(a.stdout, "All of that %d times, with other accounts (--repeats).\n", n)
	}

	return dryRun{}
}

// priceBuild measures the layouts of one build below out, or goes on with it.
func (a *app) priceBuild(
	f *flags, b layouts.Build, out string, p *console.Progress,
) (*result.Layouts, error) {
	copied := *f
	g := &copied
	g.Experiment = b.Experiment(f.Experiment)
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

// hardware adds the disk under out where the experiment names it.
func (a *app) hardware(
	s *experiment.PriceConfig, out string, pricing *layouts.Pricing, p *console.Progress,
) error {
	if !slices.Contains(s.Hardware.All(), layouts.Here) {
		return nil
	}

	h, err := a.diskLook(p).Hardware(a.ctx, out)
	if err != nil {
		return err
	}

	h.Name = layouts.Here
	pricing.Hardware = append([]result.Hardware{*h}, pricing.Hardware...)
	return nil
}
