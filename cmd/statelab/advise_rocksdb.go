package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/result"
)

// rocksAdvice is what advise --json prints of a database of RocksDB.
type rocksAdvice struct {
	Schema string        `json:"schema"`
	Source string        `json:"source"`
	Client advise.Client `json:"client"`
	Tables []tableShare  `json:"tables"` // that Gets go to
	// NowBytes is the client's default, or --cache.
	NowBytes int64 `json:"now_cache_bytes"`
	// OutsideBytes are filters and indexes of all tables, which open tables keep outside the
	// block cache; MemoryBytes is --memory, 0 without.
	OutsideBytes int64        `json:"outside_bytes"`
	MemoryBytes  int64        `json:"memory_bytes,omitempty"`
	Curve        []rocksPlace `json:"curve"`
	Then         rocksPlace   `json:"recommended"`
	Flags        []string     `json:"flags"`
	Answer       string       `json:"answer"`
	Basis        string       `json:"basis"`
}

type tableShare struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	Bytes int64   `json:"bytes"`
}

type rocksPlace struct {
	CacheBytes       int64   `json:"cache_bytes"`
	BlockReadsPerGet float64 `json:"data_block_reads_per_get"`
}

// adviseRocksDB recommends a block cache for Gets of random keys. Where there is memory, it is
// as large as it may be: with random keys every block gains the same.
func (a *app) adviseRocksDB(r request, f *adviseFlags) error {
	for flag, given := range map[string]bool{"verify": f.verify, "accesses": f.accesses.Given(), "out": f.out != "", "node-metrics": len(f.nodeMetrics) > 0,
		"gets-per-second": f.gets.Given(), "latency-goal": f.latency.Given(), "write-rate": f.writeRate.Given()} {
		if given {
			return usage("--%s: not for databases of RocksDB", flag)
		}
	}
	run, err := a.inspectDatabase(r.dir, "", f.ignoreLock, engine.Part{})
	if err != nil {
		return err
	}
	tables, err := tablesOf(run)
	if err != nil {
		return err
	}
	out := rocksAdvice{Schema: "statelab.advise.rocksdb/1", Source: r.dir, Client: rocksClient(run), MemoryBytes: r.limits.MemoryBytes,
		Basis: "data blocks per Get of random keys; filters and indexes outside the cache, an LRU cache, all keys asked for equally often"}
	mix, err := out.choose(tables, f.table.V(), r.dir)
	if err != nil {
		return err
	}
	for _, t := range tables {
		for _, l := range t.Levels {
			out.OutsideBytes += l.FilterBytes + l.IndexBytes + l.TopIndexBytes
		}
	}
	out.NowBytes, _ = advise.RocksDBCache(out.Client, 0)
	if out.NowBytes = cmp.Or(r.cacheBytes, out.NowBytes); r.cacheShare > 0 {
		out.NowBytes = max(1, int64(r.cacheShare*float64(databaseBytes(run.Database))))
	}
	most := out.NowBytes
	if out.MemoryBytes > 0 {
		most = out.MemoryBytes - out.OutsideBytes
		if out.Client == advise.Besu {
			most = forEach(most, tables)
		}
		if most < leastRocksCache {
			return usage("--memory %s: filters and indexes take %s, which leaves less than %s for a block cache", &f.memory, unit.Bytes(out.OutsideBytes),
				unit.Bytes(leastRocksCache))
		}
	}
	if err := out.draw(mix, r.missing, most); err != nil {
		return fmt.Errorf("%s: %w", r.dir, err)
	}
	now, err := out.price(mix, r.missing, out.NowBytes)
	if err != nil {
		return err
	}
	_, flag := advise.RocksDBCache(out.Client, out.Then.CacheBytes)
	out.Flags, out.Answer = []string{flag}, out.answer(now)
	return a.printRocksAdvice(f, out, run)
}

// price is what a Get reads with a block cache.
func (r *rocksAdvice) price(mix []fidelity.Portion, missing float64, cacheBytes int64) (place rocksPlace, err error) {
	place.CacheBytes = cacheBytes
	if r.Client != advise.Besu {
		place.BlockReadsPerGet, err = fidelity.ReadsOf(mix, missing, cacheBytes)
		return place, err
	}
	for _, p := range mix { // each has a cache of its own
		reads, err := fidelity.ReadsOf([]fidelity.Portion{{Levels: p.Levels, Share: 1}}, missing, cacheBytes)
		if err != nil {
			return place, err
		}
		place.BlockReadsPerGet += p.Share * reads
	}
	return place, nil
}

