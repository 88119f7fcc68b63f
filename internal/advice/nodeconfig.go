package advice

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/result"
)

// NodeCommand is how a running node was started. Paths are as the process sees them.
type NodeCommand struct {
	Args       []string // the program first
	Env        []string // NAME=value
	Dir        string   // its working directory
	ProgramDir string   // the folder of its program
	Database   string   // the folder of the database that it has open; "": not known
}

// settingsOf says where a client reads its settings. Options of its command line come before
// variables of its environment, and those before the configuration file; geth's file is different,
// see gethCaches.
type settingsOf struct {
	flags    []string                 // options about memory, without dashes
	variable func(flag string) string // of the environment; nil: it reads none
	files    []string                 // options that name the configuration file
	keys     []string                 // about memory, in the file
	path     func(n NodeCommand, given string) string
	parse    func(text []byte) ([]fileSetting, error)
}

// Names of options.
const (
	gethCache, gethDatabase, gethTrie = "cache", "cache.database", "cache.trie"
	gethGC, gethSnapshot              = "cache.gc", "cache.snapshot"
	gethFileDatabase                  = "Eth.DatabaseCache"
	gethFileTrie, gethFileGC          = "Eth.TrieCleanCache", "Eth.TrieDirtyCache"
	gethFileSnapshot                  = "Eth.SnapshotCache"

	besuCache       = "Xplugin-rocksdb-cache-capacity"
	nethermindCache = "Db.SharedBlockCacheSize"
	ethrexCache     = "rocksdb.block-cache-size"
	iavlCache       = "iavl-cache-size"

	jvmHeap = "-Xmx"       // joined with its value, for the JVM
	goLimit = "GOMEMLIMIT" // a variable that Go reads in every program
)

