package lsm

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// ParseProperties reads the table that `pebble db properties` prints (v1 and
// v2 print the same) and returns its seven levels.
//
// Sizes and records are printed with two or three digits, block counts in
// full. Each rounded figure is therefore recomputed from the counts and then
// held to the interval that was printed. Keys are taken to be hashed and of one
// size where that needs an assumption. The table does not tell L0's sublevels
// (taken as one), nor the engine's charge per block (see WithCharge).
func ParseProperties(r io.Reader) ([]engine.Level, error) {
	table, err := readTable(r)
	if err != nil {
		return nil, err
	}
	if err := table.check(); err != nil {
		return nil, err
	}
	return table.levels(), nil
}

const (
	numColumns = ModelLevels + 1 // the last is TOTAL
	// A real table has 30 lines of up to 200 bytes.
	maxTableBytes = 1 << 20
)

// printed is a figure as printed: the interval that rounds to it.
type printed struct{ low, mid, high float64 }

// hold returns x where the printed figure allows it, else the nearest bound.
func (p printed) hold(x float64) float64 { return max(p.low, min(p.high, x)) }

type row struct {
	line  int // 0: not seen
	cells [numColumns]printed
}

// table holds the rows we use; names as printed, "section/row/subrow".
type table struct {
	rows map[string]*row
	last int // number of the last line
}

// neededRows and how their cells are written.
var neededRows = []struct {
	name  string
	units string // powers of the base, smallest first; "" for plain counts
	base  float64
}{
	{"count", "", 0},
	{"seq num/largest", "", 0},
	{"size/data", "BKMGTPE", 1024},
	{"size/data/blocks", "", 0},
	{"size/index", "BKMGTPE", 1024},
	{"size/index/blocks", "", 0},
	{"size/index/top-level", "BKMGTPE", 1024},
	{"size/filter", "BKMGTPE", 1024},
	{"size/raw-key", "BKMGTPE", 1024},
	{"size/raw-value", "BKMGTPE", 1024},
	{"records/set", " KMGTPE", 1000},
}

func readTable(r io.Reader) (*table, error) {
	t := &table{rows: map[string]*row{}}
	lines := bufio.NewScanner(io.LimitReader(r, maxTableBytes))
	var path [3]string // the row we are in, by indentation
	header := false
	for lines.Scan() {
		t.last++
		line := strings.TrimRight(lines.Text(), " \t\r")
		if strings.Join(strings.Fields(line), " ") == "L0 L1 L2 L3 L4 L5 L6 TOTAL" {
			if header {
				return nil, fmt.Errorf("properties line %d: a second table begins", t.last)
			}
			header = true
			continue
		}

		if !header || line == "" {
			continue
		}

		text := strings.TrimLeft(line, " ")
		depth := (len(line) - len(text)) / 2
		if depth >= len(path) {
			return nil, fmt.Errorf("properties line %d: %q is indented deeper than any row", t.last,
				clip(line))
		}

		label, rest, _ := strings.Cut(text, "  ")
		path[depth] = label
		if err := t.addRow(strings.Join(path[:depth+1], "/"), rest); err != nil {
			return nil, fmt.Errorf("properties line %d: %w", t.last, err)
		}
	}

	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("properties after line %d: %w", t.last, err)
	}

	if !header {
		return nil,
			fmt.Errorf("properties: no line \"L0 L1 L2 L3 L4 L5 L6 TOTAL\" among %d lines: "+
				"is this the output of `pebble db properties`? To read a database, name its folder",
				t.last)
	}

	for _, needed := range neededRows {
		if t.rows[needed.name] == nil {
			return nil, fmt.Errorf("properties: the table ends at line %d without a row %q", t.last,
				needed.name)
		}
	}

	return t, nil
}

// addRow keeps the row if it is a needed one.
func (t *table) addRow(name, rest string) error {
	for _, needed := range neededRows {
		if needed.name != name {
			continue
		}

		if t.rows[name] != nil {
			return fmt.Errorf("a second row %q", name)
		}

		fields := strings.Fields(rest)
		if len(fields) != numColumns {
			return fmt.Errorf("row %q has %d figures, not 7 levels and a total", name, len(fields))
		}

		r := &row{line: t.last}
		for i, field := range fields {
			p, err := parsePrinted(field, needed.units, needed.base)
			if err != nil {
				return fmt.Errorf("row %q: %w", name, err)
			}
			r.cells[i] = p
		}

		t.rows[name] = r
	}

	return nil
}

// parsePrinted reads "3877", "632B", "2.6KB" or "22M".
func parsePrinted(field, units string, base float64) (printed, error) {
	bad := fmt.Errorf("%q is no figure", clip(field))
	if units == "" {
		n, err := strconv.ParseUint(field, 10, 63)
		if err != nil {
			return printed{}, bad
		}
		return printed{float64(n), float64(n), float64(n)}, nil
	}

	number, power := field, 0
	if units[0] == 'B' {
		trimmed, found := strings.CutSuffix(number, "B")
		if !found {
			return printed{}, bad
		}
		number = trimmed
	}

	if n := len(number); n > 0 && (number[n-1] < '0' || number[n-1] > '9') {
		power = strings.IndexByte(units, number[n-1])
		if power < 1 {
			return printed{}, bad
		}
		number = number[:n-1]
	}

	if len(number) == 0 || len(number) > 20 || strings.Trim(number, "0123456789.") != "" {
		return printed{}, bad
	}

	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return printed{}, bad
	}

	scale, half := math.Pow(base, float64(power)), 0.5
	if strings.Contains(number, ".") {
		half = 0.05
	}

	if power == 0 {
		half = 0 // printed in full
	}

	return printed{(v - half) * scale, v * scale, (v + half) * scale}, nil
}

