package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/evidence"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/output"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/result"
)

func (a *app) diskVerb() *cobra.Command {
	return a.measuringVerb(experiment.Disk, &cobra.Command{
		Use:   "disk [DIR]",
		Short: "Measure the disk's own limit: random 4-KiB reads, 1 to 64 in flight",
		Long: `Disk reads 4 KiB at random with O_DIRECT, without any engine: what the device
under DIR (default: here) gives at most. It reads the files of DIR if they hold
256 MiB, else a file that it writes and deletes. Where fio is installed, it repeats
the measurement as a check. Whether this limits a node, statelab advise says.

  statelab disk /var/lib/geth
  statelab disk --out disk
  statelab sweep --db D --disk disk --out S        (draws it as a ceiling)`,
	})
}

func (a *app) disk(f *flags, m *mistakes) error {
	s := experiment.Of[*experiment.Probed](f.Experiment)
	limit := host.LimitPlan{Dir: absolute(s.Dir.V()), Fio: s.With.V() != diskNone, InFlight: slices.Compact(slices.Sorted(slices.Values(s.InFlight.All()))),
		Seconds: s.Seconds.V(), Repeats: int(f.Repeats.V())}
	if info, err := os.Stat(limit.Dir); err != nil || !info.IsDir() {
		m.add("%s: no such directory (usage: statelab disk DIR)", s.Dir.V())
	}
	if err := m.err(); err != nil {
		return err
	}
	if f.out != "" {
		if err := refuseOther(f.out); err != nil {
			return err
		}
	}
	if _, err := a.estimated(f, limit.Dir, []estimate.Step{diskStep(limit)}); err != nil {
		return err
	}
	p := a.progress()
	d, err := host.Limit(a.ctx, limit, func(text string) { p.Tell("", result.Event{Phase: text}) })
	p.Say("")
	if err != nil {
		return a.orInterrupted(err)
	}
	if s.With.V() == "fio" && d.Fio == nil {
		return fmt.Errorf("--with fio: %s", d.FioAbsent)
	}
	d.Command = a.command()
	done := finished{status: result.OK, warnings: d.Warnings, out: f.out, explain: func() error { return a.tellDisk(f, d) }}
	if f.out != "" {
		if err = os.MkdirAll(f.out, 0o755); err != nil {
			return fmt.Errorf("make --out: %w", err)
		}
		err = errors.Join(result.WriteDisk(f.out, d), a.storeExperiment(f, f.out))
	}
	return a.finish(f, p, done, err)
}

// tellDisk prints the limit and writes its page.
func (a *app) tellDisk(f *flags, d *result.Disk) (err error) {
	if f.json {
		err = a.printJSON(d)
	} else {
		err = enginereport.Disk{Disk: d}.Text(a.stdout)
	}
	if err != nil || f.out == "" {
		return err
	}
	page := filepath.Join(absolute(f.out), result.ReportFile)
	if err := output.Write(page, output.Reports, func(to *os.File) error { return enginereport.Disk{Disk: d}.Page().Write(to) }); err != nil {
		return err
	}
	if !f.json {
		fmt.Fprintf(a.stdout, "\nreport: %s\n", page)
	}
	return nil
}

// diskStep is what the readings take: fio reads as long as we do, and a folder with little in it
// gets a file to read.
func diskStep(l host.LimitPlan) estimate.Step {
	const fileBytes, memoryBytes = 256 << 20, 64 << 20
	s := estimate.Step{Kind: estimate.ReadKind, Name: "reading " + l.Dir + " at random", MemoryBytes: memoryBytes,
		Seconds: float64(len(l.InFlight)*l.Repeats) * l.Seconds, Basis: "--seconds for each number in flight and repeat; twice where fio is installed"}
	if _, err := exec.LookPath("fio"); err == nil && l.Fio {
		s.Seconds *= 2
	}
	if bytesIn(l.Dir) < fileBytes {
		s.PeakDiskBytes = fileBytes
	}
	return s
}

// Beside a sweep: a short look, at the numbers in flight that the sweep has.
const (
	ceilingSeconds = 0.3
	ceilingRepeats = 3
)

// What --disk takes beside a folder.
const (
	diskAuto = "auto"
	diskNone = "none"
)

func (m *mistakes) ceiling(text string) {
	if text == "" || text == diskAuto || text == diskNone {
		return
	}
	if _, err := result.ReadDisk(text); err != nil {
		m.At("disk", "", "%v: name a folder of statelab disk --out, or write none", err)
	}
}

// ceiling stores the disk's limit in the folder of a sweep: the one that from
// names, or a short look at the disk if the sweep's reads are to reach it. A
// disk that cannot be probed costs the ceiling, not the sweep.
func (a *app) ceiling(from string, s sweep.Sweep, out string, p *console.Progress) error {
	switch from {
	case "", diskNone:
		return nil
	case diskAuto:
	default:
		d, err := result.ReadDisk(from)
		if err != nil {
			return err
		}
		return result.WriteDisk(out, d)
	}
	if _, err := os.Stat(filepath.Join(out, result.DiskFile)); err == nil || !s.ReachesDevice() {
		return nil // a sweep that goes on has it
	}
	dir := out
	if s.Base.Dir != "" {
		var err error
		if dir, err = evidence.Elsewhere(s.Base.Dir, out); err != nil {
			p.Say("no ceiling: %v", err)
			return nil
		}
	}
	d, err := host.Limit(a.ctx, host.LimitPlan{Dir: dir, InFlight: s.Flights(), Seconds: ceilingSeconds, Repeats: ceilingRepeats},
		func(text string) { p.Tell("", result.Event{Phase: text}) })
	if err != nil {
		p.Say("no ceiling: %v", err)
		return a.ctx.Err()
	}
	d.Command = a.command()
	return result.WriteDisk(out, d)
}
