package advise

import (
	"context"
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
)

// Growth is what becomes of a database whose state grows: of the same engine and options, under
// Gets of random keys.
type Growth struct {
	Grown
	Bytes  int64 `json:"bytes"` // of the tables, then
	Tables int   `json:"tables"`
	// Now and Then are of the same cache; absent: none is known. Then and Same are what the sizes
	// of the levels say, corrected by how far Now is from what they say of the present database.
	Now  Place `json:"now,omitzero"`
	Then Place `json:"then,omitzero"`
	// Same is the smallest cache with which a Get then reads no more than now; nil: the present
	// cache is not known.
	Same *Place `json:"same_reads,omitempty"`
	// Near is what would then be recommended; of RocksDB, where memory decides, nil.
	Near *Place `json:"recommended,omitempty"`
	// OutsideBytes are filters and indexes that open tables then keep outside the block cache, of
	// the tables that Gets go to.
	OutsideBytes int64 `json:"outside_bytes,omitempty"`
	// AtMost: Then is of Gets of a trace as if each were of another key, so about the most; Gets of
	// the same keys read less, down to Now.
	AtMost bool `json:"at_most,omitempty"`

	Levels []engine.Level `json:"levels,omitempty"` // absent with a trace
}

// sameReads is how far two predictions of one figure may lie apart, as a share.
const sameReads = 0.002

// Grow predicts a database of a state as many times as large as that of m, by the sizes of its
// levels, which larger makes those of so many times the state. present is what is known of its
// present cache, and zero where that is not known.
func Grow(
	ctx context.Context, m Model, present Place,
	larger func(present []engine.Level, factor float64) []engine.Level, to Grown,
	tell func(done int),
) (*Growth, error) {
	m.Cost, m.List, m.MaxBytes = nil, nil, 0
	blocks := m.Input.Blocks
	g := &Growth{Grown: to, Levels: larger(m.Levels, to.Factor), Now: present}
	for _, l := range g.Levels {
		g.Bytes += l.Bytes
		g.Tables += l.Files
		if blocks != nil {
			g.OutsideBytes += blocks.OutsideBytes(l)
		}
	}

	drawn := func(levels []engine.Level) *drawer {
		d := &drawer{ctx: ctx, Model: m, tell: tell}
		d.Levels, d.Input.Levels = levels, levels
		d.Input.Gets, d.Input.WarmupGets = steadyGets(levels), 0
		return d
	}

	now, then := drawn(m.Levels), drawn(g.Levels)
	tried := []Place(nil)
	if blocks == nil {
		data := 0.0
		for _, blockBytes := range grid(g.Levels, nil, nil) {
			var p Place
			p, data = then.at(m.MemTables.Total(blockBytes))
			tried = append(tried, p)
		}

		g.Near = then.smallest(&tried, (1+nearFloor)*data)
	}

	if present.CacheBytes > 0 {
		modelled, _ := now.at(present.CacheBytes)
		corrected := func(p Place) Place {
			p.BlockReadsPerGet = max(0, p.BlockReadsPerGet+present.BlockReadsPerGet-
				modelled.BlockReadsPerGet)
			return p
		}

		same, _ := then.at(present.CacheBytes)
		g.Then = corrected(same)
		whole := Place{CacheBytes: wholeBytes(g.Levels, nil)} // which reads nothing again
		if blocks == nil {
			whole, _ = then.at(m.MemTables.Total(whole.CacheBytes))
		} else {
			tried = insert(tried, same)
		}

		tried = insert(tried, whole)
		keeps := then.smallest(&tried, (1+sameReads)*modelled.BlockReadsPerGet)
		if keeps != nil {
			g.Same = new(corrected(*keeps))
		}
	}

	if err := now.err; err != nil {
		return nil, fmt.Errorf("predict the present database: %w", err)
	}

	if err := then.err; err != nil {
		return nil, fmt.Errorf("predict the grown database: %w", err)
	}

	return g, nil
}

