package kvdblog

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

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
