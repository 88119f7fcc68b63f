package lsm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readPublished(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../studies/bench_kvdb/logs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestParsePropertiesOfPublishedLogs(t *testing.T) {
	for _, c := range []struct {
		file                            string
		keys, files, blocks, partitions int64
		ip1MB, ip2MB                    float64 // as the study prints them
		filterMB                        float64
	}{
		{"Properties_200M.log", 200_000_000, 1418, 7410079, 47131 - 1418, 31.6, 207, 238},
		{"Properties_2B.log", 2_000_000_000, 7105, 74079282, 467878 - 7105, 284, 1.98 * 1024, 2.3 * 1024},
		{"Properties_20B.log", 20_000_000_000, 34647, 740758014, 4730934 - 34647, 2.5 * 1024, 20 * 1024, 23 * 1024},
	} {
		levels, err := ParseProperties(strings.NewReader(readPublished(t, c.file)))
		if err != nil {
			t.Fatal(err)
		}
		var keys, files, blocks, partitions, filters int64
		for _, l := range levels {
			keys += l.Keys
			files += int64(l.Files)
			blocks += l.DataBlocks
			partitions += l.IndexBlocks
			filters += l.FilterBytes
		}
		if files != c.files || blocks != c.blocks || partitions != c.partitions {
			t.Errorf("%s: %d files, %d blocks, %d index blocks", c.file, files, blocks, partitions)
		}
		if off := relative(float64(keys), float64(c.keys)); off > 0.002 {
			t.Errorf("%s: %d keys, off by %.2f %%", c.file, keys, 100*off)
		}
		if off := relative(float64(filters)/(1<<20), c.filterMB); off > 0.03 {
			t.Errorf("%s: %d bytes of filters, off by %.2f %%", c.file, filters, 100*off)
		}
		in := Inflect(levels, 1)
		if ip1 := float64(in.IP1.DiskBytes) / (1 << 20); relative(ip1, c.ip1MB) > 0.03 {
			t.Errorf("%s: IP1 %.1f MiB, the study says %.1f", c.file, ip1, c.ip1MB)
		}
		if ip2 := float64(in.IP2.DiskBytes) / (1 << 20); relative(ip2, c.ip2MB) > 0.03 {
			t.Errorf("%s: IP2 %.0f MiB, the study says %.0f", c.file, ip2, c.ip2MB)
		}
	}
}

// The words and columns of v2.1.7 (tool/testdata/db_properties), one table of
// each kind: a whole single-level index, and nothing compressed away.
const smallTable = `                          L0     L1    L2    L3    L4    L5    L6    TOTAL
count                     1      0     0     0     0     0     0     1
seq num
  smallest                12     0     0     0     0     0     0     12
  largest                 14     0     0     0     0     0     0     14
size
  data                    62B    0B    0B    0B    0B    0B    0B    62B
    blocks                1      0     0     0     0     0     0     1
  index                   27B    0B    0B    0B    0B    0B    0B    27B
    blocks                1      0     0     0     0     0     0     1
    top-level             0B     0B    0B    0B    0B    0B    0B    0B
  filter                  0B     0B    0B    0B    0B    0B    0B    0B
  raw-key                 33B    0B    0B    0B    0B    0B    0B    33B
  raw-value               9B     0B    0B    0B    0B    0B    0B    9B
  future-row              9B     0B    0B    0B    0B    0B    0B    9B
records
  set                     2      0     0     0     0     0     0     2
  delete                  1      0     0     0     0     0     0     1
`

func TestParsePropertiesOfOneSmallTable(t *testing.T) {
	levels, err := ParseProperties(strings.NewReader("pebble: opening\n" + smallTable))
	if err != nil {
		t.Fatal(err)
	}
	l := levels[0]
	if l.Files != 1 || l.Keys != 2 || l.DataBytes != 62 || l.SingleIndexes != 1 || l.IndexBlocks != 0 || l.IndexBytes != 27 || l.SingleIndexBytes != 27 ||
		l.FilterConsulted {
		t.Errorf("%+v", l)
	}
	if in := Inflect(levels, 100); in.IP1.DiskBytes != 27 || in.IP2.DiskBytes != 27 || in.IP1.PercentOfDB != 27 {
		t.Errorf("%+v", in)
	}
}

func TestParsePropertiesNamesTheLine(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"not a table":  {"L3", "L9", "no line"},
		"truncated":    {smallTable[strings.Index(smallTable, "records"):], "", `ends at line 15 without a row "records/set"`},
		"cell missing": {"33B    0B    0B    0B    0B    0B    0B    33B", "33B    0B", `line 13: row "size/raw-key" has 2 figures`},
		"not a number": {"62B", "6zB", `line 7: row "size/data": "6zB" is no figure`},
		"negative":     {"count                     1", "count                    -1", `line 2: row "count": "-1"`},
		"wrong total": {"blocks                1      0     0     0     0     0     0     1\n  index",
			"blocks                1      0     0     0     0     0     0     2\n  index", "line 8: levels of row"},
		"files, no blocks": {"blocks                1      0     0     0     0     0     0     1\n  index",
			"blocks                0      1     0     0     0     0     0     1\n  index", "line 8: L0 has 1 files but 0"},
		"top above all": {"top-level             0B", "top-level             1KB", "line 11: L0's top-level"},
		"twice":         {"seq num", "count   1 0 0 0 0 0 0 1\nseq num", `line 3: a second row "count"`},
		"two tables":    {"records", "L0 L1 L2 L3 L4 L5 L6 TOTAL", "line 16: a second table"},
	} {
		text := strings.Replace(smallTable, c.old, c.new, 1)
		if text == smallTable {
			t.Fatalf("%s: the test changes nothing", name)
		}
		_, err := ParseProperties(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func FuzzParseProperties(f *testing.F) {
	f.Add(smallTable)
	f.Add(readPublished(f, "Properties_200M.log"))
	f.Fuzz(func(t *testing.T, text string) {
		levels, err := ParseProperties(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, l := range levels {
			if l.Files < 0 || l.Keys < 0 || l.DataBlocks < 0 || l.IndexBlocks < 0 || l.IndexBytes < 0 || l.TopIndexBytes < 0 || l.FilterBytes < 0 ||
				l.DataCacheBytes < 0 {
				t.Fatalf("negative figure accepted: %+v", l)
			}
			if l.Files > 0 && l.DataBlocks == 0 {
				t.Fatalf("files without blocks accepted: %+v", l)
			}
		}
	})
}

func relative(have, want float64) float64 {
	return max(have-want, want-have) / want
}

func ExampleParseProperties() {
	levels, err := ParseProperties(strings.NewReader(smallTable))
	fmt.Println(levels[0].Files, levels[0].DataBlocks, err)
	// Output: 1 1 <nil>
}
