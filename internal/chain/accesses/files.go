package accesses

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/ethjson"
)

// A folder has files named after blocks, each also as .gz:
//
//	genesis.json       the whole state before the first block (a genesis file, or its alloc)
//	NUMBER.rlp         a block access list of EIP-7928: bytes, 0x-hex or a node's answer with it
//	NUMBER.json        traces of what the block reads, or of what it changes
//	NUMBER.diff.json   the traces in diffMode, beside those of what it reads
//	NUMBER.block.json  the answer of eth_getBlockByNumber: hashes to compare the others with
var (
	blockFile = regexp.MustCompile(`^(\d{1,18})\.(rlp|json|diff\.json|block\.json)(\.gz)?$`)
	// ErrNoFiles: the folder has no list.
	ErrNoFiles = errors.New("no file is called NUMBER.rlp or NUMBER.json after a block, or " +
		"*.parquet")
)

// Folder reads a folder of files.
type Folder struct {
	fsys    fs.FS
	info    Info
	numbers []uint64
	files   map[uint64]map[string]string // number -> kind -> path
	genesis string
	at      int
	join    *Joiner
}

// OpenFolder lists a folder, or takes one file of it.
func OpenFolder(fsys fs.FS, name string) (*Folder, error) {
	found, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("open access lists: %w", err)
	}

	dir, names := path.Dir(name), []string{path.Base(name)}
	if found.IsDir() {
		entries, err := fs.ReadDir(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("list access lists: %w", err)
		}

		dir, names = name, nil
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
	}

	f := &Folder{fsys: fsys, files: map[uint64]map[string]string{}, join: NewJoiner()}
	forms := map[string]bool{}
	for _, base := range names {
		full := path.Join(dir, base)
		if base == "genesis.json" || base == "genesis.json.gz" {
			f.genesis = full
			continue
		}

		parts := blockFile.FindStringSubmatch(base)
		if parts == nil {
			continue
		}

		number, err := strconv.ParseUint(parts[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", full, err)
		}

		if f.files[number] == nil {
			f.files[number] = map[string]string{}
		}

		if other := f.files[number][parts[2]]; other != "" {
			return nil, fmt.Errorf("%s and %s are the same block", other, full)
		}

		f.files[number][parts[2]] = full
		forms[parts[2]] = true
	}

	maps.DeleteFunc(f.files, func(_ uint64, kinds map[string]string) bool {
		return len(kinds) == 1 && kinds["block.json"] != ""
	})
	if len(f.files) == 0 {
		return nil, fmt.Errorf("%s: %w", name, ErrNoFiles)
	}

	f.numbers = slices.Sorted(maps.Keys(f.files))
	f.info = Info{Complete: f.genesis != "", Form: "traces of a client"}
	if forms["rlp"] {
		f.info.Form = "block access lists of EIP-7928"
	}

	f.info.NotChecked = f.notChecked(forms["rlp"])
	return f, nil
}

// notChecked says what the folder lacks for a check of its blocks.
func (f *Folder) notChecked(lists bool) (all []string) {
	without := 0
	for _, kinds := range f.files {
		if kinds["block.json"] == "" {
			without++
		}
	}

	if without == 0 {
		return nil
	}

	what := "transactions that are missing, or are not in the order of the block, cannot be seen"
	if lists {
		what = "whether a list is whole and of its block cannot be seen, since the header has " +
			"its hash"
	}

	return []string{fmt.Sprintf("%s of %d have no header (NUMBER.block.json, the answer of "+
		"eth_getBlockByNumber): %s", unit.Plural(without, "block"), len(f.files), what)}
}

// Info implements Source.
func (f *Folder) Info() Info { return f.info }

// Close implements Source.
func (f *Folder) Close() error { return nil }

// Next implements Source.
func (f *Folder) Next(b *Block) error {
	if f.at == len(f.numbers) {
		return io.EOF
	}

	*b = Block{Number: f.numbers[f.at], Accesses: b.Accesses[:0]}
	f.at++
	files := f.files[b.Number]
	if f.at == 1 && f.genesis != "" {
		files["genesis"] = f.genesis
	}

	var header blockHeader
	var hash Word
	for _, kind := range []string{"genesis", "block.json", "rlp", "json", "diff.json"} {
		name := files[kind]
		if name == "" {
			continue
		}

		if files["rlp"] != "" && (kind == "json" || kind == "diff.json") {
			return fmt.Errorf("%s: block %d has a block access list too: keep one of them", name,
				b.Number)
		}

		if err := f.decode(name, b.Number, func(text []byte) (err error) {
			switch kind {
			case "genesis":
				b.Before, err = Genesis(text)
			case "block.json":
				header, err = decodeHeader(b, text)
			case "rlp":
				if text, err = listBytes(text); err == nil {
					hash, err = DecodeBAL(b, text)
				}
			default:
				err = decodeBlockTraces(b, text, &header)
			}

			return err
		}); err != nil {
			return err
		}

		if kind == "rlp" && header.balHash != nil && hash != *header.balHash {
			return fmt.Errorf("%s: block %d: the list's hash is %v, the block's header says %v: "+
				"they are of different blocks, fetch both again", name, b.Number,
				hash, *header.balHash)
		}
	}

	return f.join.Join(b)
}

