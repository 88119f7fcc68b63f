package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/result"
)

// simulateFlags are the flags of simulate as typed.
type simulateFlags struct {
	policy, cache, cores, reserve, export string
	json                                  bool
}

func (a *app) simulateVerb() *cobra.Command {
	f := new(simulateFlags)
	cmd := &cobra.Command{
		Use:   "simulate TRACE --cache LIST",
		Short: "Replay a trace against any cache size and policy: the exact miss curve",
		Long: `Simulate plays a trace of block accesses (statelab trace makes one) to models of
block caches. clockpro1 and clockpro2 are the caches of Pebble v1 and v2, block
for block; the others tell what another policy would have read.

  statelab simulate T --cache 1MiB,2MiB,4MiB,8MiB,16MiB
  statelab simulate T --policy clockpro1,lru,s3fifo --cache 8MiB --json
  statelab simulate T --export T.oracleGeneral     (for libCacheSim)`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.simulate(cmd, f, args) },
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	flag := cmd.Flags()
	flag.StringVar(&f.policy, "policy", "", "cache policies (list); default: the cache of the engine traced")
	flag.StringVar(&f.cache, "cache", "1MiB,2MiB,4MiB,8MiB,16MiB,32MiB,64MiB", "cache sizes (list)")
	flag.StringVar(&f.cores, "cores", strconv.Itoa(runtime.NumCPU()), "processors of the machine: they set the shards of Pebble's caches")
	flag.StringVar(&f.reserve, "reserve", "auto", "cache taken by memtables: auto (of an open database at rest), or a size such as 64MiB (of a node that writes)")
	flag.StringVar(&f.export, "export", "", "write the trace for libCacheSim (oracleGeneral) to this file")
	flag.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// simulation is what simulate --json prints.
type simulation struct {
	Schema string           `json:"schema"`
	Trace  trace.Header     `json:"trace"`
	Gets   int64            `json:"gets"`
	Points []simulatedPoint `json:"points"`
}

type simulatedPoint struct {
	Policy      string             `json:"policy"`
	CacheBytes  int64              `json:"cache_bytes"`
	ReadsPerGet float64            `json:"block_reads_per_get"`
	ByType      map[string]float64 `json:"block_reads_per_get_by_type"`
	HitRate     map[string]float64 `json:"hit_rate"`
}

func (a *app) simulate(cmd *cobra.Command, f *simulateFlags, args []string) error {
	m := new(mistakes)
	m.unknownFlags(cmd, a.args)
	if len(args) != 1 {
		m.add("name one trace: statelab simulate T")
	}
	setup := cachesim.Setup{}
	var err error
	if setup.Cores, err = strconv.Atoi(f.cores); err != nil || setup.Cores < 1 || setup.Cores > 1<<12 {
		m.add("--cores %q: from 1 to 4096, such as --cores 8", f.cores)
	}
	reserve := m.reserve(f.reserve)
	var sizes []int64
	for _, text := range list(f.cache) {
		bytes, share, err := sweep.ParseCache(text)
		if err == nil && share > 0 {
			err = fmt.Errorf("%q: a trace does not know the size of its database: write 64MiB", text)
		}
		if err != nil {
			m.add("--cache: %v", err)
		}
		sizes = append(sizes, bytes)
	}
	var policies []cachesim.Policy
	for _, name := range list(f.policy) {
		policy, err := cachesim.ParsePolicy(name)
		if err != nil {
			m.add("--policy: %v", err)
		}
		policies = append(policies, policy)
	}
	if err := m.err(); err != nil {
		return err
	}
	t, header, err := loadTrace(args[0])
	if err != nil {
		return err
	}
	if f.export != "" {
		return a.export(f.export, t, header)
	}
	if header.SampleShift > 0 {
		return fmt.Errorf("%s: a trace of sampled keys (1 of %d) does not give a miss curve: trace all keys", args[0], 1<<header.SampleShift)
	}
	if len(policies) == 0 {
		policies = []cachesim.Policy{policyOf(header.Engine)}
	}
	out := simulation{Schema: "statelab.simulate/1", Trace: header}
	for _, policy := range policies {
		setup.Policy = policy
		points, err := curve(a.ctx, t, setup, sizes, func(cacheBytes int64) (int64, error) {
			return reserve(header.Engine, header.Profile, cacheBytes, header.ReadOnly)
		})
		if err != nil {
			return fmt.Errorf("simulate %s: %w", policy, err)
		}
		for _, p := range points {
			out.Gets = p.Gets
			out.Points = append(out.Points, simulated(policy, p))
		}
	}
	if f.json {
		return a.printJSON(out)
	}
	a.printSimulation(out)
	return nil
}

// reserve reads auto or a size.
func (m *mistakes) reserve(text string) reserveOf {
	if text == "auto" {
		return pebbledb.OpenReserveBytes
	}
	bytes, err := unit.ParseBytes(text)
	if err != nil {
		m.add("--reserve %q: auto, or a size such as 64MiB", text)
	}
	return func(string, string, int64, bool) (int64, error) { return bytes, nil }
}

func loadTrace(path string) (*cachesim.Trace, trace.Header, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, trace.Header{}, err
	}
	defer file.Close()
	t, header, err := trace.Load(bufio.NewReaderSize(file, 1<<20))
	if err != nil {
		return nil, header, fmt.Errorf("%s: %w", path, err)
	}
	return t, header, nil
}

func policyOf(engine string) cachesim.Policy {
	if engine == "pebble2" {
		return cachesim.ClockPro2Policy
	}
	return cachesim.ClockPro1Policy
}

func simulated(policy cachesim.Policy, p cachesim.Point) simulatedPoint {
	s := simulatedPoint{Policy: string(policy), CacheBytes: p.CacheBytes, ReadsPerGet: p.BlockReadsPerGet(), ByType: map[string]float64{}, HitRate: p.HitRates()}
	for _, kind := range engine.BlockTypes() {
		if p.Accesses[kind] > 0 {
			s.ByType[kind.String()] = float64(p.Reads[kind]) / float64(p.Gets)
		}
	}
	return s
}

func (a *app) printSimulation(s simulation) {
	fmt.Fprintf(a.stdout, "%s Gets of %s\n\n", unit.Count(s.Gets), s.Trace.Engine)
	fmt.Fprintln(a.stdout, "                    block reads per Get                        hit rate, %")
	fmt.Fprintln(a.stdout, "policy     cache      all  filter  top ix   index    data  filter   index    all")
	for _, p := range s.Points {
		top := p.ByType[engine.TopIndex.String()] + p.ByType[engine.SingleIndex.String()]
		fmt.Fprintf(a.stdout, "%-9s %8s %7.4f %7.4f %7.4f %7.4f %7.4f  %6.2f  %6.2f %6.2f\n", p.Policy, unit.Bytes(p.CacheBytes), p.ReadsPerGet,
			p.ByType[engine.Filter.String()], top, p.ByType[engine.Index.String()], p.ByType[engine.Data.String()],
			100*p.HitRate[engine.Filter.String()], 100*p.HitRate[engine.Index.String()], 100*p.HitRate["all"])
	}
}

func (a *app) export(path string, t *cachesim.Trace, header trace.Header) error {
	charge := version1or2(header.Engine).BlockCharge()
	return result.WriteFile(path, func(f *os.File) error {
		out := bufio.NewWriterSize(f, 1<<20)
		return errors.Join(trace.WriteOracleGeneral(out, t, charge), out.Flush())
	})
}
