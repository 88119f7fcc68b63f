package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
)

// completeValues lets shells complete what the flags of a command and of those below it can be.
func completeValues(cmd *cobra.Command, all runners.Tables) {
	for _, below := range cmd.Commands() {
		completeValues(below, all)
	}
	fixed := map[string][]string{
		"engine": all.Engines.Names(), "tree": all.Trees.Names(), "layout": all.Layouts.Names(), "page-cache": bench.PageCacheModes(),
		"workload": workload.Names(cmd.Name()), "key-hash": {keyspace.Mix, keyspace.Keccak256},
		"value-model": {keyspace.Random, keyspace.Table32, keyspace.TrieNode}, "batch-order": {experiment.RandomOrder, experiment.SortedOrder},
		"scheme": accesses.KeySchemes(), "policy": nil, "fail-if": compare.Names(),
	}
	if cmd.Name() != "load" { // sweep and others read
		fixed["workload"] = workload.Names("sweep")
	}
	if cmd.Name() == "predict" {
		fixed["engine"] = subject.Pebbles()
	}
	for _, p := range cachesim.Policies() {
		fixed["policy"] = append(fixed["policy"], string(p))
	}
	for flag, values := range fixed {
		commandline.Complete(cmd, flag, func() []string { return values })
	}
	commandline.Complete(cmd, "profile", func() []string { return profilesOf(cmd, all) })
}

// profilesOf are those of the engines that the command line names, where the command has
// --engine. An engine that is not here has none.
func profilesOf(cmd *cobra.Command, all runners.Tables) (names []string) {
	chosen := cmd.Flags().Lookup("engine")
	switch {
	case cmd.Name() == "generate":
		for _, p := range changeset.Profiles() {
			names = append(names, p.Name)
		}
	case chosen == nil || cmd.Name() == "predict":
		for _, p := range pebbledb.Profiles() {
			names = append(names, p.Name)
		}
	default:
		for _, name := range setting.Split(cmp.Or(chosen.Value.String(), embedded()[0].Info().Name)) {
			if found, err := all.Engines.Find(name); err == nil {
				for _, p := range found.Info.Profiles {
					names = append(names, p.Name)
				}
			}
		}
	}
	return runners.Unique(names)
}