// decode reads a file and says of an error which block it is, and what to do.
func (f *Folder) decode(name string, block uint64, decode func([]byte) error) error {
	text, err := f.read(name)
	if err == nil {
		err = decode(text)
	}

	if err == nil {
		return nil
	}

	remedy := "fetch the file again"
	switch {
	case errors.Is(err, ethjson.ErrNull): // says itself what to do
		return fmt.Errorf("%s: block %d: %w", name, block, err)
	case errors.Is(err, errJSONList):
		remedy = "encode it as EIP-7928 says, or import the block's prestateTracer JSON as " +
			"NUMBER.json instead"
	case errors.Is(err, errNotBAL):
		remedy = "fetch the list again from a node that has this fork, or import the block's " +
			"prestateTracer JSON instead"
	}

	return fmt.Errorf("%s: block %d: %w: %s", name, block, err, remedy)
}

// errJSONList is of a list as objects. No node answers with its RLP from them.
var errJSONList = errors.New("a block access list as JSON objects, of which only the RLP is " +
	"read: NUMBER.rlp must be its bytes, 0x-hex, " +
	"or an object whose member blockAccessList is 0x-hex")

// onlyHex is the list in an object around it, such as {"blockNumber":7,"blockAccessList":"0x..."};
// text itself if there is none, or more than one.
func onlyHex(text []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}

	var lists []json.RawMessage
	for name, value := range members {
		if strings.HasSuffix(strings.ToLower(name), "list") &&
			bytes.HasPrefix(value, []byte(`"0x`)) {
			lists = append(lists, value)
		}
	}

	if len(lists) != 1 {
		return text
	}

	return lists[0]
}

// listBytes are the bytes of a block access list in any form that a file has.
func listBytes(text []byte) (list []byte, err error) {
	trimmed := bytes.TrimSpace(text)
	if bytes.HasPrefix(trimmed, []byte("{")) {
		if trimmed, err = ethjson.Result(trimmed); err != nil {
			return nil, err
		}
		trimmed = onlyHex(trimmed)
	}

	switch {
	case bytes.HasPrefix(trimmed, []byte("{")), bytes.HasPrefix(trimmed, []byte("[")):
		return nil, errJSONList
	case bytes.HasPrefix(trimmed, []byte(`"`)):
		var bytes ethjson.Bytes
		err = ethjson.Strict(trimmed, &bytes)
		return bytes, err
	case bytes.HasPrefix(trimmed, []byte("0x")):
		return hex.AppendDecode(nil, trimmed[2:])
	}

	return text, nil
}

func (f *Folder) read(name string) ([]byte, error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, err
	}

	defer file.Close() // it is only read
	var in io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}

	text, err := io.ReadAll(io.LimitReader(in, MaxBlockBytes+1))
	if err == nil && len(text) > MaxBlockBytes {
		err = fmt.Errorf("more than %d bytes", MaxBlockBytes)
	}

	return text, err
}

// blockHeader is what a block's header says that other files of the block are compared with.
type blockHeader struct {
	known        bool
	balHash      *Word
	transactions *[]json.RawMessage // hashes, or objects
}

// decodeBlockTraces reads the traces of a block and checks that they are of all its transactions,
// in their order, where its header is known.
func decodeBlockTraces(b *Block, text []byte, header *blockHeader) error {
	found, err := DecodeTraces(b, text)
	switch {
	case err != nil || !header.known:
		return err
	case header.transactions == nil:
		return fmt.Errorf("%d.block.json has no list of transactions, which these are checked "+
			"with: it must be the answer of eth_getBlockByNumber", b.Number)
	}

	return ethjson.CheckTransactions(found, *header.transactions)
}

// decodeHeader takes what eth_getBlockByNumber answers.
func decodeHeader(b *Block, text []byte) (header blockHeader, err error) {
	if text, err = ethjson.Result(text); err != nil {
		return header, err
	}

	var h struct {
		Number              *ethjson.Number
		Hash                *Word
		ParentHash          *Word
		StateRoot           *Word
		BlockAccessListHash *Word
		Transactions        *[]json.RawMessage
	}

	if err := ethjson.Strict(text, &h); err != nil {
		return header, err
	}

	if h.Number == nil || Word(*h.Number) != uintWord(b.Number) {
		return header, fmt.Errorf("it is not the header of block %d", b.Number)
	}

	b.Hash, b.Parent, b.Root = h.Hash, h.ParentHash, h.StateRoot
	return blockHeader{true, h.BlockAccessListHash, h.Transactions}, nil
}