// GrowTrace lets g say what the Gets of a trace read in the grown database of r: reads tells it of
// a cache size, and wholeBytes hold all blocks of the grown trace.
func (r *RocksAdvice) GrowTrace(
	g *Growth, wholeBytes int64, reads func(cacheBytes int64) (float64, error),
) error {
	d := &drawer{tell: func(int) {}, Model: Model{
		RestReserve: func(int64) int64 { return 0 },
		Cost: func(cacheBytes, _ int64) (c Cost, err error) {
			c.BlockReadsPerGet, err = reads(cacheBytes)
			return c, err
		},
	}}

	g.AtMost = true
	g.Now = Place{CacheBytes: r.Now.CacheBytes, BlockCacheBytes: r.Now.CacheBytes,
		BlockReadsPerGet: r.Now.BlockReadsPerGet}
	g.Then, _ = d.at(r.Now.CacheBytes)
	whole, _ := d.at(max(r.Now.CacheBytes, wholeBytes))
	tried := insert([]Place{g.Then}, whole)
	g.Same = d.smallest(&tried, (1+sameReads)*g.Now.BlockReadsPerGet)
	r.Growth = g
	return d.err
}

// PresentPlace is what the sizes of the levels of m say of its cache.
func PresentPlace(ctx context.Context, m Model, cacheBytes int64) (Place, error) {
	d := drawer{ctx: ctx, Model: m, tell: func(int) {}}
	d.Input.Levels, d.Input.Gets = m.Levels, steadyGets(m.Levels)
	p, _ := d.at(cacheBytes)
	return p, d.err
}

// sentence says what the growth brings.
func (g *Growth) sentence() string {
	text := fmt.Sprintf("If its state grows %s, the tables take about %s of the disk",
		g.Grown, size(g.Bytes))
	if g.Now.CacheBytes > 0 {
		about := "about"
		if g.AtMost {
			about = "up to about"
		}

		text += fmt.Sprintf("; with the same cache, a Get needs %s %s block reads instead of %s",
			about, reads(g.Then), reads(g.Now))
		if g.Same != nil && g.Same.CacheBytes > g.Now.CacheBytes {
			text += fmt.Sprintf("; a cache of %s keeps the reads as they are",
				size(g.Same.CacheBytes))
		}
	}

	if g.Near != nil && g.Near.CacheBytes > g.Now.CacheBytes {
		text += fmt.Sprintf("; %s is then recommended", size(g.Near.CacheBytes))
	}

	return text + "."
}

// Grown is how many times as large a state becomes; the zero value is of one that is not asked
// for.
type Grown struct {
	Factor float64 `json:"factor"`
	Words  string  `json:"words,omitempty"` // "by 30% a year until January 2029"; "": the factor
}

// String is what follows "grows".
func (g Grown) String() string {
	if g.Words == "" {
		return fmt.Sprintf("to %gx", g.Factor)
	}
	return fmt.Sprintf("%s, to %sx", g.Words, unit.Significant(g.Factor, 2))
}

// block are the figures; nothing of nil.
func (g *Growth) block() (b doc.Block) {
	if g == nil {
		return b
	}

	var rows []place
	if g.Now.CacheBytes > 0 {
		rows = []place{{"present cache, now", g.Now}, {"present cache, then", g.Then}}
	}

	if g.Same != nil && g.Same.CacheBytes > g.Now.CacheBytes {
		rows = append(rows, place{"about the same reads, then", *g.Same})
	}

	if g.Near != nil {
		rows = append(rows, place{"recommended, then", *g.Near})
	}

	reads := "writing"
	if g.Near == nil { // of RocksDB, whose memtables are not in the cache
		reads = "block"
	}

	b.Title = fmt.Sprintf("If the state grows %s", g.Grown)
	b.Table = doc.TableOf(rows, nil,
		doc.Words("which cache", func(p place) string { return p.name }),
		doc.Words("cache", func(p place) string { return unit.Bytes(p.CacheBytes) }),
		doc.Figure(reads, "reads/Get", perGet,
			func(p place) float64 { return p.BlockReadsPerGet }))
	more := fmt.Sprintf("%d file handles", advice.Handles(g.Tables))
	if g.Near == nil {
		more = fmt.Sprintf("filters and indexes of %s outside the block cache",
			unit.Bytes(g.OutsideBytes))
	}

	if g.AtMost {
		b.Texts = []string{"About the most that is read: each block of the trace below level " +
			"0 is divided into as many as the state grows, and each Get asks for one of them at " +
			"random. Gets that repeat keys read less."}
		return b
	}

	b.Texts = []string{fmt.Sprintf("Then: %s in %s, %s. From the sizes of the present levels, for "+
		"random keys, once compactions have caught up; new keys and values are as long and as "+
		"alike as the present ones.", size(g.Bytes), unit.Plural(g.Tables, "table"), more)}

	return b
}
