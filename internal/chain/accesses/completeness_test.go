package accesses

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/internal/base/mutilate"
	"github.com/statelab/statelab/internal/chain/mpt"
)

// told reads a list to its end and returns what its user sees.
func told(s Source) mutilate.Outcome {
	facts, err := FactsOf("L", s, func(*Block) error { return nil })
	if err != nil {
		return mutilate.Outcome{Err: err}
	}

	if doubtful, is := s.(interface{ Doubts() []string }); is {
		facts.NotChecked = append(facts.NotChecked, doubtful.Doubts()...)
	}

	var texts []string
	for _, w := range facts.Document().Warnings {
		texts = append(texts, w.Text)
	}

	return mutilate.Outcome{Told: strings.Join(texts, "; ")}
}

func ofFolder(files fstest.MapFS) mutilate.Outcome {
	f, err := OpenFolder(files, ".")
	if err != nil {
		return mutilate.Outcome{Err: err}
	}
	return told(f)
}

// traceOf is a transaction that reads an account, as debug_traceBlockByNumber answers it.
func traceOf(tx int) string {
	return fmt.Sprintf(`{"txHash":"0x%02x","result":{"0x%040x":{"balance":"0x1"}}}`, tx+1, tx+1)
}

func block(transactions []string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("[" + strings.Join(transactions, ",") + "]")}
}

// mergedObjects is one JSON object with the fields of two.
func mergedObjects(a, b string) string { return strings.TrimSuffix(a, "}") + "," + b[1:] }

func TestMutilatedTraces(t *testing.T) {
	var transactions, hashes []string
	for i := range 20 {
		transactions = append(transactions, traceOf(i))
		hashes = append(hashes, fmt.Sprintf(`"0x%064x"`, i+1))
	}

	const notSeen = "not checked: 1 block of 1 have no header (NUMBER.block.json, the answer of " +
		"eth_getBlockByNumber): transactions that are missing, or are not in the order"
	mutilate.Demand(t, transactions, 10, mergedObjects,
		func(transactions []string) mutilate.Outcome {
			return ofFolder(fstest.MapFS{"7.json": block(transactions)})
		}, map[string]string{
			mutilate.Dropped:   notSeen,
			mutilate.Doubled:   "refused: is there twice, also as number 10 of the block",
			mutilate.Merged:    `refused: the field "txHash" is there twice`,
			mutilate.Reordered: notSeen,
			mutilate.Sampled:   notSeen,
		})

	// With the block's header everything is seen.
	header := &fstest.MapFile{Data: []byte(`{"result":{"number":"0x7","transactions":[` +
		strings.Join(hashes, ",") + `]}}`)}
	mutilate.Demand(t, transactions, 10, mergedObjects,
		func(transactions []string) mutilate.Outcome {
			return ofFolder(fstest.MapFS{"7.json": block(transactions), "7.block.json": header})
		}, map[string]string{
			mutilate.Dropped:   "refused: 7.json: block 7: transaction 10 is 0x",
			mutilate.Doubled:   "refused: is there twice, also as number 10 of the block",
			mutilate.Merged:    `refused: the field "txHash" is there twice`,
			mutilate.Reordered: "refused: transactions are missing or have changed places",
			mutilate.Sampled:   "refused: transaction 1 is 0x",
		})

	// Traces that do not name their transactions are counted.
	plain := func(n int) *fstest.MapFile {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"0x%040x":{"balance":"0x1"}}`, i+1))
		}
		return block(all)
	}

	whole := ofFolder(fstest.MapFS{"7.json": plain(20), "7.block.json": header})
	short := ofFolder(fstest.MapFS{"7.json": plain(19), "7.block.json": header})
	if whole.Err != nil || whole.Told != "" || short.Err == nil ||
		!strings.Contains(short.Err.Error(), "19 transactions, and the block's header lists 20") {
		t.Errorf("traces without hashes: %v, of a part of them: %v", whole, short)
	}

	bare := &fstest.MapFile{Data: []byte(`{"result":{"number":"0x7"}}`)}
	if got := ofFolder(fstest.MapFS{"7.json": plain(20), "7.block.json": bare}); got.Err == nil ||
		!strings.Contains(got.Err.Error(), "7.block.json has no list of transactions") {
		t.Errorf("a header without transactions: %v", got)
	}
}

// The answers of a JSON-RPC batch, one for each transaction, have ids.
func TestMutilatedBatches(t *testing.T) {
	var answers []string
	for i := range 20 {
		answers = append(answers, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%d,"result":{"0x%040x":{"balance":"0x1"}}}`, 7+i, i+1))
	}

	mutilate.Demand(t, answers, 10, mergedObjects, func(answers []string) mutilate.Outcome {
		return ofFolder(fstest.MapFS{"7.json": block(answers)})
	}, map[string]string{
		mutilate.Dropped:   "refused: the ids of a JSON-RPC batch go from 16 to 18",
		mutilate.Doubled:   "refused: not in the order of their ids (17 comes after 17)",
		mutilate.Merged:    "refused: the ids of a JSON-RPC batch go from 16 to 18",
		mutilate.Reordered: "refused: not in the order of their ids",
		mutilate.Sampled:   "refused: the ids of a JSON-RPC batch go from 7 to 17",
	})
}

