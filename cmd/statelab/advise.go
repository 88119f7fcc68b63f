package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// adviseFlags are the flags of advise as typed.
type adviseFlags struct {
	memory, cache, gets, latency, writeRate, missing, cores string
	probeSeconds, verifyGets, sampleKeys, seed, out         string
	verify, ignoreLock, json, quiet                         bool
}

// Files of an --out folder.
const (
	adviceFile    = "advice.json"
	advicePicture = "advice.png"
	verifyFolder  = "verify"
)

func (a *app) adviseVerb() *cobra.Command {
	f := new(adviseFlags)
	cmd := &cobra.Command{
		Use:   "advise DIR",
		Short: "Say how large the cache must be, which flags do it, and whether the disk is the limit",
		Long: `Advise looks at a Pebble database without changing it, predicts what a Get costs
at every cache size, probes the disk, and says what to set.

  statelab advise CHAINDATA
  statelab advise CHAINDATA --memory 8GiB --gets-per-second 5k --latency-goal 1ms
  statelab advise CHAINDATA --verify --out A       (measures now and then as well)
  statelab advise CHAINDATA --ignore-lock          (while the node runs)

What the node runs is read from the OPTIONS file that its Pebble has left; --cache
overrides it. A node that writes loses part of its cache to memtables: advise
reckons with that unless --write-rate 0 says that nothing is written.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.advise(cmd, f, args) },
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	flag := cmd.Flags()
	flag.StringVar(&f.memory, "memory", "", "memory for the database: cache, memtables, open tables, page cache; for geth its other caches too")
	flag.StringVar(&f.cache, "cache", "", "the cache the node runs (default: what its OPTIONS file says)")
	flag.StringVar(&f.gets, "gets-per-second", "", "lookups the node makes a second")
	flag.StringVar(&f.latency, "latency-goal", "", "device time a Get may take, such as 1ms")
	flag.StringVar(&f.writeRate, "write-rate", "", "keys the node writes a second; 0: none (default: it writes as fast as it can)")
	flag.StringVar(&f.missing, "missing", "0%", "share of Gets that ask for absent keys")
	flag.StringVar(&f.cores, "cores", strconv.Itoa(runtime.NumCPU()), "processors of the node's machine: they set the cache's shards")
	flag.StringVar(&f.probeSeconds, "probe-seconds", "1", "how long to read from the disk, for each number of reads in flight; 0: leave it alone")
	flag.BoolVar(&f.verify, "verify", false, "measure the present and the recommended cache, and hold the prediction against it")
	flag.StringVar(&f.verifyGets, "gets", "200k", "with --verify: measured Gets")
	flag.StringVar(&f.sampleKeys, "sample-keys", "200k", "with --verify: keys to sample from a database that statelab did not load")
	flag.StringVar(&f.seed, "seed", "1", "seed of all choices")
	flag.StringVar(&f.out, "out", "", "folder for the advice as JSON, its picture and what --verify measures")
	flag.BoolVar(&f.ignoreLock, "ignore-lock", false, "look although another process holds the database")
	flag.Bool("use-existing", true, "read a database that statelab did not load: implied, nothing is ever written")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	flag.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	return cmd
}

// request are the flags of advise understood.
type request struct {
	dir          string
	target       target
	limits       advise.Limits
	cacheBytes   int64 // the node's, if it was told
	cacheShare   float64
	keysWritten  *float64 // a second; nil: not known
	missing      float64
	cores        int
	probeSeconds float64
	seed         uint64
	verify       bool
	spec         bench.Spec // what verify measures
}

func (a *app) advise(cmd *cobra.Command, f *adviseFlags, args []string) error {
	r, err := a.adviceAsked(cmd, f, args)
	if err != nil {
		return err
	}
	p := a.progress(f.quiet)
	run, err := a.inspectDatabase(r.dir, "", f.ignoreLock, f.quiet)
	if err != nil {
		return err
	}
	e, err := r.evidence(run)
	if err != nil {
		return err
	}
	model := r.model(e)
	traced, err := a.traceForAdvice(r, run, p)
	if err != nil {
		return a.orInterrupted(err)
	}
	if traced != nil {
		model.Cost = traced.cost
	}
	e.Curve, err = advise.Draw(a.ctx, model, func(done int) {
		p.tell("", bench.Event{Phase: "predicting", Done: uint64(done), Unit: "points"})
	})
	if err != nil {
		return a.orInterrupted(err)
	}
	if traced != nil {
		e.Curve.TracedGets = traced.gets
	}
	if e.Disk, err = a.probe(r, f.out, run, p); err != nil {
		return a.orInterrupted(err)
	}
	advice := advise.Judge(e)
	if r.verify {
		if e.Verified, err = a.verifyAdvice(r, f.outFolder(), model, traced != nil, advice, p); err != nil {
			return a.orInterrupted(err)
		}
		if r.target.foreign {
			e.SampleKeys = r.spec.SampleKeys
		}
		advice = advise.Judge(e)
	}
	return a.deliver(f, advice, p)
}

// orInterrupted is err, or that the user stopped the work that failed.
func (a *app) orInterrupted(err error) error {
	if a.ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// adviceAsked reads the flags, all mistakes at once.
func (a *app) adviceAsked(cmd *cobra.Command, f *adviseFlags, args []string) (r request, err error) {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	if len(args) != 1 {
		m.add("name one database: statelab advise DIR")
	}
	r.missing, r.seed, r.verify = m.share("missing", f.missing), m.seed(f.seed), f.verify
	if f.memory != "" {
		r.limits.MemoryBytes, err = unit.ParseBytes(f.memory)
		if err != nil || r.limits.MemoryBytes == 0 {
			m.add("--memory %q: a size such as --memory 8GiB", f.memory)
		}
	}
	if f.cache != "" {
		if r.cacheBytes, r.cacheShare, err = sweep.ParseCache(f.cache); err != nil {
			m.add("--cache: %v", err)
		}
	}
	if f.gets != "" {
		if r.limits.GetsPerSecond = m.rate("gets-per-second", f.gets); r.limits.GetsPerSecond == 0 {
			m.add("--gets-per-second %s: at least 1, such as --gets-per-second 5k", f.gets)
		}
	}
	if f.latency != "" {
		r.limits.LatencyGoal, err = time.ParseDuration(f.latency)
		if err != nil || r.limits.LatencyGoal <= 0 {
			m.add("--latency-goal %q: a time such as --latency-goal 1ms", f.latency)
		}
	}
	if f.writeRate != "" {
		rate := m.rate("write-rate", f.writeRate)
		r.keysWritten = &rate
	}
	r.cores, err = strconv.Atoi(f.cores)
	if err != nil || r.cores < 1 || r.cores > 1<<12 {
		m.add("--cores %q: from 1 to 4096, such as --cores 32", f.cores)
	}
	r.probeSeconds = m.number("probe-seconds", f.probeSeconds)
	if r.probeSeconds > maxProbeSeconds {
		m.add("--probe-seconds %s: at most %d", f.probeSeconds, maxProbeSeconds)
	}
	if len(args) == 1 {
		r.dir = args[0]
		r.target, r.spec = a.adviceTarget(f, r.dir, m)
	}
	if err := m.err(); err != nil {
		return r, err
	}
	own := []string{adviceFile, advicePicture}
	if f.out == "" {
		return r, nil
	}
	return r, refuseOther(absolute(f.out), own...)
}

// maxProbeSeconds bounds what a node's disk is made to suffer.
const maxProbeSeconds = 60

// adviceTarget is the database and how --verify reads it: without a write, as
// all that advise does.
func (a *app) adviceTarget(f *adviseFlags, dir string, m *mistakes) (target, bench.Spec) {
	g := newFlags(experiment.Read)
	g.DB, g.Existing, g.ReadOnly, g.IgnoreLock = dir, true, true, f.ignoreLock
	g.Gets, g.Missing, g.SampleKeys, g.Seed, g.AccessGets = f.verifyGets, f.missing, f.sampleKeys, f.seed, "0"
	t := a.target(g, m)
	spec := a.readSpec(g, t, m)
	if t.engine != nil && spec.Engine != "pebble1" && spec.Engine != "pebble2" {
		m.add("%s: a database of %s; advise knows the caches of pebble1 and pebble2", dir, spec.Engine)
	}
	return t, spec
}

// outFolder is where --verify leaves its runs.
func (f *adviseFlags) outFolder() string { return (&flags{out: f.out}).outFolder("advise") }

// deliver prints the advice and fills the --out folder.
func (a *app) deliver(f *adviseFlags, advice advise.Advice, p *progress) error {
	if f.out != "" {
		if err := keepAdvice(absolute(f.out), advice); err != nil {
			return err
		}
	}
	p.say("")
	if f.json {
		return a.printJSON(advice)
	}
	if err := advise.Text(a.stdout, advice); err != nil {
		return err
	}
	if f.out != "" {
		fmt.Fprintf(a.stdout, "\npicture: %s\n", filepath.Join(absolute(f.out), advicePicture))
	}
	return nil
}

func keepAdvice(dir string, advice advise.Advice) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make --out: %w", err)
	}
	text, err := json.MarshalIndent(advice, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the advice: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, adviceFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	outlook := enginereport.Outlook{DatabaseBytes: advice.Database.Bytes}
	spot := func(name string, p advise.Place) enginereport.Spot {
		return enginereport.Spot{Name: name, CacheBytes: p.CacheBytes, BlockReadsPerGet: p.BlockReadsPerGet}
	}
	for _, place := range advice.Curve {
		outlook.Curve = append(outlook.Curve, spot("", place))
	}
	outlook.Places = append(outlook.Places, spot("you are here", advice.Now.Place))
	if !advice.Recommendation.Keep {
		outlook.Places = append(outlook.Places, spot("go there", advice.Then.Place))
	}
	for _, v := range advice.Verified {
		outlook.Measured = append(outlook.Measured, enginereport.Spot{CacheBytes: v.CacheBytes, BlockReadsPerGet: v.Measured})
	}
	return result.WriteFile(filepath.Join(dir, advicePicture), func(f *os.File) error { return outlook.PNG(f) })
}
