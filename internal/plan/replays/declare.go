package replays

import (
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/estimate"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/tree"
)

// Entries are the trees of a list, with every setting of their options; what is wrong with them goes
// to m. Without stores, the set has said what is wrong, or names its stores later.
func Entries(labels []string, options []setting.Option, base protocol.TreeSpec, stores []string, here *runners.Table[tree.Info],
	m *setting.Mistakes) (entries []Entry) {
	settings, names := setting.Points(options)
	for _, t := range here.Choose("tree", labels, m) {
		for i, overrides := range settings {
			if len(stores) > 0 {
				m.All("tree "+t.Label, t.Check(protocol.TreeQuestion{Tree: t.Info.Name, Profile: t.Profile, CacheNodes: base.CacheNodes,
					MemoryBytes: base.MemoryBytes, Overrides: overrides, Stores: stores}))
			}
			entries = append(entries, Entry{Label: t.Label + names[i], Profile: t.Profile, Options: overrides, Info: t.Info})
		}
	}
	return entries
}

// Steps are what each run of a set will take that says how many changes it has; only reading the whole
// of another tells.
func (r Replays) Steps(info changeset.Info, how plan.Plan, on estimate.Machine) (steps []estimate.Step) {
	if info.Totals == nil {
		return nil
	}
	bytes, _ := host.FilesIn(r.Base.Changes)
	for _, step := range plan.Order(len(r.Entries), how.Repeats, how.Seed) {
		steps = append(steps, estimate.Replay(estimate.ReplaySpec{Tree: r.Entries[step.Point].Info.Name, Changes: info.Totals.Changes, Bytes: bytes,
			Stores: len(info.Stores), CacheNodes: r.Base.CacheNodes}, on))
	}
	return steps
}
