package kvdblog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

// maxLogBytes bounds a log: the published ones have 3 kB.
const maxLogBytes = 1 << 20

// class is a call site of Pebble's block reads, as the tool names it.
type class struct {
	caller string // what the log calls it, without the package path
	kind   engine.BlockType
}

// classes in the order of the log's tables. readIndex loads the top level of a
// two-level index, or the whole index of a table too small for two levels.
func classes() []class {
	return []class{
		{"(*Reader).readFilter", engine.Filter},
		{"(*Reader).readIndex", engine.TopIndex},
		{"(*Reader).readMetaindex", engine.Meta},
		{"(*singleLevelIterator).loadBlock", engine.Data},
		{"(*twoLevelIterator).loadIndex", engine.Index},
	}
}

// served are accesses of one class by outcome.
type served struct{ hits, misses int64 }

// byType is one "Cache Statistics" table.
type byType map[engine.BlockType]served

// readLog is what one RadmonRead log says.
type readLog struct {
	threads int
	keys    uint64
	gets    uint64
	millis  float64

	warm, end byType // totals since open, after the warm-up and after the reads

	// Of the measured window.
	filterNegative, filterPositive int64
	blockCache, tableCache         served
	ioPerGet                       float64 // as printed, 4 decimals

	cacheUsedBytes int64 // at the end, two or three digits
}

// rowLine is a row of a table of cache statistics, countsLine of the counters at the end.
var (
	rowLine    = regexp.MustCompile(`^github\.com/cockroachdb/pebble/sstable\.(\S+)\t(\d+)\t(\d+)\t(\d+)\t[\d.]+$`)
	countsLine = regexp.MustCompile(`^(Filter|BlockCache|TableCache): Hit Count (\d+); Miss Count: (\d+)$`)
)

// forms are those of the lines that are read, by what they are about.
var forms = map[string]*regexp.Regexp{
	"Threads":         regexp.MustCompile(`^Threads: (\d+)$`),
	"Total data":      regexp.MustCompile(`^Total data: (\d+) while needInit=(true|false)$`),
	"Random read":     regexp.MustCompile(`^Random read: (\d+) ops in ([\d.]+) ms \(([\d.]+) ops/s\)$`),
	"Filter":          countsLine,
	"BlockCache":      countsLine,
	"TableCache":      countsLine,
	"Avg I/O per Get": regexp.MustCompile(`^Avg I/O per Get ≈ ([\d.]+)$`),
	"Block cache":     regexp.MustCompile(`^Block cache: \S+ entries \(([\d.]+[KMGT]?B)\)`),
}

// parseReadLog reads one RadmonRead log. Lines it does not know are Pebble's
// own metrics and are passed over; a line it needs must be there once.
func parseReadLog(r io.Reader) (*readLog, error) {
	p := parsing{seen: map[string]int{}}
	if err := eachLine(r, p.line); err != nil {
		return nil, err
	}
	for _, what := range []string{"Threads", "Total data", "Random read", "Filter", "BlockCache", "TableCache", "Avg I/O per Get", "Block cache"} {
		if p.seen[what] == 0 {
			return nil, fmt.Errorf("the log ends without its %q line: cut short?", what)
		}
	}
	if len(p.tables) != 2 {
		return nil, fmt.Errorf("the log ends after %d of 2 tables of cache statistics: cut short?", len(p.tables))
	}
	p.log.warm, p.log.end = p.tables[0], p.tables[1]
	return &p.log, p.log.check()
}

// parsing is a log of which some lines are read.
type parsing struct {
	log    readLog
	tables []byType
	seen   map[string]int // what was read -> its line
}

