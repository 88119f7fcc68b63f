package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

func (a *app) accessesVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accesses",
		Short: "Make, convert and check access lists: what each block reads",
		Long: `An access list says which accounts, storage slots and code each block of a chain
reads and writes. statelab layouts and statelab sweep play it with --accesses.

  statelab accesses generate --blocks 100 --accounts 1M --out list.slal
  statelab accesses import DIR --out list.slal
  statelab accesses info list.slal
  statelab accesses verify list.slal

DIR has files named after blocks: NUMBER.rlp (block access lists of EIP-7928),
NUMBER.json (traces by the prestateTracer, or state diffs), NUMBER.diff.json (the
same blocks in diffMode) and NUMBER.block.json (headers to check them with), and
perhaps genesis.json, the whole state before the first block. Or it has Parquet files
of the Xatu data set, at any depth: canonical_execution_storage_reads, _balance_reads,
_nonce_reads, and the _diffs of each.`,
	}
	return a.group(cmd, a.accessesInfo(), a.accessesImport(), a.accessesGenerate(), a.accessesVerify(), a.accessesBuild())
}

// accessList checks --accesses.
func (m *mistakes) accessList(path string) {
	if path == "" || !m.Readable("accesses", path) {
		return
	}
	if err := bench.CheckList(path); err != nil {
		m.Unread("accesses", "", "%v", err)
	}
}

func (m *mistakes) oneList(args []string, verb string) (list *accesses.Container) {
	if !m.One(args, "access list (example: statelab accesses "+verb+" list.slal)") {
		return nil
	}
	list, err := accesses.OpenFile(args[0])
	if err != nil {
		m.Unread("", "", "%v", err)
	}
	return list
}

func (a *app) accessesInfo() *cobra.Command {
	var asJSON bool
	log := new(logFlags)
	cmd := &cobra.Command{Use: "info LIST", Short: "Show what a list or a log holds"}
	log.declare(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if log.form().Blocks() {
			return a.blockTrace(m, log, args, "", asJSON)
		}
		if log.given(args) {
			source := log.open(m, args)
			if err := m.Err(); err != nil {
				return err
			}
			defer source.Close() // it is only read
			return a.describeLog(source, args[0], asJSON)
		}
		list := m.oneList(args, "info")
		if err := m.Err(); err != nil {
			return err
		}
		defer list.Close() // it is only read
		return a.describeAccesses(list, args[0], asJSON)
	})
}

// describeAccesses counts a list and prints what it comes to.
func (a *app) describeAccesses(list accesses.Source, name string, asJSON bool) error {
	facts, err := accesses.FactsOf(name, list, func(*accesses.Block) error { return context.Cause(a.ctx) })
	if err != nil {
		return err
	}
	return a.print(asJSON, facts)
}

// writeAccesses writes a list of statelab's own and describes it.
func (a *app) writeAccesses(from accesses.Source, info accesses.Info, out, typed, phase string, blocks uint64) error {
	p := a.progress()
	err := output.Write(out, nil, func(f *os.File) error {
		return accesses.Write(f, from, info, func(n uint64) error {
			p.Tell("", result.Event{Phase: phase, Done: n, Total: blocks, Unit: "blocks"})
			return context.Cause(a.ctx)
		})
	})
	if p.Done(); err != nil {
		return err
	}
	list, err := accesses.OpenFile(out)
	if err != nil {
		return err
	}
	defer list.Close() // it is only read
	return a.describeAccesses(list, typed, false)
}

// parquet is the program that reads tables of Xatu.
var parquet = runners.Plug("parquet", "statelab-run-parquet", "go build -o bin/ ./cmd/statelab-run-parquet, in statelab's source")

func (a *app) accessesImport() *cobra.Command {
	var out, provenance string
	log := new(logFlags)
	cmd := &cobra.Command{Use: "import DIR --out FILE", Short: "Convert access lists, traces, state diffs, tables of Xatu or a store's log to statelab's form"}
	log.declare(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "new file to write, such as list.slal")
	cmd.Flags().StringVar(&provenance, "provenance", "", "origin of the list, kept in the file (default: its name)")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		to := m.NewOut(out, "list.slal")
		if len(args) != 1 {
			m.Add("name one folder or file (example: statelab accesses import DIR --out list.slal)")
			return m.Err()
		}
		if log.form().Blocks() {
			return a.blockTrace(m, log, args, to, false)
		}
		if provenance == "" {
			provenance = "imported from " + filepath.Base(args[0])
		}
		if log.given(args) {
			source := log.open(m, args)
			if err := m.Err(); err != nil {
				return err
			}
			defer source.Close() // it is only read
			return a.writeLog(source, to, out, provenance)
		}
		var from accesses.Source
		if path := absolute(args[0]); m.Readable("", args[0]) {
			var err error
			if from, err = accesses.OpenAny(a.ctx, path, parquet.Path); err != nil {
				m.Unread("", "", "%v", err)
			}
		}
		if err := m.Err(); err != nil {
			return err
		}
		defer from.Close() // it is only read
		info := from.Info()
		info.Provenance = provenance
		return a.writeAccesses(from, info, to, out, "import", 0)
	})
}

func (a *app) accessesGenerate() *cobra.Command {
	var out string
	var blocks, accounts, seed experiment.Count
	var contracts experiment.Float
	cmd := &cobra.Command{
		Use:   "generate --blocks N --accounts N --out FILE",
		Short: "Generate accesses with the skew and working set published for Ethereum's blocks",
	}
	flag := cmd.Flags()
	flag.StringVar(&out, "out", "", "new file to write, such as list.slal")
	setting.Var(flag, &blocks, setting.Count(1, "100"), "blocks", "100", "number of blocks")
	setting.Var(flag, &accounts, setting.Count(1, "1M"), "accounts", "1M", "accounts that the traffic chooses from")
	setting.Var(flag, &contracts, setting.Share, "contracts", "10%", "share of them that have code")
	setting.Var(flag, &seed, setting.Seed, "seed", "1", "seed of all random choices")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.NoArguments(args)
		to := m.NewOut(out, "list.slal")
		profile := accesses.Profile{Blocks: blocks.V(), Accounts: accounts.V(), Seed: seed.V(), ContractShare: contracts.V()}
		if err := profile.Check(); err != nil && m.Err() == nil {
			m.Add("%v (example: --blocks 100 --accounts 1M --contracts 10%%)", err)
		}
		if err := m.Err(); err != nil {
			return err
		}
		from := accesses.Generate(profile)
		return a.writeAccesses(from, from.Info(), to, out, "generate", profile.Blocks)
	})
}

func (a *app) accessesVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify LIST",
		Short: "Check that a list is complete and in order, and its state roots if it holds the whole state",
	}
	return a.checked(cmd, func(m *mistakes, args []string) error {
		list := m.oneList(args, "verify")
		if err := m.Err(); err != nil {
			return err
		}
		defer list.Close() // it is only read
		tell := func(uint64) error { return context.Cause(a.ctx) }
		blocks, roots, err := accesses.Verify(list, mpt.NewReference(), tell)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", args[0], accesses.Verdict(list.Info(), blocks, roots))
		return nil
	})
}
