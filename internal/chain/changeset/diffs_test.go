package changeset

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// What go-ethereum's prestateTracer returned for a contract's creation and its
// selfdestruct in one transaction, and for an account that takes its delegation
// back (EIP-7702); the addresses and amounts are those of its own test vectors.
const (
	destructed = `{"pre":{"0x082d4cdf07f386ffa9258f52a5c49db4ac321ec6":
{"balance":"0xc820f93200f4000","nonce":94},
"0x332b656504f4eabb44c8617a42af37461a34e9dc":{"balance":"0x11faea4f35e5af80000","storage":{
"0x0000000000000000000000000000000000000000000000000000000000000000":
"0x0000000000000000000000000000000000000000000000000000000000000000"}}},
"post":{"0x082d4cdf07f386ffa9258f52a5c49db4ac321ec6":{"balance":"0xc7d4d88af8b4c00","nonce":95}}}`
	undelegated = `{"post":{"0xe85a1c0e9d5b1c9b417c6c1b34c22cd77f623f50":{"code":"0x",
"codeHash":"0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470","nonce":2}},
"pre":{"0xe85a1c0e9d5b1c9b417c6c1b34c22cd77f623f50":{"balance":"0x5",
"code":"0xef0100d313d93607c016a85e63e557a11ca5ab0b53ad83",
"codeHash":"0x9eea9f41ed2b35e6234d1e1c14e88c1136f85d56ed1f32a7efc0096d998dad3d","nonce":1}}}`
	// A slot set, a slot cleared, code that appears: the delegation above, so its
	// hash is known.
	stored = `{"pre":{"0xe85a1c0e9d5b1c9b417c6c1b34c22cd77f623f50":{"balance":"0x5","nonce":1,
"storage":{"0x02":"0x0000000000000000000000000000000000000000000000000000000000000009"}}},
"post":{"0xe85a1c0e9d5b1c9b417c6c1b34c22cd77f623f50":{
"code":"0xef0100d313d93607c016a85e63e557a11ca5ab0b53ad83","storage":{
"0x0000000000000000000000000000000000000000000000000000000000000001":
"0x00000000000000000000000000000000000000000000000000000000000000aa"}}}}`

	noCode = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
	code   = "ef0100d313d93607c016a85e63e557a11ca5ab0b53ad83"
	hash   = "9eea9f41ed2b35e6234d1e1c14e88c1136f85d56ed1f32a7efc0096d998dad3d"
	holder = "e85a1c0e9d5b1c9b417c6c1b34c22cd77f623f50"
)

func hexWord(tail string) string { return strings.Repeat("0", 64-len(tail)) + tail }

func TestDiffs(t *testing.T) {
	s, err := Open(fstest.MapFS{
		"0000017.json": {Data: []byte(`[{"txHash":"0x01","result":` + destructed +
			`},{"txHash":"0x02","result":` + stored + `},{"txHash":"0x03","result":` +
			undelegated + `}]`)},
		"20.json.gz": {Data: gzipped(t,
			[]byte(`{"jsonrpc":"2.0","id":1,"result":[{"result":`+undelegated+`}]}`))},
		"18.json":        {Data: []byte(`{"jsonrpc":"2.0","id":1,"result":[]}`)},
		"100.json":       {Data: []byte(destructed)},
		"provenance.txt": {Data: []byte("a node")},
	}, ".", "")
	if err != nil {
		t.Fatal(err)
	}

	after := []string{"account: set " + holder + " = 0000000000000002" + hexWord("5") + noCode}
	destruction := []string{
		"account: set 082d4cdf07f386ffa9258f52a5c49db4ac321ec6 = 000000000000005f" +
			hexWord("c7d4d88af8b4c00") + noCode,
		"account: delete 332b656504f4eabb44c8617a42af37461a34e9dc",
		"storage: delete 332b656504f4eabb44c8617a42af37461a34e9dc" + hexWord(""),
	}

	storing := []string{
		"account: set " + holder + " = 0000000000000001" + hexWord("5") + hash,
		"storage: set " + holder + hexWord("1") + " = " + hexWord("aa"),
		"storage: delete " + holder + hexWord("2"),
		"code: set " + hash + " = " + code,
	}

	want := []plain{
		{17, append(append(append([]string{}, destruction...), storing...), after...), ""},
		{18, nil, ""}, {20, after, ""}, {100, destruction, ""},
	}

	for _, batchBytes := range []int{1, 0} {
		if err := s.(Seeker).SeekVersion(0); err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, read(t, s, batchBytes)); diff != "" {
			t.Error(diff)
		}
	}

	if err := s.(Seeker).SeekVersion(19); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(want[2:], read(t, s, 0)); diff != "" {
		t.Error(diff)
	}

	if i := s.Info(); i.Format != FormatDiffs || i.First != 17 || i.Last != 100 ||
		i.Order != OrderUnknown {
		t.Errorf("%+v", i)
	}
}

func TestDamagedDiffs(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"cut", destructed[:300], "cut short"},
		{"cut between transactions", `[{"result":` + destructed + `}`, "cut short"},
		{"a node's error",
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"missing trie node"}}`,
			"missing trie node"},
		{"an untraced transaction", `[{"txHash":"0x1","error":"execution timeout"}]`,
			"execution timeout"},
		{"another tracer", `[{"txHash":"0x1","result":{"type":"CALL"}}]`, "no state diff"},
		{"a number", `7`, "no state diff"},
		{"an error behind a result", `{"jsonrpc":"2.0","result":[{"result":` + destructed +
			`}],"error":{"code":-32000,"message":"execution aborted"}}`,
			"execution aborted"},
		{"no block", `{"jsonrpc":"2.0","id":1,"result":null}`, "answered null"},
		{"an untraced transaction among others", `[{"result":` + destructed + `},{"result":null}]`,
			"transaction 1: the node answered null"},
		{"half a line", destructed + "\n" + destructed[:200], "cut short"},
		{"a block and more", `[{"result":` + destructed + `}]` + destructed,
			"a second value behind a block"},
		{"a field twice", `{"pre":{},"post":{},"post":{}}`, `"post" is there twice`},
		{"a short address", `{"pre":{"0x12":{}},"post":{}}`, "not 0x-hex of 20 bytes"},
		{"a long balance",
			`{"pre":{},"post":{"0x332b656504f4eabb44c8617a42af37461a34e9dc":{"balance":"0x1` +
				strings.Repeat("0", 64) + `"}}}`,
			"not a number of 256 bits"},
		{"no hex",
			`{"pre":{},"post":{"0x332b656504f4eabb44c8617a42af37461a34e9dc":{"code":"0xzz"}}}`,
			"not 0x-hex"},
	} {
		s, err := Open(fstest.MapFS{"17.json": {Data: []byte(c.text)}}, "17.json", "")
		if err == nil {
			_, err = readUntil(s, 0)
		}

		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "17.json") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
