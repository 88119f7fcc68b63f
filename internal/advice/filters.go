package advice

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/result/figure"
)

// FilterUse says that Gets pass tables without consulting a filter of them: because the options
// name no filter policy, whatever filters the tables have, or because tables that are older than
// the policy have none.
type FilterUse struct {
	Families []string `json:"column_families,omitempty"` // none: the engine has none
	Policy   string   `json:"filter_policy,omitempty"`   // that the options name; "": none
	Tables   int      `json:"tables"`
	// Filtered are the tables with filters, Lacking those without, of which Gets read a block
	// although the key is in none of theirs.
	Filtered   int `json:"tables_with_filters"`
	Lacking    int `json:"tables_without_filters"`
	BitsPerKey int `json:"filter_bits_per_key,omitempty"` // 0: not known

	// Block reads per Get of the same Gets with the present cache: as it is, and with the filters
	// that the tables have consulted; nil: not known.
	Reads     float64     `json:"reads_per_get,omitempty"`
	Consulted *CacheReads `json:"consulted,omitempty"`
}

// Ignored reports whether tables have filters and no Get consults any.
func (f *FilterUse) Ignored() bool { return f.Policy == "" && f.Filtered > 0 }

// Worth reports whether the filters are worth a change: they spare reads, or it is not known how
// many.
func (f *FilterUse) Worth() bool {
	switch {
	case !f.Ignored():
		return f.Policy != "" && f.Lacking > 0
	case f.Consulted == nil:
		return true
	}
	return f.saves(noticed)
}

// saves reports whether consulted filters save such a share of the reads for certain, and enough of
// them to be told from none.
func (f *FilterUse) saves(share float64) bool {
	if f.Consulted == nil {
		return false
	}
	saved := f.Reads - f.Consulted.PerGet
	return saved >= figure.BlockReadsPerGet.Least && saved >= share*f.Reads
}

// Sentence says which filters no Get consults, what a program of a client sets so that Gets do, and
// what that saves. A database without column families is one of Pebble, others are of RocksDB.
func (f *FilterUse) Sentence(client clients.Client) string {
	of := ""
	if len(f.Families) > 0 {
		of = " of column family " + f.Families[0]
		if last := len(f.Families) - 1; last > 0 {
			of = " of column families " + strings.Join(f.Families[:last], ", ") + " and " +
				f.Families[last]
		}
	}

	if !f.Ignored() {
		return fmt.Sprintf("%d of %s%s %s no filter, although the options name a policy (%s): "+
			"a full compaction gives filters to all, since only new tables get them.", f.Lacking,
			unit.Plural(f.Tables, "table"), of, have(f.Lacking), f.Policy)
	}

	has := fmt.Sprintf("%d of %s%s %s filters", f.Filtered,
		unit.Plural(f.Tables, "table"), of, have(f.Filtered))
	text := fmt.Sprintf("%s, which no Get consults, because the options name no filter policy: "+
		"set %s", has, f.Setting(client))
	if f.Consulted == nil {
		return text + "."
	}

	text += fmt.Sprintf(": %s -> %s", unit.Significant(f.Reads, 3),
		unit.Significant(f.Consulted.PerGet, 3))
	least, most := unit.Significant(f.Consulted.Least, 3), unit.Significant(f.Consulted.Most, 3)
	if least != most {
		text += fmt.Sprintf(" (%s to %s)", least, most)
	}

	text += " block reads per Get"
	if bytes := f.Consulted.CacheBytes; bytes > 0 {
		text += " with a cache of " + unit.Bytes(bytes)
	}

	return text + "."
}

// have is the verb for so many tables.
func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// Setting is how a client's program sets a filter policy like that of the filters.
//
// Besu is written in Java (BlockBasedTableConfig in org.rocksdb), reth and ethrex in Rust
// (BlockBasedOptions of the crate rocksdb); of others the option has the name that RocksDB's own
// OPTIONS file gives it.
func (f *FilterUse) Setting(client clients.Client) string {
	bits := f.bits()
	switch {
	case len(f.Families) == 0:
		return fmt.Sprintf("Options.Levels[].FilterPolicy = bloom.FilterPolicy(%d)", bits)
	case client == clients.Besu:
		return fmt.Sprintf("BlockBasedTableConfig.setFilterPolicy(new BloomFilter(%d))", bits)
	case client == clients.Reth || client == clients.Ethrex:
		return fmt.Sprintf("BlockBasedOptions::set_bloom_filter(%d.0, false)", bits)
	}

	return "filter_policy=" + f.PolicyText() + " in the options of its tables"
}

// PolicyText is a filter policy like that of the filters, as RocksDB's OPTIONS file has it.
func (f *FilterUse) PolicyText() string { return fmt.Sprintf("bloomfilter:%d:false", f.bits()) }

// bits are those of a key in a filter, if they are not known the usual ten.
func (f *FilterUse) bits() int {
	const usual = 10
	return cmp.Or(f.BitsPerKey, usual)
}

// WholeBits are the bits per key that a filter was asked for, of those that it takes on average.
func WholeBits(bitsPerKey float64) int { return int(math.Round(bitsPerKey)) }
