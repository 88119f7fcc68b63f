package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/look"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan/experiment"
)

// fidelityFlags are the flags of inspect --as.
type fidelityFlags struct {
	*inspectFlags
	cache     setting.Value[setting.CacheSize]
	missing   experiment.Float
	as, table string
	seed      experiment.Count
}

// anyNode is what --as says for the shape that a database has in a node after a long time.
const anyNode = "node"

func (f *fidelityFlags) add(cmd *cobra.Command) {
	flag := cmd.Flags()
	flag.StringVar(&f.as, "as", "", "compare the shape: --as node, with that of a long-running node of the same client; --as DIR, with another database's")
	setting.Var(flag, &f.cache, setting.Cache, "cache", "",
		"with --as: cache for which to count block reads (default: with Pebble, a node's from its OPTIONS file, "+
			"and what filters and indexes need in a database that statelab loaded; none for other engines)")
	setting.Var(flag, &f.missing, setting.Share, "missing", "0%", "with --as: share of Gets that ask for absent keys")
	flag.StringVar(&f.table, "table", "", "with --as: column family of RocksDB to look at (default: all)")
	setting.Var(flag, &f.seed, setting.Seed, "seed", "1", "with --as: seed of all random choices")
}

func (a *app) fidelity(f *fidelityFlags, m *mistakes, args []string) error {
	if f.as != anyNode {
		args = append(args, f.as)
	} // else a second one may follow: of fidelity A B, the name of the release before
	if len(args) != 1 && len(args) != 2 || len(args) == 1 && f.as != anyNode {
		m.add("name one database (example: statelab inspect DIR --as node)")
	}
	if err := m.err(); err != nil {
		return err
	}
	var sides []look.Side
	for _, dir := range args {
		run, err := a.inspectDatabase(dir, "", f.ignoreLock, engine.Part{})
		if err != nil {
			return err
		}
		side, err := look.Of(dir, run, f.table)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	var beside *look.Side
	if len(sides) == 2 {
		beside = &sides[1]
	}
	cache := f.cache.V()
	out, err := look.Compare(a.ctx, sides[0], beside, look.Wish{CacheBytes: cache.Bytes, CacheShare: cache.Share, Missing: f.missing.V(), Seed: f.seed.V()})
	if err != nil {
		return err
	}
	a.progress().Warn(out.Warnings...)
	var verdict error
	if n := out.Differences() + len(out.Warnings); f.strict && n > 0 {
		verdict = madeFatal(n)
	}
	if f.json {
		return errors.Join(a.printJSON(out), verdict)
	}
	return errors.Join(out.Text(a.stdout), verdict)
}
