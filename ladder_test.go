package statelab_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/statelab/statelab"

// A rung holds packages that know the packages below, and of their own rung
// only those named here. Adding a package, or an import of one, is a design
// decision: it is written down here and in ARCHITECTURE.md.
type rung struct {
	name      string
	mayImport map[string][]string // package -> packages of this module
}

var ladder = []rung{
	{"words", map[string][]string{
		"engine":        {},
		"internal/unit": {},
		"result":        {"engine"},
		"tree":          {"engine"},
		"state":         {"engine"},
	}},
	{"pure", map[string][]string{
		"internal/keyspace":   {"engine"},
		"internal/workload":   {},
		"internal/changeset":  {},
		"internal/mpt":        {"state"},
		"internal/pace":       {},
		"internal/lsm":        {"engine", "result"},
		"internal/cachesim":   {"engine"},
		"internal/trace":      {"engine", "internal/cachesim"},
		"internal/predict":    {"engine", "internal/cachesim", "internal/lsm", "result"},
		"internal/statemodel": {"internal/cachesim", "internal/mpt"},
	}},
	{"observe", map[string][]string{
		"internal/measure":           {"result"},
		"internal/host":              {"internal/measure", "internal/unit", "result"},
		"internal/blockio":           {"engine"},
		"internal/blockio/pebble1fs": {"engine", "internal/blockio"},
		"internal/blockio/pebble2fs": {"engine", "internal/blockio"},
		"internal/resolve": {"engine", "internal/blockio", "internal/blockio/pebble1fs", "internal/blockio/pebble2fs", "internal/cachesim",
			"internal/trace"},
	}},
	{"adapt", map[string][]string{
		"internal/pebbledb":            {"engine", "internal/blockio", "internal/lsm", "internal/unit"},
		"internal/adapter":             {"engine", "internal/unit"},
		"internal/mmapdb":              {},
		"internal/mmapdb/mmaptest":     {"engine", "internal/host", "result"},
		"internal/sharedlib":           {"engine"},
		"internal/sharedlib/libtest":   {},
		"engine/enginetest":            {"engine"},
		"tree/treetest":                {"engine", "tree"},
		"state/statetest":              {"internal/mpt", "state"},
		"internal/iavlforest":          {"engine", "tree"},
		"internal/pebbledb/pebbletest": {"engine"},
		"engines/badger":               {"engine", "internal/adapter"},
		"engines/bbolt":                {"engine", "internal/adapter"},
		"engines/goleveldb":            {"engine", "internal/adapter", "internal/blockio"},
		"engines/mem":                  {"engine"},
		"engines/lmdb":                 {"engine", "internal/adapter", "internal/mmapdb"},
		"engines/mdbx":                 {"engine", "internal/adapter", "internal/mmapdb"},
		"engines/native":               {"engine", "internal/adapter", "internal/sharedlib"},
		"engines/null":                 {"engine", "internal/unit"},
		"trees/null":                   {"engine", "tree"},
		"trees/native":                 {"engine", "internal/adapter", "internal/host", "internal/sharedlib", "state"},
		"trees/pagetrie":               {"engine", "internal/adapter", "internal/mpt", "state"},
		"trees/flat":                   {"engine", "internal/host", "state"},
		"trees/chunktrie":              {"engine", "internal/adapter", "internal/mpt", "internal/unit", "state"},
		"internal/replay/replaytest":   {"engine", "tree"},
		"engines/pebble1":              {"engine", "internal/blockio", "internal/blockio/pebble1fs", "internal/pebbledb"},
		"engines/pebble2":              {"engine", "internal/blockio", "internal/blockio/pebble2fs", "internal/pebbledb"},
		"engines/rocksdb":              {"engine", "internal/adapter", "internal/blockio"},
	}},
	{"run", map[string][]string{
		"internal/bench": {"engine", "internal/host", "internal/keyspace", "internal/lsm", "internal/measure", "internal/pace",
			"internal/unit", "internal/workload", "result"},
		"internal/supervise":       {"internal/bench", "internal/unit", "result"},
		"internal/sweep":           {"engine", "internal/bench", "internal/keyspace", "internal/lsm", "internal/unit", "result"},
		"internal/remote":          {"engine", "state", "tree"},
		"internal/layouts":         {"engine", "internal/host", "internal/keyspace", "internal/measure", "result", "state"},
		"internal/layouts/compare": {"internal/cachesim", "internal/layouts", "internal/mpt", "internal/statemodel", "result", "state"},
		"internal/replay":          {"engine", "internal/changeset", "internal/host", "internal/measure", "result", "tree"},
		"internal/contest":         {"engine", "internal/replay", "result", "tree"},
		"runner":                   {"engine", "internal/bench", "internal/changeset", "internal/layouts", "internal/remote", "internal/replay", "result", "state", "tree"},
	}},
	{"explain", map[string][]string{
		"web":                 {},
		"internal/advise":     {"engine", "internal/lsm", "internal/predict", "internal/unit", "result"},
		"internal/kvdblog":    {"engine", "internal/lsm", "internal/unit", "result"},
		"internal/report":     {"engine", "internal/unit", "result", "web"},
		"internal/promexport": {"result"},
	}},
	{"program", map[string][]string{
		"cmd/statelab-run-lmdb":     {"engines/lmdb", "runner"},
		"cmd/statelab-run-mdbx":     {"engines/mdbx", "runner"},
		"cmd/statelab-run-flatmdbx": {"engines/mdbx", "runner", "trees/flat"},
		"cmd/statelab-run-native":   {"engines/native", "runner"},
		"cmd/statelab-run-states":   {"runner", "state", "trees/native"},
		"cmd/statelab": {"engine", "engines/badger", "engines/bbolt", "engines/goleveldb", "engines/mem", "engines/null", "engines/pebble1",
			"engines/pebble2", "internal/advise", "internal/bench", "internal/cachesim", "internal/changeset", "internal/contest", "internal/host", "internal/keyspace", "internal/kvdblog",
			"internal/layouts", "internal/layouts/compare", "internal/lsm", "internal/pebbledb", "internal/predict", "internal/promexport", "internal/remote", "internal/replay", "internal/report", "internal/resolve", "internal/supervise", "internal/sweep", "internal/trace", "internal/unit",
			"internal/workload", "result", "runner", "state", "tree", "trees/chunktrie", "trees/flat", "trees/null", "trees/pagetrie"},
		"cmd/statelab-run-rocksdb": {"engines/rocksdb", "runner"},
	}},
}

