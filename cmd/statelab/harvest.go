package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

func (a *app) changesetHarvest() *cobra.Command {
	f := new(setFlags)
	var treeName, db, jobs, part string
	var strict, merge bool
	cmd := &cobra.Command{Use: "harvest --tree TREE --db DIR --out FILE", Short: "Recover the changes from a node's own database",
		Long: `Harvest recovers the changes of each version from a database that has kept all
versions (a Cosmos node's application.db, not pruned), and the roots that the chain
agreed on, which replay then holds trees to. Stop the node first, or copy
its folder. Several processes read ranges of versions. Finished ranges are kept
next to FILE, so the same command continues after Ctrl-C or a crash.

  statelab changeset harvest --tree iavl1 --db data/application.db --out set.slcs
  statelab changeset harvest --tree iavl1 --db data/application.db --from 1000 --to 2000 --out set.slcs
  statelab changeset harvest --tree iavl1 --db data/application.db --on slurm --out set.slcs

Parts of the versions (--part) make the same file when they are put together (--merge).`}
	flag := cmd.Flags()
	flag.StringVar(&treeName, "tree", subject.TreeOfNodes(), "tree of the node, whose runner reads the database")
	flag.StringVar(&db, "db", "", "directory of the database")
	flag.StringVar(&jobs, "jobs", "2", "number of processes at a time")
	flag.StringVar(&f.out, "out", "", "new file to write, such as set.slcs")
	flag.BoolVar(&strict, "strict", false, "exit 3 and write nothing if the set would lack versions or the state it begins on")
	f.rangeFlags(cmd)
	flag.StringVar(&part, "part", "", "harvest part K/N of the versions only (example: 2/4)")
	flag.BoolVar(&merge, "merge", false, "the arguments are the files of all parts, in order: write the whole set")
	on := fanFlags(cmd)
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if merge {
			return a.mergeHarvest(f, m, args)
		}
		m.noArguments(args)
		on.check(m)
		if on.where != "" && part != "" {
			m.add("--on %s: divides the work itself: remove --part", on.where)
		}
		h := harvest{part: m.part(part), app: a, db: absolute(db), out: m.newOut(f.out, "set.slcs"), from: m.version("from", f.from), to: m.version("to", f.to),
			jobs: int(parse(m, "jobs", jobs, setting.Count(1, "2"))), progress: a.progress(), strict: strict}
		if db == "" {
			m.add("--db is missing: name the database of a stopped node (example: --db data/application.db)")
		} else {
			m.database(db)
		}
		a.tables.trees.FindAll("tree", []string{treeName}, &m.Mistakes)
		if h.tree = a.tables.trees.Found[treeName]; h.tree != nil && !h.tree.Info.Has(tree.Harvests) {
			m.add("--tree %s cannot be harvested", treeName)
		}
		if err := m.err(); err != nil {
			return err
		}
		run := h.run
		if on.where != "" {
			run = func() error { return h.runOn(on) }
		}
		if err := run(); err != nil {
			return err
		}
		return a.describeSet(h.out, f.out)
	})
}

// harvest reads a range of versions in parts, a process each.
type harvest struct {
	app      *app
	tree     *runners.Found[tree.Info]
	db, out  string
	from, to int64
	jobs     int
	progress *console.Progress
	strict   bool
	whole    bool // the set begins where the chain did
	part     engine.Part
	begins   int64 // first version of the set; that of a part may be later
}

// parts is into how many a range is cut: some per process, so that none waits
// long for the last, and what a crash loses is small.
const parts = 32

type part struct {
	first, last int64
	path        string
}

// survey finds the versions to harvest.
func (h *harvest) survey() (first, last int64, err error) {
	survey, err := h.ask(h.app.ctx, protocol.HarvestOrder{})
	if err != nil {
		return 0, 0, err
	}
	first, last = max(h.from, survey.First), survey.Last
	if h.to > 0 {
		last = min(h.to, last)
	}
	h.whole = first == survey.First && !survey.Pruned
	if last < first {
		return 0, 0, fmt.Errorf("%s has the versions %d to %d, and none in the range of --from and --to", h.db, survey.First, survey.Last)
	}
	warnings := h.judge(survey, first, last)
	if h.progress.Warn(warnings...); h.strict && len(warnings) > 0 {
		return 0, 0, madeFatal(len(warnings))
	}
	h.begins = first
	if n := last - first + 1; h.part.Of > 0 {
		if n < int64(h.part.Of) {
			return 0, 0, fmt.Errorf("%d versions cannot be divided into %d parts", n, h.part.Of)
		}
		before := int64(curve.ShareOf(uint64(n), h.part.Number-1, h.part.Of))
		first, last = first+before, first+int64(curve.ShareOf(uint64(n), h.part.Number, h.part.Of))-1
	}
	return first, last, nil
}

