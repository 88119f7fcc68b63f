package geth

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	gethstate "github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/trie/bintrie"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/ethereum/go-ethereum/triedb/pathdb"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

var binaryTrie = scheme{name: "geth-bintrie", about: "a test", byPath: true, binary: true}

func openBinary(t *testing.T, dir string, create bool, overrides ...string) layout.State {
	t.Helper()
	o := layout.Options{
		Dir:         dir,
		Create:      create,
		MemoryBytes: minMemoryBytes,
		Overrides:   map[string]string{},
	}

	for _, text := range overrides {
		name, value, _ := strings.Cut(text, "=")
		o.Overrides[name] = value
	}

	s, err := binaryTrie.Open(context.Background(), o)
	must(t, err)
	return s
}

// Groups of the fewest and of the most levels, and the other version of Pebble, keep the contract
// too.
func TestAdmissionOfOtherGroups(t *testing.T) {
	others := []map[string]string{
		{groupOption: "8", "BlockSize": "16KiB", pebbleOption: "1"},
		{groupOption: "1"},
		{groupOption: "8"},
	}

	if testing.Short() {
		t.Skip("TestBinaryTries has their roots and nodes")
	}

	for _, overrides := range others {
		t.Run(fmt.Sprint(overrides), func(t *testing.T) {
			layouttest.TestLayout(t, binaryTrie, layouttest.Expectations{
				KeepsContracts: true,
				BalanceBytes:   maxBalance,
				Options:        layout.Options{MemoryBytes: minMemoryBytes, Overrides: overrides},
			})
		})
	}
}

// TestRootOfGethsGenesis has the root that go-ethereum's own test of a binary genesis expects
// (core/genesis_test.go, TestBinaryGenesisCommit).
func TestRootOfGethsGenesis(t *testing.T) {
	s := openBinary(t, t.TempDir(), true)
	defer func() { must(t, s.Close()) }()
	c := layout.Change{
		Account: layout.Hash{1},
		New:     &layout.Account{CodeHash: layout.EmptyCode},
		Slots: []layout.Slot{{Key: layout.Hash{1}, Value: bytes.Clone(
			common.Hash{1}.Bytes())}},
	}

	c.New.Balance[31] = 1
	must(t, s.Change(c))
	want := common.HexToHash("0870fd587c41dc778019de8c5cb3193fe4ef1f417976461952d3712ba39163f5")
	if got := commit(t, s); common.Hash(got) != want {
		t.Errorf("root %x, want %x", got, want)
	}
}

// chainOfBlocks makes accounts with code, small and large slot keys, and changes some of them
// again.
func chainOfBlocks(blocks, each int) (all [][]layout.Change) {
	for n := range blocks {
		var changes []layout.Change
		for i := range each {
			id := n*each + i
			if n > 0 && i < each/4 {
				id -= each / 2 // again, one of the block before
			}

			c := layout.Change{
				Account: nameOf(uint64(id)),
				New:     &layout.Account{Nonce: uint64(n + 1), CodeHash: layout.EmptyCode},
			}

			c.New.Balance[20] = byte(id + 1)
			if id%7 == 0 {
				code := bytes.Repeat(crypto.Keccak256(c.Account[:]), 1+id%150)
				c.New.CodeHash = layout.Hash(crypto.Keccak256Hash(code))
				if n == 0 || i >= each/4 {
					c.Code = code
				}

				for j := range 5 {
					key := nameOf(uint64(1<<40 + id*8 + j))
					if j > 2 {
						// in the account's stem, and beyond it
						key = layout.Hash{31: byte(60 + 2*j)}
					}

					c.Slots = append(c.Slots, layout.Slot{
						Key:   key,
						Value: []byte{byte(n + 1), byte(j)},
					})
				}
			}

			changes = append(changes, c)
		}

		all = append(all, changes)
	}

	return all
}

func nameOf(i uint64) layout.Hash {
	return layout.Hash(crypto.Keccak256Hash(binary.BigEndian.AppendUint64(nil, i)))
}

