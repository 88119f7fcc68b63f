package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result/figure"
)

// RocksAdvice is what advise prints of a database of RocksDB, with --json too.
type RocksAdvice struct {
	Schema   string         `json:"schema"`
	Source   string         `json:"source"`
	Client   clients.Client `json:"client"`
	Tables   []TableShare   `json:"tables"` // that Gets go to; none: they are those of List
	List     *List          `json:"trace,omitempty"`
	NowBytes int64          `json:"now_cache_bytes"`
	// NowSource is how NowBytes is known; "": Basis says it.
	NowSource string `json:"now_cache_source,omitempty"`
	// Assumed: nobody said which table Gets go to, and it is the largest of several.
	Assumed bool `json:"table_assumed,omitempty"`
	// OutsideBytes are filters and indexes of all tables, which open tables keep outside the
	// block cache; MemoryBytes is --memory, 0 without.
	OutsideBytes int64        `json:"outside_bytes"`
	MemoryBytes  int64        `json:"memory_bytes,omitempty"`
	Curve        []RocksPlace `json:"curve"`
	Now          RocksPlace   `json:"now"`
	Then         RocksPlace   `json:"recommended"`
	Flags        []string     `json:"flags"`
	Answer       string       `json:"answer"`
	Basis        string       `json:"basis"`
	// Verdict says what of the node is not known; "": all that is asked.
	Verdict string `json:"verdict,omitempty"`

	// Reads is what a Get reads of the portion of the mix of that number, or with Together of all
	// in one cache; nil: only a model of the levels tells.
	Reads func(portion int, cacheBytes int64) (float64, error) `json:"-"`
	// Metadata: filters and indexes are among the blocks of Reads.
	Metadata bool `json:"metadata_in_cache,omitempty"`
	// ValueReadsPerGet come on top of those of blocks: of values in blob files, which no block
	// cache holds.
	ValueReadsPerGet float64 `json:"value_reads_per_get,omitempty"`
	// UncachedReadsPerGet are among those of any cache: of blocks that never enter it, and of
	// tables that are opened again.
	UncachedReadsPerGet float64        `json:"uncached_reads_per_get,omitempty"`
	Costly              []CostlyOption `json:"costly_options,omitempty"`
	// Filters are those that tables lack although the options name a policy; nil: they lack none,
	// or it is not known.
	Filters *advice.FilterUse `json:"filters,omitempty"`
	// Growth is what becomes of the tables that Gets go to; nil: that was not asked for.
	Growth *Growth `json:"growth,omitempty"`

	room int64      // the largest block cache that is recommended
	best RocksPlace // the largest cache that was looked at for a trace
}

// CostlyOption is an option that makes Gets read what no block cache spares.
type CostlyOption struct {
	Option  string `json:"option"`
	Value   string `json:"value"`
	Instead string `json:"instead"`
	Why     string `json:"why"`
	// ReadsInstead are block reads per Get with the present cache and the other value.
	ReadsInstead float64 `json:"reads_per_get_instead"`

	// Reads is RocksAdvice.Reads with the other value.
	Reads func(portion int, cacheBytes int64) (float64, error) `json:"-"`
	// Filters are those that no Get consults because of the option; nil: it is another one.
	Filters *advice.FilterUse `json:"filters,omitempty"`
}

// Together is the portion of a mix that is all of it.
const Together = -1

// TableShare is a column family and its share of the Gets.
type TableShare struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	Bytes int64   `json:"bytes"`
}

// RocksPlace is a block cache and what a Get reads with it.
type RocksPlace struct {
	CacheBytes       int64   `json:"cache_bytes"`
	BlockReadsPerGet float64 `json:"-"` // of data blocks
}

func (p *RocksPlace) members() figure.Members {
	return figure.Members{figure.BlockReadsPerGet.Data(): &p.BlockReadsPerGet}
}

// MarshalJSON writes the figures by their keys.
func (p RocksPlace) MarshalJSON() ([]byte, error) {
	type plain RocksPlace

	return p.members().Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *RocksPlace) UnmarshalJSON(text []byte) error {
	type plain RocksPlace

	return p.members().Unmarshal(text, (*plain)(p))
}

