package pebbledb

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
)

func profiles() []Profile { return []Profile{BenchKVDB(), GethV1(), Default()} }

func TestMemtableFollowsTheCache(t *testing.T) {
	for _, c := range []struct {
		profile    string
		cacheBytes int64
		want       uint64
	}{
		{"bench-kvdb", 64 * mib, 16 * mib},
		{"bench-kvdb", 100, minMemTableBytes},
		{"bench-kvdb", 64 << 30, maxMemTableBytes},
		{"geth-1.17-v1", 0, 256 * mib},
		{"geth-1.17-v1", 512 * mib, 64 * mib},
		{"default", 64 * mib, 0},
	} {
		s, errs := Resolve(profiles(), engine.Options{Profile: c.profile, CacheBytes: c.cacheBytes})
		if len(errs) > 0 || s.MemTableSize != c.want {
			t.Errorf("%s, cache %d: memtable %d, %v; want %d", c.profile, c.cacheBytes,
				s.MemTableSize, errs, c.want)
		}
	}
}

func TestOverrides(t *testing.T) {
	want := BenchKVDB().Settings
	want.MemTableSize = 4 * mib
	want.ReadSamplingMultiplier = 16
	want.DisableWAL = true
	for i := range want.Levels {
		want.Levels[i].BlockSize = 8 * kib
		want.Levels[i].FilterBitsPerKey = 12
		want.Levels[i].TargetFileSize = mib << i
		want.Levels[i].Compression = "zstd"
	}

	want.Levels[0].BlockSize = 16 * kib
	want.Levels[6].FilterBitsPerKey, want.Levels[6].NoFilter = 0, true

	got, errs := Resolve(profiles(), engine.Options{Overrides: map[string]string{
		"MemTableSize":           "4MiB",
		"ReadSamplingMultiplier": "16",
		"DisableWAL":             "true",
		"BlockSize":              "8KiB",
		"FilterBitsPerKey":       "12",
		"FilterLevels":           "0-5",
		"TargetFileSize":         "1MiB",
		"Compression":            "zstd",
		"Levels[0].BlockSize":    "16384",
	}})

	if len(errs) > 0 {
		t.Fatal(errs)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestExamplesAreLegal applies the example that the help shows for each option, to a
// database of others, whose tables can be chosen too.
func TestExamplesAreLegal(t *testing.T) {
	for _, o := range options(new(Settings)) {
		if _, errs := Resolve(profiles(), engine.Options{
			Foreign:   true,
			Overrides: map[string]string{o.Name: o.Example},
		}); len(errs) > 0 {
			t.Errorf("%s=%s: %v", o.Name, o.Example, errs)
		}
	}
}

// TestMistakesAreAllReported wants each mistake named, with what is legal.
func TestMistakesAreAllReported(t *testing.T) {
	_, errs := Resolve(profiles(), engine.Options{
		CacheBytes: -1,
		Handles:    -2,
		Overrides: map[string]string{
			"MemTableSize":           "huge",
			"MaxOpenFiles":           "-1",
			"DisableWAL":             "perhaps",
			"FilterLevels":           "5-9",
			"TargetFileSize":         "1,2",
			"Compression":            "lz4",
			"NoSuch":                 "1",
			"Levels[7].BlockSize":    "1",
			"Levels[1].MemTableSize": "1",
			"Levels[1].BlockSize":    "9GiB",
		},
	})

	var text strings.Builder
	for _, err := range errs {
		text.WriteString(err.Error() + "\n")
	}

	for _, want := range []string{
		"MemTableSize=64MiB", "MaxOpenFiles=1000", "DisableWAL=true", "FilterLevels=0-5",
		"TargetFileSize=2MiB", "Compression=snappy",
		`unknown option "NoSuch": use one of MemTableSize`, `unknown option "Levels[7].BlockSize"`,
		`unknown option "Levels[1].MemTableSize"`,
		"beyond 2 GiB", "cache=64MiB", "handles=1000",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("not said: %s", want)
		}
	}

	if len(errs) != 12 {
		t.Errorf("%d errors, want 12:\n%s", len(errs), &text)
	}
}

func FuzzOverride(f *testing.F) {
	for _, o := range options(new(Settings)) {
		f.Add(o.Name, o.Example)
	}

	f.Add("Levels[3].Compression", "none")
	f.Add("table", "0xzz") // of no foreign database, either
	f.Add("table", "A=-1")
	f.Fuzz(func(t *testing.T, name, value string) {
		_, errs := Resolve(profiles(), engine.Options{Overrides: map[string]string{name: value}})
		if len(errs) > 1 {
			t.Errorf("%d errors for one option", len(errs))
		}
	})
}

func TestParseOptions(t *testing.T) {
	got := parseOptions("[Version]\n  pebble_version=0.1\n\n[Options]\n  cache_size=8\n\n[Level " +
		"\"3\"]\n  block_size=4096\nnonsense\n")
	want := map[string]string{
		"pebble_version":       "0.1",
		"cache_size":           "8",
		"Levels[3].block_size": "4096",
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCacheShards(t *testing.T) {
	for _, c := range []struct {
		cacheBytes int64
		gomaxprocs int
		want       int
	}{{100, 1, 4}, {64 * mib, 2, 8}, {16 * mib, 2, 4}, {511 * mib, 32, 4}, {512 * mib, 32, 128}} {
		if got := cachesim.ShardCount(c.cacheBytes, c.gomaxprocs); got != c.want {
			t.Errorf("%d bytes, %d processors: %d shards, want %d", c.cacheBytes, c.gomaxprocs,
				got, c.want)
		}
	}
}

// A level that says nothing has no filters with v1, and those of the level above with v2.
func TestFilterBitsByLevel(t *testing.T) {
	var s Settings
	for i := range s.Levels {
		s.Levels[i].FilterBitsPerKey = 10
	}

	if got := s.filterBits("pebble1"); got != "10" {
		t.Errorf("%q of 10 bits on all levels", got)
	}

	s.Levels[Levels-1] = LevelSettings{}
	for engine, want := range map[string]string{
		"pebble1": "10,10,10,10,10,10,0", "pebble2": "10",
	} {
		if got := s.filterBits(engine); got != want {
			t.Errorf("%s: %q, not %q", engine, got, want)
		}
	}
}
