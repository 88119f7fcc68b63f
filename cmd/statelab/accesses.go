package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/plan/runners"
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
	return a.group(cmd, a.accessesInfo(), a.accessesImport(), a.accessesGenerate(), a.accessesVerify())
}

// openAccesses opens a list of statelab's own.
func openAccesses(path string) (*accesses.Container, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c, err := accesses.OpenContainer(file, path)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return c, nil
}

// accessList checks --accesses.
func (m *mistakes) accessList(path string) {
	if path == "" || !m.readable("accesses", path) {
		return
	}
	list, err := openAccesses(path)
	if err != nil {
		m.Unread("accesses", "", "%v", err)
		return
	}
	list.Close() // it was only looked at
}

func (m *mistakes) oneList(args []string, verb string) (list *accesses.Container) {
	if len(args) != 1 {
		m.add("name one access list (example: statelab accesses %s list.slal)", verb)
		return nil
	}
	if !m.readable("", args[0]) {
		return nil
	}
	list, err := openAccesses(args[0])
	if err != nil {
		m.cannotRead("%v", err)
	}
	return list
}

func (a *app) accessesInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "info LIST", Short: "Show what a list holds"}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		list := m.oneList(args, "info")
		if err := m.err(); err != nil {
			return err
		}
		defer list.Close() // it is only read
		return a.describeAccesses(list, args[0], asJSON)
	})
}

// describeAccesses counts a list and prints what it comes to.
func (a *app) describeAccesses(list accesses.Source, name string, asJSON bool) error {
	tally, err := accesses.Count(list, func(*accesses.Block) error { return context.Cause(a.ctx) })
	if err != nil {
		return err
	}
	info := list.Info()
	if asJSON {
		return a.printJSON(struct {
			Schema string `json:"schema"`
			File   string `json:"file"`
			accesses.Info
			accesses.Tally
		}{"statelab.accessinfo/1", name, info, tally})
	}
	fmt.Fprintf(a.stdout, "%s: %s blocks, %d to %d, %s accesses\n\n", name, unit.Count(tally.Blocks), tally.First, tally.Last, unit.Count(tally.Accesses))
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(what, format string, value any) { fmt.Fprintf(t, "%s\t"+format+"\n", what, value) }
	row("accounts a block touches", "%.1f", tally.AccountsPerBlock)
	row("slots it only reads", "%.1f", tally.SlotsReadPerBlock)
	row("slots it writes", "%.1f", tally.SlotsWrittenPerBlock)
	row("accounts in all", "%s", unit.Count(tally.Accounts))
	row("slots in all", "%s", unit.Count(tally.Slots))
	row("touched by an earlier block", "%.1f %%", 100*tally.Again)
	row("accesses of the busiest 1 % of the accounts", "%.1f %%", 100*tally.TopShare)
	row("blocks with a state root", "%d", tally.Roots)
	row("state before the list", "%s", map[bool]string{true: "known in full", false: "made up, but for what the list tells"}[info.Complete])
	row("form", "%s", info.Form)
	row("provenance", "%s", info.Provenance)
	return t.Flush()
}

// writeAccesses writes a list of statelab's own and describes it.
func (a *app) writeAccesses(from accesses.Source, info accesses.Info, out, typed, phase string, blocks uint64) error {
	p := a.progress()
	err := output.Write(out, nil, func(f *os.File) error {
		w, err := accesses.NewWriter(f, info)
		if err != nil {
			return err
		}
		var b accesses.Block
		for n := uint64(1); ; n++ {
			if err := from.Next(&b); err == io.EOF {
				return w.Close()
			} else if err != nil {
				return err
			}
			if err := errors.Join(context.Cause(a.ctx), w.Add(&b)); err != nil {
				return err
			}
			p.Tell("", result.Event{Phase: phase, Done: n, Total: blocks, Unit: "blocks"})
		}
	})
	p.Done()
	if err != nil {
		return err
	}
	list, err := openAccesses(out)
	if err != nil {
		return err
	}
	defer list.Close() // it is only read
	return a.describeAccesses(list, typed, false)
}

