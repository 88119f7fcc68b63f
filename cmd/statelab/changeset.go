package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/harvest"
	"github.com/statelab/statelab/internal/plan/replays"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

func (a *app) changesetVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changeset",
		Short: "Make, convert and check change sets: what each block wrote",
		Long: `A change set lists what each block of a chain wrote, version by version. statelab
replay applies it to state trees. The formats of other tools can be read, too.
Statelab's own (.slcs) is one file with checksums that can be read from any version.

  statelab changeset generate --profile bank,staking --versions 300 --scale 0.01 --out set.slcs
  statelab changeset import DIR --out set.slcs      (iavl-bench, cronos, .pb.gz, Ethereum diffs)
  statelab changeset harvest --tree iavl1 --db application.db --out set.slcs
  statelab changeset info set.slcs
  statelab changeset verify set.slcs
  statelab changeset export set.slcs --format cronos --out DIR`,
	}

	return a.group(cmd, a.changesetInfo(), a.changesetImport(), a.changesetExport(),
		a.changesetGenerate(), a.changesetHarvest(), a.changesetVerify())
}

// setFlags are the flags that changeset's verbs share.
type setFlags struct {
	format             experiment.Text
	from, to           setting.Value[int64]
	out                string
	sort, json, strict bool
}

func (f *setFlags) formatFlag(cmd *cobra.Command) {
	formats := append([]string{"auto"}, setting.Words(changeset.Formats())...)
	setting.Var(cmd.Flags(), &f.format, setting.Choice(formats...), "format", "auto",
		"format of the set: "+strings.Join(formats, ", "))
}

func (f *setFlags) rangeFlags(cmd *cobra.Command) {
	setting.Var(cmd.Flags(), &f.from, setting.Version, "from", "0",
		"first version; 0: the set's first")
	setting.Var(cmd.Flags(), &f.to, setting.Version, "to", "0", "last version; 0: the set's last")
}

func (f *setFlags) sortFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.sort, "sort", false, "sort each version by store and key, and keep "+
		"the last change of each key (order sorted-net)")
}

func (f *setFlags) outFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "", "new file to write, such as set.slcs")
}

// openSet opens the set that args name; its errors name the path as typed.
func (m *mistakes) openSet(
	args []string, format, example string,
) (set changeset.Source, path string) {
	if !m.One(args, "change set (example: statelab changeset "+example+")") || m.Typed {
		return nil, ""
	}

	path = args[0]
	if format == "auto" {
		format = ""
	}

	set, err := changeset.OpenFile(absolute(path), changeset.Format(format))
	if err != nil {
		m.Unread("", "", "%v", err)
		return nil, path
	}

	return set, path
}

// window is the set within --from and --to, sorted if asked.
func (f *setFlags) window(set changeset.Source, m *mistakes) (changeset.Source, error) {
	from, to := f.from.Value(), f.to.Value()
	if to > 0 && to < from {
		m.Add("--to %d: must be at least --from (%d)", to, from)
	}
	if err := m.Err(); err != nil || set == nil {
		return nil, err
	}
	return changeset.Part(set, from, to, f.sort)
}

// copied shows how far a set is written, and ends the work when the user does.
func (a *app) copied(
	p *console.Progress, phase string,
) func(changeset.Info) changeset.ProgressFunc {
	return func(info changeset.Info) changeset.ProgressFunc {
		first, total := info.First, uint64(0)
		if info.Last > 0 {
			total = uint64(info.Last - info.First + 1)
		}

		return func(version int64) error {
			if first == 0 {
				first = version
			}

			p.Report("", result.Event{
				Phase: phase,
				Done:  uint64(max(version-first+1, 0)),
				Total: total,
				Unit:  "versions",
			})

			return context.Cause(a.ctx)
		}
	}
}

// writeSet writes a set in statelab's own format and prints what it holds.
func (a *app) writeSet(
	f *setFlags, out string, set changeset.Source, provenance, phase string,
) error {
	p := a.progress()
	return a.written(f, p, out, output.Write(out, nil, func(file *os.File) error {
		return changeset.Write(file, set, provenance, a.copied(p, phase)(set.Info()))
	}))
}

