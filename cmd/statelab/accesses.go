package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/ask/logs"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/chain/kvlog"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/dbformat"
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

	return a.group(cmd, a.accessesInfo(), a.accessesImport(), a.accessesGenerate(),
		a.accessesVerify(), a.accessesBuild())
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
	facts, err := accesses.FactsOf(name, list, func(*accesses.Block) error {
		return context.Cause(a.ctx)
	})
	if err != nil {
		return err
	}

	if doubtful, is := list.(kvlog.Doubtful); is {
		facts.NotChecked = append(facts.NotChecked, doubtful.Doubts()...)
	}

	return a.print(asJSON, facts)
}

// writeAccesses writes a list of statelab's own and describes it.
func (a *app) writeAccesses(
	from accesses.Source, info accesses.Info, out, typed, phase string, blocks uint64,
) error {
	p := a.progress()
	err := output.Write(out, nil, func(f *os.File) error {
		return accesses.Write(f, from, info, func(n uint64) error {
			p.Report("", result.Event{Phase: phase, Done: n, Total: blocks, Unit: "blocks"})
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
var parquet = runners.Plug("parquet", "statelab-run-parquet", "go build -o bin/ "+
	"./cmd/statelab-run-parquet, in statelab's source")

func (a *app) accessesImport() *cobra.Command {
	var out, provenance string
	log := new(logFlags)
	cmd := &cobra.Command{
		Use: "import DIR --out FILE",
		Short: "Convert access lists, traces, state diffs, tables of Xatu or a store's log to " +
			"statelab's form",
	}

	log.declare(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "new file to write, such as list.slal")
	cmd.Flags().StringVar(&provenance, "provenance", "",
		"origin of the list, kept in the file (default: its name)")
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
	setting.Var(flag, &accounts, setting.Count(1, "1M"), "accounts", "1M",
		"accounts that the traffic chooses from")
	setting.Var(flag, &contracts, setting.Share, "contracts", "10%", "share of them that have code")
	setting.Var(flag, &seed, setting.Seed, "seed", "1", "seed of all random choices")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		m.NoArguments(args)
		to := m.NewOut(out, "list.slal")
		profile := accesses.Profile{
			Blocks:        blocks.Value(),
			Accounts:      accounts.Value(),
			Seed:          seed.Value(),
			ContractShare: contracts.Value(),
		}

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
		Use: "verify LIST",
		Short: "Check that a list is complete and in order, and its state roots if it holds the " +
			"whole state",
	}

	return a.checked(cmd, func(m *mistakes, args []string) error {
		list := m.oneList(args, "verify")
		if err := m.Err(); err != nil {
			return err
		}

		defer list.Close() // it is only read
		tell := func(uint64) error { return context.Cause(a.ctx) }
		verified, err := accesses.Verify(list, mpt.NewReference(), tell)
		if err != nil {
			return err
		}

		fmt.Fprintf(a.stdout, "%s: %s\n", args[0], verified.Text(list.Info()))
		a.progress().Warn(curve.NotChecked(append(list.Info().NotChecked, list.Doubts()...))...)
		return nil
	})
}

// logFlags say how to read a log of a key-value store.
type logFlags struct {
	from   experiment.Text
	family experiment.Count
}

func (l *logFlags) declare(flags *pflag.FlagSet) {
	setting.Var(flags, &l.from, setting.Choice(logs.Forms()...), "from", logs.Lists,
		"form of the input: access lists, which tell themselves apart, or geth-log "+
			"(tinoryj/EthAnalysis), rocksdb-trace (DB::StartTrace), "+
			"rocksdb-block-trace (StartBlockCacheTrace) or rocksdb-io-trace (StartIOTrace), from "+
			"a file or -")
	setting.Var(flags, &l.family, setting.Count(0, "0"), "family", "0",
		"with --from rocksdb-trace: number of the column family")
}

func (l *logFlags) form() logs.Form {
	return logs.Form{Name: l.from.Value(), Family: uint32(l.family.Value())}
}

// given tells whether the argument is a log, not a list.
func (l *logFlags) given(args []string) bool {
	return l.from.Value() != logs.Lists || len(args) == 1 && kvlog.IsLog(args[0])
}

// open opens the log that is the only argument.
func (l *logFlags) open(m *mistakes, args []string) (log kvlog.Source) {
	if len(args) != 1 {
		m.Add("name one log (example: statelab accesses import --from geth-log LOG --out log.slkt)")
		return nil
	}

	if l.form().Blocks() {
		m.Add("--from %s: it has neither values nor all keys: accesses import makes a trace for "+
			"statelab simulate of it", l.from.Value())
		return nil
	}

	if args[0] != curve.Pipe && !m.Readable("", args[0]) {
		return nil
	}

	log, err := l.form().Open(args[0])
	if err != nil {
		m.Unread("", "", "%v", err)
	}

	return log
}

// blockTrace reads what Gets asked of RocksDB's block cache, and writes it as a trace for simulate,
// unless to is "".
func (a *app) blockTrace(m *mistakes, l *logFlags, args []string, to string, asJSON bool) error {
	if len(args) != 1 || args[0] != curve.Pipe {
		m.One(args, "trace (example: statelab accesses import --from "+l.from.Value()+
			" FILE --out T)")
	}

	if err := m.Err(); err != nil {
		return err
	}

	told, done := a.following("read")
	blocks, err := logs.ReadBlocks(args[0], told)
	if done(); err != nil {
		return err
	}

	record := func(w io.Writer) (trace.Made, error) { return curve.Blocks(w, blocks, args[0]) }
	var made *curve.Written
	if to != "" {
		made, err = curve.Write(to, nil, record)
	} else {
		made, err = curve.Counted(args[0], record)
	}

	if err != nil {
		return err
	}

	a.progress().Warn(made.Warnings...)
	if err := a.print(asJSON, made); err != nil || asJSON {
		return err
	}

	_, err = fmt.Fprintf(a.stdout, "RocksDB %s had %s misses of its own cache.\n", blocks.Version,
		unit.Count(blocks.Misses))
	return err
}

// following hears how far the reading of a log is.
func (a *app) following(phase string) (told func(ops uint64) error, done func()) {
	p := a.progress()
	return func(ops uint64) error {
		p.Report("", result.Event{Phase: phase, Done: ops, Unit: "operations"})
		return context.Cause(a.ctx)
	}, p.Done
}

func (a *app) describeLog(log kvlog.Source, name string, asJSON bool) error {
	told, done := a.following("read")
	client := clients.Named(log.Info().Client)
	facts, err := kvlog.Count(name, log,
		func(key []byte) string { return dbformat.Section(client, key) }, told)
	if done(); err != nil {
		return err
	}

	a.progress().Warn(logs.LeftOut(log)...)
	a.progress().Warn(curve.NotChecked(facts.NotChecked)...)
	return a.print(asJSON, facts)
}

// writeLog writes a log in statelab's own form and describes it.
func (a *app) writeLog(log kvlog.Source, to, typed, provenance string) error {
	info := log.Info()
	info.Provenance = provenance
	told, done := a.following("import")
	err := output.Write(to, nil, func(f *os.File) error { return kvlog.Write(f, log, info, told) })
	if done(); err != nil {
		return err
	}

	a.progress().Warn(logs.LeftOut(log)...)
	written, err := kvlog.Open(to)
	if err != nil {
		return err
	}

	defer written.Close() // it is only read
	return a.describeLog(written, typed, false)
}

func (a *app) accessesBuild() *cobra.Command {
	var db, name, profile string
	log := new(logFlags)
	cmd := &cobra.Command{
		Use:   "build LOG --db DIR",
		Short: "Make a database of what a log writes",
		Long: `Build makes a database of the writes of a log that statelab accesses import has read,
in their order and batches, with values of the logged sizes and random bytes: so its
levels are as those of the program that wrote the log. What the log reads and does
not write is not in it.

  statelab accesses build log.slkt --db D
  statelab sweep --db D --use-existing --accesses log.slkt --out R`,
	}

	flags := cmd.Flags()
	log.declare(flags)
	flags.StringVar(&db, "db", "", "new folder of the database")
	flags.StringVar(&name, "engine", embedded()[0].Info().Name,
		"engine that makes it, of those that this program links")
	flags.StringVar(&profile, "profile", "", "engine profile (default: the engine's first)")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		e := linked(name)
		if err := output.NewFolder(db); db == "" {
			m.Add("--db is missing: name a new folder (example: --db D)")
		} else if err != nil {
			m.Add("--db: %v", err)
		}

		if e == nil {
			m.Add("--engine %q: not an engine that this program links (example: --engine %s)",
				name, embedded()[0].Info().Name)
			return m.Err()
		}

		options := engine.Options{Dir: absolute(db), Profile: profile, Create: true}
		for _, err := range e.Check(options) {
			m.Add("%v", err)
		}

		source := log.open(m, args)
		if err := m.Err(); err != nil {
			return err
		}

		defer source.Close() // it is only read
		a.progress().Warn(curve.NotChecked(source.Info().NotChecked)...)
		told, done := a.following("build")
		var made kvlog.Applied
		err := output.WriteFolder(options.Dir, func(dir string) error {
			options.Dir = dir
			opened, err := e.Open(a.ctx, options)
			if err != nil {
				return err
			}

			made, err = kvlog.Apply(a.ctx, source, opened, told)
			return errors.Join(err, opened.Close())
		})

		if done(); err != nil {
			return err
		}

		a.progress().Warn(logs.LeftOut(source)...)
		_, err = fmt.Fprintf(a.stdout, "%s: %s puts of %s and %s deletes, in %s batches\n", db,
			unit.Count(made.Puts), unit.Bytes(int64(made.Bytes)),
			unit.Count(made.Deletes), unit.Count(made.Batches))
		return err
	})
}
