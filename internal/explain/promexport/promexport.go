// Package promexport serves what runners report while they work as Prometheus
// metrics.
//
// Names follow the Prometheus conventions: statelab_<subsystem>_<noun>_<unit>,
// base units, counters end in _total; the only label is the tree, of which a
// replay has a closed list. The text format is written here: Prometheus' client would bring
// protobuf, and most of its weight would be in the main binary for this alone. A test compares what
// is served with that client. Non-goals: storing (the run folder does), and the newer formats that
// a scraper can ask for, since all of them read this one.
package promexport

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/statelab/statelab/result"
)

// Live collects the progress of any measuring verb, and of a replay what its trees tell.
// Safe for concurrent use.
type Live struct {
	Replay *Replay

	verb  string
	mutex sync.Mutex
	event result.Event
	tick  *result.Tick
	run   [2]int // the current one, from 1, and how many there are
	sums  map[string]float64
}

// NewLive returns a collector that has heard nothing.
func NewLive(verb string) *Live {
	return &Live{
		Replay: NewReplay(),
		verb:   verb,
		sums:   map[string]float64{"operations": 0, "device_read_bytes": 0},
	}
}

// Handler serves /metrics' content: besides the progress, the memory, goroutines and open
// files of the process that asks the runners to measure.
func (l *Live) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f := families{}
		f.process()
		l.collect(f)
		l.Replay.collect(f)
		w.Header().Set("Content-Type", contentType)
		_ = f.write(w) // a scraper that hung up knows that it got nothing
	})
}

// Serve serves /metrics at an address until stop is called.
func (l *Live) Serve(address string) (stop func(), bound string, err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, "", fmt.Errorf("--metrics %s: %w", address, err)
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", l.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			return // a scraper that hangs on is cut off by the end of the process
		}

		<-done
	}, listener.Addr().String(), nil
}

// Observe takes an event of a runner.
func (l *Live) Observe(e result.Event) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.event = e
	if e.Tick != nil {
		l.tick = e.Tick
		l.sums["operations"] += float64(e.Tick.Ops)
		l.sums["device_read_bytes"] += float64(e.Tick.DeviceReadBytes)
	}
}

// Run says that run n of total is going on.
func (l *Live) Run(n, total int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.run = [2]int{n, total}
}

// collect adds the progress.
func (l *Live) collect(f families) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// a name and its value, or none
	send := func(name, help, kind string, v float64, label ...string) {
		f.add("statelab_run_"+name, help, kind, v, append(label, "verb", l.verb)...)
	}
	send("operations_total", "Operations of all phases so far.", counter, l.sums["operations"])
	send("device_read_bytes_total", "Bytes that the runners fetched from devices.", counter,
		l.sums["device_read_bytes"])
	if l.run[1] > 0 {
		send("number", "The run of the plan that is going on, counted from 1.", gauge,
			float64(l.run[0]))
		send("expected", "How many runs the plan has.", gauge, float64(l.run[1]))
	}

	if l.event.Phase == "" {
		return
	}

	send("phase", "1, with the phase that is going on as a label.", gauge, 1, "phase",
		l.event.Phase)
	send("phase_done", "What is done of the phase, in its own unit.", gauge, float64(l.event.Done))
	send("phase_expected", "What the phase will do; 0: not known.", gauge, float64(l.event.Total))
	t := l.tick
	if t == nil {
		return
	}

	send("operations_per_second", "Operations of the last second.", gauge, t.OpsPerSecond)
	const service = "Service time of the last second, by quantile."
	if t.P99 > 0 {
		send("service_seconds", service, gauge, float64(t.P50)/1e9, "quantile", "0.5")
		send("service_seconds", service, gauge, float64(t.P99)/1e9, "quantile", "0.99")
	}

	if t.BlockReadsPerOp != nil {
		send("block_reads_per_operation", "Block reads per operation of the last second.", gauge,
			*t.BlockReadsPerOp)
	}
}

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
	for name, n := range map[string]*int64{
		"nodes":        t.Nodes,
		"cache_hits":   t.CacheHits,
		"cache_misses": t.CacheMisses,
		"db_gets":      t.DBGets,
	} {
		if n != nil {
			s.sums[name] += float64(*n)
		}
	}
}

// counterHelp is the help of the counters, by name.
var counterHelp = map[string]string{
	"leaves":               "Changes (Set and Remove) applied to the tree.",
	"nodes":                "Nodes the tree wrote, leaves and inner nodes.",
	"cache_hits":           "Node cache hits of the tree.",
	"cache_misses":         "Node cache misses of the tree.",
	"db_gets":              "Lookups in the store below the tree.",
	"user_bytes":           "Keys and values of the changes applied.",
	"device_read_bytes":    "Bytes the runner fetched from devices.",
	"device_written_bytes": "Bytes the runner sent to devices.",
}

// collect adds what is known of every tree: what a tree does not tell is not there.
func (r *Replay) collect(f families) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, tree := range slices.Sorted(maps.Keys(r.trees)) {
		s := r.trees[tree]
		send := func(kind, name, help string, v float64, label ...string) {
			f.add("statelab_replay_"+name, help, kind, v, append(label, "tree", tree)...)
		}
		known := func(name, text string, v *int64) {
			if v != nil {
				send(gauge, name, text, float64(*v))
			}
		}

		for name, sum := range s.sums {
			send(counter, name+"_total", counterHelp[name], sum)
		}

		t := s.last.Tree
		send(counter, "versions_total", "Versions committed by the running replay.",
			float64(s.versions))
		known("version_number", "The last version that is committed.", &t.Version)
		known("resident_memory_bytes", "Resident memory of the runner.", &t.RSSBytes)
		known("tree_size_leaves", "Leaves of all stores.", t.TreeSize)
		if t.TreeHeight != nil {
			send(gauge, "tree_height_levels", "Height of the highest store.",
				float64(*t.TreeHeight))
		}

		known("disk_bytes", "Disk space below the tree's folder.", t.DiskBytes)
		const commits = "Commit time of the last second, by quantile."
		if s.last.P99 > 0 {
			send(gauge, "commit_seconds", commits, float64(s.last.P50)/1e9, "quantile", "0.5")
			send(gauge, "commit_seconds", commits, float64(s.last.P99)/1e9, "quantile", "0.99")
		}
	}
}
