// Package fidelity tells in what a database's shape differs from that of a node that has run
// for long, or from another database's, and how many block reads per Get each difference
// costs.
//
// A difference is priced by taking it away: the cost of the levels with it, less that of the
// same levels without it, the first ones of the list taken away before.
// Non-goals: opening databases; the cost of differences that were not looked for.
//
// Read in this order: judge.go, levels.go, reads.go.
package fidelity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/predict"
)

// run is a sorted run: a table of L0, or a level.
type run struct {
	keys, blocks float64
	blockBytes   float64 // in a cache
	reached      float64 // share of the keys in older runs that lie inside it
	pass         float64 // share of Gets for keys that are not in it that its filters let through
	perGet       float64 // blocks of it that a Get asks for
}

// runsOf are the sorted runs, in the order in which a Get asks them.
func runsOf(levels []engine.Level) (runs []run) {
	for _, l := range levels {
		if l.Files == 0 || l.Keys == 0 {
			continue
		}

		n := float64(max(1, l.Sublevels))
		r := run{
			keys:       float64(l.Keys) / n,
			blocks:     math.Max(1, float64(l.DataBlocks)/n),
			blockBytes: blockBytes(l),
			reached:    1 - l.Outside,
			pass:       passes(l),
		}

		for range int(n) {
			runs = append(runs, r)
		}
	}

	return runs
}

// passes is the share of Gets that the level's tables let through to a data block although
// the key is not there: tables without a filter let all through.
func passes(l engine.Level) float64 {
	share := filtered(l)
	if share == 0 {
		return 1
	}
	within := l // those that have filters
	within.Keys = int64(float64(l.Keys) * share)
	return 1 - share*(1-predict.FalsePositives(within))
}

// usualBits is what a filter has for a key in the clients that we know.
const usualBits = 10

// filtered is the share of the level's keys that are in filters. Where the tables do not tell
// it, filters of far fewer bits than usual are taken for tables without one.
func filtered(l engine.Level) float64 {
	switch {
	case !l.FilterConsulted || l.FilterBytes == 0 || l.Keys == 0:
		return 0
	case l.FilterKeys > 0:
		return math.Min(1, float64(l.FilterKeys)/float64(l.Keys))
	}

	const few = 0.6
	if bits := 8 * float64(l.FilterBytes) / float64(l.Keys); bits < few*usualBits {
		return bits / usualBits
	}

	return 1
}

// handleBytes is what RocksDB's cache keeps for a block beyond its content.
const handleBytes = 100

// blockBytes is a data block's mean size in a cache: by what the tables say of it, else of
// their keys and values, else stored.
func blockBytes(l engine.Level) float64 {
	bytes := l.DataBytes
	switch {
	case l.DataCacheBytes > 0:
		bytes = l.DataCacheBytes
	case l.RawKeyBytes > 0:
		bytes = l.RawKeyBytes + l.RawValueBytes
	}
	return float64(bytes)/math.Max(1, float64(l.DataBlocks)) + handleBytes
}

// Portion is a table and its share of the Gets; the shares of a mix sum up to 1.
type Portion struct {
	Levels []engine.Level
	Share  float64
}

// Reads is ReadsOf for Gets of one table.
func Reads(levels []engine.Level, absent float64, cacheBytes int64) (float64, error) {
	return ReadsOf([]Portion{{levels, 1}}, absent, cacheBytes)
}

