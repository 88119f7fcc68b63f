package geth

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	gethstate "github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"

	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/chunktrie"
	"github.com/statelab/statelab/layouts/pagetrie"
)

// merklePatricia are all layouts that must have Ethereum's roots.
func merklePatricia() []layout.Layout {
	own := slices.DeleteFunc(Layouts(), func(l layout.Layout) bool { return l.(scheme).binary })
	return append(own, pagetrie.Layout{}, chunktrie.Layout{})
}

// The main network's first block is the largest state whose root everybody knows.
func TestGenesisOfTheMainNetwork(t *testing.T) {
	var changes []layout.Change
	for address, account := range core.DefaultGenesisBlock().Alloc {
		changes = append(changes, layout.Change{Account: crypto.Keccak256Hash(address[:]),
			New: &layout.Account{
				Balance:  uint256.MustFromBig(account.Balance).Bytes32(),
				Nonce:    account.Nonce,
				CodeHash: layout.EmptyCode,
			}})
	}

	if len(changes) != 8893 {
		t.Fatalf("%d accounts", len(changes))
	}

	haveRoot(t, changes,
		common.HexToHash("d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544"))
}

// TestHeadOfTheHiveChain makes the state that go-ethereum's test chain ends with,
// contracts and storage included. The oracle is the header of the chain's last block.
func TestHeadOfTheHiveChain(t *testing.T) {
	dir := chainDir(t)
	text, err := os.ReadFile(filepath.Join(dir, "headstate.json"))
	must(t, err)
	var dump gethstate.Dump
	must(t, json.Unmarshal(text, &dump))
	var changes []layout.Change
	slots := 0
	for _, account := range dump.Accounts {
		balance, err := uint256.FromDecimal(account.Balance)
		must(t, err)
		c := layout.Change{Account: crypto.Keccak256Hash(account.Address[:]),
			New: &layout.Account{
				Balance:  balance.Bytes32(),
				Nonce:    account.Nonce,
				CodeHash: layout.Hash(account.CodeHash),
			}}

		for key, digits := range account.Storage {
			value, err := hex.DecodeString(digits)
			must(t, err)
			c.Slots = append(c.Slots, layout.Slot{Key: crypto.Keccak256Hash(key[:]), Value: value})
		}

		slots += len(c.Slots)
		changes = append(changes, c)
	}

	if len(changes) != 48 || slots != 1814 {
		t.Fatalf("%d accounts and %d slots: not the state we know", len(changes), slots)
	}

	haveRoot(t, changes, lastHeader(t, filepath.Join(dir, "chain.rlp")).Root)
}

// haveRoot makes the state in every layout, reopens it and looks everything up.
func haveRoot(t *testing.T, changes []layout.Change, root common.Hash) {
	for _, l := range merklePatricia() {
		t.Run(l.Info().Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s := create(t, l, dir)
			for _, c := range changes {
				must(t, s.Change(c))
			}

			if got := commit(t, s); got != root {
				t.Errorf("root %x, want %x", got, root)
			}

			s = reopen(t, l, s, dir)
			defer func() { must(t, s.Close()) }()
			if s.Root() != root || s.Block() != 1 {
				t.Errorf("reopened at block %d, root %x", s.Block(), s.Root())
			}

			reader, err := s.Reader()
			must(t, err)
			for _, c := range changes {
				if got, found, err := reader.Account(c.Account); err != nil || !found ||
					got != *c.New {
					t.Fatalf("account %x: %+v, %v, %v; want %+v", c.Account, got, found, err,
						*c.New)
				}

				for _, slot := range c.Slots {
					if got, found, err := reader.Slot(c.Account, slot.Key, nil); err != nil ||
						!found || string(got) != string(slot.Value) {
						t.Fatalf("slot %x of %x: %x, %v, %v; want %x", slot.Key, c.Account, got,
							found, err, slot.Value)
					}
				}
			}
		})
	}
}

// chainDir is where the go-ethereum module keeps its test chain; the files are read
// there and never copied.
func chainDir(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/ethereum/go-ethereum").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), "cmd/devp2p/internal/ethtest/testdata")
}

// lastHeader reads a chain as `geth export` writes it.
func lastHeader(t *testing.T, path string) (last *types.Header) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	for stream := rlp.NewStream(file, 0); ; {
		block := new(types.Block)
		if err := stream.Decode(block); errors.Is(err, io.EOF) {
			return last
		} else if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}

		last = block.Header()
	}
}
