package main

import (
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/plan/experiment"
)

// flagHelp lists flags by section of the experiment file, then those that no file holds.
var flagHelp = commandline.Help{Usual: usual, Section: experiment.Section, Hidden: "help-all", Headings: [][2]string{
	{"subject", "What is measured"}, {"database", "Database"}, {"load", "Keys of a database that is loaded"}, {"state", "State and its lookups"},
	{"changes", "Changes"}, {"workload", "Workload"}, {"price", "Price"}, {"disk", "Disk"}, {experiment.Run, "Runs"}, {"cluster", "Cluster"},
	{"", "Results and control"},
}}

// usual are the flags that the help of a verb shows if it has more than fit on a screen: those
// that most people use. --help-all shows the others, too.
var usual = map[string]string{
	"load": "db keys key-bytes value-bytes value-model engine profile cache set workload age threads seed resume out dry-run json metrics",
	"sweep": "db use-existing keys engine profile cache memory set workload gets warmup missing threads rate page-cache repeats seed on " +
		"out resume dry-run json strict",
	"replay": "tree changes versions stores memory set db discard gets repeats seed on out resume dry-run print-experiment json strict",
	"layouts": "layout accounts contracts slots contract-slots at at-memory accesses memory set reads updates update-blocks repeats seed on " +
		"out resume dry-run print-experiment json strict",
	"price":   "layout accounts contract-slots at contract-at hardware gas-per-second from memory repeats seed out resume dry-run json strict",
	"run":     "on out resume dry-run schema json strict",
	"compare": "run by allow fail-if margin repeats page csv bench out json db keys engine cache gets threads",
	"predict": "db keys levels cache engine profile gets warmup missing threads cores hardware value-bytes value-model reserve out json",
	"trace":   "db run out workload gets warmup missing zipf threads seed use-existing table accesses force json on parts",
	"advise": "cache memory gets-per-second latency-goal node-metrics table accesses scheme missing write-rate verify out ignore-lock cores " +
		"profile json",
	"inspect": "as cache missing table engine sample-keys ignore-lock json strict on parts",
}

// controls is what the help of the program says of all commands.
const controls = `"statelab COMMAND --help" shows its flags. Progress and warnings go to stderr.
Exit codes: 0 done; 1 failed; 2 a mistaken command; 3 a warning, with --strict.`

// Names of the release before this one work until the next one. Each use prints the new name.
var names = commandline.Names{
	Commands: map[string]string{
		"read": "sweep", "fidelity": "inspect --as node", "serve": "report --serve", "publish": "pack create", "verify": "pack verify", "site": "pack site",
		"workloads": "engines --workloads", "version": "--version",
	},
	Flags: map[string]map[string]string{
		"predict": {"layout": "levels"},
		"load":    {"where": "on"}, "sweep": {"where": "on"}, "replay": {"where": "on"}, "layouts": {"where": "on"}, "run": {"where": "on"},
	},
	Removed: map[string]string{
		"bisect": "bisect was removed: examples/bisect does the same with git bisect run and statelab compare --fail-if",
	},
	RemovedFlags: map[string]map[string]string{"predict": {
		"validate": "predict --validate was removed: statelab-studies validate LOGS does it (in statelab's source: go run ./cmd/statelab-studies validate LOGS)",
	}},
}