// ReadsOf is the number of data blocks that a Get of a random key reads, with filters and
// indexes at hand and an LRU cache of cacheBytes for data blocks of all tables; 0 keeps none.
// A share absent of the Gets asks for keys that are not there.
//
// A Get reads a block of each sorted run that may hold its key, up to the one that does. What
// the cache keeps follows from Che's approximation: a block is there if it was asked for
// within a time that is the same for all blocks (H. Che, Y. Tung, Z. Wang, Hierarchical Web
// caching systems, IEEE JSAC 20(7), 2002).
func ReadsOf(mix []Portion, absent float64, cacheBytes int64) (reads float64, err error) {
	var runs []run
	for _, p := range mix {
		of := runsOf(p.Levels)
		if len(of) == 0 {
			return 0, errors.New("the table holds no keys")
		}
		runs = append(runs, ask(of, absent, p.Share)...)
	}

	bytes := 0.0
	for _, r := range runs {
		if r.perGet > 0 {
			bytes += r.blocks * r.blockBytes
		}
	}

	if float64(cacheBytes) >= bytes {
		return 0, nil
	}

	kept := 0.0 // Gets that a block stays in the cache
	if cacheBytes > 0 {
		kept = timeKept(runs, float64(cacheBytes))
	}

	for _, r := range runs {
		reads += r.perGet * math.Exp(-r.perGet*kept/r.blocks)
	}

	return reads, nil
}

// ask fills in how many blocks of each run a Get asks for, where a share of the Gets goes to
// their table.
func ask(runs []run, absent, share float64) []run {
	keys := 0.0
	for _, r := range runs {
		keys += r.keys
	}

	older := keys
	for i := range runs {
		r := &runs[i]
		older -= r.keys
		if i == len(runs)-1 {
			r.reached = 1
		}

		r.perGet = share * ((1-absent)*(r.keys+older*r.reached*r.pass)/keys +
			absent*r.reached*r.pass)
	}

	return runs
}

// timeKept is for how many Gets a block stays in a cache of so many bytes.
func timeKept(runs []run, cacheBytes float64) float64 {
	held := func(gets float64) (bytes float64) {
		for _, r := range runs {
			bytes += r.blocks * r.blockBytes * (1 - math.Exp(-r.perGet*gets/r.blocks))
		}
		return bytes
	}

	low, high := 0.0, 1.0
	for held(high) < cacheBytes && high < 1e18 {
		high *= 2
	}

	for range 100 {
		if middle := (low + high) / 2; held(middle) < cacheBytes {
			low = middle
		} else {
			high = middle
		}
	}

	return low
}

// ParseRocksDB are the options of each column family by its name, of the OPTIONS file that RocksDB
// writes when it opens a database for writing.
func ParseRocksDB(sections []optionsfile.Section, source string) (map[string]Options, error) {
	families := map[string]Options{}
	for _, section := range sections {
		if section.Kind != "CFOptions" && section.Kind != "TableOptions/BlockBasedTable" {
			continue
		}

		family := unit.Printable(section.Name)
		o := families[family]
		for key, value := range section.Values {
			if err := o.set(key, value); err != nil {
				return nil, fmt.Errorf("column family %s: %w", family, err)
			}
		}

		o.Source = source
		families[family] = o
	}

	if len(families) == 0 {
		return nil, errors.New("no column families: not an OPTIONS file of RocksDB")
	}

	return families, nil
}

func (o *Options) set(key, value string) error {
	numbers := map[string]func(n float64){
		"block_size":                         func(n float64) { o.BlockBytes = int64(n) },
		"max_bytes_for_level_base":           func(n float64) { o.BaseBytes = int64(n) },
		"level0_file_num_compaction_trigger": func(n float64) { o.L0Tables = int(n) },
		"max_bytes_for_level_multiplier":     func(n float64) { o.Multiplier = n },
	}

	if set := numbers[key]; set != nil {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n >= 0 && n < 1<<60) {
			return fmt.Errorf("%s=%.40q is no number", key, value)
		}
		set(n)
	}

	if key == "compaction_style" && value != leveledStyle {
		o.Style = value
	}

	if key != "filter_policy" {
		return nil
	}

	o.NoFilter = value == "" || value == "nullptr"
	// bloomfilter:10:false, ribbonfilter:10:-1; older versions name the kind alone.
	if parts := strings.Split(value, ":"); len(parts) > 1 {
		bits, err := strconv.ParseFloat(parts[1], 64)
		if err != nil || !(bits >= 0 && bits <= 100) {
			return fmt.Errorf("filter_policy=%.40q has no bits per key", value)
		}
		o.FilterBits = bits
	}

	return nil
}