// Judge recommends a block cache for Gets of random keys that go to mix, of which r.Tables
// tells the names. Where there is memory, it is as large as it may be: with random keys every block
// gains the same.
func (r *RocksAdvice) Judge(
	tables []fidelity.Table, mix []fidelity.Portion, missing float64,
) error {
	r.Schema = schema.RocksAdvice
	switch {
	case r.Metadata:
		r.Basis = "blocks per Get of random keys that RocksDB's LRU cache reads, filters and " +
			"indexes among them: from a trace of this database"
	case r.Reads != nil:
		r.Basis = "data blocks per Get of random keys that RocksDB's LRU cache reads: from a " +
			"trace of this database; filters and indexes outside the cache"
	default:
		r.Basis = "data blocks per Get of random keys; filters and indexes outside the cache, an " +
			"LRU cache, all keys asked for equally often"
	}

	maximum, err := r.maximum(tables)
	if err != nil {
		return err
	}

	r.room = maximum
	if err := r.draw(mix, missing, maximum); err != nil {
		return fmt.Errorf("%s: %w", r.Source, err)
	}

	if r.NowSource != "" {
		r.Basis += "; the present cache is the one " + r.NowSource
	}

	now, err := r.price(mix, missing, r.NowBytes)
	if err != nil {
		return err
	}

	for i := range r.Costly {
		other := RocksAdvice{Client: r.Client, Reads: r.Costly[i].Reads}
		place, err := other.price(mix, missing, r.NowBytes)
		if err != nil {
			return err
		}
		r.Costly[i].ReadsInstead = place.BlockReadsPerGet
		if f := r.Costly[i].Filters; f != nil {
			reads := place.BlockReadsPerGet
			f.Reads, f.Consulted = now.BlockReadsPerGet, &advice.CacheReads{
				CacheBytes: r.NowBytes, PerGet: reads, Least: reads, Most: reads}
		}
	}

	r.Costly = slices.DeleteFunc(r.Costly, func(c CostlyOption) bool {
		return c.Filters != nil && !c.Filters.Worth()
	})

	_, flag := advice.RocksDBCache(r.Client, r.Then.CacheBytes)
	r.Now, r.Flags, r.Answer = now, []string{flag}, r.answer(now)
	return nil
}

// maximum is the largest block cache that there is memory for, or without --memory the present one.
// It fills in that, and what tables keep outside.
func (r *RocksAdvice) maximum(tables []fidelity.Table) (bytes int64, err error) {
	for _, t := range tables {
		if r.Metadata {
			break // they take their part of the cache
		}

		for _, l := range t.Levels {
			r.OutsideBytes += l.FilterBytes + l.IndexBytes + l.TopIndexBytes
		}
	}

	if r.NowBytes == 0 {
		r.NowBytes, _ = advice.RocksDBCache(r.Client, 0)
	}

	if r.MemoryBytes == 0 {
		return r.NowBytes, nil
	}

	bytes = r.MemoryBytes - r.OutsideBytes
	if r.Client == clients.Besu && r.List == nil {
		bytes = forEach(bytes, tables)
	}

	if bytes < minRocksCache {
		return 0, engine.Fail(engine.CodeUsage, "--memory %s: filters and indexes take %s, which "+
			"leaves less than %s for a block cache", unit.Bytes(r.MemoryBytes),
			unit.Bytes(r.OutsideBytes), unit.Bytes(minRocksCache))
	}

	return bytes, nil
}

// Ignored are the filters that tables have, no Get consults, and would save reads; nil: there are
// none.
func (r *RocksAdvice) Ignored() *advice.FilterUse {
	for _, c := range r.Costly {
		if c.Filters != nil {
			return c.Filters
		}
	}

	if r.Filters != nil && r.Filters.Ignored() {
		return r.Filters
	}

	return nil
}

// price is what a Get reads with a block cache.
func (r *RocksAdvice) price(
	mix []fidelity.Portion, missing float64, cacheBytes int64,
) (place RocksPlace, err error) {
	place.CacheBytes = cacheBytes
	of := func(portion int, levels []fidelity.Portion) (float64, error) {
		if r.Reads != nil {
			return r.Reads(portion, cacheBytes)
		}
		return fidelity.ReadsOf(levels, missing, cacheBytes)
	}

	if r.Client != clients.Besu {
		place.BlockReadsPerGet, err = of(Together, mix)
		return place, err
	}

	for i, p := range mix { // each has a cache of its own
		reads, err := of(i, []fidelity.Portion{{Levels: p.Levels, Share: 1}})
		if err != nil {
			return place, err
		}
		place.BlockReadsPerGet += p.Share * reads
	}

	return place, nil
}

// draw fills the curve up to the cache that holds every block, and recommends the largest of use.
func (r *RocksAdvice) draw(mix []fidelity.Portion, missing float64, maximum int64) (err error) {
	for cacheBytes := int64(minRocksCache); ; cacheBytes *= 2 {
		place, err := r.price(mix, missing, cacheBytes)
		if err != nil {
			return err
		}

		const nothing = 1e-9 // of sums of shares
		r.Curve = append(r.Curve, place)
		if place.BlockReadsPerGet <= r.UncachedReadsPerGet+nothing {
			r.Then, err = r.price(mix, missing, min(maximum, cacheBytes))
			return err
		}
	}
}

