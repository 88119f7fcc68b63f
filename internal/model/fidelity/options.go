package fidelity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
)

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
