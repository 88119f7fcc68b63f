package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// simulateFlags are the flags of simulate as typed.
type simulateFlags struct {
	export, out   string
	policy        setting.Value[cachesim.Policy]
	cache         setting.Value[setting.CacheSize]
	cores, sample experiment.Int
	reserve       setting.Value[curve.Taken]
	force, json   bool
}

func (a *app) simulateVerb() *cobra.Command {
	f := new(simulateFlags)
	cmd := &cobra.Command{
		Use:   "simulate TRACE --cache LIST",
		Short: "Replay a trace through models of block caches, at each cache size",
		Long: `Simulate replays a trace of block accesses (made by statelab trace) through models
of block caches. clockpro1 and clockpro2 behave exactly as the caches of Pebble v1
and v2, rocksdb-lru and rocksdb-hyper-clock as RocksDB's; the other policies are textbook
caches to compare with. The result is a miss-ratio curve: block reads per Get by cache
size. Cache sizes include the memtable reservation (--reserve).

  statelab simulate T --cache 1MiB,2MiB,4MiB,8MiB,16MiB
  statelab simulate T --policy clockpro1,lru,s3fifo --cache 8MiB --json
  statelab trace --db D --out - | statelab simulate - --cache 4MiB,16MiB
  statelab simulate T --export T.oracleGeneral     (for libCacheSim)`,
	}

	flag := cmd.Flags()
	setting.ListVar(flag, &f.policy, policy, "policy", "",
		"cache policies (list; default: that of the traced engine)")
	setting.ListVar(flag, &f.cache, setting.Cache, "cache",
		"1MiB,2MiB,4MiB,8MiB,16MiB,32MiB,64MiB", "cache sizes, separated by commas")
	coresFlag(flag, &f.cores, "processors of the machine; Pebble's caches have shards for each")
	reserveFlag(flag, &f.reserve)
	setting.Var(flag, &f.sample, shiftOf("blocks"), "sample-shift", "0",
		"for a trace larger than memory: replay only one of 2^k blocks, chosen by hash, and "+
			"estimate the curve and its error")
	flag.StringVar(&f.out, "out", "", "new folder for the simulation: its page (report.html) and "+
		"JSON")
	flag.StringVar(&f.export, "export", "", "write the trace to this file in libCacheSim's "+
		"oracleGeneral format")
	flag.BoolVar(&f.force, "force", false, "with --export: replace the file if it exists")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error { return a.simulate(f, m, args) })
}

func (a *app) simulate(f *simulateFlags, m *mistakes, args []string) error {
	if len(args) != 1 {
		m.Add("name one trace (example: statelab simulate T)")
	} else if args[0] != curve.Pipe {
		m.Readable("", args[0])
	}

	shift := f.sample.Value()
	m.Results(f.out)
	if f.export != "" && shift > 0 {
		m.Add("--sample-shift: a sample cannot be exported")
	}

	m.NewFileIf("export", f.export, &f.force)
	sizes := f.caches(m)
	if err := m.Err(); err != nil {
		return err
	}

	t, header, err := curve.Load(args[0], shift)
	if err != nil {
		return err
	}

	if n := header.SampledBlocks; n > 1 && f.export != "" {
		return fmt.Errorf("--export: %s holds one block in %d: a sample cannot be exported; trace "+
			"all blocks", args[0], n)
	}

	if f.export != "" {
		if err := a.export(f, t, header); err != nil || f.out == "" {
			return err
		}
	}

	if header.SampleShift > 0 {
		return fmt.Errorf("%s: a trace of sampled keys (1 of %d) cannot be simulated: trace all "+
			"keys (without --sample-shift)", args[0], 1<<header.SampleShift)
	}

	p := a.progress()
	out, err := curve.Policies(
		a.ctx,
		t,
		header,
		cachesim.Setup{Cores: f.cores.Value()},
		f.policy.All(),
		sizes,
		f.reserve.Value().ReserveBytes,
		func(policy string, e result.Event) { p.Report(policy, e) },
	)

	if p.Done(); err != nil {
		return err
	}

	return a.deliverAnswer(f.out, result.SimulationFile, f.json, out, func(
		started time.Time, command []string,
	) any {
		out.Started, out.Command = started, command
		return out
	})
}

var policy = setting.Kind[cachesim.Policy]{Parse: cachesim.ParsePolicy}.Optional()

// caches are the sizes to simulate.
func (f *simulateFlags) caches(m *mistakes) (sizes []int64) {
	if !f.cache.IsSet() {
		m.Add("--cache is empty (example: 64MiB)")
	}

	for i, size := range f.cache.All() {
		if size.Share > 0 {
			m.Add("--cache: %s: a trace does not contain the size of its database; use a size "+
				"such as 64MiB", f.cache.Texts()[i])
		}
		sizes = append(sizes, size.Bytes)
	}

	return sizes
}

// deliverAnswer prints what was computed. With --out it also stores it, marked with when
// and by which command it was made, and its page.
func (a *app) deliverAnswer(
	out, file string, asJSON bool, answer kinds.Report,
	marked func(started time.Time, command []string) any,
) error {
	if out == "" {
		return a.print(asJSON, answer)
	}

	if err := a.makeOut(out, output.MakeFolder); err != nil {
		return err
	}

	return a.delivered(out, asJSON, answer, func(dir string) error {
		return output.WriteJSON(filepath.Join(dir, file), marked(time.Now().UTC(), a.command()))
	})
}

// delivered prints an answer. In the folder out, if there is one, it is stored and explained.
func (a *app) delivered(out string, asJSON bool, found answer, store func(dir string) error) error {
	if out == "" {
		return a.print(asJSON, found)
	}
	dir := absolute(out)
	if err := store(dir); err != nil {
		return err
	}
	return a.explain(asJSON, "", dir)
}

// reserveFlag is --reserve.
func reserveFlag(flags *pflag.FlagSet, to *setting.Value[curve.Taken]) {
	setting.Var(flags, to, curve.TakenKind, "reserve", "auto",
		"part of the cache that memtables take: auto (as in an open database without writes), or "+
			"a size such as 64MiB (a node that writes)")
}

// shiftOf is --sample-shift: one of 2^k is kept.
func shiftOf(what string) setting.Kind[int] {
	return setting.Int(0, 30, "0 for all "+what)
}

func (a *app) export(f *simulateFlags, t *cachesim.Trace, header trace.Header) error {
	charge := subject.PebbleVersion(header.Engine).BlockCharge()
	return output.Write(f.export, commandline.Replaces(&f.force), func(file *os.File) error {
		out := bufio.NewWriterSize(file, 1<<20)
		return errors.Join(trace.WriteOracleGeneral(out, t, charge), out.Flush())
	})
}
