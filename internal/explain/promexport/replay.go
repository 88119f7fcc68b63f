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

// counterHelp is the help of the counters, by name.
var counterHelp = map[string]string{
	"leaves": "Changes (Set and Remove) applied to the tree.", "nodes": "Nodes the tree wrote, leaves and inner nodes.",
	"cache_hits": "Node cache hits of the tree.", "cache_misses": "Node cache misses of the tree.",
	"db_gets": "Lookups in the store below the tree.", "user_bytes": "Keys and values of the changes applied.",
	"device_read_bytes": "Bytes the runner fetched from devices.", "device_written_bytes": "Bytes the runner sent to devices.",
}

// Describe implements prometheus.Collector: what there is depends on what trees
// can tell, so the collector is an unchecked one.
func (r *Replay) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r *Replay) Collect(out chan<- prometheus.Metric) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, tree := range slices.Sorted(maps.Keys(r.trees)) {
		s := r.trees[tree]
		send := func(kind prometheus.ValueType, name, help string, v float64, quantile ...string) {
			desc := prometheus.NewDesc("statelab_replay_"+name, help, []string{"tree", "quantile"}[:1+len(quantile)], nil)
			out <- prometheus.MustNewConstMetric(desc, kind, v, append([]string{tree}, quantile...)...)
		}
		gauge := func(name, text string, v *int64) {
			if v != nil {
				send(prometheus.GaugeValue, name, text, float64(*v))
			}
		}
		for name, sum := range s.sums {
			send(prometheus.CounterValue, name+"_total", counterHelp[name], sum)
		}
		t := s.last.Tree
		send(prometheus.CounterValue, "versions_total", "Versions committed by the running replay.", float64(s.versions))
		gauge("version_number", "The last version that is committed.", &t.Version)
		gauge("resident_memory_bytes", "Resident memory of the runner.", &t.RSSBytes)
		gauge("tree_size_leaves", "Leaves of all stores.", t.TreeSize)
		if t.TreeHeight != nil {
			send(prometheus.GaugeValue, "tree_height_levels", "Height of the highest store.", float64(*t.TreeHeight))
		}
		gauge("disk_bytes", "Disk space below the tree's folder.", t.DiskBytes)
		const commits = "Commit time of the last second, by quantile."
		if s.last.P99 > 0 {
			send(prometheus.GaugeValue, "commit_seconds", commits, float64(s.last.P50)/1e9, "0.5")
			send(prometheus.GaugeValue, "commit_seconds", commits, float64(s.last.P99)/1e9, "0.99")
		}
	}
}
