//go:build cgo

package lmdb

import (
	"strconv"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/adapt/mmapdb"
)

// settings are the engine's, profile and overrides together.
type settings struct {
	readAhead  bool
	syncMode   string
	maxReaders int
	table      mmapdb.TableOption
	mapBytes   int64 // address space, and the most the file can grow to
}

const (
	// Address space costs nothing; growing the map later would mean ending every
	// transaction first.
	defaultMapBytes = 1 << 40

	defaultReaders = 8192 // goroutines, not threads
	mostReaders    = 1 << 20
)

func profiles() []adapter.Profile[settings] {
	common := settings{syncMode: "nosync", maxReaders: defaultReaders, mapBytes: defaultMapBytes}
	ahead := common
	ahead.readAhead = true
	return []adapter.Profile[settings]{
		adapter.Named("noreadahead", "MDB_NORDAHEAD: a fault reads one page", common),
		adapter.Named("readahead", "the kernel reads ahead: LMDB's own default", ahead),
	}
}

// syncModes are what Commit waits for.
func syncModes() map[string]uint {
	return map[string]uint{"nosync": lmdb.NoSync, "nometasync": lmdb.NoMetaSync, "durable": 0}
}

func resolve(info engine.Info, o engine.Options) (settings, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, func(s *settings) []adapter.Option {
		return []adapter.Option{
			s.table.Option("accounts"),
			adapter.Choice("sync_mode", &s.syncMode, "nosync", "nometasync", "durable"),
			adapter.Size("map_size", "1TiB", &s.mapBytes, 1<<20),
			mmapdb.Readers(&s.maxReaders, 1, mostReaders),
		}
	})
	return s, append(errs, s.table.Check(info.Name, o)...)
}

// Effective are the options in LMDB's names.
func (d *db) Effective() map[string]string {
	s := d.settings
	e := map[string]string{
		"cache_bytes": "0", "handles": "0",
		"MDB_NORDAHEAD": strconv.FormatBool(!s.readAhead),
		"max_readers":   strconv.Itoa(s.maxReaders),
		"table":         s.table.Text,
	}
	if !d.readOnly {
		e["sync_mode"] = s.syncMode
	}
	if stat, err := d.env.Stat(); err == nil {
		e["page_size"] = strconv.FormatUint(uint64(stat.PSize), 10)
	}
	if info, err := d.env.Info(); err == nil {
		e["map_size"] = strconv.FormatInt(info.MapSize, 10)
	}
	return e
}
