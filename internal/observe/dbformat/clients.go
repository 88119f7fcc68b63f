package dbformat

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
)

// Client tells which program a database belongs to, by the files around it and the
// names of its tables; "" where they do not tell.
func Client(dir string, found Found, tables []engine.Table) clients.Client {
	full, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}

	beside := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			_, err := os.Stat(filepath.Join(full, name))
			return err == nil
		})
	}

	has := func(names ...string) bool {
		return slices.ContainsFunc(tables, func(t engine.Table) bool {
			return slices.Contains(names, t.Name)
		})
	}

	switch found.Engine {
	case "pebble1", "pebble2", "goleveldb":
		switch base := filepath.Base(full); {
		case base == "application.db":
			return clients.CosmosSDK
		case len(Siblings(full)) > 0:
			return clients.BSC
		case base == "chaindata", beside("ancient"):
			return clients.Geth
		}
	case "mdbx":
		switch {
		case beside("database.version"), has("HashedAccounts", "PlainAccountState"):
			return clients.Reth
		case has("TblAccountVals", "AccountVals", "PlainState"), filepath.Base(full) == "chaindata":
			return clients.Erigon
		}
	case "rocksdb":
		switch {
		case beside("../DATABASE_METADATA.json"):
			return clients.Besu
		case strings.Contains(full, "nethermind_db"):
			return clients.Nethermind
		case has("account_flatkeyvalue", "storage_flatkeyvalue"):
			return clients.Ethrex
		case has("TransactionHashNumbers", "StoragesHistory"):
			return clients.Reth
		}
	}

	return ""
}

// Siblings are the further databases of a node of bsc that keeps several: trie nodes in state and
// blocks in block, below the one for all else.
func Siblings(dir string) (dirs []string) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}

	main := full
	if base := filepath.Base(full); base == "state" || base == "block" {
		main = filepath.Dir(full)
	}

	if filepath.Base(main) != "chaindata" {
		return nil
	}

	for _, at := range []string{main, filepath.Join(main, "state"), filepath.Join(main, "block")} {
		if found, err := recognise(at); err == nil && found != (Found{}) && at != full {
			dirs = append(dirs, at)
		}
	}

	return dirs
}

// Section names the part of a client's database that a key belongs to; "" for a client
// whose keys are not told apart.
func Section(client clients.Client, key []byte) string {
	switch client {
	case clients.Geth, clients.BSC:
		return gethSection(key)
	case clients.CosmosSDK:
		return cosmosSection(key)
	}
	return ""
}

// TableWords says what a client keeps in a table whose name does not tell; "" for others. Besu
// names its column families by bytes (KeyValueSegmentIdentifier).
func TableWords(client clients.Client, table string) string {
	if client != clients.Besu {
		return ""
	}

	for name, words := range map[string]string{
		`\x01`: "blockchain",
		`\x02`: "trie nodes (Forest)",
		`\x05`: "pruning state",
		`\x06`: "flat accounts",
		`\x07`: "contract code",
		`\x08`: "flat storage slots",
		`\x09`: "trie nodes",
		`\x0a`: "trie logs",
		`\x0b`: "variables",
		`\x0d`: "backward sync: headers",
		`\x0e`: "backward sync: blocks",
		`\x0f`: "backward sync: chain",
		`\x10`: "snap sync: missing ranges",
		`\x11`: "snap sync: accounts to fix",
		`\x12`: "chain pruner",
	} {
		if unit.Is(name, table) {
			return words
		}
	}

	return ""
}

// other is what a client keeps besides its large tables.
const other = "other"

const hashBytes, numberBytes = 32, 8

// gethKey is how keys of a part of go-ethereum's database look: the letter they begin with, and the
// bytes behind it.
type gethKey struct {
	letter byte
	rest   int
}

var gethKeys = map[gethKey]string{
	{'a', hashBytes}:               "flat accounts",
	{'o', 2 * hashBytes}:           "flat storage slots",
	{'c', hashBytes}:               "contract code",
	{'h', numberBytes + hashBytes}: "headers",
	{'h', numberBytes + 1}:         "canonical hashes",
	{'H', hashBytes}:               "header numbers",
	{'b', numberBytes + hashBytes}: "bodies",
	{'r', numberBytes + hashBytes}: "receipts",
	{'l', hashBytes}:               "transaction lookups",
	{'L', hashBytes}:               "state ids",
}

// gethSection follows the key layout of go-ethereum's core/rawdb/schema.go.
func gethSection(key []byte) string {
	if len(key) == 0 {
		return other
	}

	rest := key[1:]
	switch name := gethKeys[gethKey{key[0], len(rest)}]; {
	case key[0] == 'A' && isPath(rest):
		return "account trie nodes"
	case key[0] == 'O' && len(rest) >= hashBytes && isPath(rest[hashBytes:]):
		return "storage trie nodes"
	case name != "":
		return name
	case len(key) == hashBytes:
		return "trie nodes by hash"
	}

	return other
}

// isPath: a path in a trie is a nibble a byte.
func isPath(path []byte) bool {
	const longest = 64
	return len(path) <= longest &&
		!slices.ContainsFunc(path, func(nibble byte) bool { return nibble > 15 })
}

// cosmosSection is the store of a key of the SDK, s/k:<store>/..., and within it what
// iavl keeps by the first byte of the rest.
func cosmosSection(key []byte) string {
	inStore, is := bytes.CutPrefix(key, []byte("s/k:"))
	store, rest, ends := bytes.Cut(inStore, []byte("/"))
	if !is || !ends || len(rest) == 0 {
		return other
	}

	kinds := map[byte]string{
		's': "nodes",
		'n': "nodes",
		'f': "fast nodes",
		'o': "orphans",
		'r': "roots",
		'm': "settings",
	}

	return fmt.Sprintf("%.60s: %s", store, cmp.Or(kinds[rest[0]], other))
}

// nearby finds a database where a user may have meant it: below dir, as clients lay
// out their data directories, or around it.
func nearby(dir string) (path string, found bool) {
	candidates := []string{"chaindata", "geth/chaindata", "db", "database", "application.db",
		"data/application.db", "mainnet/state0", "state", "..", "../.."}
	for _, c := range candidates {
		at := filepath.Join(dir, c)
		if f, err := recognise(at); err == nil && f != (Found{}) {
			return at, true
		}
	}

	return "", false
}
