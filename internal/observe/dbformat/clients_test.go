package dbformat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/clients"
)

func TestClient(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"geth/chaindata", "other/ancient", "besu/database",
		"nethermind_db/mainnet/state0", "cosmos/application.db", "reth/db", "plain"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	for _, dir := range []string{"bsc/chaindata", "bsc/chaindata/state"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(root, dir, "marker.format-version.000001.013"), nil,
			0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, file := range []string{"besu/DATABASE_METADATA.json", "reth/db/database.version"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		dir, engine, table string
		want               clients.Client
	}{
		{"geth/chaindata", "pebble2", "", clients.Geth},
		{"geth/chaindata", "goleveldb", "", clients.Geth},
		{"other", "pebble1", "", clients.Geth},
		{"bsc/chaindata", "pebble2", "", clients.BSC},
		{"bsc/chaindata/state", "pebble2", "", clients.BSC},
		{"geth/chaindata", "mdbx", "", clients.Erigon},
		{"cosmos/application.db", "goleveldb", "", clients.CosmosSDK},
		{"besu/database", "rocksdb", "", clients.Besu},
		{"nethermind_db/mainnet/state0", "rocksdb", "", clients.Nethermind},
		{"reth/db", "mdbx", "", clients.Reth},
		{"plain", "mdbx", "HashedAccounts", clients.Reth},
		{"plain", "mdbx", "TblAccountVals", clients.Erigon},
		{"plain", "mdbx", "Something", ""},
		{"plain", "pebble1", "", ""},
		{"plain", "rocksdb", "", ""},
	} {
		tables := []engine.Table{{Name: c.table}}
		if got := Client(filepath.Join(root, c.dir), Found{Engine: c.engine},
			tables); got != c.want {
			t.Errorf("%s, %s %s: %q, want %q", c.dir, c.engine, c.table, got, c.want)
		}
	}
}

func TestSiblings(t *testing.T) {
	main := filepath.Join(t.TempDir(), "chaindata")
	for _, dir := range []string{main, filepath.Join(main, "state"), filepath.Join(main, "block")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(dir, "marker.format-version.000001.013"), nil,
			0o644); err != nil {
			t.Fatal(err)
		}
	}

	if got := strings.Join(Siblings(filepath.Join(main, "state")), " "); got != main+" "+
		filepath.Join(main, "block") {
		t.Errorf("beside state: %s", got)
	}

	if got := Siblings(filepath.Dir(main)); got != nil {
		t.Errorf("elsewhere: %v", got)
	}
}

func TestSection(t *testing.T) {
	hash := strings.Repeat("\xfe", 32)
	number := strings.Repeat("\x00", 8)
	for key, want := range map[string]string{
		"A":                 "account trie nodes",
		"A\x01\x0f":         "account trie nodes",
		"A\x10":             "other",
		"O" + hash:          "storage trie nodes",
		"O" + hash + "\x05": "storage trie nodes",
		"a" + hash:          "flat accounts",
		"o" + hash + hash:   "flat storage slots",
		"c" + hash:          "contract code",
		"h" + number + hash: "headers",
		"h" + number + "n":  "canonical hashes",
		"H" + hash:          "header numbers",
		"b" + number + hash: "bodies",
		"r" + number + hash: "receipts",
		"l" + hash:          "transaction lookups",
		"L" + hash:          "state ids",
		hash:                "trie nodes by hash",
		"LastBlock":         "other",
		"":                  "other",
	} {
		if got := Section(clients.Geth, []byte(key)); got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
	}

	for key, want := range map[string]string{
		"s/k:bank/s\x01": "bank: nodes",
		"s/k:bank/fkey":  "bank: fast nodes",
		"s/k:bank/o1":    "bank: orphans",
		"s/k:bank/r1":    "bank: roots",
		"s/latest":       "other",
		"s/k:bank":       "other",
		"s/k:bank/":      "other",
	} {
		if got := Section(clients.CosmosSDK, []byte(key)); got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
	}

	if Section(clients.Besu, []byte("x")) != "" {
		t.Error("Besu's keys are told apart")
	}
}

// TestWrongFolder: a folder around a database, or inside one, names the database.
func TestWrongFolder(t *testing.T) {
	root := t.TempDir()
	db := filepath.Join(root, "geth", "chaindata")
	if err := os.MkdirAll(filepath.Join(db, "ancient", "chain"), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(db, "marker.format-version.000001.013"), nil,
		0o644); err != nil {
		t.Fatal(err)
	}

	for _, dir := range []string{root, filepath.Join(root, "geth"), filepath.Join(db, "ancient"),
		filepath.Join(db, "ancient", "chain")} {
		if _, err := Recognise(dir); err == nil ||
			!strings.Contains(err.Error(), db+" is a database: give that folder") {
			t.Errorf("%s: %v, want one that names %s", dir, err, db)
		}
	}
}

func FuzzSection(f *testing.F) {
	f.Add([]byte("A\x01"))
	f.Add([]byte("s/k:bank/s"))
	f.Fuzz(func(t *testing.T, key []byte) {
		if Section(clients.Geth, key) == "" || Section(clients.CosmosSDK, key) == "" {
			t.Errorf("%q belongs to nothing", key)
		}
	})
}

func TestTableWords(t *testing.T) {
	for _, name := range []string{`\x08`, `\b`} { // the second as earlier versions stored it
		if got := TableWords(clients.Besu, name); got != "flat storage slots" {
			t.Errorf("Besu's family 8: %q", got)
		}
	}

	if got := TableWords(clients.Nethermind, `\b`) +
		TableWords(clients.Besu, "default"); got != "" {
		t.Errorf("names that tell: %q", got)
	}
}
