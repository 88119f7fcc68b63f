package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/traffic"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/blocktable"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
)

// Forms that --from names: those of access lists, which tell themselves apart, and logs of a key-value store.
const (
	fromLists  = "lists"
	fromGeth   = "geth-log"
	fromTraces = "rocksdb-trace"
	fromBlocks = "rocksdb-block-trace"
	fromIO     = "rocksdb-io-trace"
)

// logFlags say how to read a log of a key-value store.
type logFlags struct {
	from   experiment.Text
	family experiment.Count
}

func (l *logFlags) declare(flags *pflag.FlagSet) {
	setting.Var(flags, &l.from, setting.Choice(fromLists, fromGeth, fromTraces, fromBlocks, fromIO), "from", fromLists,
		"form of the input: access lists, which tell themselves apart, or geth-log (tinoryj/EthAnalysis), rocksdb-trace (DB::StartTrace), "+
			"rocksdb-block-trace (StartBlockCacheTrace) or rocksdb-io-trace (StartIOTrace), from a file or -")
	setting.Var(flags, &l.family, setting.Count(0, "0"), "family", "0", "with --from rocksdb-trace: number of the column family")
}

// given tells whether the argument is a log, not a list.
func (l *logFlags) given(args []string) bool {
	return l.from.V() != fromLists || len(args) == 1 && traffic.Is(args[0])
}

// blocks tells whether the argument has accesses to blocks, not operations on keys.
func (l *logFlags) blocks() bool { return l.from.V() == fromBlocks || l.from.V() == fromIO }

// openedLog closes the file of a log, too.
type openedLog struct {
	traffic.Source
	file io.Closer
}

func (o openedLog) Close() error { return errors.Join(o.Source.Close(), o.file.Close()) }

// open opens the log that is the only argument.
func (l *logFlags) open(m *mistakes, args []string) (log traffic.Source) {
	if len(args) != 1 {
		m.add("name one log (example: statelab accesses import --from geth-log LOG --out log.slkt)")
		return nil
	}
	if l.blocks() {
		m.add("--from %s: it has neither values nor all keys: accesses import makes a trace for statelab simulate of it", l.from.V())
		return nil
	}
	if l.from.V() == fromLists && args[0] != curve.Pipe && m.readable("", args[0]) {
		log, err := traffic.Open(args[0])
		if err != nil {
			m.cannotRead("%v", err)
		}
		return log
	}
	in, file := l.input(m, args[0])
	if in == nil {
		return nil
	}
	var err error
	if l.from.V() == fromTraces {
		log, err = blocktable.OpenQueryTrace(in, args[0], uint32(l.family.V()))
	} else {
		log = traffic.NewGethLog(in, args[0])
	}
	if err != nil {
		m.cannotRead("%v", err)
	}
	return openedLog{log, file}
}

// input opens a file, or standard input; nil where it cannot be read.
func (l *logFlags) input(m *mistakes, name string) (in *bufio.Reader, file *os.File) {
	file, err := os.Stdin, error(nil)
	if name != curve.Pipe {
		if !m.readable("", name) {
			return nil, nil
		}
		file, err = os.Open(name)
	}
	if err == nil {
		in, err = traffic.Decompressed(file)
	}
	if err != nil {
		m.cannotRead("%v", err)
		return nil, file
	}
	return in, file
}

// blockTrace reads what Gets asked of RocksDB's block cache, and writes it as a trace for simulate, unless to is "".
func (a *app) blockTrace(m *mistakes, l *logFlags, args []string, to string, asJSON bool) error {
	if len(args) != 1 {
		m.add("name one trace (example: statelab accesses import --from %s FILE --out T)", l.from.V())
		return m.err()
	}
	in, file := l.input(m, args[0])
	if err := m.err(); err != nil {
		return err
	}
	defer file.Close() // it is only read
	told, done := a.following("read")
	blocks, err := blocktable.ReadBlockTrace(in, args[0], told)
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
	if a.progress().Warn(made.Warnings...); asJSON {
		return a.printJSON(made)
	}
	if err := made.Text(a.stdout); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "RocksDB %s had %s misses of its own cache.\n", blocks.Version, unit.Count(blocks.Misses))
	return err
}

// following hears how far the reading of a log is.
func (a *app) following(phase string) (told func(ops uint64) error, done func()) {
	p := a.progress()
	return func(ops uint64) error {
		p.Tell("", result.Event{Phase: phase, Done: ops, Unit: "operations"})
		return context.Cause(a.ctx)
	}, p.Done
}

func (a *app) describeLog(log traffic.Source, name string, asJSON bool) error {
	told, done := a.following("read")
	client := log.Info().Client
	facts, err := traffic.Count(name, log, func(key []byte) string { return dbformat.Section(client, key) }, told)
	if done(); err != nil {
		return err
	}
	a.leftOut(log)
	if asJSON {
		return a.printJSON(facts)
	}
	return facts.Text(a.stdout)
}

// leftOut warns of operations that a log has and that are not read.
func (a *app) leftOut(log traffic.Source) {
	if opened, is := log.(openedLog); is {
		log = opened.Source
	}
	if t, is := log.(*blocktable.QueryTrace); is && t.Others > 0 {
		a.progress().Warn(engine.Warning{Code: "left_out", Text: unit.Count(t.Others) + " operations on other column families, or deletions of ranges, are left out",
			Remedy: "--family N"})
	}
}

// writeLog writes a log in statelab's own form and describes it.
func (a *app) writeLog(log traffic.Source, to, typed, provenance string) error {
	info := log.Info()
	info.Provenance = provenance
	told, done := a.following("import")
	err := output.Write(to, nil, func(f *os.File) error { return traffic.Write(f, log, info, told) })
	if done(); err != nil {
		return err
	}
	a.leftOut(log)
	written, err := traffic.Open(to)
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
	flags.StringVar(&name, "engine", embedded()[0].Info().Name, "engine that makes it, of those that this program links")
	flags.StringVar(&profile, "profile", "", "engine profile (default: the engine's first)")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		e := linked(name)
		if err := output.NewFolder(db); db == "" {
			m.add("--db is missing: name a new folder (example: --db D)")
		} else if err != nil {
			m.add("--db: %v", err)
		}
		if e == nil {
			m.add("--engine %q: not an engine that this program links (example: --engine %s)", name, embedded()[0].Info().Name)
			return m.err()
		}
		options := engine.Options{Dir: absolute(db), Profile: profile, Create: true}
		for _, err := range e.Check(options) {
			m.add("%v", err)
		}
		source := log.open(m, args)
		if err := m.err(); err != nil {
			return err
		}
		defer source.Close() // it is only read
		told, done := a.following("build")
		var made traffic.Applied
		err := output.WriteFolder(options.Dir, func(dir string) error {
			options.Dir = dir
			opened, err := e.Open(a.ctx, options)
			if err != nil {
				return err
			}
			made, err = traffic.Apply(a.ctx, source, opened, told)
			return errors.Join(err, opened.Close())
		})
		if done(); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s: %s puts of %s and %s deletes, in %s batches\n", db, unit.Count(made.Puts), unit.Bytes(int64(made.Bytes)),
			unit.Count(made.Deletes), unit.Count(made.Batches))
		return err
	})
}