// gethsRoots are the roots of the blocks by go-ethereum's own state database.
func gethsRoots(t *testing.T, blocks [][]layout.Change) (roots []common.Hash) {
	t.Helper()
	path := *pathdb.Defaults
	path.NoAsyncFlush = true
	db := triedb.NewDatabase(rawdb.NewMemoryDatabase(),
		&triedb.Config{PathDB: &path, IsUBT: true, BinTrieGroupDepth: 8})
	defer db.Close()
	root := types.EmptyBinaryHash
	for n, changes := range blocks {
		state, err := gethstate.New(root, gethstate.NewUBTDatabase(db, nil))
		must(t, err)
		for _, c := range changes {
			address := addressOf(c.Account)
			// as a call does: version 1.17.10 writes the length of code that it has not loaded as 0
			state.GetCode(address)
			state.SetNonce(address, c.New.Nonce, tracing.NonceChangeUnspecified)
			state.SetBalance(address, new(uint256.Int).SetBytes32(c.New.Balance[:]),
				tracing.BalanceChangeUnspecified)
			if c.Code != nil {
				state.SetCode(address, c.Code, tracing.CodeChangeUnspecified)
			}

			for _, slot := range c.Slots {
				state.SetState(address, common.Hash(slot.Key), common.BytesToHash(slot.Value))
			}
		}

		root, err = state.Commit(params.Rules{}, uint64(n))
		must(t, err)
		roots = append(roots, root)
	}

	return roots
}

// TestBinaryTries has the roots of go-ethereum's state database with every group depth, and what
// its own trie finds, in as many nodes, of present and absent accounts, slots and chunks of code.
func TestBinaryTries(t *testing.T) {
	blocks := chainOfBlocks(4, 150)
	roots := gethsRoots(t, blocks)
	for _, overrides := range [][]string{
		{"GroupDepth=1"},
		{"GroupDepth=2"},
		{"GroupDepth=3"},
		{"GroupDepth=4"},
		{},
		{"GroupDepth=6"},
		{"GroupDepth=7"},
		{"GroupDepth=8"},
		{"GroupDepth=8", "Pebble=1"},
	} {
		t.Run(strings.Join(overrides, " "), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s := openBinary(t, dir, true, overrides...)
			for n, changes := range blocks {
				for _, c := range changes {
					must(t, s.Change(c))
				}

				if got := common.Hash(commit(t, s)); got != roots[n] {
					t.Fatalf("block %d: root %x, go-ethereum has %x", n+1, got, roots[n])
				}
			}

			must(t, s.Settle(t.Context()))
			must(t, s.Close())
			s = openBinary(t, dir, false, overrides...)
			defer func() { must(t, s.Close()) }()
			reader, err := s.Reader()
			must(t, err)
			r := reader.(*binaryReader)
			for i := range 8 { // a trie of go-ethereum's takes 25 MB
				compareWithGeths(t, r, nameOf(uint64(i*98)), nameOf(uint64(1<<40+i*98*8)))
			}

			if c := s.Counters(); *c.DataReads == 0 ||
				*c.Reads < *c.DataReads+*c.IndexReads+*c.FilterReads {
				t.Errorf("%d reads: %d of data, %d of indexes, %d of filters", *c.Reads,
					*c.DataReads, *c.IndexReads, *c.FilterReads)
			}

			must(t, reader.Close())
		})
	}
}

