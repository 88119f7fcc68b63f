package fidelity

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
)

// level has keys of 40 bytes with values of 110, 25 to a block.
func level(number int, keys int64, filtered bool) engine.Level {
	l := engine.Level{
		Level:         number,
		Sublevels:     1,
		Files:         int(max(1, keys/10_000)),
		Keys:          keys,
		Bytes:         150 * keys,
		DataBlocks:    keys / 25,
		DataBytes:     150 * keys,
		RawKeyBytes:   40 * keys,
		RawValueBytes: 110 * keys,
	}

	if filtered {
		l.FilterBytes, l.FilterKeys, l.FilterConsulted = 10*keys/8, keys, true
	}

	return l
}

func reads(levels []engine.Level) (float64, error) { return Reads(levels, 0, 0) }

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestReads(t *testing.T) {
	bare := []engine.Level{level(4, 10_000, false), level(5, 90_000, false),
		level(6, 900_000, false)}
	half := append([]engine.Level{}, bare...)
	half[1].Outside = 0.5
	l0 := level(0, 200_000, false)
	l0.Sublevels = 4
	partly := append([]engine.Level{}, bare...)
	partly[1] = level(5, 90_000, true)
	partly[1].FilterKeys, partly[1].FilterBytes = 45_000, 45_000*10/8
	for _, c := range []struct {
		name   string
		levels []engine.Level
		absent float64
		want   float64
	}{
		{"one level", bare[2:], 0, 1},
		{"no filters", bare, 0, 1 + 0.99 + 0.9},
		{"no filters, absent keys", bare, 1, 3},
		{"a level with gaps", half, 0, 1 + 0.99 + 0.45},
		{"four tables of L0", []engine.Level{l0, level(6, 800_000, false)}, 0,
			1 + 0.95 + 0.9 + 0.85 + 0.8},
		{"filters on half of the tables", partly, 0, 1 + 0.99 + 0.9*0.5045},
	} {
		got, err := Reads(c.levels, c.absent, 0)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name, got, c.want, 0.002)
	}

	with, err := reads(withFilters(bare, 10))
	if err != nil {
		t.Fatal(err)
	}

	near(t, "filters of 10 bits", with, 1.018, 0.004)
	if _, err := Reads(nil, 0, 0); err == nil {
		t.Error("an empty table has a price")
	}
}

// TestCache: a cache for all blocks leaves no read, and half of one level's blocks half of
// them, as keys are random.
func TestCache(t *testing.T) {
	one := []engine.Level{level(6, 1_000_000, false)}
	all := int64(blockBytes(one[0]) * float64(one[0].DataBlocks))
	for part, want := range map[float64]float64{1: 0, 0.5: 0.5, 0.1: 0.9} {
		got, err := Reads(one, 0, int64(part*float64(all)))
		if err != nil {
			t.Fatal(err)
		}
		near(t, "a cache for a part of the blocks", got, want, 1e-6)
	}
}

// TestMixed: a price for all or nothing is shared out where half of the tables have filters.
func TestMixed(t *testing.T) {
	half := level(5, 90_000, true)
	half.FilterKeys = 45_000
	price := Mixed(func(levels []engine.Level) (float64, error) {
		if levels[0].FilterBytes > 0 {
			return 1, nil
		}
		return 2, nil
	})

	got, err := price([]engine.Level{half, level(6, 900_000, false)})
	if err != nil {
		t.Fatal(err)
	}

	near(t, "half of the tables with filters", got, 1.5, 1e-9)
}

func find(v Verdict, kind string) *Difference {
	for i, d := range v.Differences {
		if d.Kind == kind {
			return &v.Differences[i]
		}
	}
	return nil
}