// written ends the progress of a set that was written to out, and prints what it holds.
func (a *app) written(f *setFlags, p *console.Progress, out string, err error) error {
	if p.Done(); err != nil {
		return err
	}
	set, err := changeset.OpenFile(out, changeset.FormatContainer)
	if err != nil {
		return err
	}

	a.progress().Warn(changeset.Missing(set.Info())...)
	return errors.Join(a.show(changeset.FactsOf(f.out, set.Info()).Document()), set.Close())
}

func (a *app) changesetImport() *cobra.Command {
	f := new(setFlags)
	var provenance, roots string
	cmd := &cobra.Command{
		Use:   "import SET --out FILE",
		Short: "Convert a set of any format to statelab's own",
	}

	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit 3 and write nothing if files have "+
		"names that the format does not know")
	f.formatFlag(cmd)
	f.rangeFlags(cmd)
	f.sortFlag(cmd)
	f.outFlag(cmd)
	cmd.Flags().StringVar(&provenance, "provenance", "", "origin of the set, kept in the file "+
		"(default: what the set says, or its name)")
	cmd.Flags().StringVar(&roots, "roots", "", "run folder of a replay of this set; later "+
		"replays must find its roots again, in each tree with the same root rule")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		out := m.NewOut(f.out, "set.slcs")
		source, path := m.openSet(args, f.format.Value(), "import DIR --out set.slcs")
		if source != nil {
			defer source.Close() // nothing was written
		}

		set, err := f.window(source, m)
		if err != nil {
			return err
		}

		if roots != "" {
			set = replays.ExpectRoots(set, roots, &m.Mistakes)
		}

		if err := m.Err(); err != nil {
			return err
		}

		if err := a.warn(f.strict, changeset.LeftOut(source.Info())...); err != nil {
			return err
		}

		a.progress().Warn(changeset.NotChecked(source.Info())...)
		if provenance == "" && set.Info().Provenance == "" {
			provenance = fmt.Sprintf("imported from %s (%s)", filepath.Base(path),
				set.Info().Format)
		}

		return a.writeSet(f, out, set, provenance, "import")
	})
}

func (a *app) changesetExport() *cobra.Command {
	f := new(setFlags)
	cmd := &cobra.Command{
		Use:   "export SET --format FORM --out DIR",
		Short: "Convert a set to the format of another tool",
	}

	f.rangeFlags(cmd)
	f.sortFlag(cmd)
	formats := setting.Words(changeset.ExportFormats())
	setting.Var(cmd.Flags(), &f.format, setting.Choice(formats...), "format", "",
		"format to write: "+strings.Join(formats, ", "))
	cmd.Flags().StringVar(&f.out, "out", "", "new folder to write")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if !f.format.IsSet() {
			m.At("format", "", "must be one of %s", strings.Join(formats, ", "))
		}

		out := m.NewFolder(f.out, "DIR")
		source, path := m.openSet(args, "auto", "export set.slcs --format cronos --out DIR")
		if source != nil {
			defer source.Close() // nothing was written
		}

		set, err := f.window(source, m)
		if err != nil {
			return err
		}

		if err := a.warn(false, changeset.LeftOut(source.Info())...); err != nil {
			return err
		}

		versions := int64(0)
		err = output.WriteFolder(out, func(dir string) error {
			p := a.progress()
			defer p.Done()
			told := a.copied(p, "export")(set.Info())
			return changeset.Export(changeset.Dir(dir), set, changeset.Format(f.format.Value()),
				func(version int64) error {
					versions++
					return told(version)
				})
		})
		if err != nil {
			return err
		}

		fmt.Fprintf(a.stdout, "%s: %s versions of %s in the format of %s\n", f.out,
			unit.Count(versions), path, f.format.Value())
		return nil
	})
}

