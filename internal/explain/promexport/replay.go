// Package promexport serves what runners report while they work as Prometheus
// metrics.
//
// Names follow the Prometheus conventions: statelab_<subsystem>_<noun>_<unit>,
// base units, counters end in _total; the only label is the tree, of which a
// replay has a closed list. Non-goals: storing (the run folder does).
package promexport

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statelab/statelab/result"
)

// Replay collects the ticks of a replay. Safe for concurrent use.
type Replay struct {
	mutex sync.Mutex
	trees map[string]*treeState
}

// treeState is what was last heard of a tree.
type treeState struct {
	versions uint64
	last     result.Tick
	sums     map[string]float64 // of counters, by metric
}

// NewReplay returns a collector that has heard nothing.
func NewReplay() *Replay { return &Replay{trees: map[string]*treeState{}} }

// Observe takes an event of tree's runner.
func (r *Replay) Observe(tree string, e result.Event) {
	if e.Tick == nil || e.Tick.Tree == nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	s := r.trees[tree]
	if s == nil {
		s = &treeState{sums: map[string]float64{}}
		r.trees[tree] = s
	}
	t := e.Tick.Tree
	s.versions, s.last = e.Done, *e.Tick
	s.sums["leaves"] += float64(e.Tick.Ops)
	s.sums["user_bytes"] += float64(t.UserBytes)
	s.sums["device_read_bytes"] += float64(e.Tick.DeviceReadBytes)
	s.sums["device_written_bytes"] += float64(t.WriteBytes)
	for name, n := range map[string]*int64{"nodes": t.Nodes, "cache_hits": t.CacheHits, "cache_misses": t.CacheMisses, "db_gets": t.DBGets} {
		if n != nil {
			s.sums[name] += float64(*n)
		}
	}
}

// counters and gauges by name, with their help.
func counterHelp() map[string]string {
	return map[string]string{
		"leaves": "Changes (Set and Remove) applied to the tree.", "nodes": "Nodes the tree wrote, leaves and inner nodes.",
		"cache_hits": "Node cache hits of the tree.", "cache_misses": "Node cache misses of the tree.",
		"db_gets": "Lookups in the store below the tree.", "user_bytes": "Keys and values of the changes applied.",
		"device_read_bytes": "Bytes the runner fetched from devices.", "device_written_bytes": "Bytes the runner sent to devices.",
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("statelab_replay_"+name, help, append([]string{"tree"}, labels...), nil)
}

// Describe implements prometheus.Collector: what there is depends on what trees
// can tell, so the collector is an unchecked one.
func (r *Replay) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r *Replay) Collect(out chan<- prometheus.Metric) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	help := counterHelp()
	for _, tree := range slices.Sorted(maps.Keys(r.trees)) {
		s := r.trees[tree]
		gauge := func(name, text string, v float64) {
			out <- prometheus.MustNewConstMetric(describe(name, text), prometheus.GaugeValue, v, tree)
		}
		for name, sum := range s.sums {
			out <- prometheus.MustNewConstMetric(describe(name+"_total", help[name]), prometheus.CounterValue, sum, tree)
		}
		t := s.last.Tree
		out <- prometheus.MustNewConstMetric(describe("versions_total", "Versions committed by the running replay."),
			prometheus.CounterValue, float64(s.versions), tree)
		gauge("version_number", "The last version that is committed.", float64(t.Version))
		gauge("resident_memory_bytes", "Resident memory of the runner.", float64(t.RSSBytes))
		if t.TreeSize != nil {
			gauge("tree_size_leaves", "Leaves of all stores.", float64(*t.TreeSize))
		}
		if t.TreeHeight != nil {
			gauge("tree_height_levels", "Height of the highest store.", float64(*t.TreeHeight))
		}
		if t.DiskBytes != nil {
			gauge("disk_bytes", "Disk space below the tree's folder.", float64(*t.DiskBytes))
		}
		const commits = "Commit time of the last second, by quantile."
		if s.last.P99 > 0 {
			out <- prometheus.MustNewConstMetric(describe("commit_seconds", commits, "quantile"), prometheus.GaugeValue, float64(s.last.P50)/1e9, tree, "0.5")
			out <- prometheus.MustNewConstMetric(describe("commit_seconds", commits, "quantile"), prometheus.GaugeValue, float64(s.last.P99)/1e9, tree, "0.99")
		}
	}
}