// Blocks are files: their names tell which are missing.
func TestMutilatedFoldersOfBlocks(t *testing.T) {
	type named struct {
		name string
		file *fstest.MapFile
	}

	var blocks []named
	for i := range 20 {
		blocks = append(blocks, named{fmt.Sprintf("%d.json", 100+i), block([]string{traceOf(i)})})
	}

	merged := func(a, b named) named {
		return named{a.name, &fstest.MapFile{Data: concatenated(a.file.Data, b.file.Data)}}
	}

	mutilate.Demand(t, blocks, 10, merged, func(blocks []named) mutilate.Outcome {
		// Files have no order: where they should have changed places, they have changed names.
		changed := len(blocks) == 20 && blocks[10].name == "111.json"
		files := fstest.MapFS{}
		for i, b := range blocks {
			name := b.name
			switch {
			case changed:
				name = fmt.Sprintf("%d.json", 100+i)
			case files[name] != nil:
				name += ".gz"
			}

			files[name] = b.file
		}

		return ofFolder(files)
	}, map[string]string{
		mutilate.Dropped:   "1 block missing between the first and the last",
		mutilate.Doubled:   "refused: 110.json and 110.json.gz are the same block",
		mutilate.Merged:    "refused: 110.json: block 110: a second value behind a block",
		mutilate.Reordered: "20 blocks of 20 have no header",
		mutilate.Sampled:   "9 blocks missing between the first and the last",
	})
}

func concatenated(a, b []byte) []byte { return append(bytes.Clone(a), b...) }

// Accounts are the records of a block access list, whose hash is in the header of its block.
func TestMutilatedBALs(t *testing.T) {
	var accounts []string
	for i := range 20 {
		account := append([]byte{0x94}, make([]byte, 19)...)
		account = append(account, byte(i+1))
		account = append(account, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0)
		accounts = append(accounts, string(rlpList(account)))
	}

	whole := rlpList([]byte(strings.Join(accounts, "")))
	hash := mpt.NewHasher().Sum(whole)
	header := &fstest.MapFile{Data: fmt.Appendf(nil,
		`{"number":"0x7","blockAccessListHash":"0x%x"}`, hash)}
	for _, with := range []bool{false, true} {
		imports := func(accounts []string) mutilate.Outcome {
			files := fstest.MapFS{"7.rlp": {Data: []byte("0x" + hex.EncodeToString(
				rlpList([]byte(strings.Join(accounts, "")))))}}
			if with {
				files["7.block.json"] = header
			}
			return ofFolder(files)
		}

		unseen := "refused: they are of different blocks"
		if !with {
			unseen = "whether a list is whole and of its block cannot be seen"
		}

		merged := func(a, b string) string { return string(rlpList([]byte(a[1:] + b[1:]))) }
		mutilate.Demand(t, accounts, 10, merged, imports, map[string]string{
			mutilate.Dropped:   unseen,
			mutilate.Doubled:   "refused: account 0x000000000000000000000000000000000000000b comes",
			mutilate.Merged:    "refused: 7.rlp: block 7: not a block access list",
			mutilate.Reordered: "refused: comes after",
			mutilate.Sampled:   unseen,
		})
	}
}

