//go:build cgo

package rocksdb

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStatistics(t *testing.T) {
	got := parseStatistics("rocksdb.block.cache.miss COUNT : 6364\n" +
		"rocksdb.db.write.stall P50 : 0.500000 P95 : 1.000000 P99 : 1.000000 P100 : 9.000000 " +
		"COUNT : 2 SUM : 12\nnoise\n")
	want := statistics{"rocksdb.block.cache.miss": {count: 6364}, "rocksdb.db.write.stall": {2, 12}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(tally{})); d != "" {
		t.Error(d)
	}
}

func TestParseProperties(t *testing.T) {
	got := parseProperties("# data blocks=10365; raw average key size=40.000000; index block " +
		"size (user-key? 1, delta-value? 1)=307344; " +
		"top-level index size=2792; filter policy name=N/A; ")
	want := map[string]int64{
		"# data blocks":        10365,
		"index block size":     307344,
		"top-level index size": 2792,
	}

	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseEffective(t *testing.T) {
	got, err := parseEffective(strings.NewReader(
		`2026/11/21-13:27:13.132055 1398 Options.max_open_files: -1
2026/11/21-13:27:13.132056 1398              Options.table_factory: BlockBasedTable
2026/11/21-13:27:13.132057 1398            table_factory options:   ` +
			`flush_block_policy_factory: FlushBlockBySizePolicyFactory (0x1)
  block_cache: 0x56315ae020a0
  block_size: 4096
2026/11/21-13:27:13.132058 1398        Options.write_buffer_size: 67108864
  not an option: here
2026/11/21-13:27:13.132059 1398        Options.write_buffer_size: 1
`))
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{
		"max_open_files":             "-1",
		"table_factory":              "BlockBasedTable",
		"flush_block_policy_factory": "FlushBlockBySizePolicyFactory (0x1)",
		"block_size":                 "4096",
		"write_buffer_size":          "67108864",
	}

	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("rocksdb.x COUNT : 1 SUM : 2")
	f.Add("a (b)=1; c=2=3;")
	f.Add(" Options.a: b\n table_factory options: c: d\n  e: f")
	f.Fuzz(func(t *testing.T, text string) {
		parseStatistics(text)
		parseProperties(text)
		if options, err := parseEffective(strings.NewReader(text)); err == nil &&
			len(options) > len(text) {
			t.Errorf("%d options in %d bytes", len(options), len(text))
		}
	})
}