// draw fills the curve up to the cache that holds every block, and recommends the largest of use.
func (r *rocksAdvice) draw(mix []fidelity.Portion, missing float64, most int64) (err error) {
	for cacheBytes := int64(leastRocksCache); ; cacheBytes *= 2 {
		place, err := r.price(mix, missing, cacheBytes)
		if err != nil {
			return err
		}
		if r.Curve = append(r.Curve, place); place.BlockReadsPerGet == 0 {
			r.Then, err = r.price(mix, missing, min(most, cacheBytes))
			return err
		}
	}
}

func (r *rocksAdvice) answer(now rocksPlace) string {
	each := ""
	if r.Client == advise.Besu {
		each = " for each column family"
	}
	text := fmt.Sprintf("%s data block reads per Get with a block cache of %s%s.", unit.Significant(now.BlockReadsPerGet, 3),
		unit.Bytes(now.CacheBytes), each)
	switch {
	case r.MemoryBytes > 0:
		return text + fmt.Sprintf(" %s leave room for %s%s: %s reads per Get.", unit.Bytes(r.MemoryBytes), unit.Bytes(r.Then.CacheBytes), each,
			unit.Significant(r.Then.BlockReadsPerGet, 3))
	case now.BlockReadsPerGet == 0:
		return text + fmt.Sprintf(" %s hold every block.", unit.Bytes(r.Then.CacheBytes))
	}
	return text + " Add --memory to hear what more memory gains."
}

// forEach is the largest size of which every table can have a cache, where a table smaller than that
// fills no more than its own size.
func forEach(memoryBytes int64, tables []fidelity.Table) int64 {
	var sizes []int64
	for _, t := range tables {
		if t.Bytes > 0 {
			sizes = append(sizes, t.Bytes)
		}
	}
	slices.Sort(sizes)
	for i, bytes := range sizes {
		if share := memoryBytes / int64(len(sizes)-i); bytes >= share {
			return share
		}
		memoryBytes -= bytes
	}
	return max(0, memoryBytes) + slices.Max(append(sizes, 0))
}

// leastRocksCache is where the curve begins, and the least cache that is recommended.
const leastRocksCache = 1 << 20

func rocksClient(run *result.Run) advise.Client {
	if run.Database.Written != "foreign" {
		return advise.Statelab
	}
	switch dbformat.Client(run.Database.Dir, dbformat.Found{Engine: run.Engine.Name}, run.Database.Tables) {
	case dbformat.Besu:
		return advise.Besu
	case dbformat.Nethermind:
		return advise.Nethermind
	}
	return advise.RocksDB
}

// choose finds the tables of --table, or the largest.
func (r *rocksAdvice) choose(tables []fidelity.Table, asked, dir string) (mix []fidelity.Portion, err error) {
	if asked == "" {
		largest := tables[0]
		for _, t := range tables {
			if t.Bytes > largest.Bytes {
				largest = t
			}
		}
		r.Tables = []tableShare{{largest.Name, 1, largest.Bytes}}
		return []fidelity.Portion{{Levels: largest.Levels, Share: 1}}, nil
	}
	if strings.Contains(asked, "=") {
		asked = strings.ReplaceAll(asked, ",", engine.MixSeparator)
	}
	portions, err := adapter.ParseMix(asked)
	if err != nil {
		return nil, usage("--table: %v", err)
	}
	for _, p := range portions {
		found, err := onlyTable(tables, p.Name, dir)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, tableShare{p.Name, p.Share, found[0].Bytes})
		mix = append(mix, fidelity.Portion{Levels: found[0].Levels, Share: p.Share})
	}
	return mix, nil
}

func (a *app) printRocksAdvice(f *adviseFlags, out rocksAdvice, run *result.Run) error {
	a.progress().warn(notOfTables(run.Warnings)...)
	if f.json {
		return a.printJSON(out)
	}
	fmt.Fprintf(a.stdout, "%s\n\nset:  %s\n\n", out.Answer, strings.Join(out.Flags, " "))
	for _, t := range out.Tables {
		fmt.Fprintf(a.stdout, "%3.0f%% of the Gets go to %s, %s\n", 100*t.Share, cmp.Or(t.Name, "the database"), unit.Bytes(t.Bytes))
	}
	fmt.Fprintf(a.stdout, "filters and indexes outside the cache, of all tables: %s\n\n", unit.Bytes(out.OutsideBytes))
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "cache\treads/Get\t")
	for _, p := range out.Curve {
		fmt.Fprintf(table, "%s\t%.3f\t\n", unit.Bytes(p.CacheBytes), p.BlockReadsPerGet)
	}
	if err := table.Flush(); err != nil {
		return nil // stdout is gone: the exit will tell
	}
	fmt.Fprintf(a.stdout, "\nreads: %s\n", out.Basis)
	return nil
}