func TestJudge(t *testing.T) {
	const gib = 1 << 30
	// 1 GiB and 70 MiB: what the sizes of levels are on a node.
	node := []engine.Level{level(5, 70<<20/150, true), level(6, gib/150, true)}
	judge := func(levels []engine.Level, o Options, b *Table) Verdict {
		o.BaseBytes = cmp.Or(o.BaseBytes, 256<<20) // RocksDB's own
		v, err := Compare(Table{Name: "t", Keys: total(levels).Keys, Levels: levels, Options: o},
			b, reads)
		if err != nil {
			t.Fatal(err)
		}

		return v
	}

	if v := judge(node, Options{}, nil); len(v.Differences) > 0 {
		t.Errorf("a node's shape: %+v", v.Differences)
	}

	bare := []engine.Level{level(5, 70<<20/150, false), level(6, gib/150, true)}
	v := judge(bare, Options{}, nil)
	d := find(v, Filters)
	if d == nil || len(v.Differences) != 1 || !strings.Contains(d.Here, "L5") {
		t.Fatalf("a level without filters: %+v", v.Differences)
	}

	near(t, "extra reads without filters on L5", d.Extra, 0.936*0.99, 0.005)
	near(t, "expected reads", v.ExpectedReadsPerGet, v.ReadsPerGet-d.Extra, 1e-9)

	l0 := level(0, 700_000, false)
	l0.Sublevels = 7
	v = judge(append([]engine.Level{l0}, node...), Options{}, nil)
	if d, debt := find(v, Filters), find(v, Debt); d == nil || d.Extra < 6 || debt == nil ||
		!(debt.Extra > 0.05) {
		t.Errorf("7 tables of L0 without filters: %+v", v.Differences)
	}

	l0.Sublevels = 4
	if d := find(judge(append([]engine.Level{l0}, node...), Options{}, nil), Debt); d != nil {
		t.Errorf("4 tables of L0 are where compaction begins: %+v", d)
	}

	fresh := level(0, 200_000, true) // fifteen tables side by side are one sorted run
	const remedy = "load more keys: 200,000 are too few for compactions to move them out of L0"
	if d := find(judge([]engine.Level{fresh}, Options{}, nil), Sizes); d == nil ||
		d.Here != "L0 100%" || d.Remedy != remedy {
		t.Errorf("all keys in L0: %+v", d)
	}

	// Filters and sizes at once: what filters cost is not told twice.
	v = judge(
		[]engine.Level{level(5, 40<<20/150, false), level(6, gib/150, false)},
		Options{BaseBytes: 32 << 20},
		nil,
	)

	if d, sizes := find(v, Filters), find(v, Sizes); d == nil ||
		sizes != nil && math.Abs(sizes.Extra) > 0.05 {
		t.Errorf("bare levels of other sizes: %+v", v.Differences)
	}

	// A freshly compacted database without filters reads less than a node would.
	if d := find(
		judge([]engine.Level{level(6, gib/150, false)}, Options{BaseBytes: 32 << 20}, nil),
		Sizes,
	); d == nil || d.Extra > -0.1 {
		t.Errorf("all keys in one level: %+v", d)
	}

	if d := find(judge(node, Options{Source: "OPTIONS", BlockBytes: 16 << 10}, nil),
		Blocks); d == nil || d.Extra != 0 {
		t.Errorf("blocks of 4 KiB where 16 are asked for: %+v", d)
	}

	larger := Table{Name: "t", Keys: 1, Levels: []engine.Level{level(6, gib/150, true)}}
	larger.Levels[0].RawValueBytes *= 4
	if d := find(judge(node, Options{}, &larger), Entries); d == nil ||
		d.Expected != "keys of 32 B, values of 440 B" {
		t.Errorf("values four times as large: %+v", d)
	}
}

func TestJudgeAll(t *testing.T) {
	levels := []engine.Level{level(6, 1000, true)}
	a := []Table{
		{Name: "both", Keys: 1000, Levels: levels},
		{Name: "here", Keys: 1000, Levels: levels},
	}

	b := []Table{a[0], {Name: "there", Keys: 5}}
	verdicts, err := JudgeAll(a, b, func(Table) Price { return reads })
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, v := range verdicts {
		for _, d := range v.Differences {
			got = append(got, v.Name+": "+d.Kind)
		}
	}

	if want := "here: missing table, there: missing table"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

const someOptions = `# This is a RocksDB option file.
[Version]
  rocksdb_version=11.8.1
[DBOptions]
  max_open_files=-1
[CFOptions "default"]
  level0_file_num_compaction_trigger=4
[TableOptions/BlockBasedTable "default"]
  block_size=4096
  filter_policy=nullptr
[CFOptions "a ]b"]
  max_bytes_for_level_base=268435456
  max_bytes_for_level_multiplier=10.000000
  level0_file_num_compaction_trigger=2
[TableOptions/BlockBasedTable "a ]b"]
  block_size=32768
  filter_policy=bloomfilter:15:false
`

func parseOptions(text string) (map[string]Options, error) {
	sections, err := optionsfile.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return ParseRocksDB(sections, "F")
}

func TestParseRocksDB(t *testing.T) {
	found, err := parseOptions(someOptions)
	if err != nil {
		t.Fatal(err)
	}

	plain := Options{Source: "F", BlockBytes: 4096, NoFilter: true, L0Tables: 4}
	if want := plain; found["default"] != want {
		t.Errorf("default: %+v, want %+v", found["default"], want)
	}

	if want := (Options{
		Source:     "F",
		BlockBytes: 32768,
		FilterBits: 15,
		L0Tables:   2,
		BaseBytes:  256 << 20,
		Multiplier: 10,
	}); found["a ]b"] != want {
		t.Errorf("%+v, want %+v", found, want)
	}

	for _, bad := range []string{"", "[CFOptions \"x\"]\nblock_size=4x",
		"[CFOptions \"x\"]\nfilter_policy=bloom:many"} {
		if found, err := parseOptions(bad); err == nil {
			t.Errorf("%q: %+v", bad, found)
		}
	}
}

func FuzzParseRocksDB(f *testing.F) {
	f.Add(someOptions)
	f.Fuzz(func(t *testing.T, text string) {
		found, err := parseOptions(text)
		for name, o := range found {
			if err == nil && (o.BlockBytes < 0 || o.L0Tables < 0 || o.FilterBits < 0) {
				t.Errorf("%q: %+v", name, o)
			}
		}
	})
}

// Below the size of a base level, all keys of a node's database lie in one level as well.
func TestASmallDatabaseCannotTell(t *testing.T) {
	price := func(levels []engine.Level) (float64, error) { return Reads(levels, 0, 0) }
	for keys, small := range map[int64]bool{10_000: true, 10_000_000: false} {
		v, err := Compare(Table{Keys: keys, Levels: []engine.Level{level(6, keys, false)}}, nil,
			price)
		if err != nil || (v.TooSmall > 0) != small || small && len(v.Differences) > 0 {
			t.Errorf("%d keys: %+v, %v", keys, v, err)
		}
	}
}