// parquet is the program that reads tables of Xatu.
var parquet = runners.Plug("parquet", "statelab-run-parquet", "go build -o bin/ ./cmd/statelab-run-parquet, in statelab's source")

// foreignAccesses opens files of any form that is not ours.
func (a *app) foreignAccesses(file string) (accesses.Source, error) {
	fsys, name := os.DirFS(filepath.Dir(file)), filepath.Base(file)
	switch tables, err := accesses.HasTables(fsys, name); {
	case err != nil:
		return nil, err
	case !tables:
		return accesses.OpenFolder(fsys, name)
	}
	program, err := parquet.Path()
	if err != nil {
		return nil, err
	}
	return accesses.OpenProgram(a.ctx, program, file)
}

func (a *app) accessesImport() *cobra.Command {
	var out, provenance string
	cmd := &cobra.Command{Use: "import DIR --out FILE", Short: "Convert block access lists, traces, state diffs or tables of Xatu to statelab's own form"}
	cmd.Flags().StringVar(&out, "out", "", "new file to write, such as list.slal")
	cmd.Flags().StringVar(&provenance, "provenance", "", "origin of the list, kept in the file (default: its name)")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		to := m.newOut(out, "list.slal")
		if len(args) != 1 {
			m.add("name one folder or file (example: statelab accesses import DIR --out list.slal)")
			return m.err()
		}
		var from accesses.Source
		if path := absolute(args[0]); m.readable("", args[0]) {
			var err error
			if from, err = a.foreignAccesses(path); err != nil {
				m.cannotRead("%v", err)
			}
		}
		if err := m.err(); err != nil {
			return err
		}
		defer from.Close() // it is only read
		info := from.Info()
		if info.Provenance = provenance; provenance == "" {
			info.Provenance = "imported from " + filepath.Base(args[0])
		}
		return a.writeAccesses(from, info, to, out, "import", 0)
	})
}

func (a *app) accessesGenerate() *cobra.Command {
	var out, blocks, accounts, contracts, seed string
	cmd := &cobra.Command{
		Use:   "generate --blocks N --accounts N --out FILE",
		Short: "Generate accesses with the skew and working set published for Ethereum's blocks",
	}
	flag := cmd.Flags()
	flag.StringVar(&out, "out", "", "new file to write, such as list.slal")
	flag.StringVar(&blocks, "blocks", "100", "number of blocks")
	flag.StringVar(&accounts, "accounts", "1M", "accounts that the traffic chooses from")
	flag.StringVar(&contracts, "contracts", "10%", "share of them that have code")
	flag.StringVar(&seed, "seed", "1", "seed of all random choices")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.noArguments(args)
		to := m.newOut(out, "list.slal")
		profile := accesses.Profile{Blocks: parse(m, "blocks", blocks, setting.Count(1, "100")),
			Accounts: parse(m, "accounts", accounts, setting.Count(1, "1M")), Seed: parse(m, "seed", seed, setting.Seed)}
		share, isPercent, err := unit.ParsePercent(contracts)
		if err != nil || !isPercent {
			m.add("--contracts %q: must be a share (example: --contracts 10%%)", contracts)
		}
		profile.ContractShare = share
		if err := profile.Check(); err != nil && m.err() == nil {
			m.add("%v (example: --blocks 100 --accounts 1M --contracts 10%%)", err)
		}
		if err := m.err(); err != nil {
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
		if err := m.err(); err != nil {
			return err
		}
		defer list.Close() // it is only read
		tell := func(uint64) error { return context.Cause(a.ctx) }
		blocks, roots, err := accesses.Verify(list, mpt.NewReference(), tell)
		if err != nil {
			return err
		}
		why := "its blocks name no state root"
		if !list.Info().Complete {
			why = "the list does not tell the whole state before it (genesis.json)"
		}
		if roots > 0 {
			fmt.Fprintf(a.stdout, "%s: %s blocks, whole; %s state roots made again from what they write, all equal\n", args[0], unit.Count(blocks), unit.Count(roots))
			return nil
		}
		fmt.Fprintf(a.stdout, "%s: %s blocks, whole; no state root could be checked: %s\n", args[0], unit.Count(blocks), why)
		return nil
	})
}