// compareWithGeths looks an account, its slots and its code up in r and in a new trie of
// go-ethereum's each.
func compareWithGeths(t *testing.T, r *binaryReader, account, slot layout.Hash) {
	t.Helper()
	address, before := addressOf(account), r.nodes
	same := func(what string, find func(*bintrie.BinaryTrie) bool) {
		trie, err := bintrie.NewBinaryTrie(r.root, r.chain.tries, r.chain.group)
		must(t, err)
		if !find(trie) || r.nodes-before != int64(len(trie.Witness())) {
			t.Fatalf("%s of %x: not what go-ethereum finds in %d nodes, or in %d of them", what,
				account, len(trie.Witness()), r.nodes-before)
		}

		before = r.nodes
	}

	same("the account", func(trie *bintrie.BinaryTrie) bool {
		got, found, err := r.Account(account)
		want, wantErr := trie.GetAccount(address)
		must(t, err)
		must(t, wantErr)
		return found == (want != nil) &&
			(!found || got == stateAccount(want.Nonce, want.Balance, want.CodeHash))
	})

	for _, key := range []layout.Hash{slot, {31: 66}, {31: 68}, {31: 5}} {
		same("a slot", func(trie *bintrie.BinaryTrie) bool {
			got, found, err := r.Slot(account, key, nil)
			want, wantErr := trie.GetStorage(address, key[:])
			must(t, err)
			must(t, wantErr)
			return found == (want != nil) && bytes.Equal(got, bytes.TrimLeft(want, "\x00"))
		})
	}

	for _, n := range []uint64{0, 127, 128, 140, 1 << 20} {
		same("code", func(trie *bintrie.BinaryTrie) bool {
			got, found, err := r.CodeChunk(account, n, nil)
			offset := uint256.NewInt(128 + n).Bytes32()
			want, wantErr := trie.GetWithHashedKey(bintrie.GetBinaryTreeKey(address, offset[:]))
			must(t, err)
			must(t, wantErr)
			return found == (want != nil) && (!found || bytes.Equal(got, want[1:]))
		})
	}
}

// A trie that was built with other groups is refused: its new nodes would lie where nobody looks
// for them.
func TestOtherGroupDepthIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openBinary(t, dir, true, "GroupDepth=6")
	must(t,
		s.Change(layout.Change{
			Account: nameOf(1),
			New:     &layout.Account{Nonce: 1, CodeHash: layout.EmptyCode},
		}))

	commit(t, s)
	must(t, s.Close())
	if s, err := binaryTrie.Open(t.Context(),
		layout.Options{Dir: dir, MemoryBytes: minMemoryBytes}); err == nil {
		t.Error("opens")
		must(t, s.Close())
	}

	must(t, openBinary(t, dir, false, "GroupDepth=6").Close())
}

// A database of another trie is refused by its name.
func TestOtherTrieIsRefused(t *testing.T) {
	path := scheme{name: "geth-path", about: "a test", byPath: true}
	for name, of := range map[string][2]scheme{
		"it holds a Merkle-Patricia trie, not a binary trie": {path, binaryTrie},
		"it holds a binary trie, not a Merkle-Patricia trie": {binaryTrie, path},
	} {
		dir := t.TempDir()
		s := create(t, of[0], dir)
		must(t,
			s.Change(layout.Change{
				Account: nameOf(1),
				New:     &layout.Account{Nonce: 1, CodeHash: layout.EmptyCode},
			}))

		commit(t, s)
		must(t, s.Close())
		if s, err := of[1].Open(t.Context(),
			layout.Options{Dir: dir, MemoryBytes: minMemoryBytes}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Error(s, err)
		}
	}
}

// A balance that go-ethereum would cut off fails the change.
func TestLargeBalanceIsRefused(t *testing.T) {
	s := openBinary(t, t.TempDir(), true)
	defer func() { must(t, s.Close()) }()
	c := layout.Change{Account: nameOf(1), New: &layout.Account{CodeHash: layout.EmptyCode}}
	c.New.Balance[15] = 1
	if s.Change(c) == nil {
		t.Error("a balance of 17 bytes is taken")
	}
}

// The store is opened with the options of go-ethereum's own database.
func TestStoreIsAsGethsOwn(t *testing.T) {
	own, ours := t.TempDir(), t.TempDir()
	s := create(t, scheme{name: "geth-path", byPath: true}, own)
	must(t, s.Close())
	must(t, openBinary(t, ours, true).Close())
	options := func(dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
		must(t, err)
		text, err := os.ReadFile(files[len(files)-1])
		must(t, err)
		return string(text)
	}

	if want, got := options(own), options(ours); got != want {
		t.Errorf("opened with\n%s\nnot with\n%s", got, want)
	}
}

