package advice

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/result"
)

// Configuration files as operators write them.
const (
	gethTOML = `# geth dumpconfig
[Eth]
NetworkId = 1
DatabaseCache = 16
TrieCleanCache = 8
TrieDirtyCache = 4
SnapshotCache = 2

[Node]
DataDir = "/data"
`
	besuTOML = `network = "mainnet"
data-path = "/data"
[Memory]
"Xplugin-rocksdb-cache-capacity" = 134217728
`
	nethermindJSON = `{
  "$schema": "https://example.org/config.json",
  "Init": {
    "MemoryHint": 2000000000
  },
  "DbConfig": {"sharedblockcachesize": 268435456,
    "Names": ["a", "b"]}
}
`
	appTOML = "minimum-gas-prices = \"0stake\"\niavl-cache-size = 781250\n\n[api]\nenable = true\n"
)

// TestNodeConfig: where a node's cache is set, and what the smallest change of it is.
func TestNodeConfig(t *testing.T) {
	for _, c := range []struct {
		name    string
		client  clients.Client
		command NodeCommand
		file    string // its path and content
		content string
		present int64 // MiB
		want    int64
		memory  Memory
		unit    string
		answer  string
	}{
		{"geth's file", clients.Geth, NodeCommand{Args: words("geth --config /etc/geth.toml")},
			"/etc/geth.toml", gethTOML, 16, 24, Memory{}, "geth.service",
			"To set it: DatabaseCache = 24 in line 4 of /etc/geth.toml, instead of 16. Then " +
				"restart geth.service; geth's other caches keep 14.0 MiB."},
		{"a relative path", clients.Geth, NodeCommand{Args: words("geth --config=geth.toml"),
			Dir: "/srv"}, "/srv/geth.toml", gethTOML, 16, 24, Memory{}, "",
			"To set it: DatabaseCache = 24 in line 4 of /srv/geth.toml, instead of 16. geth's " +
				"other caches keep 14.0 MiB."},
		{"a flag before geth's file", clients.Geth,
			NodeCommand{Args: words("geth --config /etc/geth.toml --cache 32")},
			"/etc/geth.toml", gethTOML, 16, 19, Memory{}, "geth.service",
			"To set it: --cache.database 60 on the command line of geth.service with your " +
				"--cache 32 (the rest of your flags stays). DatabaseCache = 16 in line 4 of " +
				"/etc/geth.toml has no effect beside the flags."},
		{"geth's default is cut", clients.Geth,
			NodeCommand{Args: words("geth --config /etc/geth.toml")},
			"/etc/geth.toml", gethTOML, 1024, 1200, Memory{MachineBytes: 6 << 30}, "",
			"To set it: --cache.database 59 (geth's default --cache 4096 and your other flags " +
				"stay). DatabaseCache = 16 in line 4 of /etc/geth.toml has no effect since geth " +
				"cuts its default --cache to a third of the memory, which counts as given."},
		{"geth's variables", clients.Geth, NodeCommand{Args: words("geth"),
			Env: []string{"GETH_CACHE=32", "GOMEMLIMIT=2GiB"}}, "", "", 16, 19, Memory{},
			"container 0123456789ab",
			"To set it: --cache.database 60 on the command line of container 0123456789ab with " +
				"your GETH_CACHE=32 (the rest of your flags stays). Its GOMEMLIMIT=2GiB stays."},
		{"geth's share in a variable", clients.Geth, NodeCommand{Args: words("geth --cache 32"),
			Env: []string{"GETH_CACHE_DATABASE=50"}}, "", "", 16, 19, Memory{}, "geth.service",
			"To set it: GETH_CACHE_DATABASE=60 in the environment of geth.service with your " +
				"--cache 32 (the rest of your flags stays)."},
		{"a file that a variable names", clients.Geth, NodeCommand{Args: words("geth"),
			Env: []string{"GETH_CONFIG=/etc/geth.toml"}}, "/etc/geth.toml", gethTOML, 16, 24,
			Memory{}, "", "To set it: DatabaseCache = 24 in line 4 of /etc/geth.toml, instead " +
				"of 16. geth's other caches keep 14.0 MiB."},
		{"a file that is damaged", clients.Geth,
			NodeCommand{Args: words("geth --config /etc/geth.toml --cache 32")},
			"/etc/geth.toml", "[Eth]\nDatabaseCache = 16\nDatabaseCache = \n", 16, 19, Memory{}, "",
			"To set it: --cache.database 60 with your --cache 32 (the rest of your flags stays). " +
				"Warning: the configuration file /etc/geth.toml of the node cannot be used (line " +
				"3"},
		{"a file that is not there", clients.Geth,
			NodeCommand{Args: words("geth --config /etc/none.toml --cache 32")},
			"", "", 16, 19, Memory{}, "",
			"To set it: --cache.database 60 with your --cache 32 (the rest of your flags stays). " +
				"Warning: the configuration file /etc/none.toml of the node cannot be used (file " +
				"does not exist): what follows does without it."},
		{"Besu's file", clients.Besu, NodeCommand{Args: words(
			"java -Xmx4g org.hyperledger.besu.Besu --config-file=/etc/besu.toml")},
			"/etc/besu.toml", besuTOML, 128, 256, Memory{}, "besu.service",
			"To set it: Xplugin-rocksdb-cache-capacity = 268435456 instead of 134217728, in line " +
				"4 of /etc/besu.toml, and restart besu.service. Each of its column families gets " +
				"a cache of that size, beside the JVM's heap of -Xmx4g."},
		{"Besu's variable before its file", clients.Besu, NodeCommand{Args: words(
			"java --config-file=/etc/besu.toml"),
			Env: []string{"BESU_XPLUGIN_ROCKSDB_CACHE_CAPACITY=1000"}},
			"/etc/besu.toml", besuTOML, 128, 256, Memory{}, "",
			"To set it: BESU_XPLUGIN_ROCKSDB_CACHE_CAPACITY=268435456 instead of 1000, in the " +
				"environment of the process. Its Xplugin-rocksdb-cache-capacity"},
		{"Besu's file without a cache", clients.Besu, NodeCommand{Args: words("besu"),
			Env: []string{"BESU_CONFIG_FILE=/etc/besu.toml"}},
			"/etc/besu.toml", "network = \"mainnet\"\n", 128, 256, Memory{}, "besu.service",
			"To set it: Xplugin-rocksdb-cache-capacity = 268435456, added to /etc/besu.toml, " +
				"and restart besu.service. Each of its column families gets a cache of that size."},
		{"Besu without any", clients.Besu, NodeCommand{Args: words("besu")}, "", "", 128, 256,
			Memory{}, "", "To set it: --Xplugin-rocksdb-cache-capacity=268435456. Each of"},
		{"Nethermind's file", clients.Nethermind, NodeCommand{
			Args: words("nethermind -c mainnet"), ProgramDir: "/nethermind"},
			"/nethermind/configs/mainnet.json", nethermindJSON, 256, 512, Memory{}, "",
			"To set it: \"SharedBlockCacheSize\": 536870912 instead of 268435456, in line 6 of " +
				"/nethermind/configs/mainnet.json."},
		{"Nethermind's flag before its file", clients.Nethermind, NodeCommand{
			Args: words("nethermind --config /c.json --Db.SharedBlockCacheSize 5")},
			"/c.json", nethermindJSON, 256, 512, Memory{}, "nethermind.service",
			"To set it: --Db.SharedBlockCacheSize 536870912 instead of 5, on the command line of " +
				"nethermind.service."},
		{"Nethermind's file is damaged", clients.Nethermind, NodeCommand{
			Args: words("nethermind --config /c.json")}, "/c.json", "{\n\"Db\": {,}}", 256, 512,
			Memory{}, "", "To set it: --Db.SharedBlockCacheSize 536870912. Warning: the " +
				"configuration file /c.json of the node cannot be used (line 2"},
		{"a Cosmos node", clients.CosmosSDK, NodeCommand{Args: words("gaiad start"),
			Database: "/srv/gaia/data/application.db"}, "/srv/gaia/config/app.toml", appTOML,
			8, 16, Memory{}, "", "It has iavl-cache-size = 781250 in line 2 of " +
				"/srv/gaia/config/app.toml."},
	} {
		config := ReadNodeConfig(c.client, c.command, func(path string) ([]byte, error) {
			if path != c.file {
				return nil, fs.ErrNotExist
			}
			return []byte(c.content), nil
		})
		config.Unit = c.unit
		answer := SetCache(c.client, config, c.present*mib, c.want*mib, c.memory)
		if !strings.Contains(answer, c.answer) {
			t.Errorf("%s:\n%s\nwant\n%s\n%+v", c.name, answer, c.answer, config)
		}
	}
}

