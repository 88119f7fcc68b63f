package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/explain/view"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/versions"
	"github.com/statelab/statelab/result"
)

// bisecting is what bisect is told beside an experiment.
type bisecting struct {
	comparing
	module, repo, source, good, bad string
}

// modules are those of the engines that the main binary links.
var modules = map[string]string{
	"github.com/cockroachdb/pebble": "pebble1", "github.com/cockroachdb/pebble/v2": "pebble2", "github.com/syndtr/goleveldb": "goleveldb",
	"go.etcd.io/bbolt": "bbolt", "github.com/dgraph-io/badger/v4": "badger",
}

func (a *app) bisectVerb() *cobra.Command {
	b := &bisecting{comparing: comparing{flags: newFlags(experiment.Sweep), run: true}}
	cmd := &cobra.Command{
		Use:   "bisect --module MODULE --good VERSION --bad VERSION --fail-if LIMIT",
		Short: "Find the version of an engine's library at which a figure changed",
		Long: `Bisect builds statelab with versions of one Go module between a good and a bad
one, measures each in turns with the good one, and halves the range until it knows
the first version with the change. Versions that do not build or do not run are skipped.

  statelab bisect --module github.com/cockroachdb/pebble/v2 --good v2.0.3 --bad v2.1.4 \
      --fail-if 'block_reads_per_get > +2%' --db D --cache 4MiB --gets 20k
  statelab bisect --module github.com/cockroachdb/pebble/v2 --repo ~/pebble \
      --good v2.1.4 --bad HEAD --fail-if 'gets_per_second < -5%' --keys 300k --cache 2MiB

With --repo, the versions are the commits between the two in a clone of that module
(git rev-list --first-parent). The clone is not changed. The module may be statelab
itself.

Bisect needs Go and a checkout of statelab (--source). All versions read the same
database: the one of --db, or one that the good version loads. Block reads of one
thread need one run for each version; other figures are measured until they are
decided, as by statelab compare --run, with at most --repeats pairs (default 20).`,
	}
	b.Experiment.Flags(cmd.Flags())
	flag := cmd.Flags()
	pairsFlag(flag)
	flag.StringVar(&b.module, "module", "", "path of the Go module, as in go.mod")
	flag.StringVar(&b.repo, "repo", "", "clone of the module: bisect its commits instead of released versions")
	flag.StringVar(&b.source, "source", ".", "checkout of statelab to build")
	flag.StringVar(&b.good, "good", "", "version (with --repo: commit) without the change")
	flag.StringVar(&b.bad, "bad", "", "later version or commit with the change")
	flag.StringArrayVar(&b.failIf, "fail-if", nil, "the change to look for: 'FIGURE > +N%', as in statelab compare")
	flag.StringVar(&b.margin, "margin", "2%", "for figures with noise: a version is decided when any change that is still possible is smaller than this")
	flag.BoolVar(&b.json, "json", false, "print JSON")
	flag.StringVar(&b.out, "out", "", "folder for the runs (default: a new one under statelab-runs)")
	flag.BoolVar(&b.ignoreSpace, "ignore-space", false, "start even if disk space or memory seem insufficient")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.bisect(b, m, args) })
}

// Verdicts of bisect on a version.
const (
	versionGood    = "good"
	versionBad     = "bad"
	versionSkipped = "skipped"
)

// tried is a version that bisect has looked at.
type tried struct {
	Version string `json:"version"`
	Verdict string `json:"verdict"`
	Says    string `json:"says"` // about the figures, or why it was skipped
	Folder  string `json:"folder,omitempty"`
}

// bisection is what bisect --json prints.
type bisection struct {
	Schema   string   `json:"schema"`
	Module   string   `json:"module"`
	Limits   []string `json:"fail_if"`
	LastGood string   `json:"last_good"`
	FirstBad string   `json:"first_bad"`
	// Between are skipped versions: any of them may be the first with the change.
	Between []string `json:"skipped_between,omitempty"`
	Tried   []tried  `json:"tried"`
}

