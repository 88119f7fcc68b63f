package changeset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/statelab/statelab/internal/chain/ethjson"
)

// Ethereum state diffs: a file a block, NUMBER.json, block-NUMBER.json or .jsonl, also
// with .gz behind, NUMBER decimal or 0x-hex. It holds what debug_traceBlockByNumber
// returns for the prestateTracer in diffMode: a list of {"txHash", "result": {"pre",
// "post"}}, as it comes or inside the JSON-RPC envelope; or values of one transaction
// each, one behind the other: {"pre", "post"}, or that as a result (package ethjson).
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
	diffFile  = regexp.MustCompile(`^(?:block[-_])?(\d{1,18}|0x[0-9a-fA-F]{1,15})\.jsonl?(\.gz)?$`)
	errNoDiff = errors.New(
		`no state diff: neither a list of {"result": {"pre", "post"}} nor one {"pre", "post"}`,
	)
)

type diffSource struct {
	fsys    fs.FS
	files   []string
	unknown []string
	numbers []int64
	at      int // the file being read

	listed // of the block
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
			return nil, fmt.Errorf("%s: no name of a block (examples: 17.json, 0x11.json, "+
				"block-17.json)", file)
		}

		number, err := blockNumber(parts[1])
		if err != nil || number == 0 {
			return nil, fmt.Errorf("%s: block %q: they count from 1", file, parts[1])
		}

		s.numbers = append(s.numbers, number)
	}

	if len(s.numbers) == 0 {
		return nil, fmt.Errorf("%s: no file is called NUMBER.json or NUMBER.json.gz after a block",
			name)
	}

	return &seeking{reading{form: s}, s.seek}, nil
}

func (s *diffSource) Info() Info {
	return Info{
		Format:   FormatDiffs,
		Order:    OrderUnknown,
		Stores:   []string{"account", "storage", "code"},
		Complete: true,
		First:    s.numbers[0],
		Last:     s.numbers[len(s.numbers)-1],
		Unknown:  s.unknown,
		NotChecked: []string{"a file of state diffs does not say how many transactions its block " +
			"has: those that are missing, or are not in the order of the block, cannot be seen"},
	}
}

func (s *diffSource) Close() error { return nil }

// seek goes to a version, which is a file.
func (s *diffSource) seek(version int64) { s.at, _ = slices.BinarySearch(s.numbers, version) }

func (s *diffSource) begin() (version int64, err error) {
	if s.at == len(s.files) {
		return 0, io.EOF
	}

	version = s.numbers[s.at]
	if err := s.readFile(); err != nil {
		return 0, &DamageError{File: s.files[s.at], Offset: -1, Version: version, Err: err}
	}

	s.at++
	return version, nil
}

func (s *diffSource) readFile() (err error) {
	var unpack func(io.Reader) (io.Reader, error)
	if strings.HasSuffix(s.files[s.at], ".gz") {
		unpack = gunzip
	}

	in, err := openStream(s.fsys, s.files[s.at], unpack)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, in.close()) }()
	text, err := io.ReadAll(io.LimitReader(in.reader, maxDiffFileBytes+1))
	if err != nil {
		return short(err)
	}

	if len(text) > maxDiffFileBytes {
		return fmt.Errorf("more than %d bytes of JSON", maxDiffFileBytes)
	}

	s.changes, s.given = s.changes[:0], 0
	if _, err = ethjson.Transactions(text, s.transaction); errors.Is(err, ethjson.ErrNoObject) {
		err = fmt.Errorf("%w: %w", errNoDiff, err)
	}

	return err
}

// transaction appends a transaction's changes, sorted by store and key.
func (s *diffSource) transaction(trace ethjson.Object) error {
	if trace["pre"] == nil && trace["post"] == nil {
		return errNoDiff
	}

	pre, err := accountsOf(trace["pre"])
	if err != nil {
		return err
	}

	post, err := accountsOf(trace["post"])
	if err != nil {
		return err
	}

	start := len(s.changes)
	for at, before := range pre {
		after, lives := post[at]
		if !lives {
			s.changes = append(s.changes, Change{
				Store:  accountStore,
				Key:    bytes.Clone(at[:]),
				Delete: true,
			})

			after = &ethjson.Account{}
		}

		for slot := range before.Storage {
			if _, kept := after.Storage[slot]; !kept {
				s.changes = append(s.changes, Change{
					Store:  storageStore,
					Key:    slices.Concat(at[:], slot[:]),
					Delete: true,
				})
			}
		}
	}

	for at, after := range post {
		before := cmp.Or(pre[at], &ethjson.Account{})
		value, err := accountValue(before, after)
		if err != nil {
			return fmt.Errorf("account %v: %w", at, err)
		}

		s.changes = append(s.changes, Change{
			Store: accountStore,
			Key:   bytes.Clone(at[:]),
			Value: value,
		})

		for slot, value := range after.Storage {
			c := Change{
				Store: storageStore,
				Key:   slices.Concat(at[:], slot[:]),
				Value: bytes.Clone(value[:]),
			}

			if value == (ethjson.Word{}) {
				c.Delete, c.Value = true, nil
			}

			s.changes = append(s.changes, c)
		}

		if after.Code != nil && len(*after.Code) > 0 {
			if err := checkValue(uint64(len(*after.Code))); err != nil {
				return fmt.Errorf("the code of account %v: %w", at, err)
			}

			hash := keccak(*after.Code)
			s.changes = append(s.changes,
				Change{Store: codeStore, Key: hash[:], Value: *after.Code})
		}
	}

	slices.SortStableFunc(s.changes[start:], compareKeys)
	return nil
}

// accountsOf decodes one side of a diff; none of no text.
func accountsOf(text []byte) (map[ethjson.Address]*ethjson.Account, error) {
	accounts, err := ethjson.AccountsIn[ethjson.Account](text)
	for at, account := range accounts {
		if account == nil {
			return nil, fmt.Errorf("account %v is null", at)
		}
	}
	return accounts, err
}

// accountValue is the account's value after a transaction, where what the tracer does not tell is
// as before.
func accountValue(before, after *ethjson.Account) ([]byte, error) {
	nonce, fits := cmp.Or(after.Nonce, before.Nonce, new(ethjson.Number)).Uint64()
	if !fits {
		return nil, errors.New("a nonce of more than 64 bits")
	}

	balance := cmp.Or(after.Balance, before.Balance, new(ethjson.Number))
	hash := keccak(nil)
	for _, part := range []*ethjson.Account{before, after} {
		switch {
		case part.CodeHash != nil:
			hash = *part.CodeHash
		case part.Code != nil:
			hash = keccak(*part.Code)
		}
	}

	value := binary.BigEndian.AppendUint64(nil, nonce)
	return append(append(value, balance[:]...), hash[:]...), nil
}

func keccak(b []byte) (sum ethjson.Word) {
	h := sha3.NewLegacyKeccak256()
	h.Write(b) // a hash never fails
	h.Sum(sum[:0])
	return sum
}
