package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	flags
	engine     string
	ignoreLock bool
	sampleKeys experiment.Count
	cache      setting.Value[setting.CacheSize]
	on         slurm.Fan
	// Of --as:
	as, table string
	missing   experiment.Float
	seed      experiment.Count
}

func (a *app) inspectVerb() *cobra.Command {
	f := new(inspectFlags)
	cmd := &cobra.Command{
		Use:   "inspect DIR|LOG",
		Short: "Show a database's levels and contents; --as: is it like a node's?",
		Long: `Inspect says what is in a database and how much cache its filters and indexes need.
It opens the database read-only, or reads the level table that pebble db properties
prints. It names the client that wrote the database and what is inside: tables by
name, or for geth and the Cosmos SDK parts by their keys, estimated from a sample.

  statelab inspect CHAINDATA
  statelab inspect CHAINDATA --ignore-lock         (while the node runs)
  statelab inspect properties.txt --engine pebble2
  statelab inspect BENCHMARK-DB --as node
  statelab inspect BENCHMARK-DB --as CHAINDATA

Two cache sizes matter: IP1 holds the filters, top-level indexes and the indexes of
small tables, IP2 all other indexes too; the cache that is needed has room for
memtables as well. With --as it compares filters on every level, SSTables waiting in
L0, the sizes of the levels and blocks (of RocksDB for each column family), and with a
database also the sizes of keys and values. For each difference it says how many block
reads per Get it costs. With --strict inspect exits with 3 if there is a difference,
or without --as a warning or a finding about the configuration.`,
	}

	f.likeFlags(cmd)
	f.displayFlags(cmd)
	setting.Var(cmd.Flags(), &f.sampleKeys, setting.Count(0, ""), "sample-keys", "5k",
		"number of keys to sample to find out what a client's database holds; 0: none")
	cmd.Flags().StringVar(&f.engine, "engine", "", "engine (default: the database's own; for a "+
		"LOG pebble1, for the cache's overhead per block)")
	cmd.Flags().BoolVar(&f.ignoreLock, "ignore-lock", false,
		"read even if another process has the database open")
	f.on.Flags(cmd.Flags(), "look at part K/N of the table files only (example: 2/4); --merge "+
		"puts the parts together",
		"print the whole from the JSON files of all parts, which are the arguments")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		only, why := []string{"missing", "table", "seed"}, "only with --as"
		if f.as != "" {
			only, why = []string{"engine", "sample-keys", "part", "merge", "on", "constraint",
				"scratch", "sbatch", "parts", "nodes"}, "not with --as"
		}

		m.Refuse(cmd.Flags(), why, only...)
		if f.as != "" {
			return a.fidelity(f, m, args)
		}

		f.on.Check(&m.Mistakes)
		if f.on.Merge {
			if len(args) == 0 {
				m.Add("--merge: name the files of all parts (statelab inspect DIR --part K/N " +
					"--json > FILE makes one)")
			}

			if err := m.Err(); err != nil {
				return err
			}

			return a.mergeParts(f, args)
		}

		return a.inspect(f, m, args)
	})
}

func (a *app) inspect(f *inspectFlags, m *mistakes, args []string) error {
	if len(args) != 1 {
		m.Add("name one database or one level table (example: statelab inspect DIR)")
	}

	if len(args) == 1 && f.engine != "" && isFile(args[0]) {
		if _, err := setting.Choice(subject.Pebbles()...).Parse(f.engine); err != nil {
			m.At("engine", f.engine, "%v", err)
		}
	}

	part := f.on.Part.Value()
	if part.Of > 0 && !f.json {
		m.Add("--part: prints JSON only: add --json")
	}

	if err := m.Err(); err != nil {
		return err
	}

	if f.on.On() != "" {
		return a.inspectParts(f, args[0])
	}

	if isFile(args[0]) {
		if f.cache.IsSet() {
			return usage("--cache: only with --as, or for a database of RocksDB")
		}

		name := cmp.Or(f.engine, subject.DefaultEngine())
		levels, err := inspect.LevelTable(args[0])
		if err != nil {
			return err
		}

		return a.printInspection(f,
			inspect.Table(args[0], name,
				lsm.WithCharge(levels, subject.PebbleVersion(name).BlockCharge())))
	}

	run, err := a.inspectDatabase(args[0], f.engine, f.ignoreLock, part)
	if err != nil {
		return err
	}

	if e, _ := subject.EngineOf(run.Engine.Name); f.cache.IsSet() && !e.BlockTables {
		return usage("--cache: only with --as, or for a database of RocksDB")
	}

	found, err := inspect.Database(a.ctx, args[0], run, part, linked(run.Engine.Name),
		f.sampleKeys.Value(), f.ignoreLock, f.cache.Value().BytesFor(inspect.Bytes(run.Database)))
	if err != nil {
		return err
	}

	return a.printInspection(f, found)
}

