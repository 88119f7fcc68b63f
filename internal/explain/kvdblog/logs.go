package kvdblog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

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

// header is what both logs begin with.
type header struct {
	threads int
	keys    uint64
}

func (h *header) forms() []form {
	return []form{
		{"Threads", `^Threads: (\d+)$`, func(p *numbers) { h.threads = int(p.count(1)) }},
		{"Total data", `^Total data: (\d+) while needInit=(true|false)$`,
			func(p *numbers) { h.keys = uint64(p.count(1)) }},
	}
}

// readLog is what one RadmonRead log says.
type readLog struct {
	header
	gets   uint64
	millis float64

	warm, end byType // totals since open, after the warm-up and after the reads

	// Of the measured window. Pebble's "hit" of a filter: it said no, a table was saved.
	filter, blockCache, tableCache served
	ioPerGet                       float64 // as printed, 4 decimals

	cacheUsedBytes int64 // at the end, two or three digits
}

// parseReadLog reads one RadmonRead log.
func parseReadLog(r io.Reader) (*readLog, error) {
	l := new(readLog)
	counts := func(begins string, to *served) form {
		return form{begins, "^" + begins + `: Hit Count (\d+); Miss Count: (\d+)$`,
			func(p *numbers) { *to = served{p.count(1), p.count(2)} }}
	}

	var tables []byType
	err := parse(r, append(
		l.forms(),
		form{"Random read", `^Random read: (\d+) ops in ([\d.]+) ms \(([\d.]+) ops/s\)$`,
			func(p *numbers) { l.gets, l.millis = uint64(p.count(1)), p.float(2) }},
		counts("Filter", &l.filter),
		counts("BlockCache", &l.blockCache),
		counts("TableCache", &l.tableCache),
		form{"Avg I/O per Get", `^Avg I/O per Get ≈ ([\d.]+)$`,
			func(p *numbers) { l.ioPerGet = p.float(1) }},
		form{"Block cache", `^Block cache: \S+ entries \(([\d.]+[KMGT]?B)\)`,
			func(p *numbers) { l.cacheUsedBytes = p.bytes(1) }},
	), func(line string) error {
		switch {
		case line == "Cache Statistics:" && len(tables) == 2:
			return errors.New("a third table of cache statistics")
		case line == "Cache Statistics:":
			tables = append(tables, byType{})
		case strings.HasPrefix(line, "github.com/") && len(tables) == 0:
			return errors.New("a row before its \"Cache Statistics:\"")
		case strings.HasPrefix(line, "github.com/"):
			return addRow(tables[len(tables)-1], line)
		}

		return nil
	})

	switch {
	case err != nil:
		return nil, err
	case len(tables) != 2:
		return nil, fmt.Errorf("the log ends after %d of 2 tables of cache statistics: cut short?",
			len(tables))
	}

	l.warm, l.end = tables[0], tables[1]
	return l, l.check()
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
			return fmt.Errorf("%s counts %d hits and %d misses after the warm-up but %d and %d "+
				"at the end: totals cannot fall",
				c.caller, warm.hits, warm.misses, end.hits, end.misses)
		}
	}

	return nil
}

// unseen are the call sites that the last table has and the first has not.
func (l *readLog) unseen() (callers []string) {
	for _, c := range classes() {
		_, inWarm := l.warm[c.kind]
		if _, inEnd := l.end[c.kind]; inEnd && !inWarm {
			callers = append(callers, c.caller)
		}
	}
	return callers
}

// measured are the accesses of the measured window: the second table without
// what the first already held.
func (l *readLog) measured(kind engine.BlockType) (s served, known bool) {
	end, known := l.end[kind]
	warm := l.warm[kind]
	return served{end.hits - warm.hits, end.misses - warm.misses}, known
}

const row = `^github\.com/cockroachdb/pebble/sstable\.(\S+)\t(\d+)\t(\d+)\t(\d+)\t[\d.]+$`

func addRow(table byType, line string) error {
	p := match(row, line)
	hits, misses, calls := p.count(2), p.count(3), p.count(4)
	if p.err != nil {
		return p.err
	}

	i := slices.IndexFunc(classes(), func(c class) bool { return c.caller == p.groups[1] })
	if i < 0 {
		return fmt.Errorf("call site %q is not known: its reads belong to no block type",
			p.groups[1])
	}

	c := classes()[i]
	if _, twice := table[c.kind]; twice {
		return fmt.Errorf("%s twice in one table", c.caller)
	}

	for _, later := range classes()[i+1:] {
		if _, before := table[later.kind]; before {
			return fmt.Errorf("%s comes after %s: lines have changed places, the tool sorts them",
				c.caller, later.caller)
		}
	}

	if hits+misses != calls {
		return fmt.Errorf("%s: %d hits and %d misses are not %d calls", c.caller, hits, misses,
			calls)
	}

	table[c.kind] = served{hits, misses}
	return nil
}

