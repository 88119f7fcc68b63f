package ethjson

import (
	"errors"
	"strings"
	"testing"
)

// The answer to a JSON-RPC batch holds a block an answer, or a transaction an answer.
func TestBatches(t *testing.T) {
	const tx = `{"txHash":"0x1","result":{"pre":{},"post":{}}}`
	const other = `{"txHash":"0x2","result":{"pre":{},"post":{}}}`
	answer := func(id, result string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
	}

	for _, test := range []struct {
		name, text   string
		transactions int
		wrong        string // "": nothing
	}{
		{"two blocks", "[" + answer("100", "["+tx+"]") + "," + answer("101", "["+tx+"]") + "]", 0,
			"several blocks"},
		{"two blocks without envelopes", "[[" + tx + "],[" + tx + "]]", 0, "several blocks"},
		{"two blocks, one empty", "[" + answer("1", "[]") + "," + answer("2", "["+tx+"]") + "]", 0,
			"several blocks"},
		{"one block", "[" + answer("100", "["+tx+","+other+"]") + "]", 2, ""},
		{"one block with a transaction twice", "[" + answer("100", "["+tx+","+tx+"]") + "]", 0,
			"there twice, also as number 0"},
		{"two transactions", "[" + answer("7", tx) + "," + answer("8", other) + "]", 2, ""},
		{"two transactions, and one missing", "[" + answer("7", tx) + "," + answer("9", other) +
			"]", 0, "go from 7 to 9"},
		{"two transactions the other way", "[" + answer("8", tx) + "," + answer("7", tx) + "]", 0,
			"order of their ids"},
		{"one transaction twice", "[" + answer("8", tx) + "," + answer("8", tx) + "]", 0,
			"order of their ids"},
	} {
		visited := 0
		found, err := Transactions([]byte(test.text), func(Object) error { visited++; return nil })
		switch {
		case test.wrong == "" && (err != nil || visited != test.transactions || !found.Block ||
			found.Count != visited):
			t.Errorf("%s: %d transactions, %v", test.name, visited, err)
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%s: %v", test.name, err)
		case test.wrong == "several blocks" && !errors.Is(err, ErrBatch):
			t.Errorf("%s: %v is not ErrBatch", test.name, err)
		}
	}
}
