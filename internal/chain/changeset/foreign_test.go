package changeset

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golang/snappy"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

// The oracles here are encoders that are not ours: protobuf's own, and the
// compressors of the standard library and of snappy's authors.

type pair struct {
	store, key string
	value      string
	remove     bool
}

// storeKVPair is the message, its fields in any order.
func storeKVPair(p pair) []byte {
	var m []byte
	m = protowire.AppendTag(m, 3, protowire.BytesType)
	m = protowire.AppendString(m, p.key)
	m = protowire.AppendTag(m, 1, protowire.BytesType)
	m = protowire.AppendString(m, p.store)
	if p.remove {
		m = protowire.AppendTag(m, 2, protowire.VarintType)
		m = protowire.AppendVarint(m, 1)
	} else {
		m = protowire.AppendTag(m, 4, protowire.BytesType)
		m = protowire.AppendString(m, p.value)
	}

	m = protowire.AppendTag(m, 99, protowire.Fixed64Type) // a field of a later version
	return protowire.AppendFixed64(m, 1)
}

func delimited(messages ...[]byte) (text []byte) {
	for _, m := range messages {
		text = append(protowire.AppendVarint(text, uint64(len(m))), m...)
	}
	return text
}

func benchSet() fstest.MapFS {
	return fstest.MapFS{
		"changeset_info.json": {Data: []byte(
			`{"versions":3,"store_names":["bank","ibc"],"store_params":[{"StoreKey":"bank"}]}`,
		)},
		"000000001.delimpb": {Data: delimited(storeKVPair(pair{"ibc", "k2",
			strings.Repeat("v", 300), false}),
			storeKVPair(pair{"bank", "k1", "", false}), storeKVPair(pair{"bank", "k1", "", true}))},
		"000000002.delimpb": {},
		"000000003.delimpb": {Data: delimited(storeKVPair(pair{"bank", "k3", "v3", false}))},
	}
}

func TestIAVLBench(t *testing.T) {
	s, err := Open(benchSet(), ".", "")
	if err != nil {
		t.Fatal(err)
	}

	want := []plain{
		{1,
			[]string{"ibc: set 6b32 = " + strings.Repeat("76", 300), "bank: set 6b31 = ",
				"bank: delete 6b31"}, ""},
		{Number: 2},
		{3, []string{"bank: set 6b33 = 7633"}, ""},
	}

	for _, batchBytes := range []int{1, 0} {
		if err := s.(Seeker).SeekVersion(1); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, read(t, s, batchBytes)); diff != "" {
			t.Error(diff)
		}
	}

	i := s.Info()
	if i.Format != FormatIAVLBench || i.Order != OrderInsertion || i.First != 1 || i.Last != 3 ||
		!i.Complete || !cmp.Equal(i.Stores, []string{"bank", "ibc"}) {
		t.Errorf("%+v", i)
	}
}

func cronosVersion(version uint64, pairs []byte) []byte {
	text := binary.LittleEndian.AppendUint64(nil, version)
	return append(binary.LittleEndian.AppendUint64(text, uint64(len(pairs))), pairs...)
}

func cronosPair(key string, value string, remove byte) []byte {
	text := append(binary.AppendUvarint([]byte{remove}, uint64(len(key))), key...)
	if remove == 1 {
		return text
	}
	return append(binary.AppendUvarint(text, uint64(len(value))), value...)
}

func deflated(t testing.TB, text []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	pack(t, w, text)
	return out.Bytes()
}

func gzipped(t testing.TB, text []byte) []byte {
	var out bytes.Buffer
	pack(t, gzip.NewWriter(&out), text)
	return out.Bytes()
}

func snapped(t testing.TB, text []byte) []byte {
	var out bytes.Buffer
	pack(t, snappy.NewBufferedWriter(&out), text)
	return out.Bytes()
}

