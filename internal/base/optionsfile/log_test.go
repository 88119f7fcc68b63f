package optionsfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadLog(t *testing.T) {
	const text = `2026/11/28-20:38:14.018456 1084 RocksDB version: 7.8.3
2026/11/28-20:38:14.018456 1084                               Options.row_cache: 1048576
2026/11/28-20:38:14.018456 1084  block_cache_options:
    capacity : 33554432
    high_pri_pool_ratio: 0.250
    low_pri_pool_ratio: 0.000
`
	for name, c := range map[string]struct {
		text string
		want Logged
	}{
		"both":    {text, Logged{1 << 20, 0.25}},
		"neither": {"Options.row_cache: None\n", Logged{0, -1}},
		"damaged": {"Options.row_cache: x\n    high_pri_pool_ratio: y\n", Logged{0, -1}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "LOG"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}

		if got := ReadLog(dir); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}

	if got := ReadLog(t.TempDir()); got.RowCacheBytes != 0 || got.HighPriorityShare >= 0 {
		t.Errorf("no LOG: %+v", got)
	}
}