// check refuses tables whose figures contradict each other.
func (t *table) check() error {
	for _, name := range []string{"count", "size/data/blocks", "size/index/blocks"} {
		r, sum := t.rows[name], 0.0
		for _, cell := range r.cells[:ModelLevels] {
			sum += cell.mid
		}

		if total := r.cells[ModelLevels].mid; sum != total {
			return fmt.Errorf("properties line %d: levels of row %q sum up to %.0f, the total "+
				"says %.0f", r.line, name, sum, total)
		}
	}

	for level := range ModelLevels {
		files := t.rows["count"].cells[level].mid
		for _, name := range []string{"size/data/blocks", "size/index/blocks"} {
			r := t.rows[name]
			if blocks := r.cells[level].mid; (files == 0) != (blocks == 0) {
				return fmt.Errorf("properties line %d: L%d has %.0f files but %.0f in row %q",
					r.line, level, files, blocks, name)
			}
		}

		if blocks := t.rows["size/index/blocks"]; blocks.cells[level].mid < files {
			return fmt.Errorf("properties line %d: L%d has fewer index blocks than its %.0f files",
				blocks.line, level, files)
		}

		index, top := t.rows["size/index"], t.rows["size/index/top-level"]
		if top.cells[level].low > index.cells[level].high {
			return fmt.Errorf("properties line %d: L%d's top-level indexes are larger than all "+
				"its indexes", top.line, level)
		}
	}

	return nil
}

// levels recomputes what was rounded.
func (t *table) levels() []engine.Level {
	keys := t.keys()
	levels := make([]engine.Level, ModelLevels)
	for level := range levels {
		cell := func(name string) printed { return t.rows[name].cells[level] }
		l := &levels[level]
		l.Level, l.Sublevels, l.InCacheKnown = level, 1, true
		l.Files = int(cell("count").mid)
		if l.Files == 0 {
			continue
		}

		n, files, blocks := keys[level], float64(l.Files), cell("size/data/blocks").mid
		l.Keys = int64(math.Round(n))
		l.DataBlocks = int64(blocks)
		l.DataBytes = int64(cell("size/data").mid)

		// A row-format entry is three varints, key and value less the prefix
		// shared with the entry before; restart points and their count follow.
		raw := cell("size/raw-key").mid + cell("size/raw-value").mid
		shared := sharedBytes(n) * (restartInterval - 1) / restartInterval
		l.DataCacheBytes = int64(max(raw+n*(3-shared+4.0/restartInterval)+4*blocks, 0))

		entry := indexEntryBytes + separatorBytes(n)
		all := cell("size/index").hold(blocks * entry)
		if partitions := cell("size/index/blocks").mid - files; partitions > 0 {
			l.IndexBlocks = int64(partitions)
			top := cell("size/index/top-level").hold(partitions*entry + 4*files)
			l.TopIndexBytes = int64(min(top, all))
			l.IndexBytes = int64(all) - l.TopIndexBytes
		} else {
			l.SingleIndexes = int64(l.Files)
			l.IndexBytes = int64(all)
			l.SingleIndexBytes = l.IndexBytes
		}

		if filter := cell("size/filter"); filter.high > 0 {
			l.FilterBytes = int64(filter.hold(n*10/8 + files*filterFileBytes))
			l.FilterConsulted = level != lastLevel
		}

		l.IndexCacheBytes, l.SingleIndexCacheBytes = l.IndexBytes, l.SingleIndexBytes
		l.TopIndexCacheBytes, l.FilterCacheBytes = l.TopIndexBytes, l.FilterBytes
		l.Bytes = l.DataBytes + l.IndexBytes + l.TopIndexBytes + l.FilterBytes
	}

	return levels
}

// keys are the entries of each level: by data blocks, as far as the printed
// records allow.
func (t *table) keys() (keys [ModelLevels]float64) {
	set, blocks := t.rows["records/set"], t.rows["size/data/blocks"]
	total := set.cells[ModelLevels]
	n := total.mid
	// One sequence number per write, from 10 on: after a plain load the largest
	// one is the number of keys in full.
	writes := t.rows["seq num/largest"].cells[ModelLevels].mid - 9
	if writes >= total.low && writes <= total.high {
		n = writes
	}

	allBlocks := blocks.cells[ModelLevels].mid
	deepest, rest := -1, n
	for level := range keys {
		if blocks.cells[level].mid == 0 {
			continue
		}

		keys[level] = set.cells[level].hold(blocks.cells[level].mid * n / allBlocks)
		rest -= keys[level]
		deepest = level
	}

	if deepest >= 0 {
		keys[deepest] = set.cells[deepest].hold(keys[deepest] + rest)
	}

	return keys
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