// clientSettings are the rules of clients.
//
// geth: loadBaseConfig and AutoEnvVars (cmd/geth/config.go, internal/flags/helpers.go). Besu:
// ConfigDefaultValueProviderStrategy, EnvironmentVariableDefaultProvider and
// TomlConfigurationDefaultProvider, which looks for an option's name without dashes in every table.
// Nethermind: BuildConfigProvider (Program.cs), EnvConfigSource, JsonConfigSource. Cosmos SDK:
// interceptConfigs (server/util.go) reads config/app.toml in the folder of --home.
var clientSettings = map[clients.Client]settingsOf{
	clients.Geth: {
		flags: []string{gethCache, gethDatabase, gethTrie, gethGC, gethSnapshot},
		variable: func(flag string) string {
			return "GETH_" + strings.ToUpper(strings.ReplaceAll(flag, ".", "_"))
		},
		files: []string{"config"},
		keys:  []string{gethFileDatabase, gethFileTrie, gethFileGC, gethFileSnapshot},
		parse: parseTOML,
	},
	clients.Besu: {
		flags: []string{besuCache},
		variable: func(flag string) string {
			return "BESU_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		},
		files: []string{"config-file"},
		keys:  []string{besuCache},
		parse: func(text []byte) ([]fileSetting, error) {
			all, err := parseTOML(text)
			for i := range all { // headings of tables are ignored
				all[i].name = all[i].name[strings.LastIndex(all[i].name, ".")+1:]
			}
			return all, err
		},
	},
	clients.Nethermind: {
		flags: []string{nethermindCache},
		variable: func(flag string) string {
			category, name, is := strings.Cut(flag, ".")
			if !is {
				return "NETHERMIND_" + strings.ToUpper(flag)
			}
			return "NETHERMIND_" + strings.ToUpper(category) + "CONFIG_" + strings.ToUpper(name)
		},
		files: []string{"config", "c"},
		keys:  []string{nethermindCache},
		path: func(n NodeCommand, given string) string {
			if path.Ext(given) != "" || strings.Contains(given, "/") {
				return given
			}

			dir := path.Join(n.ProgramDir, "configs")
			for _, flag := range []string{"configsDirectory", "configs-dir", "cd"} {
				if value, is := argument(n.Args, flag); is {
					dir = value
				}
			}

			return path.Join(dir, given+".json") // the name of one of its own
		},
		parse: func(text []byte) ([]fileSetting, error) {
			all, err := parseJSON(text)
			for i := range all { // a category has its name with and without Config
				category, name, _ := strings.Cut(all[i].name, ".")
				all[i].name = strings.TrimSuffix(category, "Config") + "." + name
			}
			return all, err
		},
	},
	clients.Ethrex: {flags: []string{ethrexCache}},
	clients.CosmosSDK: {
		files: []string{"home"},
		keys:  []string{iavlCache},
		path: func(n NodeCommand, home string) string {
			if home == "" && n.Database != "" { // HOME/data/application.db
				home = path.Dir(path.Dir(n.Database))
			}
			if home == "" {
				return ""
			}
			return path.Join(home, "config", "app.toml")
		},
		parse: parseTOML,
	},
}

// ReadNodeConfig collects what a node's command line, its environment and its configuration file
// set about memory, the strongest first. read reads a file by its path as the process sees it. What
// cannot be read or understood is a warning.
func ReadNodeConfig(
	client clients.Client, n NodeCommand, read func(path string) ([]byte, error),
) (c result.NodeConfig) {
	rules := clientSettings[client.WithFlags()]
	c = FlagsAlone(client, n.Args)
	add := func(o result.NodeOption, is bool) {
		if is {
			c.Options = append(c.Options, o)
		}
	}

	for _, flag := range rules.flags {
		if rules.variable == nil {
			break
		}
		name := rules.variable(flag)
		value, is := variable(n.Env, name)
		add(result.NodeOption{Name: flag, Value: value, Variable: name}, is && value != "")
	}

	heap := "" // of several options, the JVM follows the last
	for _, arg := range n.Args {
		if value, is := strings.CutPrefix(arg, jvmHeap); is {
			heap = value
		}
	}

	add(result.NodeOption{Name: jvmHeap, Value: heap}, heap != "")
	value, is := variable(n.Env, goLimit)
	add(result.NodeOption{Name: goLimit, Value: value, Variable: goLimit}, is && value != "")

	file := rules.file(n)
	if file == "" {
		return c
	}

	c.File = file
	var settings []fileSetting
	text, err := read(file)
	if err == nil {
		settings, err = rules.parse(text)
	}

	if err != nil {
		c.Warnings = append(c.Warnings, fmt.Sprintf("the configuration file %s of the node cannot "+
			"be used (%v): what follows does without it", file, err))
		return c
	}

	for _, key := range rules.keys {
		for _, s := range settings {
			if strings.EqualFold(s.name, key) && (s.name == key || client == clients.Nethermind) {
				add(result.NodeOption{Name: key, Value: s.value, File: file, Line: s.line}, true)
			}
		}
	}

	return c
}

// FlagsAlone is what a node's command line sets, its program first.
func FlagsAlone(client clients.Client, args []string) result.NodeConfig {
	rules := clientSettings[client.WithFlags()]
	var c result.NodeConfig
	for _, flag := range rules.flags {
		if value, is := argument(args, flag); is {
			c.Options = append(c.Options, result.NodeOption{Name: flag, Value: value})
		}
	}
	return c
}

// file is the configuration file that a node reads; "": none is known.
func (r settingsOf) file(n NodeCommand) string {
	given := ""
	for _, flag := range r.files {
		if value, is := argument(n.Args, flag); is {
			given = value
			break
		}
		if r.variable == nil {
			continue
		}
		if value, is := variable(n.Env, r.variable(flag)); is {
			given = value
		}
	}

	file := given
	if r.path != nil && (given != "" || slices.Contains(r.files, "home")) {
		file = r.path(n, given)
	}

	if file != "" && !path.IsAbs(file) {
		file = path.Join(n.Dir, file)
	}

	return file
}

// argument is the value of an option of a command line, of several the last.
func argument(args []string, flag string) (value string, is bool) {
	for i, arg := range args {
		name, joined, cut := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || name != flag {
			continue
		}

		switch is = true; {
		case cut:
			value = joined
		case i+1 < len(args):
			value = args[i+1]
		default:
			value = ""
		}
	}

	return value, is
}

// variable is the value of a variable of an environment.
func variable(env []string, name string) (value string, is bool) {
	for _, line := range env {
		if is = strings.HasPrefix(line, name+"="); is {
			return line[len(name)+1:], true
		}
	}
	return "", false
}

// strongest is the option of a name that the client follows; nil: none is set.
func strongest(c result.NodeConfig, name string) *result.NodeOption {
	for i, o := range c.Options {
		if o.Name == name {
			return &c.Options[i]
		}
	}
	return nil
}

// where says where an option stands, such as "in line 3 of /etc/geth.toml".
func where(o *result.NodeOption, c result.NodeConfig) string {
	switch {
	case o.File != "":
		return fmt.Sprintf("in line %d of %s", o.Line, o.File)
	case o.Variable != "":
		return "in the environment of " + unitOf(c)
	}
	return "on the command line of " + unitOf(c)
}

// assigned is an option with a value, as it is written where it stands.
func assigned(o *result.NodeOption, value string) string {
	switch {
	case o.File != "" && strings.HasSuffix(o.File, ".toml"):
		return shortKey(o) + " = " + value
	case o.File != "":
		return fmt.Sprintf("%q: %s", shortKey(o), value)
	case o.Variable != "":
		return o.Variable + "=" + value
	}
	return "--" + o.Name + " " + value
}

// shortKey is the key of an option within its table.
func shortKey(o *result.NodeOption) string {
	return o.Name[strings.LastIndex(o.Name, ".")+1:]
}

// unitOf names what runs the node.
func unitOf(c result.NodeConfig) string {
	if c.Unit == "" {
		return "the process"
	}
	return c.Unit
}

// cacheOption names the one option from which a client takes its block cache; "": none is known.
func cacheOption(client clients.Client) string {
	return map[clients.Client]string{clients.Besu: besuCache, clients.Nethermind: nethermindCache,
		clients.Ethrex: ethrexCache}[client]
}

// SetRocksDB says what gives a client of RocksDB a block cache, and where that stands in the
// configuration of a node: "--flag=2 instead of 1, on the command line of node.service".
func SetRocksDB(client clients.Client, c result.NodeConfig, wantBytes int64) string {
	_, flag := RocksDBCache(client, wantBytes)
	name, value := cacheOption(client), fmt.Sprint(wantBytes)
	switch o := strongest(c, name); {
	case o != nil && o.File == "" && o.Variable == "":
		return fmt.Sprintf("%s instead of %s, %s", flag, o.Value, where(o, c))
	case o != nil:
		return fmt.Sprintf("%s instead of %s, %s%s", assigned(o, value), o.Value, where(o, c),
			restart(o, c))
	case name != "" && c.File != "" && len(c.Warnings) == 0:
		added := &result.NodeOption{Name: name, File: c.File}
		table := ""
		if client == clients.Nethermind {
			table = ", under \"Db\""
		}
		return fmt.Sprintf("%s, added to %s%s%s", assigned(added, value), c.File, table,
			restart(added, c))
	case name != "" && c.Unit != "":
		return flag + ", " + onCommandLine(c)
	}

	return flag
}

// restart reminds of what a changed file needs.
func restart(o *result.NodeOption, c result.NodeConfig) string {
	if o.File == "" || c.Unit == "" {
		return ""
	}
	return ", and restart " + c.Unit
}

// overridden tells of the same option at a weaker place, which has no effect.
func overridden(c result.NodeConfig, by *result.NodeOption) string {
	if by == nil {
		return ""
	}

	for i := range c.Options {
		if o := &c.Options[i]; o != by && o.Name == by.Name {
			return fmt.Sprintf(" Its %s %s has no effect beside that.", assigned(o, o.Value),
				where(o, c))
		}
	}

	return ""
}

// memoryBeside tells of memory of the process that a block cache does not come out of.
func memoryBeside(client clients.Client, c result.NodeConfig) string {
	text := ""
	if client == clients.Besu {
		text = " Each of its column families gets a cache of that size"
		if heap := strongest(c, jvmHeap); heap != nil {
			text += fmt.Sprintf(", beside the JVM's heap of %s%s", jvmHeap, heap.Value)
		}
		text += "."
	}

	if limit := strongest(c, goLimit); limit != nil {
		text += fmt.Sprintf(" Its %s=%s stays.", goLimit, limit.Value)
	}

	return text
}

// warnings are what could not be read of a node's configuration, as sentences behind an answer.
func configWarnings(c result.NodeConfig) string {
	text := ""
	for _, w := range c.Warnings {
		text += " Warning: " + w + "."
	}
	return text
}

// NodeCache is the block cache that a node's configuration names, of a client that takes it from
// one option; 0: it names none.
func NodeCache(client clients.Client, c result.NodeConfig) int64 {
	o := strongest(c, cacheOption(client))
	if o == nil {
		return 0
	}

	bytes, err := strconv.ParseInt(o.Value, 10, 64)
	if err != nil || bytes < 0 {
		return 0
	}

	return bytes
}
