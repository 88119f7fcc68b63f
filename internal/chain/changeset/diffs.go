package changeset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"
)

// Ethereum state diffs: a file a block, NUMBER.json, block-NUMBER.json or .jsonl, also
// with .gz behind, NUMBER decimal or 0x-hex. It holds what debug_traceBlockByNumber
// returns for the prestateTracer in diffMode: a list of {"txHash", "result": {"pre",
// "post"}}, as it comes or inside the JSON-RPC envelope; or values of one transaction
// each, one behind the other: {"pre", "post"}, or that as a result.
//
// pre holds every account that a transaction changed, as it was; post what became
// different. What is in pre but not in post was deleted, or for a slot set to zero.
// That gives changes of three stores:
//
//	account  address (20)         nonce u64be, balance u256be, hash of the code (72 bytes)
//	storage  address, slot (52)   value (32)
//	code     hash (32)            the code
//
// A deleted account's slots are deleted as far as pre names them. Transactions
// come one after another, so a key may come several times in a version; within a
// transaction JSON has lost the order, and changes are sorted by store and key.

const (
	accountStore = iota
	storageStore
	codeStore

	maxDiffFileBytes = 1 << 30
)

var (
	diffFile      = regexp.MustCompile(`^(?:block[-_])?(\d{1,18}|0x[0-9a-fA-F]{1,15})\.jsonl?(\.gz)?$`)
	errNoDiff     = errors.New(`no state diff: neither a list of {"result": {"pre", "post"}} nor one {"pre", "post"}`)
	errTwoBlocks  = errors.New("a second value behind a block: a file holds one block, or one transaction a line")
	errLargeBlock = fmt.Errorf("more than %d bytes of JSON", maxDiffFileBytes)
)

type diffSource struct {
	fsys    fs.FS
	files   []string
	unknown []string
	numbers []int64
	at      int // the file being read

	in      *stream
	json    *json.Decoder
	list    bool     // the value being read is a list of diffs
	around  int      // objects that the value being read is in
	changes []Change // of the transaction being handed out
	given   int
	done    error
}

func openDiffs(fsys fs.FS, name string) (Source, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("open change set: %w", err)
	}
	s := &diffSource{fsys: fsys, files: []string{name}}
	if info.IsDir() {
		if s.files, s.unknown, err = blockFiles(fsys, name, diffFile); err != nil {
			return nil, err
		}
	}
	for _, file := range s.files {
		parts := diffFile.FindStringSubmatch(path.Base(file))
		if parts == nil {
			return nil, fmt.Errorf("%s: no name of a block (examples: 17.json, 0x11.json, block-17.json)", file)
		}
		number, err := blockNumber(parts[1])
		if err != nil || number == 0 {
			return nil, fmt.Errorf("%s: block %q: they count from 1", file, parts[1])
		}
		s.numbers = append(s.numbers, number)
	}
	if len(s.numbers) == 0 {
		return nil, fmt.Errorf("%s: no file is called NUMBER.json or NUMBER.json.gz after a block", name)
	}
	return s, nil
}

func (s *diffSource) Info() Info {
	return Info{Format: FormatDiffs, Order: OrderUnknown, Stores: []string{"account", "storage", "code"}, Complete: true,
		First: s.numbers[0], Last: s.numbers[len(s.numbers)-1], Unknown: s.unknown}
}

func (s *diffSource) Close() error {
	if s.in == nil {
		return nil
	}
	return s.in.close()
}

// SeekVersion implements Seeker: a version is a file.
func (s *diffSource) SeekVersion(version int64) error {
	err := s.Close()
	s.in, s.changes, s.given, s.done = nil, nil, 0, nil
	s.at, _ = slices.BinarySearch(s.numbers, version)
	return err
}

func (s *diffSource) Next(b *Batch) error {
	if s.done == nil {
		s.done = s.next(b)
	}
	return s.done
}

