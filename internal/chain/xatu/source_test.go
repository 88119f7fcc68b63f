package xatu

import (
	"bytes"
	order "cmp"
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// TestTablesOfClickHouse reads files that ClickHouse wrote: every column of every table, in the
// order that the tables tell.
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
			{
				Address: b,
				Slots:   []accesses.Stored{{Slot: number(1), Value: number(5)}, {Slot: number(2)}},
			},
		}, After: []accesses.Values{
			{Address: a, Nonce: new(uint64(4)), Balance: &less},
			{Address: b, Slots: []accesses.Stored{{Slot: number(1), Value: number(7)}}},
		}},
		{Number: 101, Accesses: []accesses.Access{
			{Kind: account, First: true, Tx: 1, Address: c},
			{Kind: account, Tx: 1, Address: c},
			{Kind: account, First: true, Tx: 1, Address: b},
			{Kind: slot, First: true, Tx: 1, Address: b, Slot: number(1)},
		},
			Before: []accesses.Values{{
				Address: c,
				Nonce:   new(uint64(0)),
				Balance: new(accesses.Word),
			}}},
	}

	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	if form := s.Info().Form; form != "tables of Xatu: storage_reads, storage_diffs, "+
		"balance_reads, balance_diffs, nonce_reads, nonce_diffs" {
		t.Error(form)
	}
}

// TestEveryCompression: the same table, as other settings and another library write it.
func TestEveryCompression(t *testing.T) {
	var want []accesses.Block
	for _, name := range []string{"canonical_execution_storage_reads.parquet",
		"storage_reads_none", "storage_reads_snappy", "storage_reads_lz4",
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

// TestTablesOfCryo: files with cryo's columns, which Polars wrote as cryo does, are the same lists
// as Xatu's, but for the order within a transaction. Networks of two files must be one.
func TestTablesOfCryo(t *testing.T) {
	for name, of := range map[string]string{
		"storage_reads_cryo":     "canonical_execution_storage_reads.parquet",
		"storage_reads_cryo_hex": "canonical_execution_storage_reads.parquet",
		"storage_diffs_cryo":     "canonical_execution_storage_diffs.parquet",
	} {
		got, err := read(t, content(t, name))
		want, wantErr := read(t, content(t, of))
		if err != nil || wantErr != nil {
			t.Fatalf("%s: %v, %v", name, err, wantErr)
		}

		sorted := cmpopts.SortSlices(func(a, b accesses.Stored) int {
			return bytes.Compare(a.Slot[:], b.Slot[:])
		})
		inTurn := cmpopts.SortSlices(func(a, b accesses.Access) int {
			return order.Or(int(a.Tx)-int(b.Tx), int(a.Kind)-int(b.Kind),
				bytes.Compare(a.Slot[:], b.Slot[:]))
		})

		if d := cmp.Diff(want, got, sorted, inTurn); d != "" || len(got) == 0 {
			t.Errorf("%s: %d blocks: %s", name, len(got), d)
		}
	}

	both := fstest.MapFS{
		"a.parquet": {Data: content(t, "storage_reads_cryo")},
		"b.parquet": {Data: content(t, "canonical_execution_storage_diffs.parquet")},
	}

	if s, err := Open(both, "."); err == nil {
		if _, err = all(s); err == nil {
			t.Error("tables of chain 1 and of mainnet are read as one list")
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

// TestCutTables: no part of a file is taken for the whole.
func TestCutTables(t *testing.T) {
	for _, name := range []string{"storage_reads_none", "storage_reads_arrow1",
		"storage_reads_arrow2", "storage_reads_lz4",
		"canonical_execution_balance_diffs.parquet"} {
		text := content(t, name)
		for cut := 0; cut < len(text); cut += 1 + len(text)/50 {
			if _, err := read(t, text[:cut]); err == nil ||
				!strings.HasPrefix(err.Error(), "t.parquet: ") {
				t.Errorf("%s cut to %d bytes: %v", name, cut, err)
			}
		}
	}
}

// TestForeignRows: rows that no table of one network has.
func TestForeignRows(t *testing.T) {
	storage := content(t, "storage_reads_arrow1")
	for what, test := range map[string]struct{ old, new, want string }{
		"an address": {"0x" + strings.Repeat("b", 40), "0x" + strings.Repeat("g", 40),
			"column contract_address"},
		"a slot": {strings.Repeat("0", 63) + "2", strings.Repeat("0", 63) + "x",
			"account 0x" + strings.Repeat("b", 40) + ": column slot"},
	} {
		text := bytes.ReplaceAll(storage, []byte(test.old), []byte(test.new))
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), "block 10") {
			t.Errorf("%s: %v", what, err)
		}
	}

	other := bytes.ReplaceAll(storage, []byte("mainnet"), []byte("sepolia"))
	for name, files := range map[string]fstest.MapFS{
		"one network at a time": {"a.parquet": {Data: storage}, "b.parquet": {Data: other}},
		"its columns are not": {"a.parquet": {Data: bytes.ReplaceAll(storage, []byte("slot"),
			[]byte("spot"))}},
		"none is called": {"a.csv": {Data: storage}},
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