// rlpList is a list of RLP with a payload.
func rlpList(payload []byte) []byte {
	switch n := len(payload); {
	case n < 56:
		return append([]byte{0xc0 + byte(n)}, payload...)
	case n < 256:
		return append([]byte{0xf8, byte(n)}, payload...)
	default:
		return append([]byte{0xf9, byte(n >> 8), byte(n)}, payload...)
	}
}

// The records of a list of statelab's own are lines.
func TestMutilatedLists(t *testing.T) {
	var list bytes.Buffer
	w, err := NewWriter(&list, Info{Form: "f"})
	if err != nil {
		t.Fatal(err)
	}

	for i := range uint64(20) {
		if err := w.Add(&Block{Number: 100 + i, Accesses: []Access{{Kind: Account}}}); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	unpack, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}

	packer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}

	whole, err := unpack.DecodeAll(list.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}

	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	header, last := lines[0], lines[len(lines)-1]+"\n"
	imports := func(last string) func(lines []string) mutilate.Outcome {
		return func(lines []string) mutilate.Outcome {
			text := packer.EncodeAll([]byte(header+strings.Join(lines, "")+last), nil)
			c, err := OpenContainer(io.NopCloser(bytes.NewReader(text)), "list")
			if err != nil {
				return mutilate.Outcome{Err: err}
			}
			return told(c)
		}
	}

	merged := func(a, b string) string { return strings.TrimSuffix(a, "\n") + b }
	lines = lines[1 : len(lines)-1]
	mutilate.Demand(t, lines, 10, merged, imports(last), map[string]string{
		mutilate.Dropped:   "refused: its end counts 20 blocks",
		mutilate.Doubled:   "refused: blocks must ascend",
		mutilate.Merged:    "refused: something follows the block in its line",
		mutilate.Reordered: "refused: blocks must ascend",
		mutilate.Sampled:   "refused: its end counts 20 blocks",
	})

	// A list of an earlier version has no end: it is read, and its user is told.
	if got := imports("")(lines); got.Err != nil ||
		!strings.Contains(got.Told, "does not count its blocks") {
		t.Error(got)
	}

	// Gaps are told where the counts are right.
	c, err := OpenContainer(io.NopCloser(bytes.NewReader(packer.EncodeAll([]byte(header+
		strings.Join(lines[:5], "")+strings.Join(lines[7:], "")), nil))), "list")
	if err != nil {
		t.Fatal(err)
	}

	verified, err := Verify(c, mpt.NewReference(), func(uint64) error { return nil })
	if text := verified.Text(Info{}); err != nil || !strings.Contains(text, "18 blocks, not "+
		"whole: 2 blocks missing between the first and the last") {
		t.Errorf("%q, %v", text, err)
	}
}

// An account that a genesis file has twice is refused: only one of them would count.
func TestDoubledGenesisAccount(t *testing.T) {
	const account = `"0x00000000000000000000000000000000000000aa":{"balance":"0x1"}`
	if _, err := Genesis([]byte(`{"alloc":{` + account + "," + account + `}}`)); err == nil ||
		!strings.Contains(err.Error(), "is there twice") {
		t.Error(err)
	}
}
