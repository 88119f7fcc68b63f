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
		"engine":                 {},
		"blockreads":             {"engine", "internal/base/unit"},
		"internal/base/unit":     {},
		"internal/base/frames":   {},
		"internal/base/failure":  {"engine"},
		"internal/base/setting":  {"engine", "internal/base/failure", "internal/base/unit"},
		"internal/base/output":   {"engine"},
		"internal/base/console":  {"engine", "internal/base/unit", "result"},
		"internal/base/spelling": {},
		"internal/base/commandline": {"engine", "internal/base/output", "internal/base/setting",
			"internal/base/spelling"},
		"internal/base/sbom":        {},
		"internal/base/livedir":     {"engine"},
		"internal/base/optionsfile": {"internal/base/livedir"},
		"internal/base/testring":    {},
		"internal/base/mutilate":    {},
		"internal/base/memoryuse":   {"engine"},
		"internal/base/schema":      {},
		"result/figure":             {},
		"result": {"engine", "internal/base/memoryuse", "internal/base/output",
			"internal/base/schema", "result/figure"},
		"tree":   {"engine"},
		"layout": {"engine"},
	}},
	{"pure", map[string][]string{
		"internal/base/keyspace": {"engine", "internal/base/output", "internal/base/schema"},
		"internal/base/workload": {},
		"internal/chain/accesses": {"internal/base/unit", "internal/chain/ethjson",
			"internal/chain/mpt", "layout", "internal/report/doc", "internal/base/schema"},
		"internal/chain/changeset": {"engine", "internal/base/frames", "internal/base/unit",
			"internal/chain/ethjson", "internal/report/doc", "internal/base/schema"},
		"internal/chain/ethjson": {},
		"internal/chain/clients": {},
		"internal/advice": {"internal/base/optionsfile", "internal/base/unit",
			"internal/chain/clients", "result", "result/figure"},
		"internal/chain/kvlog": {"engine", "internal/base/unit", "internal/report/doc",
			"internal/base/schema"},
		"internal/chain/xatu":       {"internal/chain/accesses"},
		"internal/chain/mpt":        {"layout"},
		"internal/base/pace":        {},
		"internal/model/difference": {},
		"internal/model/lsm":        {"engine", "result"},
		"internal/model/cachesim":   {"engine"},
		"internal/model/trace": {"engine", "internal/base/frames", "internal/model/cachesim",
			"internal/base/schema"},
		"internal/model/tablemodel": {"engine", "internal/model/cachesim", "internal/model/lsm",
			"internal/model/trace"},
		"internal/model/predict": {"engine", "internal/model/cachesim", "internal/model/lsm",
			"result"},
		"internal/model/fidelity": {"engine", "internal/base/optionsfile", "internal/base/unit",
			"internal/model/lsm", "internal/model/predict"},
		"internal/model/gas":       {"internal/model/statemodel", "result", "result/figure"},
		"internal/model/scaling":   {},
		"internal/model/pagecache": {},
		"internal/model/statemodel": {"engine", "internal/model/cachesim", "internal/model/lsm",
			"internal/chain/mpt"},
		"internal/report/doc": {"engine", "internal/base/unit", "result/figure"},
		"internal/subject": {"internal/chain/mpt", "internal/model/cachesim",
			"internal/model/statemodel"},
	}},
	{"observe", map[string][]string{
		"internal/observe/measure": {"result"},
		"internal/observe/host": {"engine", "internal/base/livedir", "internal/observe/measure",
			"internal/base/unit", "result",
			"internal/report/doc"},
		"internal/observe/blockio": {"blockreads", "engine"},
		"internal/observe/dbformat": {"engine", "internal/chain/clients", "internal/base/keyspace",
			"internal/base/unit",
			"internal/base/livedir",
			"internal/base/optionsfile"},
		"internal/observe/blockio/pebble1fs": {"engine", "internal/observe/blockio",
			"internal/observe/dbformat"},
		"internal/observe/blockio/pebble2fs": {"engine", "internal/observe/blockio",
			"internal/observe/dbformat"},
		"internal/observe/resolve": {"engine", "internal/base/failure", "internal/base/livedir",
			"internal/base/optionsfile", "internal/observe/dbformat",
			"internal/observe/blockio", "internal/observe/blockio/pebble1fs",
			"internal/observe/blockio/pebble2fs",
			"internal/model/cachesim", "internal/observe/lsmtail", "internal/observe/lookuppath"},
		"internal/observe/lsmtail": {"engine", "internal/base/livedir"},
		"internal/observe/lookuppath": {"engine", "internal/model/cachesim", "internal/model/trace",
			"internal/observe/lsmtail"},
		"internal/observe/blockbased": {"engine", "internal/base/failure", "internal/base/livedir",
			"internal/base/optionsfile",
			"internal/base/unit", "internal/model/cachesim",
			"internal/observe/blockio",
			"internal/chain/kvlog", "internal/observe/dbformat", "internal/observe/lsmtail",
			"internal/observe/lookuppath"},
		"internal/observe/probe":    {"engine", "internal/subject"},
		"internal/observe/pagefile": {"engine", "internal/subject"},
	}},
	{"adapt", map[string][]string{
		"internal/adapt/pebbledb": {"engine", "internal/chain/clients", "internal/adapt/adapter",
			"internal/observe/blockio",
			"internal/observe/blockio/pebble2fs", "internal/observe/dbformat",
			"internal/observe/lsmtail",
			"internal/model/cachesim", "internal/model/lsm", "internal/base/unit"},
		"internal/adapt/adapter": {"engine", "internal/base/livedir", "internal/base/spelling",
			"internal/base/unit", "internal/chain/clients", "internal/observe/dbformat"},
		"internal/adapt/rocksoptions": {"engine", "internal/adapt/adapter",
			"internal/model/cachesim", "internal/model/lsm", "internal/model/predict",
			"internal/model/tablemodel", "internal/observe/blockbased"},
		"internal/adapt/mmapdb": {"engine", "internal/adapt/adapter",
			"internal/observe/pagefile", "internal/subject"},
		"internal/adapt/sharedlib":         {"engine", "internal/base/memoryuse"},
		"internal/adapt/sharedlib/libtest": {},
		"engine/simple":                    {"engine", "internal/adapt/adapter"},
		"engine/closetest":                 {"internal/base/livedir"},
		"engine/conformance":               {"engine", "engine/closetest", "internal/base/livedir"},
		"engine/enginetest":                {"engine", "engine/conformance"},
		"tree/treetest":                    {"engine", "engine/conformance", "tree"},
		"layout/layouttest":                {"engine/conformance", "internal/chain/mpt", "layout"},
		"internal/base/livedir/churn":      {"engine"},
		"internal/adapt/iavlforest":        {"engine", "internal/adapt/adapter", "tree"},
		"engines/badger": {"engine", "internal/base/failure",
			"internal/adapt/adapter"},
		"engines/bbolt": {"engine", "internal/adapt/adapter",
			"internal/base/unit"},
		"engines/goleveldb": {"engine", "internal/chain/clients", "internal/adapt/adapter",
			"internal/base/unit",
			"internal/model/tablemodel", "internal/observe/blockio",
			"internal/observe/blockbased"},
		"engines/mem": {"engine"},
		"engines/lmdb": {"engine", "internal/adapt/adapter",
			"internal/adapt/mmapdb"},
		"engines/mdbx": {"engine", "internal/adapt/adapter",
			"internal/adapt/mmapdb"},
		"engines/cengine": {"engine", "internal/adapt/adapter",
			"internal/adapt/sharedlib"},
		"engines/null": {"engine", "internal/base/unit"},
		"trees/null":   {"engine", "tree"},
		"layouts/clayout": {"engine", "internal/adapt/adapter",
			"internal/observe/host", "internal/adapt/sharedlib", "layout"},
		"layouts/pagetrie": {"engine", "internal/adapt/adapter",
			"internal/chain/mpt", "layout"},
		"layouts/flat": {"engine", "internal/observe/host", "layout"},
		"layouts/chunktrie": {"engine", "internal/adapt/adapter",
			"internal/chain/mpt", "internal/base/unit", "layout"},
		"internal/run/replay/replaytest": {"engine", "tree"},
		"engines/pebble1": {"engine", "internal/observe/blockio",
			"internal/observe/blockio/pebble1fs", "internal/observe/dbformat",
			"internal/adapt/adapter",
			"internal/adapt/pebbledb"},
		"engines/pebble2": {"engine", "internal/observe/blockio",
			"internal/observe/blockio/pebble2fs", "internal/observe/dbformat",
			"internal/adapt/adapter",
			"internal/adapt/pebbledb"},
		"blockreads/pebble1": {"blockreads", "internal/observe/blockio",
			"internal/observe/blockio/pebble1fs", "internal/observe/blockio/pebble2fs"},
		"blockreads/pebble2": {"blockreads", "internal/observe/blockio",
			"internal/observe/blockio/pebble2fs"},
		"engines/rocksdb": {"engine", "internal/base/failure", "internal/base/optionsfile",
			"internal/adapt/adapter", "internal/base/unit",
			"internal/adapt/rocksoptions", "internal/model/cachesim", "internal/observe/blockio",
			"internal/observe/blockbased", "internal/observe/dbformat", "internal/observe/lsmtail"},
		"engines/rocksdb/familytest": {"engine", "engines/rocksdb"},
	}},
	{"run", map[string][]string{
		"internal/run/protocol": {"engine", "layout", "tree"},
		"internal/run/session": {"engine", "internal/base/failure", "internal/base/unit",
			"internal/observe/host",
			"internal/observe/measure", "result", "result/figure"},
		"internal/run/timed": {"internal/base/pace", "internal/observe/measure",
			"internal/run/session", "result"},
		"internal/run/bench": {"engine", "internal/chain/accesses", "internal/chain/kvlog",
			"internal/observe/dbformat", "internal/observe/host", "internal/base/keyspace",
			"internal/model/lsm",
			"internal/observe/measure",
			"internal/base/pace", "internal/run/protocol", "internal/run/session",
			"internal/run/timed", "internal/base/unit",
			"internal/base/workload", "result", "result/figure"},
		"internal/run/lookup": {"engine", "internal/chain/accesses", "internal/chain/mpt",
			"internal/observe/host", "internal/base/keyspace", "internal/observe/measure",
			"internal/run/protocol",
			"internal/run/session", "internal/run/timed", "layout", "result", "result/figure"},
		"internal/run/replay": {"engine", "internal/chain/changeset", "internal/observe/host",
			"internal/observe/measure", "internal/run/protocol",
			"internal/run/session", "internal/run/timed", "result", "tree", "result/figure"},
		"runner": {"engine", "internal/base/failure", "internal/run/bench",
			"internal/chain/changeset", "internal/run/lookup",
			"internal/run/protocol", "internal/run/replay",
			"layout", "result", "tree", "internal/base/schema"},
	}},
	{"plan", map[string][]string{
		"internal/plan": {"engine", "internal/base/failure", "internal/base/output",
			"internal/base/unit", "internal/plan/runners", "result"},
		"internal/plan/experiment": {"internal/base/keyspace", "internal/base/setting",
			"internal/base/workload", "internal/chain/accesses",
			"internal/run/bench",
			"internal/subject", "internal/base/schema"},
		"internal/plan/runners": {"engine", "internal/base/output", "internal/base/setting",
			"internal/base/failure", "internal/run/protocol",
			"internal/run/session",
			"internal/base/unit", "internal/subject", "layout", "result", "tree",
			"internal/report/doc", "internal/base/schema"},
		"internal/plan/sweep": {"engine", "internal/chain/clients", "internal/chain/kvlog",
			"internal/base/keyspace", "internal/base/output", "internal/base/setting",
			"internal/base/unit", "internal/base/workload", "internal/observe/dbformat",
			"internal/observe/host", "internal/plan",
			"internal/plan/estimate", "internal/plan/experiment", "internal/plan/runners",
			"internal/run/bench", "internal/subject", "result", "internal/base/schema"},
		"internal/plan/replays": {"engine", "internal/base/output", "internal/base/setting",
			"internal/base/unit", "internal/plan/experiment",
			"internal/chain/changeset", "internal/observe/host", "internal/plan",
			"internal/plan/estimate",
			"internal/plan/runners", "internal/run/protocol", "internal/run/replay", "result",
			"tree", "internal/base/schema", "result/figure"},
		"internal/plan/layouts": {"engine", "internal/base/output",
			"internal/base/setting", "internal/base/unit", "internal/plan/estimate",
			"internal/plan/experiment",
			"internal/model/cachesim", "internal/model/gas", "internal/model/statemodel",
			"internal/plan", "internal/plan/runners", "internal/run/lookup",
			"internal/run/protocol", "internal/subject", "layout", "result",
			"internal/base/schema", "result/figure"},
		"internal/plan/estimate": {"internal/base/keyspace", "internal/base/unit",
			"internal/base/workload", "internal/run/protocol",
			"internal/subject", "result", "internal/report/doc"},
		"measure": {"engine", "internal/base/keyspace", "internal/base/output",
			"internal/base/setting", "internal/base/workload", "internal/plan",
			"internal/plan/experiment", "internal/plan/runners", "internal/plan/sweep",
			"internal/run/bench", "result"},
		"internal/plan/harvest": {"engine", "internal/base/output", "internal/chain/changeset",
			"internal/plan/runners",
			"internal/run/protocol", "result", "tree"},
		"internal/plan/slurm": {"engine", "internal/base/console", "internal/base/output",
			"internal/base/setting", "internal/base/failure",
			"internal/base/unit", "internal/plan", "internal/plan/experiment",
			"internal/plan/runners", "internal/report/doc", "result"},
	}},
	{"explain", map[string][]string{
		"web": {},
		"internal/explain/nodemetrics": {"internal/base/unit", "internal/report/doc",
			"result/figure"},
		"internal/explain/advise": {"engine", "internal/advice", "internal/chain/clients",
			"internal/explain/nodemetrics", "internal/report/doc", "internal/model/fidelity",
			"internal/model/lsm",
			"internal/model/predict", "internal/base/failure", "internal/base/unit", "result",
			"internal/base/output", "internal/base/schema", "result/figure"},
		"internal/explain/iavlbench": {"engine", "internal/base/unit", "result",
			"result/figure"},
		"internal/explain/kvdblog": {"engine", "internal/model/lsm", "internal/base/unit",
			"result", "result/figure"},
		"internal/report/render": {"internal/base/console", "internal/report/doc", "web"},
		"internal/explain/compare": {"engine", "internal/base/unit", "internal/explain/kinds",
			"internal/report/doc", "internal/model/difference",
			"internal/subject", "result", "internal/base/schema", "result/figure"},
		"internal/explain/claims": {"engine", "internal/base/unit", "internal/report/doc",
			"internal/subject", "result", "result/figure"},
		"internal/explain/engines": {"engine", "internal/base/keyspace", "internal/base/unit",
			"internal/explain/claims",
			"internal/report/doc", "internal/model/difference",
			"internal/model/lsm", "internal/model/scaling", "internal/model/trace",
			"internal/subject", "result", "internal/base/output", "internal/base/schema",
			"result/figure"},
		"internal/explain/trees": {"internal/base/unit", "internal/report/doc",
			"internal/model/difference", "result", "result/figure"},
		"internal/explain/prices": {"engine", "internal/base/unit", "internal/report/doc",
			"internal/model/gas", "result"},
		"internal/explain/layouts": {"internal/base/unit", "internal/explain/claims",
			"internal/report/doc", "internal/subject", "result", "result/figure"},
		"internal/explain/kinds": {"internal/explain/advise", "internal/explain/engines",
			"internal/explain/layouts", "internal/explain/prices",
			"internal/explain/trees", "internal/explain/tuned", "internal/report/doc",
			"internal/explain/watched", "result", "internal/base/schema", "result/figure"},
		"internal/explain/tuned": {"engine", "internal/advice", "internal/base/output",
			"internal/base/unit",
			"internal/report/doc", "internal/base/schema", "result/figure"},
		"internal/explain/watched": {"internal/advice", "internal/base/unit",
			"internal/chain/clients", "internal/report/doc", "result",
			"result/figure"},
		"internal/explain/studies": {"internal/base/unit", "internal/explain/claims",
			"internal/explain/kinds", "internal/model/difference", "internal/report/doc",
			"internal/subject", "result", "internal/base/schema"},
		"internal/explain/promexport": {"result", "result/figure"},
		"internal/explain/paper": {"engine", "internal/explain/kinds", "internal/report/doc",
			"result", "result/figure"},
		"internal/explain/publish": {"engine", "internal/base/unit", "internal/explain/compare",
			"internal/explain/engines",
			"internal/explain/kinds", "internal/explain/paper",
			"internal/report/doc", "result", "internal/report/render", "result/figure"},
		"internal/explain/serve": {"internal/base/unit", "internal/explain/kinds",
			"internal/report/doc", "result", "web", "internal/report/render", "result/figure"},
	}},
	{"ask", map[string][]string{
		"internal/ask/bugreport": {"engine", "internal/base/output", "internal/observe/host",
			"internal/plan/runners", "result"},
		"internal/ask/curve": {"engine", "internal/adapt/adapter", "internal/adapt/pebbledb",
			"internal/advice",
			"internal/adapt/rocksoptions", "internal/base/keyspace",
			"internal/base/optionsfile", "internal/base/output",
			"internal/base/setting",
			"internal/base/unit", "internal/base/workload", "internal/explain/engines",
			"internal/model/cachesim", "internal/model/lsm",
			"internal/model/predict", "internal/model/trace", "internal/observe/blockbased",
			"internal/observe/dbformat", "internal/observe/lookuppath",
			"internal/observe/resolve", "internal/plan/sweep", "internal/run/bench",
			"internal/subject", "result", "internal/report/doc", "internal/base/schema",
			"result/figure"},
		"internal/ask/disk": {"internal/ask/evidence", "internal/observe/host",
			"internal/plan/estimate", "internal/plan/sweep", "result",
			"internal/report/doc"},
		"internal/ask/interleave": {"engine", "internal/base/console", "internal/explain/compare",
			"internal/model/difference", "internal/plan",
			"internal/plan/sweep", "result"},
		"internal/ask/evidence": {"engine", "internal/advice", "internal/chain/clients",
			"internal/base/optionsfile", "internal/adapt/pebbledb", "internal/ask/curve",
			"internal/base/keyspace",
			"internal/base/setting", "internal/base/unit", "internal/explain/advise",
			"internal/explain/nodemetrics", "internal/model/lsm",
			"internal/model/cachesim", "internal/model/predict", "internal/model/trace",
			"internal/observe/dbformat", "internal/observe/host", "internal/plan",
			"internal/plan/sweep", "internal/run/bench", "internal/subject", "result",
			"result/figure"},
		"internal/ask/inspect": {"engine", "internal/advice", "internal/chain/clients",
			"internal/base/keyspace", "internal/base/optionsfile", "internal/adapt/adapter",
			"internal/adapt/pebbledb",
			"internal/adapt/rocksoptions",
			"internal/model/cachesim", "internal/observe/blockbased", "internal/observe/resolve",
			"internal/ask/curve", "internal/ask/evidence", "internal/base/unit",
			"internal/explain/advise", "internal/report/doc", "internal/model/fidelity",
			"internal/model/lsm", "internal/model/predict", "internal/model/trace",
			"internal/observe/dbformat", "internal/observe/host", "internal/run/protocol",
			"internal/subject", "result", "internal/base/schema", "result/figure"},
		"internal/ask/tune": {"engine", "internal/advice", "internal/chain/clients",
			"internal/adapt/pebbledb", "internal/adapt/rocksoptions", "internal/ask/curve",
			"internal/ask/inspect",
			"internal/base/keyspace", "internal/base/optionsfile", "internal/base/output",
			"internal/base/unit", "internal/base/workload",
			"internal/explain/tuned", "internal/model/cachesim", "internal/model/lsm",
			"internal/model/predict",
			"internal/model/tablemodel", "internal/model/trace", "internal/observe/dbformat",
			"internal/observe/resolve", "internal/run/bench",
			"internal/subject",
			"result", "internal/base/schema", "result/figure"},
		"internal/ask/logs": {"engine", "internal/ask/curve", "internal/base/unit",
			"internal/chain/kvlog", "internal/observe/blockbased"},
		"internal/ask/watch": {"engine", "internal/advice", "internal/chain/clients",
			"internal/ask/curve", "internal/base/failure", "internal/base/optionsfile",
			"internal/base/output", "internal/base/setting",
			"internal/base/unit",
			"internal/explain/nodemetrics", "internal/model/cachesim", "internal/model/pagecache",
			"internal/model/predict", "internal/model/trace", "internal/observe/blockio",
			"internal/observe/blockio/pebble2fs", "internal/observe/blockbased",
			"internal/observe/dbformat", "internal/observe/lsmtail",
			"internal/observe/lookuppath", "internal/observe/host", "internal/observe/measure",
			"internal/observe/pagefile", "internal/observe/probe", "internal/observe/resolve",
			"internal/subject", "result", "internal/base/schema", "result/figure"},
	}},
	{"program", map[string][]string{
		"cmd/statelab-run-lmdb":     {"engines/lmdb", "runner"},
		"cmd/statelab-run-mdbx":     {"engines/mdbx", "runner"},
		"cmd/statelab-run-flatmdbx": {"engines/mdbx", "runner", "layouts/flat"},
		"cmd/statelab-run-native":   {"engine", "engines/cengine", "runner"},
		"cmd/statelab-run-states":   {"runner", "layout", "layouts/clayout"},
		"cmd/statelab": {"engine", "internal/advice", "internal/chain/clients",
			"engines/bbolt", "engines/goleveldb", "engines/mem", "engines/null",
			"engines/pebble1", "engines/pebble2", "internal/adapt/pebbledb", "internal/ask/curve",
			"internal/ask/evidence",
			"internal/ask/disk", "internal/ask/logs", "internal/ask/inspect", "internal/ask/tune",
			"internal/ask/interleave", "internal/ask/watch", "internal/ask/bugreport",
			"internal/base/commandline",
			"internal/base/console", "internal/base/failure", "internal/base/keyspace",
			"internal/base/sbom", "internal/base/output",
			"internal/base/setting", "internal/base/unit", "internal/base/workload",
			"internal/chain/accesses", "internal/chain/changeset",
			"internal/chain/mpt", "internal/chain/kvlog", "internal/model/difference",
			"internal/explain/advise", "internal/explain/compare",
			"internal/explain/engines", "internal/explain/iavlbench", "internal/explain/kinds",
			"internal/explain/kvdblog", "internal/explain/paper", "internal/explain/promexport",
			"internal/explain/publish", "internal/explain/serve", "internal/explain/tuned",
			"internal/explain/watched",
			"internal/model/cachesim", "internal/model/lsm", "internal/model/predict",
			"internal/model/trace", "internal/observe/dbformat",
			"internal/observe/host", "internal/plan", "internal/plan/estimate",
			"internal/plan/experiment",
			"internal/plan/harvest", "internal/plan/layouts",
			"internal/plan/replays", "internal/plan/runners", "internal/plan/slurm",
			"internal/plan/sweep", "internal/run/bench",
			"internal/run/protocol", "internal/subject", "layout", "layouts/chunktrie",
			"layouts/flat", "layouts/pagetrie", "result",
			"runner", "tree", "trees/null", "internal/report/render", "internal/report/doc",
			"internal/base/schema", "result/figure"},
		"cmd/statelab-studies": {"internal/base/output", "internal/base/unit",
			"internal/explain/engines", "internal/explain/kvdblog", "internal/explain/paper",
			"internal/explain/studies", "internal/model/cachesim", "internal/model/lsm",
			"internal/model/predict", "result", "internal/report/render", "result/figure"},
		"cmd/statelab-run-badger":  {"engines/badger", "runner"},
		"cmd/statelab-run-parquet": {"internal/chain/accesses", "internal/chain/xatu"},
		"cmd/statelab-run-pebble":  {"engines/pebble1", "engines/pebble2", "runner"},
		"cmd/statelab-run-rocksdb": {"engines/rocksdb", "runner"},
		"scripts/licences":         {},
		"scripts/load":             {"internal/observe/host"},
		"scripts/provenance":       {},
		"scripts/ring":             {"internal/base/testring"},
	}},
}

// walls hold through any number of imports.
var walls = []struct {
	from, to []string // packages, or whole rungs
	why      string
}{
	{
		[]string{"explain"},
		[]string{"observe", "adapt", "run", "plan"},
		"what explains reads run folders, never a live object",
	},
	{[]string{"adapt"}, []string{"run", "plan"}, "an adapter translates: it knows no harness"},
	{[]string{"run", "plan"}, []string{"adapt"}, "the harness knows the contract, no engine"},
	{
		[]string{"result"},
		[]string{"pure", "observe"},
		"result is what passes between measuring and explaining",
	},
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
	// engines in C have packages, too; listing compiles nothing
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
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
