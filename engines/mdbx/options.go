//go:build cgo

package mdbx

import (
	"fmt"
	"strconv"

	"github.com/erigontech/mdbx-go/mdbx"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

// settings are the engine's, profile and overrides together.
type settings struct {
	readAhead bool
	syncMode  string
	table     mmapdb.TableOption

	maxReaders  int
	pageBytes   int // of a new database
	upperBytes  int // address space, and the most the file can grow to
	growthBytes int // step by which the file grows, sparse
}

const (
	// Erigon's and reth's.
	defaultPageBytes  = 4 << 10
	defaultUpperBytes = 2 << 40
	// Small, so that the file of a small database is not mostly a hole.
	defaultGrowthBytes = 16 << 20

	mostReaders    = 32767 // libmdbx's own limit
	defaultReaders = 8192  // goroutines, not threads
)

func profiles() []adapter.Profile[settings] {
	common := settings{
		syncMode: "safe_nosync", maxReaders: defaultReaders,
		pageBytes: defaultPageBytes, upperBytes: defaultUpperBytes, growthBytes: defaultGrowthBytes,
	}
	ahead := common
	ahead.readAhead = true
	return []adapter.Profile[settings]{
		adapter.Named("noreadahead", "MDBX_NORDAHEAD: a fault reads one page (Erigon, reth)", common),
		adapter.Named("readahead", "the kernel reads ahead, where libmdbx expects the database to fit into memory", ahead),
	}
}

// syncModes are what Commit waits for.
func syncModes() map[string]uint {
	return map[string]uint{"safe_nosync": mdbx.SafeNoSync, "utterly_nosync": mdbx.UtterlyNoSync, "durable": mdbx.Durable}
}

// leastBudget leaves libmdbx the dirty pages it cannot do without.
const leastBudget = 4 << 20

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, func(s *settings) []adapter.Option {
		return []adapter.Option{
			s.table.Option("PlainState"),
			adapter.Choice("sync_mode", &s.syncMode, "safe_nosync", "utterly_nosync", "durable"),
			mmapdb.Readers(&s.maxReaders, 4, mostReaders),
			adapter.PowerOfTwo("page_size", "4096", &s.pageBytes, mdbx.MinPageSize, mdbx.MaxPageSize),
			adapter.Size("size_upper", "2TiB", &s.upperBytes, 1<<20),
			adapter.Size("growth_step", "16MiB", &s.growthBytes, 1<<16),
		}
	})
	if o.MemoryBytes > 0 && o.MemoryBytes < leastBudget {
		errs = append(errs, fmt.Errorf("mdbx: a budget of %d bytes is below the %d that writing needs: write --memory 64MiB", o.MemoryBytes, leastBudget))
	}
	return s, append(errs, s.table.Check(info.Name, o)...)
}

// dirtyBytes is the part of a budget for pages that a write transaction changed:
// they are in the process's own memory until it commits.
func dirtyBytes(budget int64) int64 { return budget / 4 }

// Effective are the options in libmdbx's names.
func (d *db) Effective() map[string]string {
	s := d.settings
	e := map[string]string{
		"cache_bytes": "0", "handles": "0",
		"MDBX_NORDAHEAD": strconv.FormatBool(!s.readAhead),
		"max_readers":    strconv.Itoa(s.maxReaders),
		"table":          s.table.Text,
	}
	if !d.readOnly {
		e["sync_mode"] = s.syncMode
		if limit, err := d.env.GetOption(mdbx.OptTxnDpLimit); err == nil {
			e["txn_dp_limit"] = strconv.FormatUint(limit, 10)
		}
	}
	if info, err := d.env.Info(nil); err == nil {
		e["page_size"] = strconv.FormatUint(uint64(info.PageSize), 10)
		e["size_upper"] = strconv.FormatUint(info.Geo.Upper, 10)
		e["growth_step"] = strconv.FormatUint(info.Geo.Grow, 10)
	}
	return e
}
