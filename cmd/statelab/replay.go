package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/explain/promexport"
	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/internal/plan/contest"
	"github.com/statelab/statelab/internal/run/replay"
	"github.com/statelab/statelab/result"
)

// replayFlags are replay's flags as typed.
type replayFlags struct {
	tree, changes, out, db, versions, repeats, commitLimit, gets, cacheNodes, memory, stores, rootsEvery, seed, metrics string
	set                                                                                                                 []string
	resume, discard, json, quiet, strict                                                                                bool
}

func (a *app) replayVerb() *cobra.Command {
	f := new(replayFlags)
	cmd := &cobra.Command{
		Use:   "replay --tree LIST --changes SET --out R",
		Short: "Apply a chain's change sets to state trees: speed, disk, memory, and whether roots agree",
		Long: `Replay applies a change set (statelab changeset) version by version to each tree,
a process each, and compares their roots.

  statelab replay --tree iavl1,memiavl --changes set.slcs --out R --repeats 2
  statelab replay --tree iavl1 --changes set.slcs --out R --gets 100k
  statelab replay --resume --out R                 (after Ctrl-C, a kill, a reboot)

Exit 1 if trees of one root rule disagree, or one fails.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.replay(cmd, f, args) },
	}
	flag := cmd.Flags()
	flag.StringVar(&f.tree, "tree", "", "trees (list), TREE or TREE:PROFILE")
	flag.StringVar(&f.changes, "changes", "", "the change set: a file or a directory")
	flag.StringVar(&f.out, "out", "", "folder for the results (default: a new one under statelab-runs)")
	flag.StringVar(&f.db, "db", "", "folder for the trees' files (default: trees in --out)")
	flag.StringVar(&f.versions, "versions", "0", "versions to apply, from the set's first; 0: all")
	flag.StringVar(&f.repeats, "repeats", "1", "passes per tree, interleaved")
	flag.StringVar(&f.commitLimit, "commit-limit", "60s", "a call of a tree that takes longer is a failure; 0: never")
	flag.StringVar(&f.gets, "gets", "0", "lookups after the last version, half of them of absent keys")
	flag.StringVar(&f.cacheNodes, "cache-nodes", "0", "nodes a tree may cache; 0: the profile's")
	flag.StringVar(&f.memory, "memory", "0", "memory budget, where a tree has one; 0: the profile's")
	flag.StringVar(&f.stores, "stores", "", "stores to replay (list; default: all)")
	flag.StringVar(&f.rootsEvery, "roots-every", "0", "versions between stored roots; 0: at most 10,000 are stored")
	flag.StringVar(&f.seed, "seed", "1", "seed of the lookups")
	flag.StringArrayVar(&f.set, "set", nil, "override an option of the trees: --set Name=Value (repeatable)")
	flag.StringVar(&f.metrics, "metrics", "", "serve Prometheus metrics while it runs, at an address such as 127.0.0.1:9464")
	flag.BoolVar(&f.resume, "resume", false, "go on with the replay in --out")
	flag.BoolVar(&f.discard, "discard", false, "remove a tree's files when its run has succeeded")
	flag.BoolVar(&f.json, "json", false, "print replay.json")
	flag.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	flag.BoolVar(&f.strict, "strict", false, "exit 3 if there is a warning")
	cmd.FParseErrWhitelist.UnknownFlags = true
	return cmd
}

func (a *app) replay(cmd *cobra.Command, f *replayFlags, args []string) error {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	m.noArguments(args)
	if f.resume {
		return a.resumeReplay(f, m)
	}
	base := f.spec(m)
	stores := m.changes(f.changes)
	if len(base.Stores) > 0 {
		stores = base.Stores
	}
	entries := a.trees(f.tree, base, stores, m)
	if f.tree == "" {
		m.add("--tree: say which trees: --tree iavl1,memiavl")
	}
	repeats := int(m.atLeastOne("repeats", f.repeats, "2"))
	if base.Gets > 0 && len(entries) == 1 && entries[0].Info.RootRule == result.NoRoots {
		m.add("--gets: the tree %s keeps nothing to look up", entries[0].Label)
	}
	if err := m.err(); err != nil {
		return err
	}
	out := (&flags{out: f.out}).outFolder("replay")
	if err := refuseOther(out); err != nil {
		return err
	}
	plan := contest.Plan{Command: a.command(), Base: base, Entries: entries, Repeats: repeats, Trees: absolute(f.db), Discard: f.discard}
	if plan.Trees == "" {
		plan.Trees = filepath.Join(out, "trees")
	}
	if taken := plan.Taken(); len(taken) > 0 {
		return usage("--db %s: it holds trees of another replay (%s): name a new folder", f.db, strings.Join(taken, ", "))
	}
	return a.hold(f, plan, out)
}

// spec turns the flags into what all trees share.
func (f *replayFlags) spec(m *mistakes) replay.Spec {
	limit, err := time.ParseDuration(f.commitLimit)
	if f.commitLimit == "0" {
		limit, err = 0, nil
	}
	if err != nil || limit < 0 {
		m.add("--commit-limit %q: a duration such as --commit-limit 60s", f.commitLimit)
	}
	memory, err := unit.ParseBytes(f.memory)
	if err != nil {
		m.add("--memory: %v", err)
	}
	return replay.Spec{
		Overrides: m.overrides(f.set), CacheNodes: int64(m.count("cache-nodes", f.cacheNodes)), MemoryBytes: memory,
		Changes: absolute(f.changes), Stores: list(f.stores), Versions: int64(m.count("versions", f.versions)),
		RootsEvery: int64(m.count("roots-every", f.rootsEvery)), CommitLimitNanos: int64(limit), Gets: m.count("gets", f.gets), Seed: m.seed(f.seed),
	}
}

// changes opens the set as the runners will, and says which stores it names.
func (m *mistakes) changes(path string) (stores []string) {
	if path == "" {
		m.add("--changes: say which change set: --changes set.slcs (statelab changeset makes one)")
		return nil
	}
	full := absolute(path)
	source, err := changeset.Open(os.DirFS(filepath.Dir(full)), filepath.Base(full), "")
	if err != nil {
		m.add("--changes: %v", err)
		return nil
	}
	stores = source.Info().Stores
	if err := source.Close(); err != nil {
		m.add("--changes: %v", err)
	}
	return stores
}

// resumeReplay goes on with the plan in --out.
func (a *app) resumeReplay(f *replayFlags, m *mistakes) error {
	if f.out == "" {
		m.add("--resume: say which replay: --out FOLDER")
	}
	if err := m.err(); err != nil {
		return err
	}
	out := absolute(f.out)
	plan, err := contest.ReadPlan(out)
	if err != nil {
		return usage("--resume: %v", err)
	}
	for _, e := range plan.Entries {
		if _, err := a.tables.trees.find(e.Info.Name); err != nil {
			return usage("--resume: tree %s: %v", e.Label, err)
		}
	}
	return a.hold(f, plan, out)
}

// hold carries a plan out and prints what came of it.
func (a *app) hold(f *replayFlags, plan contest.Plan, out string) error {
	p := a.progress(f.quiet)
	metrics := promexport.NewReplay()
	if f.metrics != "" {
		stop, address, err := serveMetrics(f.metrics, metrics)
		if err != nil {
			return err
		}
		defer stop()
		p.say("metrics: http://%s/metrics", address)
	}
	done, err := contest.Run(a.ctx, plan, out, a.runTree, func(n, of int, entry contest.Entry, repeat int, e result.Event) {
		metrics.Observe(entry.Label, e)
		if e.Tick != nil && e.Tick.Tree != nil {
			e.Note = tickNote(e.Tick)
		}
		p.tell(fmt.Sprintf("run %d of %d (%s, repeat %d): ", n, of, entry.Label, repeat), e)
	})
	p.say("")
	if done == nil {
		return err
	}
	if len(done.Trees) > 0 {
		if explainErr := a.explainReplay(f, out); explainErr != nil {
			return errors.Join(err, explainErr)
		}
	}
	for _, w := range done.Warnings {
		p.say("warning: %s", w.Text)
		if w.Remedy != "" {
			p.say("         remedy: %s", w.Remedy)
		}
	}
	p.say("replay folder: %s", out)
	switch {
	case done.Status == result.Interrupted:
		p.say("%s", done.Error)
		return errInterrupted
	case err != nil:
		return err
	case done.Status == result.Failed:
		return errors.New(done.Error)
	case f.strict && len(done.Warnings) > 0:
		return &strictError{len(done.Warnings)}
	}
	return nil
}

// tickNote is a line of the console.
func tickNote(tick *result.Tick) string {
	t := tick.Tree
	parts := []string{unit.Count(int64(tick.OpsPerSecond)) + " leaves/s"}
	if t.TreeSize != nil {
		parts = append(parts, unit.ShortCount(float64(*t.TreeSize))+" leaves in the tree")
	}
	parts = append(parts, "memory "+unit.Bytes(t.RSSBytes))
	if t.DiskBytes != nil {
		parts = append(parts, "disk "+unit.Bytes(*t.DiskBytes))
	}
	return strings.Join(parts, ", ")
}

// explainReplay prints the answer and writes the report.
func (a *app) explainReplay(f *replayFlags, out string) error {
	if !f.json {
		return a.reportReplay([]string{out}, "")
	}
	in, err := report.ReplayFromFolder(out)
	if err != nil {
		return err
	}
	if err := a.printJSON(in.ReplayOf); err != nil {
		return err
	}
	return writeReplayReport(filepath.Join(out, result.ReportFile), in)
}

// reportReplay explains a folder with replay.json.
func (a *app) reportReplay(folders []string, path string) error {
	if len(folders) > 1 {
		return usage("%s holds a replay: report takes one of those at a time", folders[0])
	}
	in, err := report.ReplayFromFolder(folders[0])
	if err != nil {
		return err
	}
	if err := report.ReplayText(a.stdout, in); err != nil {
		return err
	}
	path = orDefault(path, filepath.Join(folders[0], result.ReportFile))
	if err := writeReplayReport(path, in); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\nreport: %s\n", path)
	return nil
}

func writeReplayReport(path string, in report.ReplayInput) error {
	return writeFile(path, func(f *os.File) error { return report.WriteReplay(f, in) })
}

// serveMetrics serves until stop is called.
func serveMetrics(address string, metrics *promexport.Replay) (stop func(), bound string, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, "", fmt.Errorf("--metrics %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			return // a scraper that hangs on is cut off by the end of the process
		}
		<-done
	}, listener.Addr().String(), nil
}