func pack(t testing.TB, w io.WriteCloser, text []byte) {
	t.Helper()
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCronos(t *testing.T) {
	long := strings.Repeat("w", 200_000)
	s, err := Open(fstest.MapFS{
		"set/bank/block-0.zz": {Data: deflated(t,
			append(cronosVersion(2, append(cronosPair("a", "1", 0), cronosPair("b", "", 1)...)),
				cronosVersion(3, nil)...))},
		"set/bank/block-10.zz": {Data: deflated(t, cronosVersion(12, cronosPair("a", "", 0)))},
		"set/bank/notes.txt":   {Data: []byte("not a set")},
		"set/ibc/block-0.snappy": {Data: snapped(t,
			append(cronosVersion(2, cronosPair("c", long, 0)),
				cronosVersion(5, cronosPair("c", "", 1))...))},
		"set/wasm/block-1000":       {Data: nil},
		"set/upgrade/block-9.zz":    {Data: deflated(t, nil)},
		"set/evidence/unrelated.md": {Data: []byte("no set: a store that never had a change")},
	}, "set", "")
	if err != nil {
		t.Fatal(err)
	}

	want := []plain{
		{2,
			[]string{"bank: set 61 = 31", "bank: delete 62",
				fmt.Sprintf("ibc: set 63 = %d bytes %08x", len(long),
					crc32.ChecksumIEEE([]byte(long)))}, ""},
		{Number: 3},
		{5, []string{"ibc: delete 63"}, ""},
		{12, []string{"bank: set 61 = "}, ""},
	}

	if i := s.Info(); i.Format != FormatCronos || i.Order != OrderSortedNet || i.First != 2 ||
		!cmp.Equal(i.Stores, []string{"bank", "evidence", "ibc", "upgrade", "wasm"}) {
		t.Errorf("%+v", i)
	}

	if diff := cmp.Diff(want, read(t, s, 1)); diff != "" {
		t.Error(diff)
	}
}

func node(store, key, value string, remove bool, block uint64) []byte {
	var m []byte
	m = protowire.AppendTag(m, 4, protowire.VarintType)
	m = protowire.AppendVarint(m, block)
	m = protowire.AppendTag(m, 6, protowire.BytesType)
	m = protowire.AppendString(m, "hash")
	m = protowire.AppendTag(m, 1, protowire.BytesType)
	m = protowire.AppendString(m, key)
	if value != "" {
		m = protowire.AppendTag(m, 2, protowire.BytesType)
		m = protowire.AppendString(m, value)
	}

	if remove {
		m = protowire.AppendTag(m, 3, protowire.VarintType)
		m = protowire.AppendVarint(m, 1)
	}

	if store != "" {
		m = protowire.AppendTag(m, 5, protowire.BytesType)
		m = protowire.AppendString(m, store)
	}

	m = protowire.AppendTag(m, 7, protowire.VarintType)
	m = protowire.AppendVarint(m, block)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(m))), m...)
}

func TestNodes(t *testing.T) {
	s, err := Open(fstest.MapFS{
		"00000001-00000004.pb.gz": {Data: gzipped(t,
			bytes.Join([][]byte{node("bank", "b", "1", false, 1), node("", "a", "", false, 1),
				node("bank", "b", "", true, 4)}, nil))},
		"00000005-00000009.pb.gz": {Data: gzipped(t,
			bytes.Join([][]byte{node("ibc", "c", "2", false, 5), node("bank", "a", "3", false, 5)},
				nil))},
		"00000010-00000019.pb.gz": {Data: gzipped(t, nil)},
	}, ".", "")
	if err != nil {
		t.Fatal(err)
	}

	if i := s.Info(); i.Complete || len(i.Stores) != 0 {
		t.Errorf("before reading: %+v", i)
	}

	want := []plain{
		{1, []string{"bank: set 62 = 31", "default: set 61 = "}, ""},
		{4, []string{"bank: delete 62"}, ""},
		{5, []string{"ibc: set 63 = 32", "bank: set 61 = 33"}, ""},
	}

	if diff := cmp.Diff(want, read(t, s, 1)); diff != "" {
		t.Error(diff)
	}

	if i := s.Info(); !cmp.Equal(i.Stores, []string{"bank", "default", "ibc"}) {
		t.Errorf("after reading: %+v", i)
	}
}

