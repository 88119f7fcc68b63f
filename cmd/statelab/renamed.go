package main

import "github.com/statelab/statelab/internal/base/commandline"

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
