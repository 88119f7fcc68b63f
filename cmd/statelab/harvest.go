package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/harvest"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

func (a *app) changesetHarvest() *cobra.Command {
	f, on := new(setFlags), new(slurm.Fan)
	var treeName, db experiment.Text
	var jobs experiment.Int
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
	setting.Var(flag, &treeName, setting.Text, "tree", subject.TreeOfNodes(), "tree of the node, whose runner reads the database")
	setting.Var(flag, &db, setting.Text, "db", "", "directory of the database")
	setting.Var(flag, &jobs, setting.Whole(1, 1000, "2"), "jobs", "2", "number of processes at a time")
	f.outFlag(cmd)
	flag.BoolVar(&f.strict, "strict", false, "exit 3 and write nothing if the set would lack versions or the state it begins on")
	f.rangeFlags(cmd)
	on.Flags(flag, "harvest part K/N of the versions only (example: 2/4)", "the arguments are the files of all parts, in order: write the whole set")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		out, p := m.NewOut(f.out, "set.slcs"), a.progress()
		if on.Merge {
			if len(args) == 0 {
				m.Add("--merge: name the files of all parts (statelab changeset harvest --part K/N --out FILE makes one)")
			}
			if err := m.Err(); err != nil {
				return err
			}
			return a.written(f, p, out, harvest.Join(out, args, "", a.copied(p, "join")))
		}
		m.NoArguments(args)
		on.Check(&m.Mistakes)
		if !db.Given() {
			m.Add("--db is missing: name the database of a stopped node (example: --db data/application.db)")
		} else {
			m.Readable("db", db.V())
		}
		a.tables.Trees.FindAll("tree", []string{treeName.V()}, &m.Mistakes)
		h := &harvest.Harvest{Tree: a.tables.Trees.Found[treeName.V()], DB: absolute(db.V()), From: f.from.V(), To: f.to.V(), Part: on.Part.V(), Jobs: jobs.V(),
			Out: out, Tell: func(e result.Event) { p.Tell("", e) }, Copied: a.copied(p, "join")}
		if h.Tree != nil && !h.Tree.Info.Has(tree.Harvests) {
			m.Add("--tree %s cannot be harvested: use iavl1, which reads the databases of nodes", treeName.V())
		}
		if err := m.Err(); err != nil {
			return err
		}
		versions, warnings, err := h.Survey(a.ctx)
		if err != nil {
			return err
		}
		if err := a.warn(f.strict, warnings...); err != nil {
			return err
		}
		if on.On() == "" {
			return a.written(f, p, out, h.Run(a.ctx))
		}
		return a.written(f, p, out, a.harvestOn(on, h, versions, p))
	})
}

// harvestOn has nodes harvest parts. All of them must see the database.
func (a *app) harvestOn(on *slurm.Fan, h *harvest.Harvest, versions int64, p *console.Progress) error {
	const part = "part.slcs"
	return a.divide(on, "harvest", func(parts int) [][]string {
		return slurm.Parted(int(min(int64(parts), versions)), "changeset", "harvest", "--tree="+h.Tree.Info.Name, "--db="+h.DB, "--jobs=1",
			fmt.Sprintf("--from=%d", h.From), fmt.Sprintf("--to=%d", h.To), "--out="+slurm.Made(part))
	}, func(folders []string) error { return harvest.Join(h.Out, slurm.Files(folders, part), "", h.Copied) })
}