func (h *harvest) run() error {
	first, last, err := h.survey()
	if err != nil {
		return err
	}
	dir := fmt.Sprintf("%s.parts-%d-%d", h.out, first, last)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cut := cutRange(dir, first, last)
	if err := h.readParts(cut, last-first+1); err != nil {
		return fmt.Errorf("%w (finished ranges are kept: run the same command again to continue)", err)
	}
	if err := h.join(cut); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// withoutBase stands in the provenance of a set that begins on a state which it does
// not hold.
const withoutBase = "without the state before version"

// judge warns of versions that were asked for and cannot be had, and of a set without
// the state that it begins on.
func (h *harvest) judge(survey protocol.Harvested, first, last int64) (warnings []engine.Warning) {
	if h.from > 0 && h.from < first || h.to > last {
		warnings = append(warnings, engine.Warning{Code: "versions_missing",
			Text: fmt.Sprintf("the database can tell the changes of versions %d to %d only: the set holds %d to %d", survey.First, survey.Last, first, last)})
	}
	if !h.whole {
		why := "earlier versions were left out"
		if survey.Pruned {
			why = "earlier versions were pruned"
		}
		warnings = append(warnings, engine.Warning{Code: "no_base_state",
			Text: fmt.Sprintf("the set begins with version %d on a state that it does not hold (%s): trees replay it on an empty state, so their roots are not the "+
				"chain's, and keys of the earlier state are deleted without effect", first, why),
			Remedy: "harvest a database that keeps all versions (pruning = \"nothing\") from its first one"})
	}
	return warnings
}

func cutRange(dir string, first, last int64) (cut []part) {
	step := (last-first)/parts + 1
	for at := first; at <= last; at += step {
		p := part{first: at, last: min(at+step-1, last)}
		p.path = filepath.Join(dir, fmt.Sprintf("%012d-%012d.slcs", p.first, p.last))
		cut = append(cut, p)
	}
	return cut
}

func (h *harvest) readParts(cut []part, versions int64) error {
	group, ctx := errgroup.WithContext(h.app.ctx)
	group.SetLimit(h.jobs)
	var done atomic.Int64
	for _, p := range cut {
		group.Go(func() error {
			if _, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) { // it appears when it is whole
				if _, err := h.ask(ctx, protocol.HarvestOrder{First: p.first, Last: p.last, Out: p.path, Whole: h.whole}); err != nil {
					return err
				}
			} else if err != nil {
				return err
			}
			h.progress.Tell("", result.Event{Phase: "harvest", Done: uint64(done.Add(p.last - p.first + 1)), Total: uint64(versions), Unit: "versions"})
			return nil
		})
	}
	err := group.Wait()
	h.progress.Done()
	if cause := context.Cause(h.app.ctx); cause != nil {
		return cause
	}
	return err
}

// ask gives an order to a process of the tree's runner.
func (h *harvest) ask(ctx context.Context, order protocol.HarvestOrder) (harvested protocol.Harvested, err error) {
	order.Tree, order.Dir = h.tree.Info.Name, h.db
	err = h.tree.Ask(ctx, protocol.Harvest, order, &harvested)
	return harvested, err
}

// runOn has nodes harvest parts. All of them must see the database.
func (h *harvest) runOn(on *fan) error {
	first, last, err := h.survey()
	if err != nil {
		return err
	}
	command := func(parts int) (commands [][]string) {
		parts = int(min(int64(parts), last-first+1))
		for i := range parts {
			commands = append(commands, []string{"changeset", "harvest", "--tree=" + h.tree.Info.Name, "--db=" + h.db, "--jobs=1",
				fmt.Sprintf("--from=%d", h.from), fmt.Sprintf("--to=%d", h.to), fmt.Sprintf("--part=%d/%d", i+1, parts),
				"--out=" + filepath.Join(slurm.Work, madeDir, harvestPart)})
		}
		return commands
	}
	return h.app.divide(on, "harvest", command, func(folders []string) error {
		var files []string
		for _, folder := range folders {
			files = append(files, filepath.Join(folder, harvestPart))
		}
		return h.app.joinSets(h.out, files)
	})
}

// harvestPart is the file that a node makes.
const harvestPart = "part.slcs"

// mergeHarvest writes the set that parts in files make.
func (a *app) mergeHarvest(f *setFlags, m *mistakes, paths []string) error {
	out := m.newOut(f.out, "set.slcs")
	if len(paths) == 0 {
		m.add("--merge: name the files of all parts (statelab changeset harvest --part K/N --out FILE makes one)")
	}
	if err := m.err(); err != nil {
		return err
	}
	if err := a.joinSets(out, paths); err != nil {
		return err
	}
	return a.describeSet(out, f.out)
}

// joinSets writes harvested sets, which follow each other without a gap, as one.
func (a *app) joinSets(out string, paths []string) error {
	sets := make([]changeset.Source, len(paths))
	next := int64(0)
	for i, path := range paths {
		set, err := changeset.Open(os.DirFS(filepath.Dir(absolute(path))), filepath.Base(path), changeset.FormatContainer)
		if err != nil {
			return err
		}
		defer set.Close() // nothing was written
		info := set.Info()
		if info.Damage != nil {
			return fmt.Errorf("%s: %w", path, info.Damage)
		}
		if i > 0 && info.First != next {
			return fmt.Errorf("%s begins with version %d, but %d is next: name all parts in their order", path, info.First, next)
		}
		next, sets[i] = info.Last+1, set
	}
	joined, err := changeset.Join(sets...)
	if err != nil {
		return err
	}
	return a.writeContainer(out, joined, "", "join")
}

// join copies the parts one after another into the set.
func (h *harvest) join(cut []part) error {
	sets := make([]changeset.Source, len(cut))
	for i, p := range cut {
		set, err := changeset.Open(os.DirFS(filepath.Dir(p.path)), filepath.Base(p.path), changeset.FormatContainer)
		if err != nil {
			return err
		}
		defer set.Close() // nothing was written
		if info := set.Info(); info.Damage != nil || info.First != p.first || info.Last != p.last {
			return fmt.Errorf("%s is not what was harvested (versions %d to %d, %v): remove it and harvest again", p.path, info.First, info.Last, info.Damage)
		}
		sets[i] = set
	}
	joined, err := changeset.Join(sets...)
	if err != nil {
		return err
	}
	provenance := joined.Info().Provenance
	if !h.whole {
		provenance += fmt.Sprintf(", %s %d", withoutBase, h.begins)
	}
	return h.app.writeContainer(h.out, joined, provenance, "join")
}