func (p *parsing) line(n int, line string) error {
	what, _, _ := strings.Cut(line, ":")
	switch {
	case line == "Cache Statistics:":
		if len(p.tables) == 2 {
			return errors.New("a third table of cache statistics")
		}
		p.tables = append(p.tables, byType{})
		return nil
	case strings.HasPrefix(line, "github.com/"):
		if len(p.tables) == 0 {
			return errors.New("a row before its \"Cache Statistics:\"")
		}
		return addRow(p.tables[len(p.tables)-1], line)
	case strings.HasPrefix(line, "Avg I/O per Get"): // without a colon
		what = "Avg I/O per Get"
	case what == line:
		return nil
	}
	known, err := p.log.read(what, line)
	if err != nil || !known {
		return err
	}
	if first := p.seen[what]; first != 0 {
		return fmt.Errorf("a second %q, the first is in line %d", what, first)
	}
	p.seen[what] = n
	return nil
}

// read reads a line that is about what; known tells whether such a line is needed.
func (l *readLog) read(what, line string) (known bool, err error) {
	form, known := forms[what]
	if !known {
		return false, nil
	}
	var p numbers
	switch m := p.match(form, line); what {
	case "Threads":
		l.threads = int(p.count(m, 1))
	case "Total data":
		l.keys = uint64(p.count(m, 1))
	case "Random read":
		l.gets, l.millis = uint64(p.count(m, 1)), p.float(m, 2)
	case "Filter": // Pebble's "hit": the filter said no, a table was saved
		l.filterNegative, l.filterPositive = p.count(m, 2), p.count(m, 3)
	case "BlockCache":
		l.blockCache = served{p.count(m, 2), p.count(m, 3)}
	case "TableCache":
		l.tableCache = served{p.count(m, 2), p.count(m, 3)}
	case "Avg I/O per Get":
		l.ioPerGet = p.float(m, 1)
	case "Block cache":
		l.cacheUsedBytes = p.bytes(m, 1)
	}
	return true, p.err
}

// check refuses a log whose numbers cannot all be true.
func (l *readLog) check() error {
	switch {
	case l.gets == 0 || l.millis <= 0:
		return fmt.Errorf("%d Gets in %v ms: nothing was measured", l.gets, l.millis)
	case l.keys == 0:
		return errors.New("a database of 0 keys")
	case l.threads == 0:
		return errors.New("0 threads")
	}
	for _, c := range classes() {
		warm, inWarm := l.warm[c.kind]
		end, inEnd := l.end[c.kind]
		if inWarm && !inEnd || end.hits < warm.hits || end.misses < warm.misses {
			return fmt.Errorf("%s counts %d hits and %d misses after the warm-up but %d and %d at the end: totals cannot fall",
				c.caller, warm.hits, warm.misses, end.hits, end.misses)
		}
	}
	return nil
}

// measured are the accesses of the measured window: the second table without
// what the first already held.
func (l *readLog) measured(kind engine.BlockType) (s served, known bool) {
	end, known := l.end[kind]
	warm := l.warm[kind]
	return served{end.hits - warm.hits, end.misses - warm.misses}, known
}

func addRow(table byType, line string) error {
	var p numbers
	m := p.match(rowLine, line)
	hits, misses, calls := p.count(m, 2), p.count(m, 3), p.count(m, 4)
	if p.err != nil {
		return p.err
	}
	for _, c := range classes() {
		if c.caller != m[1] {
			continue
		}
		if _, twice := table[c.kind]; twice {
			return fmt.Errorf("%s twice in one table", c.caller)
		}
		if hits+misses != calls {
			return fmt.Errorf("%s: %d hits and %d misses are not %d calls", c.caller, hits, misses, calls)
		}
		table[c.kind] = served{hits, misses}
		return nil
	}
	return fmt.Errorf("call site %q is not known: its reads belong to no block type", m[1])
}

