package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

func (a *app) readVerb() *cobra.Command {
	f := new(flags)
	cmd := &cobra.Command{
		Use:   "read --db DIR",
		Short: "Measure one point: what a Get costs with these settings",
		Long: `Read opens a database, warms its cache, measures Gets and says what each cost in
block accesses, block reads and device reads.

  statelab read --db D --cache 64MiB --gets 500k --threads 8
  statelab read --db D --workload readmissing
  statelab read --db D --rate 20k --threads 64     (open loop: response times)
  statelab read --db CHAINDATA --use-existing --cache 2GiB --page-cache direct`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.read(cmd, f, args) },
	}
	f.databaseFlags(cmd, "")
	f.readFlags(cmd)
	f.outputFlags(cmd)
	cmd.Flags().StringVar(&f.threads, "threads", "1", "Gets in flight")
	return cmd
}

func (a *app) read(cmd *cobra.Command, f *flags, args []string) error {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	m.noArguments(args)
	f.engine, f.profile = m.single("engine", f.engine, "read"), m.single("profile", f.profile, "read")
	t := a.target(f, m)
	spec := a.readSpec(f, t, m)
	spec.Threads = m.threads(m.single("threads", f.threads, "read"))
	spec.Handles = m.handles(m.single("handles", f.handles, "read"))
	spec.Rate = m.rate("rate", m.single("rate", f.rate, "read"))
	share := m.cacheSize(&spec, m.single("cache", f.cache, "read"))
	m.memory(&spec, m.single("memory", f.memory, "read"))
	repeats := int(m.atLeastOne("repeats", f.repeats, "3"))
	m.checkOptions(t.engine, spec)
	if err := m.err(); err != nil {
		return err
	}
	if share > 0 || repeats > 1 {
		return a.sweepOf(f, spec, nil, repeats, "read") // needs the size of the database, or several runs
	}
	spec.Out = f.outFolder("read")
	if err := refuseOther(spec.Out, runFiles...); err != nil {
		return err
	}
	p := a.progress(f.quiet)
	run, err := a.runPoint(a.ctx, &spec, func(e bench.Event) { p.tell("", e) })
	p.say("")
	if err != nil {
		return err
	}
	if !f.json && run.Status != result.Failed {
		if err := a.printText(spec.Out); err != nil {
			return err
		}
	}
	return a.conclude(f, run, spec.Out, p)
}

func (a *app) printText(folders ...string) error {
	in, err := report.FromFolders(folders...)
	if err != nil {
		return err
	}
	return report.Text(a.stdout, in)
}

// conclude prints what every verb that measures ends with, and turns the outcome
// into an error.
func (a *app) conclude(f *flags, run *result.Run, out string, p *progress) error {
	if f.json {
		if err := a.printJSON(run); err != nil {
			return err
		}
	}
	for _, w := range run.Warnings {
		p.say("warning: %s", w.Text)
		if w.Remedy != "" {
			p.say("         remedy: %s", w.Remedy)
		}
	}
	p.say("run folder: %s", out)
	switch {
	case run.Status == result.Interrupted:
		return errInterrupted
	case run.Status != result.OK:
		return errors.New(run.Error)
	case f.strict && len(run.Warnings) > 0:
		return &strictError{len(run.Warnings)}
	}
	return nil
}

func (a *app) printJSON(v any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

func (m *mistakes) noArguments(args []string) {
	for _, arg := range args {
		m.add("%q: not expected here; values follow their flag, such as --db DIR", arg)
	}
}