func (s *diffSource) next(b *Batch) error {
	if s.at == len(s.files) {
		return io.EOF
	}
	version := s.numbers[s.at]
	if s.in == nil {
		if err := s.openFile(); err != nil {
			return &DamageError{File: s.files[s.at], Offset: -1, Version: version, Err: err}
		}
	}
	b.begin(version)
	for {
		for ; s.given < len(s.changes); s.given++ {
			c := s.changes[s.given]
			if !b.offer(c.Store, c.Key, c.Value, c.Delete) {
				return nil
			}
		}
		more, err := s.transaction()
		if err != nil {
			return &DamageError{File: s.in.file, Offset: s.json.InputOffset(), Version: version, Err: err}
		}
		if !more {
			in := s.in
			s.in, b.Last, s.at = nil, true, s.at+1
			return in.close()
		}
	}
}

func (s *diffSource) openFile() error {
	var unpack func(io.Reader) (io.Reader, error)
	if strings.HasSuffix(s.files[s.at], ".gz") {
		unpack = gunzip
	}
	in, err := openStream(s.fsys, s.files[s.at], unpack)
	if err != nil {
		return err
	}
	s.in, s.changes, s.given = in, s.changes[:0], 0
	s.json = json.NewDecoder(&capped{in.reader, maxDiffFileBytes})
	return s.enter()
}

// capped ends a file that is too large with an error that says so.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLargeBlock
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// enter goes to the first diff of a value, past an envelope.
func (s *diffSource) enter() error {
	s.list, s.around = false, 0
	token, err := s.json.Token()
	if err != nil {
		return short(err)
	}
	return s.open(token)
}

func (s *diffSource) open(token json.Token) error {
	if token == json.Delim('[') {
		s.list = true
		return nil
	}
	if token != json.Delim('{') {
		return errNoDiff
	}
	alone := diff{}
	for s.json.More() {
		name, err := s.json.Token()
		if err != nil {
			return short(err)
		}
		switch name {
		case "result":
			s.around++
			inner, err := s.json.Token()
			if err != nil {
				return short(err)
			}
			return s.open(inner)
		case "error":
			var text json.RawMessage
			if err := s.json.Decode(&text); err != nil {
				return short(err)
			}
			return fmt.Errorf("the node answered with an error: %.200s", text)
		case "pre":
			err = s.json.Decode(&alone.Pre)
		case "post":
			err = s.json.Decode(&alone.Post)
		default:
			err = s.json.Decode(&json.RawMessage{})
		}
		if err != nil {
			return short(err)
		}
	}
	if _, err := s.json.Token(); err != nil { // the closing brace
		return short(err)
	}
	return s.add(alone)
}

// leave reads to the end of the objects around the value that was read.
func (s *diffSource) leave() error {
	for ; s.around > 0; s.around-- {
		for s.json.More() {
			if _, err := s.json.Token(); err != nil {
				return short(err)
			}
			if err := s.json.Decode(&json.RawMessage{}); err != nil {
				return short(err)
			}
		}
		if _, err := s.json.Token(); err != nil {
			return short(err)
		}
	}
	return nil
}

// nextValue goes to the next transaction of a file that has one a line.
func (s *diffSource) nextValue() (more bool, err error) {
	blockEnded := s.list
	if err := s.leave(); err != nil {
		return false, err
	}
	token, err := s.json.Token()
	if err == io.EOF {
		return false, nil
	}
	if err != nil {
		return false, short(err)
	}
	s.changes, s.given, s.list = s.changes[:0], 0, false
	if err := s.open(token); err != nil {
		return false, err
	}
	if blockEnded || s.list {
		return false, errTwoBlocks
	}
	return true, nil
}

// transaction decodes the next diff of the file into s.changes.
func (s *diffSource) transaction() (more bool, err error) {
	if !s.list {
		return s.nextValue()
	}
	if !s.json.More() {
		if _, err := s.json.Token(); err != nil { // the closing bracket, or what is wrong
			return false, short(err)
		}
		return s.nextValue()
	}
	var traced struct {
		Result *diff  `json:"result"`
		Error  string `json:"error"`
	}
	if err := s.json.Decode(&traced); err != nil {
		return false, short(err)
	}
	if traced.Error != "" {
		return false, fmt.Errorf("the node could not trace a transaction: %.200s", traced.Error)
	}
	if traced.Result == nil {
		return false, errNoDiff
	}
	s.changes, s.given = s.changes[:0], 0
	return true, s.add(*traced.Result)
}

