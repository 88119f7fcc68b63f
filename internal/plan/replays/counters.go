package replays

import (
	"slices"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/result"
)

// repeating are the counters that the same changes must give again, whatever the
// machine does meanwhile. Bytes on disk are not among them: compactions run when
// they find the time.
func repeating(f *result.Replay) map[string]*int64 {
	leaves := int64(f.Leaves)
	return map[string]*int64{
		"leaves": &leaves, "nodes": f.Nodes, "tree_size": f.TreeSize, "db_gets": f.DBGets, "db_sets": f.DBSets, "db_bytes": f.DBBytes,
		"cache_hits": f.CacheHits, "cache_misses": f.CacheMisses,
	}
}

// counterVerdicts holds each tree against a second pass of itself.
func (c *Work) counterVerdicts() []result.CountersAgree {
	var verdicts []result.CountersAgree
	for i, e := range c.Entries {
		var passes []*result.Replay
		for repeat := range c.plan.Repeats {
			if run := c.runs[plan.Step{Point: i, Repeat: repeat}]; run != nil && run.Status == result.OK && run.Figures.ResumedAt == nil {
				passes = append(passes, run.Figures.Replay)
			}
		}
		v := agree(passes, e.Info.RootRule != result.NoRoots)
		v.Tree = e.Label
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// agree compares the counters of passes over the same changes.
func agree(passes []*result.Replay, roots bool) result.CountersAgree {
	if len(passes) < 2 {
		return result.CountersAgree{Verdict: result.CannotTell, Why: "it takes two whole passes: --repeats 2"}
	}
	v := result.CountersAgree{Verdict: result.Identical, Values: map[string][]int64{}}
	for _, pass := range passes {
		for name, n := range repeating(pass) {
			if n != nil {
				v.Values[name] = append(v.Values[name], *n)
			}
		}
	}
	for name, values := range v.Values {
		if len(values) == len(passes) && slices.Min(values) != slices.Max(values) {
			v.Differ = append(v.Differ, name)
		}
	}
	if roots && slices.ContainsFunc(passes, func(p *result.Replay) bool { return p.RootsDigest != passes[0].RootsDigest }) {
		v.Differ = append(v.Differ, "roots")
	}
	slices.Sort(v.Differ)
	if len(v.Differ) > 0 {
		v.Verdict = result.Different
	}
	return v
}
