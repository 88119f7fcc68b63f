// Package promexport serves what runners report while they work as Prometheus
// metrics.
//
// Names follow the Prometheus conventions: statelab_<subsystem>_<noun>_<unit>, base units, counters
// end in _total. A metric of a figure takes its name and its help text from package figure;
// metrics.go has all of them. Labels have few values: a verb, the tree of a replay, a phase, a
// quantile; of a watched process its name, its database, kinds of keys and purposes of reads. The
// text format is written here: Prometheus' client would bring protobuf, and most of its weight
// would be in the main binary for this alone. A test compares what is served with that client.
// Non-goals: storing (the run folder does), and the newer formats that a scraper can ask for, since
// all of them read this one.
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
	"github.com/statelab/statelab/result/figure"
)

// Live collects the progress of any measuring verb, of a replay what its trees tell, and of a watch
// what it has counted.
// Safe for concurrent use.
type Live struct {
	Replay  *Replay
	Watched *Watched

	verb  string
	mutex sync.Mutex
	event result.Event
	tick  *result.Tick
	run   [2]int // the current one, from 1, and how many there are

	// sums over all ticks
	operations, deviceReadBytes float64
}

// NewLive returns a collector that has heard nothing.
func NewLive(verb string) *Live {
	return &Live{Replay: NewReplay(), Watched: new(Watched), verb: verb}
}

// Handler serves /metrics' content: besides the progress, the memory, goroutines and open
// files of the process that asks the runners to measure.
func (l *Live) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f := families{}
		f.process()
		l.collect(f)
		l.Replay.collect(f)
		l.Watched.collect(f)
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
		l.operations += float64(e.Tick.Ops)
		l.deviceReadBytes += float64(e.Tick.DeviceReadBytes)
	}
}

// Run says that run n of total is going on.
func (l *Live) Run(n, total int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.run = [2]int{n, total}
}

// watchVerb is the verb whose operations are another process's.
const watchVerb = "watch"

// collect adds the progress.
func (l *Live) collect(f families) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	send := func(m metric, v float64, label ...string) {
		f.add(m, v, append(label, "verb", l.verb)...)
	}

	if l.verb != watchVerb { // whose counters are of the observed seconds, by names of their own
		send(runOperations, l.operations)
		send(runDeviceBytes, l.deviceReadBytes)
	}

	if l.run[1] > 0 {
		send(runNumber, float64(l.run[0]))
		send(runExpected, float64(l.run[1]))
	}

	if l.event.Phase == "" {
		return
	}

	send(runPhase, 1, "phase", l.event.Phase)
	send(phaseDone, float64(l.event.Done))
	send(phaseExpected, float64(l.event.Total))
	t := l.tick
	if t == nil {
		return
	}

	send(runRate, t.OpsPerSecond)
	if t.P99 > 0 {
		send(runService, figure.ServiceTime.MetricValue(float64(t.P50)), "quantile", "0.5")
		send(runService, figure.ServiceTime.MetricValue(float64(t.P99)), "quantile", "0.99")
	}

	if t.BlockReadsPerOp != nil {
		send(runBlockReads, *t.BlockReadsPerOp)
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
	sums     map[metric]float64 // of counters
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
		s = &treeState{sums: map[metric]float64{}}
		r.trees[tree] = s
	}

	t := e.Tick.Tree
	s.versions, s.last = e.Done, *e.Tick
	s.sums[treeLeaves] += float64(e.Tick.Ops)
	s.sums[treeReadBytes] += float64(e.Tick.DeviceReadBytes)
	for counted, v := range map[metric]figure.Value{
		treeUserBytes:    t.UserBytes,
		treeWrittenBytes: t.WriteBytes,
		treeNodes:        figure.If(t.Nodes),
		treeCacheHits:    figure.If(t.CacheHits),
		treeCacheMisses:  figure.If(t.CacheMisses),
		treeDBGets:       figure.If(t.DBGets),
	} {
		if n, known := v.Number(); known {
			s.sums[counted] += n
		}
	}
}

// collect adds what is known of every tree: what a tree does not report is not there.
func (r *Replay) collect(f families) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, tree := range slices.Sorted(maps.Keys(r.trees)) {
		s := r.trees[tree]
		send := func(m metric, v float64, label ...string) {
			f.add(m, v, append(label, "tree", tree)...)
		}
		sendIf := func(m metric, v figure.Value) {
			if number, known := v.Number(); known {
				send(m, number)
			}
		}

		for counted, sum := range s.sums {
			send(counted, sum)
		}

		t := s.last.Tree
		send(treeVersions, float64(s.versions))
		send(treeVersion, float64(t.Version))
		sendIf(treeMemory, t.RSSBytes)
		sendIf(treeSize, figure.If(t.TreeSize))
		if t.TreeHeight != nil {
			send(treeHeight, float64(*t.TreeHeight))
		}

		sendIf(treeDisk, figure.If(t.DiskBytes))
		if s.last.P99 > 0 {
			commit := figure.CommitTime
			send(treeCommit, commit.MetricValue(float64(s.last.P50)), "quantile", "0.5")
			send(treeCommit, commit.MetricValue(float64(s.last.P99)), "quantile", "0.99")
		}
	}
}