// diff is one transaction's change of the state.
type diff struct {
	Pre  map[address]account `json:"pre"`
	Post map[address]account `json:"post"`
}

type account struct {
	Balance  *word         `json:"balance"`
	Nonce    *uint64       `json:"nonce"`
	Code     *hexBytes     `json:"code"`
	CodeHash *word         `json:"codeHash"`
	Storage  map[word]word `json:"storage"`
}

// add appends a diff's changes, sorted by store and key.
func (s *diffSource) add(d diff) error {
	if d.Pre == nil && d.Post == nil {
		return errNoDiff
	}
	start := len(s.changes)
	for at, before := range d.Pre {
		after, lives := d.Post[at]
		if !lives {
			s.changes = append(s.changes, Change{Store: accountStore, Key: bytes.Clone(at[:]), Delete: true})
		}
		for slot := range before.Storage {
			if _, kept := after.Storage[slot]; !kept {
				s.changes = append(s.changes, Change{Store: storageStore, Key: slices.Concat(at[:], slot[:]), Delete: true})
			}
		}
	}
	for at, after := range d.Post {
		before := d.Pre[at]
		s.changes = append(s.changes, Change{Store: accountStore, Key: bytes.Clone(at[:]), Value: after.over(before)})
		for slot, value := range after.Storage {
			c := Change{Store: storageStore, Key: slices.Concat(at[:], slot[:]), Value: bytes.Clone(value[:])}
			if value == (word{}) {
				c.Delete, c.Value = true, nil
			}
			s.changes = append(s.changes, c)
		}
		if after.Code != nil && len(*after.Code) > 0 {
			if err := checkValue(uint64(len(*after.Code))); err != nil {
				return err
			}
			hash := keccak(*after.Code)
			s.changes = append(s.changes, Change{Store: codeStore, Key: hash[:], Value: *after.Code})
		}
	}
	slices.SortStableFunc(s.changes[start:], compareKeys)
	return nil
}

// over is the account's value, where what it does not say is as before.
func (a account) over(before account) []byte {
	nonce, balance := cmp.Or(a.Nonce, before.Nonce, new(uint64)), cmp.Or(a.Balance, before.Balance, new(word))
	hash := keccak(nil)
	for _, part := range []account{before, a} {
		switch {
		case part.CodeHash != nil:
			hash = *part.CodeHash
		case part.Code != nil:
			hash = keccak(*part.Code)
		}
	}
	value := binary.BigEndian.AppendUint64(nil, *nonce)
	return append(append(value, balance[:]...), hash[:]...)
}

func keccak(b []byte) (sum word) {
	h := sha3.NewLegacyKeccak256()
	h.Write(b) // a hash never fails
	h.Sum(sum[:0])
	return sum
}

// address, word and hexBytes read 0x-hex of any case; a word may lack leading
// zeros.
type (
	address  [20]byte
	word     [32]byte
	hexBytes []byte
)

func (a *address) UnmarshalText(text []byte) error { return fromHex(a[:], text, true) }
func (w *word) UnmarshalText(text []byte) error    { return fromHex(w[:], text, false) }

func (h *hexBytes) UnmarshalText(text []byte) error {
	*h = make([]byte, max(len(text)-2, 0)/2)
	return fromHex(*h, text, true)
}

// fromHex decodes text into the end of dst.
func fromHex(dst, text []byte, whole bool) error {
	digits, found := bytes.CutPrefix(text, []byte("0x"))
	if !found || len(digits) > 2*len(dst) || whole && len(digits) != 2*len(dst) {
		return fmt.Errorf("%.80q is not 0x-hex of %d bytes", text, len(dst))
	}
	if len(digits)%2 == 1 {
		digits = append([]byte{'0'}, digits...)
	}
	clear(dst)
	if _, err := hex.Decode(dst[len(dst)-len(digits)/2:], digits); err != nil {
		return fmt.Errorf("%.80q: %w", text, err)
	}
	return nil
}
