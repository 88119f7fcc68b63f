package advice

import (
	"os"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/optionsfile"
)

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(text string) (Settings, error) {
	file, err := optionsfile.Parse(strings.NewReader(text))
	if err != nil {
		return Settings{}, err
	}
	return SettingsOf(file)
}

// The file go-ethereum 1.17.10 left behind with --cache 128. geth sets no filter
// for the last level, but its Pebble takes that of the level above.
func TestParseOptionsOfGeth(t *testing.T) {
	s, err := parse(readFile(t, "testdata/OPTIONS-geth"))
	if err != nil {
		t.Fatal(err)
	}

	want := Settings{
		CacheBytes:      64 << 20,
		MemTableBytes:   8 << 20,
		StopMemTables:   8,
		Handles:         512,
		TableShards:     2,
		LastLevelFilter: true,
	}

	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}

	if m := s.MemTables(Writes{}); m != (MemTables{CacheShare: 8, Bytes: 8 << 20, Live: 4}) {
		t.Errorf("memtables %+v", m)
	}

	if s = s.WithCache(2 << 30); s.MemTableBytes != 256<<20 || s.CacheBytes != 2<<30 || !s.Given ||
		s.Source != "--cache" {
		t.Errorf("with another cache %+v", s)
	}
}

// A memtable is a quarter of a cache also where 256 KiB, the least, is more: the rule must survive.
func TestWithASmallCache(t *testing.T) {
	s := Settings{CacheBytes: 512 << 20, MemTableBytes: 128 << 20, StopMemTables: 2}.WithCache(
		512 << 10,
	)
	if m := s.MemTables(Writes{}); s.MemTableBytes != 256<<10 || m.Each(4<<20) != 1<<20 {
		t.Errorf("%+v: a memtable beside 4 MiB has %d bytes", s, m.Each(4<<20))
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "no cache_size",
		"[Options]\ncache_size=1":               "no cache_size and mem_table_size",
		"[Options]\ncache_size=-1":              "cache_size=\"-1\" is not a size",
		"[Options]\n\ncache_size=8MB":           "cache_size=\"8MB\" is not a size",
		"[Options]\nmax_open_files=99999999999": "max_open_files=\"99999999999\" is not",
		"[Level \"0\"]\ncache_size=1\nmem_table_size=1":              "no cache_size",
		"[Options]\ncache_size=99999999999999999999\nmem_table_size": "cache_size=\"9999",
	} {
		if s, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, error %v, want %q", text, s, err, want)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add(readFile(f, "testdata/OPTIONS-geth"))
	f.Add("[Options]\ncache_size=0\nmem_table_size=0\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err != nil {
			return
		}

		if s.CacheBytes < 0 || s.MemTableBytes < 0 || s.StopMemTables < 0 || s.Handles < 0 {
			t.Fatalf("negative: %+v", s)
		}

		m := s.MemTables(Writes{})
		if m.Live < 2 || m.CacheShare == 0 && m.Bytes != s.MemTableBytes {
			t.Fatalf("%+v of %+v", m, s)
		}
	})
}

func TestLiveMemTables(t *testing.T) {
	for _, c := range []struct {
		stop int
		w    Writes
		live int
	}{
		{8, Writes{}, 4},
		{2, Writes{}, 2},
		{0, Writes{}, 2},
		{8, Writes{Known: true}, 0},
		{8, Writes{Known: true, BytesPerSecond: 3e6}, 2},
		{8, Writes{Known: true, BytesPerSecond: 13e6}, 4},
	} {
		if m := (Settings{StopMemTables: c.stop}).MemTables(c.w); m.Live != c.live {
			t.Errorf("stop at %d, %+v: %d live, want %d", c.stop, c.w, m.Live, c.live)
		}
	}
}

// What Total gives is what Reserved leaves, and not much more.
func TestTotalLeavesTheBlocksTheirShare(t *testing.T) {
	for _, m := range []MemTables{
		{CacheShare: 8, Live: 4},
		{CacheShare: 4, Live: 2},
		{CacheShare: 8, Live: 2},
		{CacheShare: 8},
		{Bytes: 4 << 20, Live: 2},
		{CacheShare: 4, Live: 4},
	} {
		for _, blocks := range []int64{1 << 10, 100_000, 1 << 20, 3<<20 + 1, 1 << 30, 50 << 30} {
			total := m.Total(blocks)
			left := total - m.Reserved(total)
			if left < blocks || left > blocks+blocks/50+8 {
				t.Errorf("%+v: Total(%d) = %d, of which %d are left", m, blocks, total, left)
			}
		}
	}

	// geth: half of 2.6 GiB goes to four memtables of an eighth.
	m := MemTables{CacheShare: 8, Live: 4}
	if total := m.Total(1300 << 20); total != 2600<<20 || m.Each(total) != 325<<20 {
		t.Errorf("total %d MiB, memtable %d MiB", total>>20, m.Each(total)>>20)
	}
}
