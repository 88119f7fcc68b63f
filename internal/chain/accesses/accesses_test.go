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

// TestContainerKeepsEverything: what comes out is what went in, and a cut file is an error that
// says so.
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

		if got.Number != want.Number || len(got.Accesses) != len(want.Accesses) ||
			len(got.Before) != len(want.Before) || len(got.After) != len(want.After) {
			t.Fatalf("block %d: %d accesses for %d", n, len(got.Accesses), len(want.Accesses))
		}

		for i := range want.Accesses {
			if got.Accesses[i] != want.Accesses[i] {
				t.Fatalf("block %d, access %d: %+v for %+v", n, i, got.Accesses[i],
					want.Accesses[i])
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
			`","blockAccessListHash":"0x` +
			`1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347"}}`)
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
		"another block": {map[string][]byte{
			"7.rlp":        empty,
			"7.block.json": header("0x8", "aa", "bb"),
		}, "not the header of block 7"},
		"another list": {map[string][]byte{
			"7.rlp":        []byte("0xc180"),
			"7.block.json": header("0x7", "aa", "bb"),
		}, "7.rlp: block 7: not a block access list"},
		"a hash of another": {map[string][]byte{
			"7.rlp": append([]byte{0xda, 0xd9, 0x94},
				append(make([]byte, 20), 0xc0, 0xc0, 0xc0, 0xc0)...),
			"7.block.json": header("0x7", "aa", "bb"),
		},
			"7.rlp: block 7: not a block access list of EIP-7928"},
		"two forms": {map[string][]byte{"7.rlp": empty, "7.json": []byte(`{}`)},
			"block 7 has a block access list too"},
		"an error of a node": {map[string][]byte{"7.json": []byte(
			`{"error":{"message":"missing trie node"}}`,
		)}, "missing trie node"},
		"cut": {map[string][]byte{"7.json": []byte(`[{"result":{`)},
			"7.json: block 7: cut short: the JSON ends early"},
		"an error behind a result": {map[string][]byte{"7.json": []byte(
			`{"result":[{"result":{"pre":{},"post":{}}}],"error":{"message":"execution aborted"}}`,
		)},
			"execution aborted"},
		"no block": {map[string][]byte{"7.json": []byte(
			`{"jsonrpc":"2.0","id":1,"result":null}`,
		)}, "7.json: block 7: the node answered null"},
		"half a line": {map[string][]byte{"7.json": []byte(
			"{\"pre\":{},\"post\":{}}\n{\"pre\":{",
		)}, "ends early"},
		"a list as JSON": {map[string][]byte{"7.rlp": []byte(`{"result":[{"address":"0xaa"}]}`)},
			"import the block's prestateTracer JSON"},
		"no list": {map[string][]byte{"7.rlp": []byte(`{"result":null}`)}, "answered null"},
		"no state diff": {map[string][]byte{"7.json": []byte(`{"result":[{"stateDiff":null}]}`)},
			`ask for trace_replayBlockTransactions`},
		"a nonce": {map[string][]byte{"7.json": []byte(
			`{"0x0000000000000000000000000000000000000001":{"nonce":"0x10000000000000000"}}`,
		)},
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

// TestListInAnEnvelope: a list is read as bytes, as 0x-hex, as a node's answer with that, and as a
// member of an object.
func TestListInAnEnvelope(t *testing.T) {
	for _, text := range []string{"\xc0", "0xc0\n", `"0xc0"`,
		`{"jsonrpc":"2.0","id":1,"result":"0xc0"}`,
		`{"blockNumber":"0x7","blockAccessList":"0xc0","blockAccessListHash":"0xaa"}`,
		`{"result":{"blockAccessList":"0xc0"}}`} {
		f, err := OpenFolder(fstest.MapFS{"7.rlp": {Data: []byte(text)}}, ".")
		if err != nil {
			t.Fatal(err)
		}

		var b Block
		if err := f.Next(&b); err != nil || b.Number != 7 || len(b.Accesses) != 0 {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestStateDiffs of the form of OpenEthereum, as Erigon, Nethermind and Reth return them.
func TestStateDiffs(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"result":[{
		"output":"0x","trace":null,"transactionHash":"0x01","stateDiff":{
		"0x00000000000000000000000000000000000000aa":{
			"balance":{"*":{"from":"0x10","to":"0xf"}},"code":"=",
			"nonce":{"*":{"from":"0x1","to":"0x2"}},
			"storage":{"0x0000000000000000000000000000000000000000000000000000000000000001":
				{"*":{"from":"0x00","to":"0x2a"}}}},
		"0x00000000000000000000000000000000000000bb":{
			"balance":{"+":"0x5"},"code":{"+":"0x6001"},"nonce":{"+":"0x1"},"storage":{}},
		"0x00000000000000000000000000000000000000cc":{
			"balance":{"-":"0x5"},"code":{"-":"0x"},"nonce":{"-":"0x0"},"storage":{}}}}]}`

	var b Block
	if _, err := DecodeTraces(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}

	if err := NewJoiner().Join(&b); err != nil {
		t.Fatal(err)
	}

	// three accounts, a slot, a code
	if len(b.Accesses) != 5 || len(b.After) != 3 || len(b.Before) != 3 {
		t.Fatalf("%d accesses, %+v", len(b.Accesses), b.After)
	}

	if v := b.After[0]; *v.Nonce != 2 || *v.Balance != uintWord(15) || v.Code != nil ||
		v.Slots[0].Value != uintWord(42) {
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
	f.Add(append(append([]byte{0xdb, 0xda, 0x94}, make([]byte, 20)...), 0xc0, 0xc0, 0xc0, 0xc0,
		0xc0))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Block
		if _, err := DecodeBAL(&b, text); err == nil && len(b.Accesses) > len(text) {
			t.Errorf("%d accesses of %d bytes", len(b.Accesses), len(text))
		}
	})
}

func FuzzDecodeTraces(f *testing.F) {
	f.Add([]byte(`{"pre":{},"post":{}}`))
	f.Add([]byte(
		`[{"stateDiff":{"0x00000000000000000000000000000000000000aa":{"balance":{"+":"0x5"}}}}]`,
	))
	f.Add([]byte(`{"result":{"0x00000000000000000000000000000000000000aa":` +
		`{"balance":"7","storage":{"0x1":"0x2"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Block
		if _, err := DecodeTraces(&b, text); err == nil && NewJoiner().Join(&b) == nil {
			if _, err := NewStateReplayer(Info{}).Changes(&Block{}); err != nil {
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

// TestBadListsSayWhatToDo: a list that is cut, hostile, of another fork, of another branch, or of a
// state that the database does not have: one sentence with the block, the account where there is
// one, and the way out.
func TestBadListsSayWhatToDo(t *testing.T) {
	address := bytes.Repeat([]byte{0xab}, 20)
	const account = "account 0xabababababababababababababababababababab"
	item := func(payload ...[]byte) []byte { // a list of RLP
		text := bytes.Join(payload, nil)
		if len(text) < 56 {
			return append([]byte{0xc0 + byte(len(text))}, text...)
		}
		return append([]byte{0xf9, byte(len(text) >> 8), byte(len(text))}, text...)
	}

	key, none := append([]byte{0x94}, address...), []byte{0xc0}
	good := item(item(key, none, item([]byte{1}, []byte{2}), none, none, none))
	const again = "fetch the list again from a node that has this fork, or import the block's " +
		"prestateTracer JSON instead"
	header := func(number, hash, parent string) []byte {
		return []byte(`{"number":"` + number + `","hash":"0x` + hash + `","parentHash":"0x` +
			parent + `"}`)
	}

	prestate := `{"0xabababababababababababababababababababab":{"balance":"0x1","storage":{`
	for what, of := range map[string]struct {
		files fstest.MapFS
		want  []string
	}{
		"a list that is cut": {
			fstest.MapFS{"7.rlp": {Data: good[:len(good)-3]}},
			[]string{"7.rlp: block 7: ", account, again},
		},
		"a hostile list": {
			fstest.MapFS{"7.rlp": {Data: item(item(key, none, []byte{0xfb, 0xff, 0xff, 0xff, 0xff},
				none, none, none))}},
			[]string{"block 7: ", account, "a length of 4294967295 bytes where", again},
		},
		"a list of a fork with a field more": {
			fstest.MapFS{"7.rlp": {Data: item(item(key, none, none, none, none, none, none))}},
			[]string{"block 7: ", "as the Amsterdam fork has it", account, "1 bytes too many",
				again},
		},
		"a list of a fork with a field less": {
			fstest.MapFS{"7.rlp": {Data: item(item(key, none, none, none, none))}},
			[]string{"block 7: ", account, "it ends early", again},
		},
		"a trace that is cut": {fstest.MapFS{"7.json": {Data: []byte(prestate)}},
			[]string{"7.json: block 7: ", account, "the JSON ends early", "fetch the file again"}},
		"a hostile number": {
			fstest.MapFS{"7.json": {Data: []byte(prestate[:len(prestate)-len(`1","storage":{`)] +
				strings.Repeat("1", 200) + `"}}`)}},
			[]string{"7.json: block 7: ", account, "not a number of 256 bits",
				"fetch the file again"},
		},
		"a reorganised block": {
			fstest.MapFS{"7.rlp": {Data: good}, "7.block.json": {Data: header("0x7", "aa", "99")},
				"8.rlp": {Data: good}, "8.block.json": {Data: header("0x8", "cc", "bb")}},
			[]string{"block 8 has the parent 0x", "00bb, and block 7 of this list is 0x",
				"00aa: the chain was reorganised between them; fetch both again"},
		},
	} {
		f, err := OpenFolder(of.files, ".")
		var b Block
		for err == nil {
			err = f.Next(&b)
		}

		for _, words := range of.want {
			if err == nil || !strings.Contains(err.Error(), words) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", what, err, words)
			}
		}
	}

	for scheme, of := range map[string]struct {
		store map[string]string
		want  []string
	}{
		FlatKeys: {nil,
			[]string{"block 7: 0 of its 1 accounts are", account + " is not", "under flat keys",
				"(--scheme path or hash)"}},
		PathKeys: {nil,
			[]string{"block 7: ", account, "in the database under path keys",
				"(--scheme flat or hash)"}},
		HashKeys: {nil, []string{"no newest block", "--scheme flat"}},
		"flat, while the snapshot is made": {
			map[string]string{"SnapshotGenerator": string(item([]byte{0x80, 0x80, 0x80, 0x80, 0x80,
				0x80}))},
			[]string{"snapshot is not complete", "before the first account",
				"--scheme path or hash"},
		},
		// The root of the trie is there, what is below it is not.
		"path, pruned": {
			map[string]string{"A": string(item(bytes.Repeat(append([]byte{0xa0},
				bytes.Repeat([]byte{1}, 32)...), 16), []byte{0x80}))},
			[]string{"block 7: ", account, "the node under key",
				"let the node finish its synchronisation"},
		},
	} {
		f, err := OpenFolder(fstest.MapFS{"7.rlp": {Data: good}}, ".")
		if err != nil {
			t.Fatal(err)
		}

		get := func(key []byte) ([]byte, bool, error) {
			value, found := of.store[string(key)]
			return []byte(value), found, nil
		}

		name, _, _ := strings.Cut(scheme, ",")
		err = Keys(name, get, f, func([]byte, bool) error { return nil })
		for _, words := range of.want {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v, want %q", scheme, err, words)
			}
		}
	}
}