func (a *app) bisect(b *bisecting, m *mistakes, args []string) error {
	if runtime.GOOS != "linux" {
		return errNeedsLinux("bisect", runtime.GOOS)
	}
	m.noArguments(args)
	a.tables.engines.cgo = never // it is the main binary that is built
	for flag, value := range map[string]string{"--module": b.module, "--good": b.good, "--bad": b.bad} {
		if value == "" {
			m.add("%s is missing (example: --module github.com/cockroachdb/pebble/v2 --good v2.0.3 --bad v2.1.4)", flag)
		}
	}
	if len(b.failIf) == 0 {
		m.add("--fail-if is missing: it says which change to look for (example: --fail-if 'block_reads_per_get > +2%%')")
	}
	limits, margin, most := m.limits(b.failIf), m.share("margin", b.margin), b.most(m)
	if b.Engine == "" && b.DB == "" {
		b.Engine = experiment.List(modules[b.module])
	}
	if err := m.err(); err != nil {
		return err
	}
	builder, list, err := versions.Open(a.ctx, versions.Of{Module: b.module, Repo: b.repo, Source: b.source, Good: b.good, Bad: b.bad})
	if err != nil {
		return usage("%v", err)
	}
	out := outFolder(b.out, "bisect")
	if err := refuseOther(out); err != nil {
		return err
	}
	p := a.progress()
	defer p.done()
	scratch, err := os.MkdirTemp("", "statelab-bisect-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	t := &trial{a: a, b: b, m: m, limits: limits, most: most, margin: margin, builder: builder, scratch: scratch, out: out, progress: p}
	found := bisection{Schema: "statelab.bisect/1", Module: b.module, Limits: b.failIf}
	if t.good, err = t.build(list[0]); err != nil {
		return a.orInterrupted(fmt.Errorf("the good version %s does not build: %w", list[0], err))
	}
	if err := found.search(list, t.judge, p.say); err != nil {
		return a.orInterrupted(err)
	}
	p.say("results: %s", out)
	if b.json {
		return a.printJSON(found)
	}
	return found.text(a.stdout)
}

// search halves a list, whose first version is good, until the first bad one is known.
// judge tells of a version whether it is good, bad or must be skipped.
func (s *bisection) search(list []string, judge func(version string) (tried, error), say func(format string, args ...any)) error {
	try := func(n int) (string, error) {
		t, err := judge(list[n])
		if err != nil {
			return "", err
		}
		s.Tried = append(s.Tried, t)
		say("%s: %s: %s", t.Version, t.Verdict, t.Says)
		return t.Verdict, nil
	}
	low, high := 0, len(list)-1
	switch verdict, err := try(high); {
	case err != nil:
		return err
	case verdict == versionGood:
		return fmt.Errorf("%s has no such change against %s: %s", list[high], list[low], s.Tried[0].Says)
	case verdict == versionSkipped:
		return fmt.Errorf("the bad version %s cannot be judged: %s", list[high], s.Tried[0].Says)
	}
	skipped := map[int]bool{}
	for {
		next := middleOf(low, high, skipped)
		if next < 0 {
			break
		}
		verdict, err := try(next)
		if err != nil {
			return err
		}
		switch verdict {
		case versionGood:
			low = next
		case versionBad:
			high = next
		default:
			skipped[next] = true
		}
	}
	s.LastGood, s.FirstBad, s.Between = list[low], list[high], list[low+1:high]
	order := func(t tried) int { return slices.Index(list, t.Version) }
	slices.SortFunc(s.Tried, func(a, b tried) int { return cmp.Compare(order(a), order(b)) })
	return nil
}

// middleOf is the place nearest to the middle between two that is not skipped; -1: none.
func middleOf(low, high int, skipped map[int]bool) int {
	middle := (low + high) / 2
	for away := range high - low {
		for _, n := range []int{middle + away, middle - away} {
			if n > low && n < high && !skipped[n] {
				return n
			}
		}
	}
	return -1
}

func (s *bisection) text(w io.Writer) error {
	out := view.NewText(w, 80)
	first := tried{}
	for _, t := range s.Tried {
		if t.Version == s.FirstBad {
			first = t
		}
	}
	if len(s.Between) == 0 {
		out.Wrap(fmt.Sprintf("%s is the first version of %s with the change: %s.", s.FirstBad, s.Module, first.Says), "")
		out.Wrap(fmt.Sprintf("%s, the version before it, does not have it.", s.LastGood), "")
	} else {
		out.Wrap(fmt.Sprintf("The change came to %s after %s, and at the latest with %s: %s.", s.Module, s.LastGood, s.FirstBad, first.Says), "")
		out.Wrap("Not known, because they were skipped: "+strings.Join(s.Between, ", ")+".", "")
	}
	out.Line("")
	for _, t := range s.Tried {
		out.Wrap(fmt.Sprintf("%-8s %s: %s", t.Verdict, t.Version, t.Says), "         ")
	}
	return out.Flush()
}

// trial judges versions.
type trial struct {
	a            *app
	b            *bisecting
	m            *mistakes
	limits       []compare.Limit
	most         int
	margin       float64
	builder      *versions.Builder
	good         string // the binary of the good version
	scratch, out string
	progress     *progress
}

// build returns the binary with a version.
func (t *trial) build(version string) (string, error) {
	t.progress.tell(version+": ", result.Event{Phase: "building"})
	path := filepath.Join(t.scratch, versions.FileName(version), "statelab")
	return path, t.builder.Build(t.a.ctx, version, path)
}

// judge builds a version, measures it in turns with the good one, and looks for the change.
func (t *trial) judge(version string) (tried, error) {
	is := tried{Version: version, Verdict: versionSkipped}
	path, err := t.build(version)
	if t.a.ctx.Err() != nil {
		return is, t.a.ctx.Err()
	}
	if err != nil {
		is.Says = "does not build: " + err.Error()
		return is, nil
	}
	defer os.RemoveAll(filepath.Dir(path)) // seventy megabytes each; scratch goes at the end in any case
	is.Folder = filepath.Join(t.out, versions.FileName(version))
	t.b.names = []string{t.b.good, version}
	var sides [2]side
	for i, program := range []string{t.good, path} {
		f := *t.b.flags
		f.out = filepath.Join(is.Folder, string(rune('a'+i)))
		if sides[i], err = t.a.sideOf(&f, t.b.names[i], filepath.Join(t.out, "databases"), builtWith{t.a, program}, t.m); err != nil {
			return is, err
		}
	}
	found, _, err := t.a.takeTurns(&t.b.comparing, sides, t.limits, t.most, t.margin)
	var failed runError
	switch {
	case errors.As(err, &failed) && failed.side == version:
		is.Says = "does not run: " + failed.why.Error()
		return is, nil
	case err != nil:
		return is, err
	}
	if _, engine := modules[t.b.module]; engine && t.b.repo == "" {
		run, err := result.ReadRun(onlyRun(sides[1].folder))
		if err == nil && run.Engine.Version != version {
			return is, usage("--engine %s is of version %s whatever the version of %s: name the engine of that module", run.Engine.Name, run.Engine.Version, t.b.module)
		}
	}
	var says []string
	is.Verdict = versionGood
	for _, limit := range t.limits {
		says = append(says, found.Says(limit)...)
		if len(found.Failures(limit)) > 0 {
			is.Verdict = versionBad
		}
	}
	is.Says = strings.Join(says, "; ")
	if !found.Known(t.limits) {
		is.Verdict, is.Says = versionSkipped, cmp.Or(is.Says, "the runs do not have this figure")
	}
	return is, nil
}

// onlyRun is the first run of a folder with one point.
func onlyRun(folder string) string {
	paths, err := filepath.Glob(filepath.Join(folder, result.PointsDir, "*", result.RunFile))
	if err != nil || len(paths) == 0 {
		return folder
	}
	return filepath.Dir(paths[0])
}

// builtWith carries jobs out with another binary of statelab.
type builtWith struct {
	*app
	program string
}

// Do starts the other binary where this one would start itself.
func (b builtWith) Do(ctx context.Context, job runners.Job, tell result.Tell) (*result.Run, error) {
	r, err := b.tables.runner(job.Spec)
	if err != nil {
		return nil, err
	}
	if self, err := os.Executable(); err != nil || r.Path != self {
		return nil, usage("%s has a runner of its own (%s), which bisect does not build: it bisects engines that the main binary links",
			job.Spec.Head().Subject, filepath.Base(r.Path))
	}
	r.Path = b.program
	return r.Do(ctx, job, tell)
}
