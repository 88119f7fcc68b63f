package bbolt

import (
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// settings are the options that can be overridden, by bbolt's names.
type settings struct {
	NoSync       bool
	FreelistType string
	PageSize     int
}

// A freelist that is not on disk (NoFreelistSync) is no profile: rebuilding it
// reads the whole file at every open, which warms what is to be measured cold.
func profiles() []adapter.Profile[settings] {
	return []adapter.Profile[settings]{
		adapter.Named("async", "commits do not wait for the disk (NoSync), as the other engines are run here; freelist in a hash map",
			settings{NoSync: true, FreelistType: string(bbolt.FreelistMapType)}),
		adapter.Named("default", "the library's own: every commit waits for the disk twice; freelist in an array",
			settings{FreelistType: string(bbolt.FreelistArrayType)}),
	}
}

func resolve(info engine.Info, o engine.Options) (*bbolt.Options, []error) {
	s, errs := adapter.Resolve(info, profiles(), o, func(s *settings) []adapter.Option {
		return []adapter.Option{
			adapter.Switch("NoSync", &s.NoSync),
			adapter.Choice("FreelistType", &s.FreelistType, string(bbolt.FreelistMapType), string(bbolt.FreelistArrayType)),
			adapter.PowerOfTwo("PageSize", "4096", &s.PageSize, 1<<10, 1<<16),
		}
	})
	// No Logger: with one, even one that drops everything, every Put is slower.
	return &bbolt.Options{
		Timeout:      lockTimeout,
		NoSync:       s.NoSync,
		FreelistType: bbolt.FreelistType(s.FreelistType),
		PageSize:     s.PageSize,
		NoStatistics: true, // a lock that all readers share
	}, errs
}

func (d *db) Effective() map[string]string {
	return map[string]string{
		"cache_bytes":  "0",
		"handles":      "0",
		"NoSync":       strconv.FormatBool(d.options.NoSync),
		"FreelistType": string(d.options.FreelistType),
		"PageSize":     strconv.Itoa(d.bolt.Info().PageSize),
		"ReadOnly":     strconv.FormatBool(d.bolt.IsReadOnly()),
	}
}
