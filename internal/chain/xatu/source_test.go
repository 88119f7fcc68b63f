package xatu

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/chain/accesses"
)

// all reads a source to its end.
func all(s *Source) (blocks []accesses.Block, err error) {
	for {
		var b accesses.Block
		if err := s.Next(&b); err == io.EOF {
			return blocks, nil
		} else if err != nil {
			return blocks, err
		}
		blocks = append(blocks, b)
	}
}

func address(digit byte) (a accesses.Address) {
	for i := range a {
		a[i] = digit<<4 | digit
	}
	return a
}

func number(n byte) (w accesses.Word) {
	w[31] = n
	return w
}

// TestTablesOfClickHouse reads files that ClickHouse wrote: every column of every table, in the order
// that the tables tell.
func TestTablesOfClickHouse(t *testing.T) {
	s, err := Open(os.DirFS("testdata"), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // it is only read
	got, err := all(s)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := address(0xa), address(0xb), address(0xc)
	const account, slot = accesses.Account, accesses.Slot
	much := accesses.Word{}
	copy(much[23:], []byte{0x36, 0x35, 0xc9, 0xad, 0xc5, 0xde, 0xa0, 0, 0}) // 10^21
	less := much
	copy(less[23:], []byte{0x36, 0x35, 0xc9, 0xad, 0xc5, 0xde, 0x9f, 0xff, 0xff})
	want := []accesses.Block{
		{Number: 100, Accesses: []accesses.Access{
			{Kind: account, First: true, Tx: 1, Address: a},
			{Kind: account, Tx: 1, Address: a},
			{Kind: account, Write: true, Tx: 1, Address: a},
			{Kind: account, Write: true, Tx: 1, Address: a},
			{Kind: account, Tx: 2, Address: a},
			{Kind: account, First: true, Tx: 2, Address: b},
			{Kind: slot, First: true, Tx: 2, Address: b, Slot: number(1)},
			{Kind: slot, First: true, Tx: 2, Address: b, Slot: number(2)},
			{Kind: slot, Write: true, Tx: 2, Address: b, Slot: number(1)},
			{Kind: slot, Write: true, Tx: 3, Address: b, Slot: number(1)},
		}, Before: []accesses.Values{
			{Address: a, Nonce: new(uint64(3)), Balance: &much},
			{Address: b, Slots: []accesses.Stored{{Slot: number(1), Value: number(5)}, {Slot: number(2)}}},
		}, After: []accesses.Values{
			{Address: a, Nonce: new(uint64(4)), Balance: &less},
			{Address: b, Slots: []accesses.Stored{{Slot: number(1), Value: number(7)}}},
		}},
		{Number: 101, Accesses: []accesses.Access{
			{Kind: account, First: true, Tx: 1, Address: c},
			{Kind: account, Tx: 1, Address: c},
			{Kind: account, First: true, Tx: 1, Address: b},
			{Kind: slot, First: true, Tx: 1, Address: b, Slot: number(1)},
		}, Before: []accesses.Values{{Address: c, Nonce: new(uint64(0)), Balance: new(accesses.Word)}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if form := s.Info().Form; form != "tables of Xatu: storage_reads, storage_diffs, balance_reads, balance_diffs, nonce_reads, nonce_diffs" {
		t.Error(form)
	}
}

// TestEveryCompression: the same table, as other settings and another library write it.
func TestEveryCompression(t *testing.T) {
	var want []accesses.Block
	for _, name := range []string{"canonical_execution_storage_reads.parquet", "storage_reads_none", "storage_reads_snappy", "storage_reads_lz4",
		"storage_reads_gzip", "storage_reads_arrow2", "storage_reads_arrow1"} {
		got, err := read(t, content(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want == nil {
			want = got
		}
		if d := cmp.Diff(want, got); d != "" || len(got) != 2 {
			t.Errorf("%s: %d blocks: %s", name, len(got), d)
		}
	}
}

func content(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func read(t testing.TB, text []byte) ([]accesses.Block, error) {
	t.Helper()
	s, err := Open(fstest.MapFS{"t.parquet": {Data: text}}, "t.parquet")
	if err != nil {
		return nil, err
	}
	defer s.Close() // it is only read
	return all(s)
}

// TestDamagedTables cuts files and flips bits: it is an error that names the file, or what was read is
// still a list; and memory is not taken for what a length claims.
func TestDamagedTables(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tries, refused := 0, 0
	try := func(what string, text []byte) {
		tries++
		if _, err := read(t, text); err != nil {
			refused++
			if says := err.Error(); !strings.HasPrefix(says, "t.parquet: ") && !strings.Contains(says, "block ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for _, name := range []string{"storage_reads_none", "storage_reads_arrow1", "storage_reads_arrow2", "storage_reads_lz4",
		"canonical_execution_balance_diffs.parquet"} {
		text := content(t, name)
		for at := 0; at < len(text); at += 1 + len(text)/400 {
			for _, flip := range []byte{1, 0x40, 0xff} {
				damaged := bytes.Clone(text)
				damaged[at] ^= flip
				try(name, damaged)
			}
		}
		for cut := 0; cut < len(text); cut += 1 + len(text)/50 {
			if _, err := read(t, text[:cut]); err == nil {
				t.Errorf("%s cut to %d bytes is read", name, cut)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(tries); each > 8<<20 {
		t.Errorf("%d bytes allocated for each of %d files", each, tries)
	}
	if refused == 0 {
		t.Error("no damaged file was refused")
	}
	t.Logf("%d of %d refused", refused, tries)
}

// TestHostileLengths are files whose lengths ask for gigabytes.
func TestHostileLengths(t *testing.T) {
	footer := func(parts ...[]byte) []byte {
		text := bytes.Join(parts, nil)
		n := len(text)
		return append(append([]byte("PAR1"), text...), byte(n), byte(n>>8), byte(n>>16), byte(n>>24), 'P', 'A', 'R', '1')
	}
	for what, test := range map[string]struct {
		text []byte
		want string
	}{
		"a footer longer than the file": {[]byte("PAR1\xff\xff\xff\x7fPAR1"), "a footer of 2147483647 bytes"},
		"a list of 2^31 columns":        {footer([]byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 7}), "it ends early"},
		"structures in structures":      {footer(bytes.Repeat([]byte{0x1c}, 1000)), "nested too deeply"},
		"an empty file":                 {nil, "it ends early"},
		"a file that is not Parquet":    {[]byte("this is not a Parquet file"), "does not end as a Parquet file does"},
	} {
		if _, err := read(t, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, test := range map[string]struct {
		runs   []byte
		bits   int
		values int64
	}{
		"a run of 2^30":       {[]byte{0x80, 0x80, 0x80, 0x80, 8, 1}, 1, 10},
		"packed values":       {[]byte{0x81, 0x80, 0x80, 0x80, 8, 1}, 1, 10},
		"values of no bits":   {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 0, 10},
		"many runs of no bit": {bytes.Repeat([]byte{200, 1}, 20), 0, 10},
	} {
		if err := runs(test.runs, test.bits, test.values); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestForeignRows: rows that no table of one network has.
func TestForeignRows(t *testing.T) {
	storage := content(t, "storage_reads_arrow1")
	for what, test := range map[string]struct{ old, new, want string }{
		"an address": {"0x" + strings.Repeat("b", 40), "0x" + strings.Repeat("g", 40), "column contract_address"},
		"a slot":     {strings.Repeat("0", 63) + "2", strings.Repeat("0", 63) + "x", "account 0x" + strings.Repeat("b", 40) + ": column slot"},
	} {
		text := bytes.ReplaceAll(storage, []byte(test.old), []byte(test.new))
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "block 10") {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := bytes.ReplaceAll(storage, []byte("mainnet"), []byte("sepolia"))
	for name, files := range map[string]fstest.MapFS{
		"one network at a time": {"a.parquet": {Data: storage}, "b.parquet": {Data: other}},
		"its columns are not":   {"a.parquet": {Data: bytes.ReplaceAll(storage, []byte("slot"), []byte("spot"))}},
		"none is called":        {"a.csv": {Data: storage}},
	} {
		s, err := Open(files, ".")
		if err == nil {
			_, err = all(s)
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzTables(f *testing.F) {
	if err := fs.WalkDir(os.DirFS("testdata"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && name != "make.py" && !strings.HasPrefix(name, "fuzz") {
			f.Add(content(f, name))
		}
		return err
	}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		blocks, err := read(t, text)
		for i := range blocks {
			if err == nil && len(blocks[i].Accesses) == 0 {
				t.Errorf("block %d has no accesses", blocks[i].Number)
			}
		}
	})
}
