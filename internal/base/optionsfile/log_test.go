package optionsfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// opened is what RocksDB logs when it opens a database whose families have these caches.
func opened(options string, caches ...string) string {
	const at = "2026/11/28-20:38:14.018456 1084 "
	text := at + "RocksDB version: 7.8.3\n"
	for _, option := range strings.Fields(options) {
		text += at + "                  Options." + strings.ReplaceAll(option, "=", ": ") + "\n"
	}

	for _, cache := range caches {
		address, rest, _ := strings.Cut(cache, " ")
		text += at + "              table_factory options:   flush_block_policy_factory: x\n" +
			"  block_cache: " + address + "\n" + strings.ReplaceAll(rest, ";", "\n") +
			"\n  persistent_cache: (nil)\n  block_size: 4096\n"
	}

	return text
}

const (
	lru = "0x1   block_cache_name: LRUCache;  block_cache_options:;    capacity : 33554432;" +
		"    strict_capacity_limit : 0;    high_pri_pool_ratio: 0.250;    low_pri_pool_ratio: 0.100"
	clock = "0x2   block_cache_name: AutoHyperClockCache;    capacity : 8388608"
)

// TestReadLog: the LOG tells the settings of the last opening, and every cache once.
func TestReadLog(t *testing.T) {
	lruCache := BlockCache{Kind: "LRUCache", Bytes: 32 << 20, HighShare: 0.25, LowShare: 0.1,
		highKnown: true, address: "0x1"}
	clockCache := BlockCache{Kind: "AutoHyperClockCache", Bytes: 8 << 20, address: "0x2"}
	limits := opened("row_cache=1048576 max_open_files=64 table_cache_numshardbits=6", lru)
	long := "2026/11/28-20:39:00.0 1084 EVENT_LOG_v1 {" + strings.Repeat(`"a": 1, `, 100_000) +
		"Options.max_open_files: 7}\n"

	for name, c := range map[string]struct {
		text string
		want Log
		bad  string // in the error; "": none
	}{
		"all": {limits, Log{"7.8.3", []BlockCache{lruCache}, 1 << 20, 64, 6}, ""},
		"the last opening": {limits + opened("row_cache=None max_open_files=-1"),
			Log{Version: "7.8.3", OpenFiles: -1}, ""},
		"two families share a cache": {opened("", lru, lru),
			Log{Version: "7.8.3", Caches: []BlockCache{lruCache}}, ""},
		"two caches": {opened("", clock, lru),
			Log{Version: "7.8.3", Caches: []BlockCache{clockCache, lruCache}}, ""},
		"a long line": {opened("") + long + opened("max_open_files=9"),
			Log{Version: "7.8.3", OpenFiles: 9}, ""},
		"damaged": {opened("row_cache=x max_open_files=64"),
			Log{Version: "7.8.3", OpenFiles: 64}, "option row_cache"},
		"a damaged cache": {opened("", "0x3     capacity : x"),
			Log{Version: "7.8.3", Caches: []BlockCache{{address: "0x3"}}}, "option capacity"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, LogName), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}

		got, err := ReadLog(dir)
		if (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v", name, err)
		}

		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(BlockCache{})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}

	if got, err := ReadLog(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no LOG: %+v, %v", got, err)
	}
}

// TestCachesOfLog: a share of high priority is that of the first cache that tells one, and what
// holds for the only cache is not said of one of two.
func TestCachesOfLog(t *testing.T) {
	both, err := parseLog(strings.NewReader(opened("", clock, lru)))
	if err != nil {
		t.Fatal(err)
	}

	if share, known := both.HighPriorityShare(); !known || share != 0.25 {
		t.Errorf("share of high priority: %v, %v", share, known)
	}

	if _, is := both.OnlyCache(); is {
		t.Error("one of two caches is the only one")
	}

	one := Log{Caches: both.Caches[:1]}
	if only, is := one.OnlyCache(); !is || only.Kind != "AutoHyperClockCache" {
		t.Errorf("%+v, %v", only, is)
	}

	if _, known := one.HighPriorityShare(); known {
		t.Error("a cache without priorities has a share of high priority")
	}
}

// FuzzReadLog: no LOG makes the reader fail in another way than by an error.
func FuzzReadLog(f *testing.F) {
	f.Add(opened("row_cache=1 max_open_files=64", lru, clock))
	f.Add("  capacity : 1\n  block_cache: 0x1\n\n  capacity")
	f.Fuzz(func(t *testing.T, text string) {
		l, _ := parseLog(strings.NewReader(text))
		if _, is := l.OnlyCache(); is != (len(l.Caches) == 1) {
			t.Errorf("%+v", l)
		}
	})
}
