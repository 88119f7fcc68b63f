package pebble2fs

import (
	"path/filepath"
	"testing"
)

// BenchmarkLearn learns a table of 100k blocks; ns a block.
func BenchmarkLearn(b *testing.B) {
	path := filepath.Join(b.TempDir(), "000001.sst")
	const keys = 2_000_000
	writeTable(b, path, formats[len(formats)-1], keys)
	b.ReportAllocs()
	var blocks int64
	for b.Loop() {
		a, err := Learn(path)
		if err != nil {
			b.Fatal(err)
		}

		blocks = 0
		for _, t := range a.Blocks {
			blocks += t.Count
		}
	}

	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(blocks), "ns/block")
}
