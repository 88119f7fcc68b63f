package optionsfile

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Logged are settings of a RocksDB database that its OPTIONS file lacks, and that the LOG of the
// program which last opened it for writing has.
type Logged struct {
	RowCacheBytes int64 // 0: no row cache, or not known
	// HighPriorityShare is the share of the block cache that blocks of high priority have
	// (high_pri_pool_ratio), of the first cache that the LOG names; negative: not known.
	HighPriorityShare float64
}

// ReadLog reads the LOG in dir. What it does not tell is not known.
func ReadLog(dir string) Logged {
	logged := Logged{HighPriorityShare: -1}
	file, err := os.Open(filepath.Join(dir, "LOG"))
	if err != nil {
		return logged
	}

	defer file.Close() // read only

	// The options stand before anything that happens in the database.
	const head = 20_000
	lines := bufio.NewScanner(file)
	for n := 0; n < head && lines.Scan(); n++ {
		before, value, _ := strings.Cut(lines.Text(), ":")
		if _, option, is := strings.Cut(lines.Text(), "Options.row_cache:"); is {
			if bytes, err := strconv.ParseInt(strings.TrimSpace(option), 10, 64); err == nil {
				logged.RowCacheBytes = bytes
			}
			continue
		}

		if strings.TrimSpace(before) == "high_pri_pool_ratio" && logged.HighPriorityShare < 0 {
			share, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				logged.HighPriorityShare = share
			}
		}
	}

	return logged
}