func words(text string) []string { return strings.Fields(text) }

// TestContradictedGeth: settings that do not make the cache of the OPTIONS file are named, unless
// some of them could not be read.
func TestContradictedGeth(t *testing.T) {
	config := FlagsAlone(clients.Geth, words("geth --cache 64"))
	err := CheckGeth(config, 16*mib, Memory{MachineBytes: 64 << 30})
	if both := new(ContradictionError); !errors.As(err, &both) || both.SetBytes != 32*mib ||
		!strings.Contains(err.Error(), "(--cache 64)") {
		t.Errorf("%v", err)
	}

	for _, fits := range []struct {
		args    string
		present int64
		memory  Memory
	}{
		{"geth --cache 64", 32, Memory{}},
		{"geth --cache 8", 16, Memory{}}, // the least
		{"geth", 2048, Memory{MachineBytes: 64 << 30}},
		// A version that knows the limit, and one that does not.
		{"geth", 500, Memory{MachineBytes: 64 << 30, LimitBytes: 3000 << 20}},
		{"geth", 2048, Memory{MachineBytes: 64 << 30, LimitBytes: 3000 << 20}},
	} {
		err := CheckGeth(FlagsAlone(clients.Geth, words(fits.args)), fits.present*mib, fits.memory)
		if err != nil {
			t.Errorf("%+v: %v", fits, err)
		}
	}

	config.Warnings = []string{"something"}
	if err := CheckGeth(config, 16*mib, Memory{}); err != nil {
		t.Errorf("where not everything was read: %v", err)
	}
}

