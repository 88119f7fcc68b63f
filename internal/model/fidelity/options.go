package fidelity

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
)

// maxOptionsBytes bounds what is read of a foreign file; those of databases with tens of
// families have a few hundred KB.
const maxOptionsBytes = 16 << 20

// ParseRocksDB reads the OPTIONS file that RocksDB writes when it opens a database for
// writing: the options of each column family by its name.
func ParseRocksDB(r io.Reader, source string) (map[string]Options, error) {
	families := map[string]Options{}
	family := ""
	lines := bufio.NewScanner(io.LimitReader(r, maxOptionsBytes))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			kind, rest, _ := strings.Cut(strings.Trim(line, "[]"), " ")
			if family = ""; kind == "CFOptions" || kind == "TableOptions/BlockBasedTable" {
				name := strings.TrimSuffix(strings.TrimPrefix(rest, `"`), `"`)
				family = unit.Printable(escapes().Replace(name))
			}
			continue
		}
		key, value, is := strings.Cut(line, "=")
		if !is || family == "" {
			continue
		}
		o := families[family]
		if err := o.set(key, strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("column family %s: %w", family, err)
		}
		o.Source = source
		families[family] = o
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(families) == 0 {
		return nil, errors.New("no column families: not an OPTIONS file of RocksDB")
	}
	return families, nil
}

// escapes are RocksDB's in its OPTIONS files.
func escapes() *strings.Replacer {
	return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\\`, `\`, `\:`, ":", `\#`, "#")
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