// walls hold through any number of imports.
var walls = []struct {
	from, to []string // packages, or whole rungs
	why      string
}{
	{[]string{"explain"}, []string{"observe", "adapt", "run"}, "what explains reads run folders, never a live object"},
	{[]string{"adapt"}, []string{"run"}, "an adapter translates: it knows no harness"},
	{[]string{"run"}, []string{"adapt"}, "the harness knows the contract, no engine"},
	{[]string{"result"}, []string{"pure", "observe"}, "result is what passes between measuring and explaining"},
}

type listed struct {
	ImportPath, Doc string
	Imports         []string
	GoFiles         []string
}

// packages are all packages of the module by their path inside it.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Doc,Imports,GoFiles", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // engines in C have packages, too; listing compiles nothing
	text, err := list.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	found := map[string]listed{}
	for decoder := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 { // tests alone make no package that others could import
			found[inModule(p.ImportPath)] = p
		}
	}
}

func inModule(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

func (p listed) own() (imports []string) {
	for _, path := range p.Imports {
		if strings.HasPrefix(path, module+"/") {
			imports = append(imports, inModule(path))
		}
	}
	return imports
}

func TestImportsGoDownTheLadder(t *testing.T) {
	found := packages(t)
	rungOf := map[string]int{}
	for height, r := range ladder {
		for name, mayImport := range r.mayImport {
			if _, twice := rungOf[name]; twice {
				t.Errorf("%s stands on two rungs", name)
			}
			rungOf[name] = height
			if _, exists := found[name]; !exists {
				t.Errorf("%s is on the ladder but not in the module", name)
			}
			for _, imported := range found[name].own() {
				if !slices.Contains(mayImport, imported) {
					t.Errorf("%s imports %s, which the ladder does not allow", name, imported)
				}
			}
		}
	}
	for name, p := range found {
		if _, known := rungOf[name]; !known {
			t.Errorf("%s (imports %v) is not on the ladder: decide on its rung", name, p.own())
		}
	}
	for height, r := range ladder {
		for name, mayImport := range r.mayImport {
			for _, imported := range mayImport {
				if to, known := rungOf[imported]; !known || to > height {
					t.Errorf("%s may import %s, which is not below it", name, imported)
				}
			}
		}
	}
}

func TestWallsHold(t *testing.T) {
	found := packages(t)
	for _, wall := range walls {
		forbidden := members(wall.to)
		for _, from := range members(wall.from) {
			for reached, way := range reach(found, from) {
				if slices.Contains(forbidden, reached) {
					t.Errorf("%s reaches %s: %s", strings.Join(way, " -> "), reached, wall.why)
				}
			}
		}
	}
}

// members are the packages that names, of rungs or packages, stand for.
func members(names []string) (all []string) {
	for _, name := range names {
		rung := slices.IndexFunc(ladder, func(r rung) bool { return r.name == name })
		if rung < 0 {
			all = append(all, name)
			continue
		}
		all = append(all, slices.Sorted(maps.Keys(ladder[rung].mayImport))...)
	}
	return all
}

// reach is every package that from imports, through others too, with the way
// there.
func reach(found map[string]listed, from string) map[string][]string {
	ways := map[string][]string{}
	next := [][]string{{from}}
	for len(next) > 0 {
		way := next[0]
		next = next[1:]
		for _, imported := range found[way[len(way)-1]].own() {
			if _, seen := ways[imported]; !seen {
				ways[imported] = way
				next = append(next, append(slices.Clone(way), imported))
			}
		}
	}
	return ways
}