// TestLinesOfConfigFiles: settings are found with the lines where they stand.
func TestLinesOfConfigFiles(t *testing.T) {
	toml, err := parseTOML([]byte("a = 1\n\n[b]\nc.d = \"x\"\n[[e]]\nf = 2\n[g.h]\ni=[1,\n2]\nj=3"))
	want := []fileSetting{{"a", "1", 1}, {"b.c.d", "x", 4}, {"f", "2", 6}, {"g.h.i", "", 8},
		{"g.h.j", "3", 10}}
	if err != nil || !slices.Equal(toml, want) {
		t.Errorf("%v, %+v", err, toml)
	}

	object, err := parseJSON([]byte(nethermindJSON))
	want = []fileSetting{{"Init.MemoryHint", "2000000000", 4},
		{"DbConfig.sharedblockcachesize", "268435456", 6}, {"DbConfig.Names", `["a", "b"]`, 7}}
	if err != nil || !slices.Equal(object, want) {
		t.Errorf("%v, %+v", err, object)
	}
}

// FuzzConfigFiles: no file of a node brings the reader down.
func FuzzConfigFiles(f *testing.F) {
	for _, text := range []string{gethTOML, besuTOML, nethermindJSON, appTOML, "[", "{\"a\":{}}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, client := range []clients.Client{clients.Geth, clients.Besu, clients.Nethermind} {
			config := ReadNodeConfig(client, NodeCommand{Args: words(
				"node --config /f.json --config-file /f.json")},
				func(string) ([]byte, error) { return text, nil })
			for _, o := range config.Options {
				if o.Line < 1 || o.Line > 1+strings.Count(string(text), "\n") {
					t.Errorf("%+v", o)
				}
			}
			SetCache(client, config, 16*mib, 32*mib, Memory{})
		}
	})
}

// TestNumbersOfTOML: digits in groups, and other bases.
func TestNumbersOfTOML(t *testing.T) {
	all, err := parseTOML([]byte("a = 134_217_728\nb = 0x10\nc = \"1_0\"\n"))
	if err != nil || fmt.Sprint(all) != "[{a 134217728 1} {b 16 2} {c 1_0 3}]" {
		t.Errorf("%v, %v", all, err)
	}
}

// TestGethWithoutCaches: --cache 0 leaves the database its least, and no share of it is more.
func TestGethWithoutCaches(t *testing.T) {
	c := result.NodeConfig{Options: []result.NodeOption{{Name: gethCache, Value: "0"}}}
	change, err := ChangeGeth(c, GethLeastCache, 32*mib, Memory{})
	if err != nil || change.CacheBytes < 32*mib || change.Flags[0] != "--cache 36" {
		t.Errorf("%+v, %v", change, err)
	}
}

// TestDefaultsContradictNothing: geth's default differs by version and network.
func TestDefaultsContradictNothing(t *testing.T) {
	file := result.NodeOption{Name: gethFileDatabase, Value: "30", File: "/geth.toml", Line: 3}
	c := result.NodeConfig{Options: []result.NodeOption{file}}
	if err := CheckGeth(c, 18*mib, Memory{}); err != nil {
		t.Error(err)
	}

	c.Options = append(c.Options, result.NodeOption{Name: gethCache, Value: "100"})
	if err := CheckGeth(c, 18*mib, Memory{}); err == nil {
		t.Error("--cache 100 gives the database 18 MiB")
	}
}
