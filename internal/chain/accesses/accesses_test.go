package accesses

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/fstest"
)

func pack(t testing.TB, from Source) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, from.Info())
	if err != nil {
		t.Fatal(err)
	}
	var b Block
	for {
		if err := from.Next(&b); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func small() *Generated {
	return Generate(Profile{Blocks: 3, Accounts: 2000, ContractShare: .1, Seed: 5})
}

// TestContainerKeepsEverything: what comes out is what went in, and a cut file is an error that says so.
func TestContainerKeepsEverything(t *testing.T) {
	text := pack(t, small())
	c, err := OpenContainer(io.NopCloser(bytes.NewReader(text)), "list")
	if err != nil {
		t.Fatal(err)
	}
	from := small()
	var got, want Block
	for n := range 3 {
		if err := c.Next(&got); err != nil {
			t.Fatal(err)
		}
		if err := from.Next(&want); err != nil {
			t.Fatal(err)
		}
		if got.Number != want.Number || len(got.Accesses) != len(want.Accesses) || len(got.Before) != len(want.Before) || len(got.After) != len(want.After) {
			t.Fatalf("block %d: %d accesses for %d", n, len(got.Accesses), len(want.Accesses))
		}
		for i := range want.Accesses {
			if got.Accesses[i] != want.Accesses[i] {
				t.Fatalf("block %d, access %d: %+v for %+v", n, i, got.Accesses[i], want.Accesses[i])
			}
		}
	}
	if err := c.Next(&got); err != io.EOF {
		t.Errorf("after the last block: %v", err)
	}
	for _, cut := range []int{0, 1, 10, len(text) / 2, len(text) - 1} {
		c, err := OpenContainer(io.NopCloser(bytes.NewReader(text[:cut])), "list")
		for err == nil {
			err = c.Next(&got)
		}
		if err == io.EOF || !strings.Contains(err.Error(), "list") {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
}

// TestBadLists: each error names the block or the account and what is wrong.
func TestBadLists(t *testing.T) {
	header := func(number, hash, parent string) []byte {
		return []byte(`{"result":{"number":"` + number + `","hash":"0x` + hash +
			`","parentHash":"0x` + parent +
			`","blockAccessListHash":"0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"}}`)
	}
	empty := []byte("0xc0")
	for what, of := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"nothing": {map[string][]byte{"x": nil}, "no file is called NUMBER.rlp"},
		"reorganised": {map[string][]byte{"7.rlp": empty, "7.block.json": header("0x7", "aa", "bb"),
			"8.rlp": empty, "8.block.json": header("0x8", "cc", "dd")},
			"reorganised"},
		"another block": {map[string][]byte{"7.rlp": empty, "7.block.json": header("0x8", "aa", "bb")}, "not the header of block 7"},
		"another list":  {map[string][]byte{"7.rlp": []byte("0xc180"), "7.block.json": header("0x7", "aa", "bb")}, "7.rlp: not a block access list"},
		"a hash of another": {map[string][]byte{"7.rlp": append([]byte{0xda, 0xd9, 0x94}, append(make([]byte, 20), 0xc0, 0xc0, 0xc0, 0xc0)...),
			"7.block.json": header("0x7", "aa", "bb")},
			"7.rlp: not a block access list of EIP-7928"},
		"two forms":          {map[string][]byte{"7.rlp": empty, "7.json": []byte(`{}`)}, "block 7 has a block access list too"},
		"an error of a node": {map[string][]byte{"7.json": []byte(`{"error":{"message":"missing trie node"}}`)}, "missing trie node"},
		"cut":                {map[string][]byte{"7.json": []byte(`[{"result":{`)}, "7.json: the JSON ends early"},
		"no state diff":      {map[string][]byte{"7.json": []byte(`{"result":[{"stateDiff":null}]}`)}, `ask for trace_replayBlockTransactions`},
		"a nonce": {map[string][]byte{"7.json": []byte(`{"0x0000000000000000000000000000000000000001":{"nonce":"0x10000000000000000"}}`)},
			"account 0x0000000000000000000000000000000000000001: a nonce"},
	} {
		fsys := fstest.MapFS{}
		for name, text := range of.files {
			fsys[name] = &fstest.MapFile{Data: text}
		}
		f, err := OpenFolder(fsys, ".")
		var b Block
		for err == nil {
			err = f.Next(&b)
		}
		if err == io.EOF || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: %v, want %q", what, err, of.want)
		}
	}
}

// TestStateDiffs of the form of OpenEthereum, as Erigon, Nethermind and Reth return them.
func TestStateDiffs(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"result":[{"output":"0x","trace":null,"transactionHash":"0x01","stateDiff":{
		"0x00000000000000000000000000000000000000aa":{"balance":{"*":{"from":"0x10","to":"0xf"}},"code":"=","nonce":{"*":{"from":"0x1","to":"0x2"}},
			"storage":{"0x0000000000000000000000000000000000000000000000000000000000000001":{"*":{"from":"0x00","to":"0x2a"}}}},
		"0x00000000000000000000000000000000000000bb":{"balance":{"+":"0x5"},"code":{"+":"0x6001"},"nonce":{"+":"0x1"},"storage":{}},
		"0x00000000000000000000000000000000000000cc":{"balance":{"-":"0x5"},"code":{"-":"0x"},"nonce":{"-":"0x0"},"storage":{}}}}]}`
	var b Block
	if err := DecodeTraces(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := NewJoiner().Join(&b); err != nil {
		t.Fatal(err)
	}
	if len(b.Accesses) != 5 || len(b.After) != 3 || len(b.Before) != 3 { // three accounts, a slot, a code
		t.Fatalf("%d accesses, %+v", len(b.Accesses), b.After)
	}
	if v := b.After[0]; *v.Nonce != 2 || *v.Balance != uintWord(15) || v.Code != nil || v.Slots[0].Value != uintWord(42) {
		t.Errorf("a change: %+v", v)
	}
	if v := b.After[1]; v.Absent || *v.Nonce != 1 || *v.Code == emptyCode || !b.Before[1].Absent {
		t.Errorf("a birth: %+v", v)
	}
	if v := b.After[2]; !v.Absent || b.Before[2].Absent {
		t.Errorf("a death: %+v", v)
	}
}

func FuzzDecodeBAL(f *testing.F) {
	f.Add([]byte{0xc0})
	f.Add(append(append([]byte{0xdb, 0xda, 0x94}, make([]byte, 20)...), 0xc0, 0xc0, 0xc0, 0xc0, 0xc0))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Block
		if _, err := DecodeBAL(&b, text); err == nil && len(b.Accesses) > len(text) {
			t.Errorf("%d accesses of %d bytes", len(b.Accesses), len(text))
		}
	})
}

func FuzzDecodeTraces(f *testing.F) {
	f.Add([]byte(`{"pre":{},"post":{}}`))
	f.Add([]byte(`[{"stateDiff":{"0x00000000000000000000000000000000000000aa":{"balance":{"+":"0x5"}}}}]`))
	f.Add([]byte(`{"result":{"0x00000000000000000000000000000000000000aa":{"balance":"7","storage":{"0x1":"0x2"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Block
		if DecodeTraces(&b, text) == nil && NewJoiner().Join(&b) == nil {
			if _, err := NewPlayer(Info{}).Changes(&Block{}); err != nil {
				t.Error(err)
			}
		}
		if values, err := Genesis(text); err == nil && len(values) > len(text) {
			t.Errorf("%d accounts of %d bytes", len(values), len(text))
		}
	})
}

func FuzzOpenContainer(f *testing.F) {
	f.Add(pack(f, small()))
	f.Add([]byte("no list"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := OpenContainer(io.NopCloser(bytes.NewReader(text)), "list")
		var b Block
		for err == nil {
			err = c.Next(&b)
		}
	})
}
