package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/disk"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/output"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
)

func (a *app) diskVerb() *cobra.Command {
	return a.measuringVerb(experiment.Disk, &cobra.Command{
		Use:   "disk [DIR]",
		Short: "Measure the disk's own limit: random 4-KiB reads, 1 to 64 in flight",
		Long: `Disk reads 4 KiB at random with O_DIRECT, without any engine: this is the most that
the device under DIR (default: here) gives. It reads the files of DIR if they hold
256 MiB, else a file that it writes and deletes. Where fio is installed, it repeats
the measurement as a check. statelab advise says whether the disk limits a node.

  statelab disk /var/lib/geth
  statelab disk --out disk
  statelab sweep --db D --disk disk --out S        (draws it as a ceiling)`,
	})
}

func (a *app) disk(f *flags, m *mistakes) (err error) {
	s := experiment.SubjectAs[*experiment.DiskConfig](f.Experiment)
	limit := host.DiskPlan{Dir: absolute(s.Dir.Value()), Fio: s.With.Value() != disk.None,
		InFlight: slices.Compact(slices.Sorted(slices.Values(s.InFlight.All()))),
		Seconds:  s.Seconds.Value(), Repeats: int(f.Repeats.Value())}
	if info, err := os.Stat(limit.Dir); err != nil || !info.IsDir() {
		m.Add("%s: no such directory (usage: statelab disk DIR)", s.Dir.Value())
	}

	if err := m.Err(); err != nil {
		return err
	}

	if err := a.makeOut(f.out, output.MakeFolder); err != nil {
		return err
	}

	if _, err := a.estimated(f, limit.Dir, []estimate.Step{disk.Step(limit)}); err != nil {
		return err
	}

	p := a.progress()
	d, err := host.MeasureDisk(a.ctx, limit, func(text string) {
		p.Report("", result.Event{Phase: text})
	})
	p.Printf("")
	if err != nil {
		return a.orInterrupted(err)
	}

	if required := s.With.Value() == "required" || s.With.Value() == "fio"; required &&
		d.Fio == nil {
		return fmt.Errorf("--fio required: %s", d.FioAbsent)
	}

	d.Command = a.command()
	done := finished{status: result.OK, warnings: d.Warnings, out: f.out, explain: func() error {
		about := enginereport.Disk{Disk: d, Verdict: watch.Unwatched(limit.Dir)}
		return a.delivered(f.out, f.json, about, func(dir string) error {
			return errors.Join(result.WriteDisk(dir, d), a.storeExperiment(f, dir))
		})
	}}

	return a.finish(f, p, done, nil)
}

func (a *app) diskLook(p *console.Progress) disk.QuickProbe {
	return disk.QuickProbe{
		Command: a.command(),
		Tell:    func(e result.Event) { p.Report("", e) },
		Say:     p.Printf,
	}
}