func (a *app) changesetGenerate() *cobra.Command {
	f := new(setFlags)
	var g changeset.Generation
	var profiles experiment.Text
	var versions, grow, seed experiment.Count
	var scale, emptyValues experiment.Float
	cmd := &cobra.Command{
		Use:   "generate --profile LIST --out FILE",
		Short: "Generate a set; the same seed gives the same set",
	}

	var about strings.Builder
	about.WriteString("Profiles:\n")
	for _, p := range changeset.Profiles() {
		fmt.Fprintf(&about, "  %-15s %s\n", p.Name, p.Of)
	}

	cmd.Long = about.String()
	flag := cmd.Flags()
	setting.ListVar(flag, &profiles, setting.Text, "profile", "", "profiles, separated by "+
		"commas; the set has the stores of all")
	setting.Var(flag, &versions, setting.Count(0, ""), "versions", "300", "number of versions")
	setting.Var(flag, &grow, setting.Count(0, ""), "grow-versions", "0",
		"versions in which stores reach their final size, which they keep; 0: all")
	setting.Var(flag, &scale, setting.Number, "scale", "0.01",
		"factor for the profile's keys and changes per version")
	setting.Var(flag, &seed, setting.Seed, "seed", "1",
		"seed of all keys, values and random choices")
	flag.BoolVar(&g.EmptyStore, "empty-store", false, "add a store that stays empty")
	setting.Var(flag, &emptyValues, setting.Share, "empty-values", "0%",
		"share of values that are empty")
	f.outFlag(cmd)
	f.sortFlag(cmd)
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.NoArguments(args)
		out := m.NewOut(f.out, "set.slcs")
		g.Profiles, g.Versions, g.Scale, g.Seed, g.EmptyValueShare = profiles.All(),
			int64(versions.Value()), scale.Value(), seed.Value(), emptyValues.Value()
		g.GrowVersions = int64(grow.Value())
		m.All("", g.Check())
		if err := m.Err(); err != nil {
			return err
		}

		set, err := changeset.Generate(g)
		if err != nil {
			return err
		}

		if f.sort {
			set = changeset.Net(set)
		}

		return a.writeSet(f, out, set, "", "generate")
	})
}

func (a *app) changesetInfo() *cobra.Command {
	f := new(setFlags)
	cmd := &cobra.Command{
		Use:   "info SET",
		Short: "Show the header of a set, without reading its changes",
	}

	f.formatFlag(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		set, path := m.openSet(args, f.format.Value(), "info set.slcs")
		if err := m.Err(); err != nil {
			return err
		}

		defer set.Close() // nothing was written
		if err := a.warn(false, changeset.LeftOut(set.Info())...); err != nil {
			return err
		}

		return a.print(f.json, changeset.FactsOf(path, set.Info()))
	})
}

func (a *app) changesetVerify() *cobra.Command {
	f := new(setFlags)
	cmd := &cobra.Command{
		Use:   "verify SET",
		Short: "Read a whole set and check checksums, versions, gaps, order and counts",
		Long: `Verify exits 1 if the set is damaged or contradicts its own header. A missing
version is not damage: a replay commits it without changes. With --strict, missing
versions and files whose names the format does not know exit 3.`,
	}

	f.formatFlag(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "exit 3 if versions are missing, or files "+
		"have names that the format does not know")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		set, path := m.openSet(args, f.format.Value(), "verify set.slcs")
		if err := m.Err(); err != nil {
			return err
		}

		defer set.Close() // nothing was written
		p := a.progress()
		verdict, damage := changeset.Verify(set, a.copied(p, "verify")(set.Info()))
		p.Done()
		if err := context.Cause(a.ctx); err != nil {
			return err
		}

		facts := changeset.FactsOf(path, set.Info()).With(verdict)
		if damage != nil {
			facts.Damage = damage.Error()
		}

		if f.json {
			if err := a.printJSON(facts); err != nil {
				return err
			}
		} else if err := a.show(facts.VerdictDocument()); err != nil {
			return err
		}

		if damage != nil {
			return fmt.Errorf("%s: %w", path, damage)
		}

		a.progress().Warn(changeset.NotChecked(set.Info())...)
		warnings := changeset.LeftOut(set.Info())
		if f.strict && verdict.Missing > 0 {
			warnings = append(warnings, engine.Warning{Text: unit.Count(verdict.Missing) +
				" versions are missing"})
		}

		return a.warn(f.strict, warnings...)
	})
}