// inspectParts has nodes look at parts of a database that all of them see.
func (a *app) inspectParts(f *inspectFlags, dir string) error {
	return a.divide(&f.on, "inspect", func(parts int) [][]string {
		// Nodes look at the same time: nobody holds the database's lock.
		return slurm.Parted(parts, "inspect", absolute(dir), "--json", "--ignore-lock",
			"--engine="+f.engine)
	},
		func(folders []string) error {
			return a.mergeParts(f, slurm.Files(folders, slurm.AnswerFile), dir)
		})
}

// mergeParts prints the whole that the parts in files make, under the name of the database as
// typed.
func (a *app) mergeParts(f *inspectFlags, paths []string, typed ...string) error {
	whole, err := inspect.Merge(paths)
	if err != nil {
		return err
	}
	whole.Source = cmp.Or(strings.Join(typed, ""), whole.Source)
	return a.printInspection(f, &whole)
}

// printInspection prints what was found.
func (a *app) printInspection(f *inspectFlags, found *inspect.Inspection) (err error) {
	a.progress().Warn(found.Warnings...)
	if n := len(found.Warnings) + len(found.Findings); f.strict && n > 0 {
		defer func() { err = cmp.Or(err, madeFatal(n)) }()
	}
	if f.json {
		return a.printJSON(found)
	}
	return a.show(found.Document(f.sampleKeys.String()))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// anyNode is what --as says for the shape that a database has in a node after a long time.
const anyNode = "node"

// likeFlags are those of --as.
func (f *inspectFlags) likeFlags(cmd *cobra.Command) {
	flag := cmd.Flags()
	flag.StringVar(&f.as, "as", "", "compare the shape: --as node, with that of a long-running "+
		"node of the same client; --as DIR, with another database's")
	setting.Var(flag, &f.cache, setting.Cache, "cache", "",
		"cache for which to count block reads (default: with RocksDB its client's; with --as and "+
			"Pebble, a node's from its OPTIONS file, "+
			"and what filters and indexes need in a database that statelab loaded; none for "+
			"other engines)")

	setting.Var(flag, &f.missing, setting.Share, "missing", "0%",
		"with --as: share of negative lookups: Gets of missing keys")
	flag.StringVar(&f.table, "table", "", "with --as: column family of RocksDB to look at "+
		"(default: all)")
	setting.Var(flag, &f.seed, setting.Seed, "seed", "1", "with --as: seed of all random choices")
}

func (a *app) fidelity(f *inspectFlags, m *mistakes, args []string) error {
	if _, missing := os.Stat(f.as); len(args) == 1 && missing != nil && inspect.IsProfile(f.as) {
		if f.cache.IsSet() {
			m.Add("--cache: not with --as PROFILE, which compares options alone")
		}

		if err := m.Err(); err != nil {
			return err
		}

		return a.conformity(f, args[0])
	}

	if f.as != anyNode {
		args = append(args, f.as)
	} // else a second one may follow: of fidelity A B, the name of the release before

	if len(args) != 1 && len(args) != 2 || len(args) == 1 && f.as != anyNode {
		m.Add("name one database (example: statelab inspect DIR --as node)")
	}

	if err := m.Err(); err != nil {
		return err
	}

	wish := inspect.Wish{
		CacheBytes: f.cache.Value().Bytes,
		CacheShare: f.cache.Value().Share,
		Missing:    f.missing.Value(),
		Seed:       f.seed.Value(),
	}

	inspectDir := func(dir string) (*result.Run, error) {
		return a.inspectDatabase(dir, "", f.ignoreLock, engine.Part{})
	}
	out, err := inspect.Compare(a.ctx, args, f.table, inspectDir, wish)
	if err != nil {
		return err
	}

	for _, dir := range args {
		out.Verdict = cmp.Or(out.Verdict, watch.Unwatched(dir))
	}

	a.progress().Warn(slices.DeleteFunc(slices.Clone(out.Warnings), inspect.InAnswer)...)
	return a.judged(f, out, out.Differences()+len(out.Warnings))
}

// conformity compares the options of a database with those of a profile.
func (a *app) conformity(f *inspectFlags, dir string) error {
	run, err := a.inspectDatabase(dir, "", f.ignoreLock, engine.Part{})
	if err != nil {
		return err
	}

	out, err := inspect.AsProfile(a.ctx, dir, run, f.as, f.table)
	if err != nil {
		return err
	}

	return a.judged(f, out, out.Differences())
}

// judged prints an answer with so many differences, which --strict makes fatal.
func (a *app) judged(f *inspectFlags, found answer, differences int) error {
	err := a.print(f.json, found)
	if f.strict && differences > 0 {
		err = errors.Join(err, madeFatal(differences))
	}
	return err
}