// form is a line that is read: how it begins, how all of it reads, and what is taken of it.
type form struct {
	begins, reads string
	take          func(*numbers)
}

// parse reads the lines that have a form; each must be there once. Others are Pebble's own
// metrics, or are for other. Errors have the number of the line.
func parse(r io.Reader, forms []form, other func(line string) error) error {
	lines := bufio.NewScanner(r)
	seen := make([]int, len(forms)) // in which line
	n, newest := 1, 0
	for ; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), " \r")
		i := slices.IndexFunc(forms, func(f form) bool {
			rest, begins := strings.CutPrefix(line, f.begins)
			return begins &&
				(strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, " ≈") ||
					strings.HasPrefix(rest, " |"))
		})

		var err error
		switch {
		case i < 0:
			err = other(line)
		case seen[i] > 0:
			err = fmt.Errorf("a second %q, the first is in line %d", forms[i].begins, seen[i])
		case i < newest:
			err = fmt.Errorf("%q comes after %q: lines have changed places, or are of several logs",
				forms[i].begins, forms[newest].begins)
		default:
			newest = i
			p := match(forms[i].reads, line)
			forms[i].take(p)
			seen[i], err = n, p.err
		}

		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}

	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}

	if i := slices.Index(seen, 0); i >= 0 {
		return fmt.Errorf("the log ends without its %q line: cut short?", forms[i].begins)
	}

	return nil
}

// numbers reads the groups of a match and keeps the first error.
type numbers struct {
	groups []string
	err    error
}

func match(reads, line string) *numbers {
	p := &numbers{groups: regexp.MustCompile(reads).FindStringSubmatch(line)}
	if p.groups == nil {
		p.err = fmt.Errorf("%q does not read like %s", line, reads)
	}
	return p
}

// maxCount keeps sums of a few counts inside an int64.
const maxCount = 1 << 60

func (p *numbers) count(group int) int64 {
	return parsed(p, group, func(text string) (int64, error) {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v > maxCount {
			return 0, fmt.Errorf("%q is not a count below 2^60", text)
		}
		return v, nil
	})
}

func (p *numbers) float(group int) float64 {
	return parsed(p, group, func(text string) (float64, error) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			err = fmt.Errorf("%q is not a number", text)
		}
		return v, err
	})
}

// bytes reads Pebble's "135MB", which means MiB.
func (p *numbers) bytes(group int) int64 {
	return parsed(p, group, func(text string) (int64, error) {
		return unit.ParseBytes(unit.WithUnit(strings.TrimSuffix(text, "B")))
	})
}

// parsed is a group of a match, unless there was an error before.
func parsed[T any](p *numbers, group int, parse func(string) (T, error)) (v T) {
	if p.err == nil {
		v, p.err = parse(p.groups[group])
	}
	return v
}

// writeLog is what one Write log says of the load.
type writeLog struct {
	header
	puts               uint64
	millis             float64
	writeAmplification float64 // Pebble's count, when the tool stopped
	debtBytes          int64   // compactions left undone then
}

// parseWriteLog reads one Write log.
func parseWriteLog(r io.Reader) (*writeLog, error) {
	l := new(writeLog)
	err := parse(r, append(l.forms(),
		form{"Init write", `^Init write: (\d+) ops in ([\d.]+) ms \(([\d.]+) ops/s\)$`,
			func(p *numbers) { l.puts, l.millis = uint64(p.count(1)), p.float(2) }},
		form{"total", `^total \|(?:[^|]*\|){7}\s*\d+\s+([\d.]+)(?:\s*\|.*)?$`,
			func(p *numbers) { l.writeAmplification = p.float(1) }},
		form{"Compactions", `^Compactions: \d+\s+estimated debt: ([\d.]+[KMGT]?B)`,
			func(p *numbers) { l.debtBytes = p.bytes(1) }},
	), func(string) error { return nil })

	if err == nil && (l.puts == 0 || l.millis <= 0) {
		err = errors.New("nothing was written")
	}

	return l, err
}