// Damaged sets name the file, the place and what is wrong.
func TestDamagedForeignSets(t *testing.T) {
	huge := protowire.AppendVarint(nil, 1<<60)
	bench := func(name string, data []byte) fstest.MapFS {
		set := benchSet()
		set[name] = &fstest.MapFile{Data: data}
		return set
	}

	gapped := benchSet()
	delete(gapped, "000000002.delimpb")
	cronos := func(name string, data []byte) fstest.MapFS {
		return fstest.MapFS{"bank/" + name: {Data: data}}
	}
	oneNode := node("bank", "b", "1", false, 5)
	plainCronos := append(cronosVersion(1, cronosPair("a", "1", 0)),
		cronosVersion(2, cronosPair("a", "1", 0))...)
	for _, c := range []struct {
		name string
		set  fstest.MapFS
		want []string
	}{
		{"bench: message of 2^60", bench("000000002.delimpb", huge),
			[]string{"000000002.delimpb", "offset 9", "version 2",
				"a message of 1152921504606846976 bytes"}},
		{"bench: field of 2^60",
			bench("000000002.delimpb", delimited(append([]byte{3<<3 | 2}, huge...))),
			[]string{"000000002.delimpb", "version 2", "a field of 1152921504606846976 bytes"}},
		{"bench: endless number", bench("000000002.delimpb", bytes.Repeat([]byte{0xff}, 20)),
			[]string{"000000002.delimpb", "more than 64 bits"}},
		{"bench: cut",
			bench("000000003.delimpb", delimited(storeKVPair(pair{"bank", "k3", "v3", false}))[:9]),
			[]string{"000000003.delimpb", "offset 9", "version 3", "cut short"}},
		{"bench: file missing", gapped,
			[]string{"000000002.delimpb", "version 2", "does not exist"}},
		{"bench: unknown store",
			bench("000000001.delimpb", delimited(storeKVPair(pair{"gov", "k", "v", false}))),
			[]string{"000000001.delimpb", `store "gov"`, "store_names"}},
		{"bench: empty key",
			bench("000000001.delimpb", delimited(storeKVPair(pair{"bank", "", "v", false}))),
			[]string{"empty key"}},
		{"bench: info", bench("changeset_info.json", []byte(`{"versions":`)),
			[]string{"changeset_info.json"}},
		{"bench: store twice",
			bench("changeset_info.json", []byte(`{"versions":1,"store_names":["a","a"]}`)),
			[]string{"changeset_info.json", `store "a" twice`}},
		{"cronos: version of 2^60 bytes",
			cronos("block-0",
				binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 7), 1<<60)),
			[]string{"bank/block-0", "offset 16", "version 7", "1152921504606846976"}},
		{"cronos: key of 2^60 bytes",
			cronos("block-0", cronosVersion(7, append([]byte{0}, huge...))),
			[]string{"bank/block-0", "offset 26", "version 7",
				"a key of 1152921504606846976 bytes"}},
		{"cronos: cut", cronos("block-0", plainCronos[:len(plainCronos)-1]),
			[]string{"bank/block-0", "offset 41", "version 2", "cut short"}},
		{"cronos: cut in the header", cronos("block-0", plainCronos[:25]),
			[]string{"bank/block-0", "offset 25", "version 1", "cut short"}},
		{"cronos: versions descend",
			cronos("block-0", append(cronosVersion(5, nil), cronosVersion(4, nil)...)),
			[]string{"bank/block-0", "version 4 after version 5"}},
		{"cronos: size too small", cronos("block-0",
			append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 7), 2),
				cronosPair("a", "1", 0)...)),
			[]string{"bank/block-0", "behind the version"}},
		{"cronos: neither set nor delete", cronos("block-0", cronosVersion(1, []byte{9, 1, 'a'})),
			[]string{"0x9 where"}},
		{"cronos: no zlib", cronos("block-0.zz", []byte("plain")), []string{"bank/block-0.zz"}},
		{"cronos: a second zlib stream",
			cronos("block-0.zz", append(deflated(t, plainCronos), deflated(t, plainCronos)...)),
			[]string{"bank/block-0.zz", "goes on behind the end"}},
		{"cronos: cut zlib", cronos("block-0.zz", deflated(t, plainCronos)[:20]),
			[]string{"bank/block-0.zz", "cut short"}},
		{"cronos: flipped snappy",
			cronos("block-0.snappy", flipped(snapped(t, bytes.Repeat(plainCronos[:20], 1)), 15)),
			[]string{"bank/block-0.snappy"}},
		{
			"nodes: blocks descend",
			fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t,
				append(bytes.Clone(oneNode), node("bank", "b", "1", false, 4)...))}},
			[]string{"1-9.pb.gz", "block 4 after block 5"},
		},
		{
			"nodes: block 0",
			fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t, node("bank", "b", "1", false, 0))}},
			[]string{"block 0"},
		},
		{
			"nodes: message of 4 GiB",
			fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t, []byte{255, 255, 255, 255})}},
			[]string{"1-9.pb.gz", "offset 4", "a message of 4294967295 bytes"},
		},
		{
			"nodes: cut",
			fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t, oneNode[:9])}},
			[]string{"1-9.pb.gz", "offset 9", "cut short"},
		},
		{
			"nodes: cut gzip",
			fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t, oneNode)[:20]}},
			[]string{"1-9.pb.gz", "cut short"},
		},
		{
			"nodes: flipped gzip",
			fstest.MapFS{"1-9.pb.gz": {Data: flipped(gzipped(t, oneNode), -6)}},
			[]string{"1-9.pb.gz"},
		},
		{
			"nodes: wrong type",
			fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t, []byte{2, 0, 0, 0, 1 << 3, 1})}},
			[]string{"field 1 of an unexpected wire type"},
		},
		{
			"nothing",
			fstest.MapFS{"letter.txt": {Data: []byte("dear reader")}},
			[]string{"no change set of a known form"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(c.set, ".", "")
			if err == nil {
				_, err = readUntil(s, 0)
			}

			if err == nil {
				t.Fatal("no error")
			}

			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

func flipped(text []byte, at int) []byte {
	if at < 0 {
		at += len(text)
	}
	text[at] ^= 0x55
	return text
}

// A gap in a form that may have one stays a gap.
func TestGapsAreSeen(t *testing.T) {
	s, err := Open(fstest.MapFS{"1-9.pb.gz": {Data: gzipped(t,
		append(node("b", "k", "1", false, 2), node("b", "k", "2", false, 7)...))}}, ".", "")
	if err != nil {
		t.Fatal(err)
	}

	v, err := Verify(s, nil)
	if err != nil || fmt.Sprint(v.Gaps) != "[{3 6}]" {
		t.Errorf("%+v, %v", v, err)
	}
}

// Every file of a set is read or named, whatever tools call theirs.
func TestUnknownFilesAreNamed(t *testing.T) {
	change := func(block uint64) []byte { return node("bank", "k", "1", false, block) }
	diff := []byte(
		`{"pre": {}, "post": {"0x00000000000000000000000000000000000000aa": {"balance": "0x1"}}}`,
	)
	bench := benchSet()
	bench["0000000003.delimpb"], bench["000000004.delimpb"] = &fstest.MapFile{}, &fstest.MapFile{}
	for _, c := range []struct {
		name     string
		set      fstest.MapFS
		versions string
		unknown  []string
	}{
		{
			"nodes",
			fstest.MapFS{
				"00000001-00000004.pb.gz": {Data: gzipped(t, change(2))},
				"00000005.pb.gz":          {Data: gzipped(t, change(5))},
				"6-10.pb.gz":              {Data: gzipped(t, change(10))},
				"notes.txt":               {},
				"00000011.pb":             {},
			},
			"[2 5 10]",
			[]string{"00000011.pb", "notes.txt"},
		},
		{
			"diffs",
			fstest.MapFS{
				"1.json":           {Data: diff},
				"0x2.json":         {Data: diff},
				"block-3.json":     {Data: diff},
				"0x0a.jsonl":       {Data: diff},
				"block_11.json.gz": {Data: gzipped(t, diff)},
				"four.json":        {},
			},
			"[1 2 3 10 11]",
			[]string{"four.json"},
		},
		{"cronos", fstest.MapFS{
			"bank/block-1":      {Data: cronosVersion(1, cronosPair("a", "1", 0))},
			"bank/block-21.sz":  {Data: snapped(t, cronosVersion(21, cronosPair("a", "2", 0)))},
			"bank/block-31.lz4": {},
			"README":            {},
		},
			"[1 21]", []string{"README", "bank/block-31.lz4"}},
		{"iavl-bench", bench, "[1 2 3]", []string{"0000000003.delimpb", "000000004.delimpb"}},
	} {
		s, err := Open(c.set, ".", "")
		if err != nil {
			t.Fatal(c.name, err)
		}

		var versions []int64
		for _, v := range read(t, s, 0) {
			versions = append(versions, v.Number)
		}

		if fmt.Sprint(versions) != c.versions {
			t.Errorf("%s: versions %v, want %v", c.name, versions, c.versions)
		}

		if diff := cmp.Diff(c.unknown, s.Info().Unknown); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A format that finds none of its files is the wrong one.
func TestWrongFormat(t *testing.T) {
	for format, set := range map[Format]fstest.MapFS{
		FormatNodes:  {"bank/block-0": {Data: cronosVersion(1, nil)}},
		FormatCronos: {"1-9.pb.gz": {Data: gzipped(t, nil)}},
		FormatDiffs:  {"bank/block-0": {Data: cronosVersion(1, nil)}},
	} {
		if _, err := Open(set, ".", format); err == nil ||
			!strings.Contains(err.Error(), "no file is called") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// One transaction a line is one block; two blocks in a file are refused.
func TestJSONLines(t *testing.T) {
	post := func(last string) string {
		return `{"pre": {}, "post": {"0x00000000000000000000000000000000000000` + last +
			`": {"balance": "0x1"}}}`
	}

	traced := func(last string) string {
		return `{"txHash": "0x` + last + `", "result": ` + post(last) + `, "more": [1]}`
	}
	for _, c := range []struct {
		name, text string
		changes    int
		want       string // of the error
	}{
		{"diffs", post("aa") + "\n" + post("ab") + "\n" + post("ac") + "\n", 3, ""},
		{"results", traced("aa") + "\n" + traced("ab") + "\n", 2, ""},
		{"envelopes of transactions", `{"jsonrpc": "2.0", "id": 1, "result": ` + post("aa") + `}` +
			traced("ab"), 2, ""},
		{"a list", "[" + traced("aa") + "," + traced("ab") + "]\n", 2, ""},
		{"an envelope", `{"jsonrpc": "2.0", "result": [` + traced("aa") + `], "id": 1}`, 1, ""},
		{"two lists", "[" + traced("aa") + "]\n[" + traced("ab") + "]", 0,
			"a second value behind a block"},
		{"two envelopes", `{"result": [` + traced("aa") + `]}{"result": [` + traced("ab") + `]}`,
			0, "a second value behind a block"},
		{"a transaction and a list", post("aa") + "[" + traced("ab") + "]", 0,
			"a second value behind a block"},
		{"a line cut short", post("aa") + "\n" + post("ab")[:40], 0, "cut short"},
		{"an envelope cut short", `{"result": [` + traced("aa") + `]`, 0, "cut short"},
		{"something else", post("aa") + "\n7", 0, "no state diff"},
	} {
		s, err := Open(fstest.MapFS{"7.json": {Data: []byte(c.text)}}, ".", "")
		if err != nil {
			t.Fatal(err)
		}

		var v Verdict
		v, err = Verify(s, nil)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}

		if err != nil || v.Totals.Changes != int64(c.changes) || v.Totals.Versions != 1 {
			t.Errorf("%s: %d changes of %d versions, %v; want %d", c.name, v.Totals.Changes,
				v.Totals.Versions, err, c.changes)
		}
	}
}