func (a *app) changesetHarvest() *cobra.Command {
	f, on := new(setFlags), new(slurm.Fan)
	var treeName, db experiment.Text
	var jobs experiment.Int
	cmd := &cobra.Command{
		Use:   "harvest --tree TREE --db DIR --out FILE",
		Short: "Recover the changes from a node's own database",
		Long: `Harvest recovers the changes of each version from a database that has kept all
versions (a Cosmos node's application.db, not pruned), and the roots that the
chain agreed on, which replay then holds trees to. Stop the node first, or copy
its folder. Several processes read ranges of versions. Finished ranges are kept
next to FILE, so the same command continues after Ctrl-C or a crash.

  statelab changeset harvest --tree iavl1 --db data/application.db \
      --out set.slcs
  statelab changeset harvest --tree iavl1 --db data/application.db \
      --from 1000 --to 2000 --out set.slcs
  statelab changeset harvest --tree iavl1 --db data/application.db \
      --on slurm --out set.slcs

Parts of the versions (--part) make the same file when they are put together
(--merge).`,
	}

	flag := cmd.Flags()
	setting.Var(flag, &treeName, setting.Text, "tree", subject.TreeOfNodes(),
		"tree of the node, whose runner reads the database")
	setting.Var(flag, &db, setting.Text, "db", "", "directory of the database")
	setting.Var(flag, &jobs, setting.Whole(1, 1000, "2"), "jobs", "2",
		"number of processes at a time")
	f.outFlag(cmd)
	flag.BoolVar(&f.strict, "strict", false, "exit 3 and write nothing if the set would lack "+
		"versions or the state it begins on")
	f.rangeFlags(cmd)
	on.Flags(flag, "harvest part K/N of the versions only (example: 2/4)",
		"the arguments are the files of all parts, in order: write the whole set")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		out, p := m.NewOut(f.out, "set.slcs"), a.progress()
		if on.Merge {
			if len(args) == 0 {
				m.Add("--merge: name the files of all parts (statelab changeset harvest --part " +
					"K/N --out FILE makes one)")
			}

			if err := m.Err(); err != nil {
				return err
			}

			return a.written(f, p, out, harvest.Join(out, args, "", a.copied(p, "join")))
		}

		m.NoArguments(args)
		on.Check(&m.Mistakes)
		if !db.IsSet() {
			m.Add("--db is missing: name the database of a stopped node (example: --db " +
				"data/application.db)")
		} else {
			m.Readable("db", db.Value())
		}

		a.tables.Trees.FindAll("tree", []string{treeName.Value()}, &m.Mistakes)
		h := &harvest.Harvest{Tree: a.tables.Trees.Found[treeName.Value()],
			DB: absolute(db.Value()), From: f.from.Value(), To: f.to.Value(), Part: on.Part.Value(),
			Jobs: jobs.Value(),
			Out:  out, Tell: func(e result.Event) { p.Report("", e) }, Copied: a.copied(p, "join")}

		if h.Tree != nil && !h.Tree.Info.Has(tree.Harvests) {
			m.Add("--tree %s cannot be harvested: use iavl1, which reads the databases of nodes",
				treeName.Value())
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

		return a.written(f, p, out, a.harvestOn(on, h, versions))
	})
}

// harvestOn has nodes harvest parts. All of them must see the database.
func (a *app) harvestOn(on *slurm.Fan, h *harvest.Harvest, versions int64) error {
	const part = "part.slcs"
	return a.divide(on, "harvest", func(parts int) [][]string {
		return slurm.Parted(int(min(int64(parts), versions)), "changeset", "harvest",
			"--tree="+h.Tree.Info.Name, "--db="+h.DB, "--jobs=1",
			fmt.Sprintf("--from=%d", h.From), fmt.Sprintf("--to=%d", h.To),
			"--out="+slurm.MadePath(part))
	},
		func(folders []string) error {
			return harvest.Join(h.Out, slurm.Files(folders, part), "", h.Copied)
		})
}
