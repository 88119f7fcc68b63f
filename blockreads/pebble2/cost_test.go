package pebble2_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/statelab/statelab/blockreads/pebble2"
)

// BenchmarkGets compares Gets of a counted database with those of a bare copy, which take turns in
// one process. ratio is the median over pairs of 50 Gets each: 1.01 is 1 % more time. Pairs are
// short, so that other programs interrupt few of them. Every block that Pebble reads is in the page
// cache, where a read takes least time and counting most of it.
func BenchmarkGets(b *testing.B) {
	for _, c := range []struct {
		name       string
		cacheBytes int64
	}{{"nothing-cached", 1}, {"cache-1MiB", 1 << 20}, {"all-cached", 64 << 20}} {
		b.Run(c.name, func(b *testing.B) { benchmarkGets(b, c.cacheBytes) })
	}
}

func benchmarkGets(b *testing.B, cacheBytes int64) {
	dir, copied := filepath.Join(b.TempDir(), "db"), filepath.Join(b.TempDir(), "copy")
	load(b, dir, &pebble.Options{Logger: quiet{}})
	must(b, os.CopyFS(copied, os.DirFS(dir)))

	openOne := func(dir string, attach func(*pebble.Options) *pebble2.Counter) *pebble.DB {
		o := &pebble.Options{ReadOnly: true, Logger: quiet{}, Cache: pebble.NewCache(cacheBytes)}
		defer o.Cache.Unref()
		if attach != nil {
			attach(o)
		}

		db := open(b, dir, o)
		b.Cleanup(func() { must(b, db.Close()) })
		return db
	}

	const pair = 50
	timed := func(db *pebble.DB, seed uint64) time.Duration {
		rng, start := rand.New(rand.NewPCG(seed, 0)), time.Now()
		for range pair {
			_, closer, err := db.Get(key(rng.IntN(keys)))
			if err == nil {
				err = closer.Close()
			}

			if err != nil {
				b.Fatal(err)
			}
		}

		return time.Since(start)
	}

	bare, counted := openOne(copied, nil), openOne(dir, pebble2.Attach)
	for seed := range uint64(20) {
		timed(bare, seed)
		timed(counted, seed)
	}

	var ratios []float64
	var took [2]time.Duration
	for seed := uint64(0); b.Loop(); seed++ {
		var here [2]time.Duration
		if seed%2 == 0 {
			here[0], here[1] = timed(bare, seed), timed(counted, seed)
		} else {
			here[1], here[0] = timed(counted, seed), timed(bare, seed)
		}

		ratios = append(ratios, float64(here[1])/float64(here[0]))
		took[0], took[1] = took[0]+here[0], took[1]+here[1]
	}

	slices.Sort(ratios)
	gets := float64(pair * len(ratios))
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(float64(took[0])/gets, "bare-ns/Get")
	b.ReportMetric(float64(took[1])/gets, "counted-ns/Get")
	b.ReportMetric(0, "ns/op")
}