// TestDamagedNodes has no panic and no value of a node that was cut off or changed.
func TestDamagedNodes(t *testing.T) {
	key := make([]byte, 32)
	group := append([]byte{groupNode, 3, 0b10010000, 0b01001000}, make([]byte, 64)...)
	for end := range group {
		for _, levels := range []byte{0, 3, 8, 9, 255} {
			group[1] = levels
			if _, _, err := child(group[:max(end, 2)], key, 0); err == nil {
				t.Errorf("a group of %d levels and %d bytes is taken", levels, end)
			}
		}
	}

	stem := make([]byte, stemHead+leafBytes)
	stem[0], stem[32] = stemNode, 0xc0
	if _, err := leaf(stem, 0); err == nil {
		t.Error("a stem of two leaves with one of them is taken")
	}
}

// TestDamagedTables: whatever is damaged in the tables, a lookup is right or fails.
func TestDamagedTables(t *testing.T) {
	const accounts, inputs = 300, 40
	dir, random := t.TempDir(), rand.New(rand.NewPCG(9, 9))
	s := openBinary(t, dir, true)
	for i := range uint64(accounts) {
		must(t,
			s.Change(layout.Change{
				Account: nameOf(i),
				New:     &layout.Account{Nonce: i, CodeHash: layout.EmptyCode},
			}))
	}

	commit(t, s)
	must(t, errors.Join(s.Settle(t.Context()), s.Close()))
	failed := 0
	for n := range inputs {
		bad := filepath.Join(t.TempDir(), "bad")
		must(t, os.CopyFS(bad, os.DirFS(dir)))
		tables, err := filepath.Glob(filepath.Join(bad, "*.sst"))
		must(t, err)
		table := tables[random.IntN(len(tables))]
		text, err := os.ReadFile(table)
		must(t, err)
		if at := random.IntN(len(text)); n%4 == 0 {
			text = text[:at]
		} else {
			text[at] ^= 1 << random.IntN(8)
		}

		must(t, os.WriteFile(table, text, 0o644))
		if err := lookAll(t, bad, accounts); err != nil {
			failed++
		}
	}

	if failed < inputs/4 {
		t.Errorf("%d of %d damaged states failed", failed, inputs)
	}
}

// lookAll looks accounts up, which must be right, until one fails. Pebble ends its process on
// damage: here the panic is the failure.
func lookAll(t *testing.T, dir string, accounts uint64) (err error) {
	defer func() {
		if ended := recover(); ended != nil {
			err = fmt.Errorf("%v", ended)
		}
	}()

	s, err := binaryTrie.Open(t.Context(), layout.Options{
		Dir:         dir,
		ReadOnly:    true,
		MemoryBytes: minMemoryBytes,
	})
	if err != nil {
		return err
	}

	r, err := s.Reader()
	must(t, err)
	for i := range accounts {
		a, found, err := r.Account(nameOf(i))
		if err != nil {
			return errors.Join(err, r.Close(), s.Close())
		}

		if !found || a.Nonce != i {
			t.Errorf("%s: account %d: %+v, %v, without an error", dir, i, a, found)
		}
	}

	return errors.Join(r.Close(), s.Close())
}

// The nodes of a lookup are as many as theory says, whatever the group.
func TestNodesOfGroups(t *testing.T) {
	const n = 4000
	for _, group := range []float64{1, 3, 8} {
		s := openBinary(t, t.TempDir(), true, fmt.Sprint("GroupDepth=", group))
		for i := range uint64(n) {
			must(t,
				s.Change(layout.Change{
					Account: nameOf(i),
					New:     &layout.Account{Nonce: i, CodeHash: layout.EmptyCode},
				}))
		}

		commit(t, s)
		r, err := s.Reader()
		must(t, err)
		for i := range uint64(n) {
			if a, found, err := r.Account(nameOf(i)); err != nil || !found || a.Nonce != i {
				t.Fatal(a, found, err)
			}
		}

		nodes, want := float64(*r.Touched().Nodes)/n, statemodel.BinaryNodes(n, group)
		if math.Abs(nodes/want-1) > .015 {
			t.Errorf("groups of %g levels: %.3f nodes, expected %.3f", group, nodes, want)
		}

		must(t, r.Close())
		must(t, s.Close())
	}
}
