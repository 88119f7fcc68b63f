package lsm

import (
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// TestInflect: IP1 has the filters that Gets consult, top-level indexes, and the whole indexes of
// small tables and of files of values; IP2 has all other indexes, too.
func TestInflect(t *testing.T) {
	upper := engine.Level{
		Files: 3, FilterConsulted: true, InCacheKnown: true,
		FilterBytes: 1000, FilterCacheBytes: 1100,
		TopIndexBytes: 200, TopIndexCacheBytes: 220,
		IndexBytes: 70, IndexCacheBytes: 77, SingleIndexBytes: 30, SingleIndexCacheBytes: 33,
	}
	last := engine.Level{
		Level: 6, Files: 1, InCacheKnown: true,
		FilterBytes: 5000, FilterCacheBytes: 5500,
		TopIndexBytes: 4, TopIndexCacheBytes: 5, IndexBytes: 600, IndexCacheBytes: 660,
	}
	values := &engine.Values{IndexBytes: 10_000, IndexCacheBytes: 20_000}

	got := Inflect([]engine.Level{upper, last}, values, 100_000)
	ip1 := result.Size{DiskBytes: 11_234, CacheBytes: 21_358, PercentOfDB: 11.234,
		CachePercent: 21.358}
	ip2 := result.Size{DiskBytes: 11_874, CacheBytes: 22_062, PercentOfDB: 11.874,
		CachePercent: 22.062}
	if got.IP1 != ip1 || got.IP2 != ip2 || got.LastLevelFilterBytes != 5000 {
		t.Errorf("%+v, want %+v and %+v", got, ip1, ip2)
	}

	last.InCacheKnown = false
	if got := Inflect([]engine.Level{upper, last}, nil, 0); got.IP1.CacheBytes != 0 ||
		got.IP2.CacheBytes != 0 || got.IP1.DiskBytes != 1234 || got.IP1.PercentOfDB != 0 {
		t.Errorf("sizes in the cache are not known: %+v", got)
	}
}
