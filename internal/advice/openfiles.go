package advice

import (
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result/figure"
)

// OpenFileLimit is a limit of open files that keeps some tables closed, so that Gets open them
// again.
type OpenFileLimit struct {
	Limit      int   `json:"limit"` // 0: not known
	Tables     int   `json:"tables"`
	Enough     int   `json:"enough"`      // the least limit with which all stay open
	CacheBytes int64 `json:"cache_bytes"` // 0: not known
	// Block reads per Get with that cache, with the limit and with all tables open.
	Reads     float64 `json:"reads_per_get"`
	ReadsOpen float64 `json:"reads_per_get_all_open"`
}

// Raise says how to set the limit, an option of that name, and what it saves.
func (o *OpenFileLimit) Raise(option string) string {
	from := ""
	if o.Limit > 0 {
		from = " from " + unit.Count(int64(o.Limit))
	}

	with := ""
	if o.CacheBytes > 0 {
		with = " with a cache of " + unit.Bytes(o.CacheBytes)
	}

	return fmt.Sprintf("Raise %s%s to at least %s, so that all %s stay open: %s -> %s block reads "+
		"per Get%s.", option, from, unit.Count(int64(o.Enough)), unit.Plural(o.Tables, "table"),
		unit.Significant(o.Reads, 3), unit.Significant(o.ReadsOpen, 3), with)
}

// saves reports whether open tables save such a share of the reads, and enough of them to be told
// from none.
func (o *OpenFileLimit) saves(share float64) bool {
	saved := o.Reads - o.ReadsOpen
	return saved >= figure.BlockReadsPerGet.Least && saved >= share*o.Reads
}