func (r *RocksAdvice) answer(now RocksPlace) string {
	each := ""
	if r.Client == clients.Besu {
		each = " for each column family"
	}

	kind, of := "data block", ""
	if r.List != nil {
		kind, of = "block", " of the trace "+r.List.Name
	} else if r.Metadata || len(r.Costly) > 0 {
		kind = "block"
	}

	text := fmt.Sprintf("%s %s reads per Get%s with a block cache of %s%s.",
		unit.Significant(now.BlockReadsPerGet, 3), kind, of,
		unit.Bytes(now.CacheBytes), each)
	for _, c := range r.Costly {
		if c.Filters != nil {
			text += " " + c.Filters.Sentence(r.Client)
			continue
		}
		text += fmt.Sprintf(" Because of %s=%s, %s: with %s it would be %s.", c.Option, c.Value,
			c.Why, c.Instead, unit.Significant(c.ReadsInstead, 3))
	}

	if r.List != nil {
		text += " " + r.traceAnswer()
	}

	if r.Filters != nil && r.Filters.Worth() {
		text += " " + r.Filters.Sentence(r.Client)
	}

	const nearly = 0.005
	switch {
	case r.List != nil:
		return text
	case r.MemoryBytes > 0 && r.Then.CacheBytes < r.room:
		of := "Gets ask for"
		if len(r.Tables) == 1 && r.Tables[0].Name != "" {
			of = "Gets of " + r.Tables[0].Name + " ask for"
		}
		return text + fmt.Sprintf(" %s%s hold all blocks that %s: a larger cache saves nothing.",
			unit.Bytes(r.Then.CacheBytes), each, of)
	case r.MemoryBytes > 0:
		return text + fmt.Sprintf(" %s leave room for %s%s: %s reads per Get.",
			unit.Bytes(r.MemoryBytes), unit.Bytes(r.Then.CacheBytes), each,
			unit.Significant(r.Then.BlockReadsPerGet, 3))
	case now.BlockReadsPerGet == 0:
		return text + fmt.Sprintf(" %s hold every block.", unit.Bytes(r.Then.CacheBytes))
	case r.UncachedReadsPerGet > 0 && now.BlockReadsPerGet <= r.UncachedReadsPerGet+nearly:
		return text + " No larger block cache saves any of them."
	}

	return text + " Add --memory to hear what more memory gains."
}

// forEach is the largest size of which every table can have a cache, where a table smaller than
// that fills no more than its own size.
func forEach(memoryBytes int64, tables []fidelity.Table) int64 {
	var sizes []int64
	for _, t := range tables {
		blocks := t.Bytes
		if t.Values != nil { // of which the block cache holds nothing
			blocks -= t.Values.Bytes
		}

		if blocks > 0 {
			sizes = append(sizes, blocks)
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

// minRocksCache is where the curve begins, and the least cache that is recommended.
const minRocksCache = 1 << 20

// Document says which block cache to set, and what each size reads.
func (r *RocksAdvice) Document() *doc.Document {
	d := &doc.Document{Title: "Statelab: the block cache of " + r.Source}
	d.Answer("", r.Answer)
	if r.Growth != nil {
		d.Answer("", r.Growth.sentence())
	}

	flags := r.Flags
	for _, c := range r.Costly {
		set := c.Option + ": " + c.Instead
		if c.Filters != nil {
			set = c.Filters.Setting(r.Client)
		}
		flags = append(slices.Clone(flags), set)
	}
	d.Advice = doc.Statements("Set", strings.Join(flags, "; "))

	gets := []string{}
	if l := r.List; l != nil {
		gets = []string{fmt.Sprintf("%s Gets of the trace %s, after %s that fill the cache; "+
			"they access %s of blocks", unit.Count(l.Gets), l.Name, unit.Count(l.WarmupGets),
			unit.Bytes(l.Bytes))}
	}

	gets = append(gets, doc.Each(r.Tables, func(t TableShare) string {
		text := fmt.Sprintf("%.0f%% of the Gets go to %s, %s", 100*t.Share,
			cmp.Or(t.Name, "the database"), unit.Bytes(t.Bytes))
		if r.Assumed {
			text += " (assumed, because it is the largest; --table names others, --trace uses " +
				"the Gets of a watch)"
		}
		return text
	})...)

	texts := []string{"Filters and indexes outside the cache, of all tables: " +
		unit.Bytes(r.OutsideBytes) + "."}
	if r.ValueReadsPerGet > 0 {
		texts = append(texts,
			fmt.Sprintf("Values in blob files: %s more reads per Get, which no block cache saves.",
				unit.Significant(r.ValueReadsPerGet, 3)))
	}

	d.Add("Gets", doc.Block{Title: "Where Gets go", List: gets, Texts: texts})
	d.Add("Cache and block reads", doc.Block{
		Title: "Block reads by cache size",
		Table: doc.TableOf(r.Curve, nil,
			doc.Column[RocksPlace]{
				Name:  "cache",
				Key:   true,
				Words: func(p RocksPlace) string { return unit.Bytes(p.CacheBytes) },
			},
			doc.Figure(
				"reads",
				"/Get",
				func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) },
				func(p RocksPlace) float64 { return p.BlockReadsPerGet },
			)),
		Texts: doc.Without([]string{"Reads: " + r.Basis + ".", r.Verdict}),
	})
	if r.Growth != nil {
		d.Add("Growth", r.Growth.block())
	}

	return d
}