// eachLine calls yield with every line and its number, from 1, and puts the
// number before yield's error.
func eachLine(r io.Reader, yield func(n int, line string) error) error {
	limited := &io.LimitedReader{R: r, N: maxLogBytes + 1}
	lines := bufio.NewScanner(limited)
	n := 0
	for lines.Scan() {
		n++
		if err := yield(n, strings.TrimRight(lines.Text(), " \r")); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	if limited.N <= 0 {
		return fmt.Errorf("longer than %s: no log of this tool", unit.Bytes(maxLogBytes))
	}
	return nil
}

// numbers reads the groups of a match and keeps the first error.
type numbers struct{ err error }

func (p *numbers) match(re *regexp.Regexp, line string) []string {
	m := re.FindStringSubmatch(line)
	if m == nil {
		p.err = fmt.Errorf("%q does not read like %s", line, re)
	}
	return m
}

// maxCount keeps sums of a few counts inside an int64.
const maxCount = 1 << 60

func (p *numbers) count(m []string, group int) int64 {
	return parsed(p, m, group, func(text string) (int64, error) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v > maxCount {
			return 0, fmt.Errorf("%q is not a count below 2^60", text)
		}
		return v, nil
	})
}

func (p *numbers) float(m []string, group int) float64 {
	return parsed(p, m, group, func(text string) (float64, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			err = fmt.Errorf("%q is not a number", text)
		}
		return v, err
	})
}

// bytes reads Pebble's "135MB", which means MiB.
func (p *numbers) bytes(m []string, group int) int64 {
	return parsed(p, m, group, func(text string) (int64, error) { return unit.ParseBytes(unit.WithUnit(strings.TrimSuffix(text, "B"))) })
}

// parsed is a group of a match, unless there was an error before.
func parsed[T any](p *numbers, m []string, group int, parse func(string) (T, error)) (v T) {
	if p.err == nil {
		v, p.err = parse(m[group])
	}
	return v
}

// writeLog is what one Write log says of the load.
type writeLog struct {
	threads            int
	keys               uint64
	puts               uint64
	millis             float64
	writeAmplification float64 // Pebble's count, when the tool stopped
	debtBytes          int64   // compactions left undone then
}

var (
	initLine  = regexp.MustCompile(`^Init write: (\d+) ops in ([\d.]+) ms \(([\d.]+) ops/s\)$`)
	totalLine = regexp.MustCompile(`^total \|(?:[^|]*\|){7}\s*\d+\s+([\d.]+)(?:\s*\|.*)?$`)
	debtLine  = regexp.MustCompile(`^Compactions: \d+\s+estimated debt: ([\d.]+[KMGT]?B)`)
)

// parseWriteLog reads one Write log.
func parseWriteLog(r io.Reader) (*writeLog, error) {
	var log writeLog
	seen := map[string]bool{}
	err := eachLine(r, func(_ int, line string) error {
		var p numbers
		what, _, _ := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "Threads:"):
			log.threads = int(p.count(p.match(forms["Threads"], line), 1))
		case strings.HasPrefix(line, "Total data:"):
			log.keys = uint64(p.count(p.match(forms["Total data"], line), 1))
		case strings.HasPrefix(line, "Init write:"):
			m := p.match(initLine, line)
			log.puts, log.millis = uint64(p.count(m, 1)), p.float(m, 2)
		case strings.HasPrefix(line, "total |"):
			what = "total"
			log.writeAmplification = p.float(p.match(totalLine, line), 1)
		case strings.HasPrefix(line, "Compactions:"):
			log.debtBytes = p.bytes(p.match(debtLine, line), 1)
		default:
			return nil
		}
		if seen[what] && p.err == nil {
			return fmt.Errorf("a second %q", what)
		}
		seen[what] = true
		return p.err
	})
	if err != nil {
		return nil, err
	}
	for _, what := range []string{"Threads", "Total data", "Init write", "total", "Compactions"} {
		if !seen[what] {
			return nil, fmt.Errorf("the log ends without its %q line: cut short?", what)
		}
	}
	if log.puts == 0 || log.millis <= 0 {
		return nil, errors.New("nothing was written")
	}
	return &log, nil
}
