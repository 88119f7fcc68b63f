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
		{
			Profile:  engine.Profile{Name: "async", About: "commits do not wait for the disk (NoSync), as the other engines are run here; freelist in a hash map"},
			Settings: settings{NoSync: true, FreelistType: string(bbolt.FreelistMapType)},
		},
		{
			Profile:  engine.Profile{Name: "default", About: "the library's own: every commit waits for the disk twice; freelist in an array"},
			Settings: settings{FreelistType: string(bbolt.FreelistArrayType)},
		},
	}
}

func resolve(o engine.Options) (*bbolt.Options, []error) {
	s, err := adapter.Find(profiles(), o.Profile)
	errs := adapter.Override([]adapter.Option{
		adapter.Switch("NoSync", &s.NoSync),
		adapter.Choice("FreelistType", &s.FreelistType, string(bbolt.FreelistMapType), string(bbolt.FreelistArrayType)),
		adapter.PowerOfTwo("PageSize", "4096", &s.PageSize, 1<<10, 1<<16),
	}, o.Overrides)
	if err != nil {
		errs = append(errs, err)
	}
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
