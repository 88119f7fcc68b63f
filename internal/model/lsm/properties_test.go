package lsm

import (
	"fmt"
	"strings"
	"testing"
)

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
	if l.Files != 1 || l.Keys != 2 || l.DataBytes != 62 || l.SingleIndexes != 1 ||
		l.IndexBlocks != 0 || l.IndexBytes != 27 || l.SingleIndexBytes != 27 ||
		l.FilterConsulted {
		t.Errorf("%+v", l)
	}

	if in := Inflect(levels, nil, 100); in.IP1.DiskBytes != 27 || in.IP2.DiskBytes != 27 ||
		in.IP1.PercentOfDB != 27 {
		t.Errorf("%+v", in)
	}
}

func TestParsePropertiesNamesTheLine(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"not a table": {"L3", "L9", "no line"},
		"truncated": {smallTable[strings.Index(smallTable, "records"):], "",
			`ends at line 15 without a row "records/set"`},
		"cell missing": {"33B    0B    0B    0B    0B    0B    0B    33B", "33B    0B",
			`line 13: row "size/raw-key" has 2 figures`},
		"not a number": {"62B", "6zB", `line 7: row "size/data": "6zB" is no figure`},
		"negative": {"count                     1", "count                    -1",
			`line 2: row "count": "-1"`},
		"wrong total": {"blocks                1      0     0     0     0     0     0     1\n  " +
			"index",
			"blocks                1      0     0     0     0     0     0     2\n  index",
			"line 8: levels of row"},
		"files, no blocks": {"blocks                1      0     0     0     0     0     0     " +
			"1\n  index",
			"blocks                0      1     0     0     0     0     0     1\n  index",
			"line 8: L0 has 1 files but 0"},
		"top above all": {"top-level             0B", "top-level             1KB",
			"line 11: L0's top-level"},
		"twice": {"seq num", "count   1 0 0 0 0 0 0 1\nseq num",
			`line 3: a second row "count"`},
		"two tables": {"records", "L0 L1 L2 L3 L4 L5 L6 TOTAL", "line 16: a second table"},
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
	f.Fuzz(func(t *testing.T, text string) {
		levels, err := ParseProperties(strings.NewReader(text))
		if err != nil {
			return
		}

		for _, l := range levels {
			if l.Files < 0 || l.Keys < 0 || l.DataBlocks < 0 || l.IndexBlocks < 0 ||
				l.IndexBytes < 0 || l.TopIndexBytes < 0 || l.FilterBytes < 0 ||
				l.DataCacheBytes < 0 {
				t.Fatalf("negative figure accepted: %+v", l)
			}

			if l.Files > 0 && l.DataBlocks == 0 {
				t.Fatalf("files without blocks accepted: %+v", l)
			}
		}
	})
}

func ExampleParseProperties() {
	levels, err := ParseProperties(strings.NewReader(smallTable))
	fmt.Println(levels[0].Files, levels[0].DataBlocks, err)
	// Output: 1 1 <nil>
}
