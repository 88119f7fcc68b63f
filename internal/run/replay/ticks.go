package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

const (
	tickEvery = time.Second
	// Looking at every file of a tree may take long: it gets a twentieth of the
	// time at most.
	diskShare = 20
)

// ticker writes a line of series.jsonl about every second. It is called between
// versions, never while the tree's time is taken.
type ticker struct {
	file  *os.File
	lines *bufio.Writer
	tell  result.Tell
	began time.Time

	last     time.Time
	at       totals
	counters tree.Counters
	process  result.ProcessIO
	commits  *measure.Histogram // of this tick

	diskNext time.Time
}

func openTicks(dir string, again bool, tell result.Tell) (*ticker, error) {
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if again {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(filepath.Join(dir, result.SeriesFile), mode, 0o644)
	if err != nil {
		return nil, err
	}
	return &ticker{file: f, lines: bufio.NewWriter(f), tell: tell, commits: measure.NewHistogram()}, nil
}

// begin starts the clock of the series.
func (t *ticker) begin(r *run) (err error) {
	t.began, t.last = time.Now(), time.Now()
	t.counters = r.forest.Counters()
	t.process, err = host.ProcessNow()
	return err
}

func (t *ticker) due(now time.Time) bool { return now.Sub(t.last) >= tickEvery }

// tick writes what happened since the last one. between is true where the tree
// has committed all it was given, so that its shape may be asked for.
func (t *ticker) tick(r *run, now time.Time, between bool) error {
	counters := r.forest.Counters()
	process, err := host.ProcessNow()
	if err != nil {
		return err
	}
	sum := r.totals.minus(t.at)
	inTree := sum.seconds()
	wall := now.Sub(t.last).Seconds()
	tick := result.Tick{Phase: replayPhase, Seconds: now.Sub(t.began).Seconds(), Ops: sum.leaves, OpsPerSecond: float64(sum.leaves) / wall,
		DeviceReadBytes: process.ReadBytes - t.process.ReadBytes}
	if t.commits.N() > 0 {
		tick.P50, tick.P99 = t.commits.Quantile(0.5), t.commits.Quantile(0.99)
	}
	of := result.TreeTick{Version: r.totals.version, Leaves: r.totals.leaves, WriteBytes: process.WriteBytes - t.process.WriteBytes, UserBytes: sum.userBytes,
		Nodes: difference(t.counters.Nodes, counters.Nodes), DBGets: difference(t.counters.DBGets, counters.DBGets),
		CacheHits: difference(t.counters.CacheHits, counters.CacheHits), CacheMisses: difference(t.counters.CacheMisses, counters.CacheMisses)}
	if inTree > 0 {
		of.LeavesPerSecond = float64(sum.leaves) / inTree
		of.NodesPerSecond = rate(of.Nodes, inTree)
		of.DBGetsPerSecond = rate(of.DBGets, inTree)
	}
	if of.RSSBytes, err = host.RSS(); err != nil {
		return err
	}
	if between {
		if of.TreeSize, of.TreeHeight, err = r.shape(); err != nil {
			return err
		}
	}
	if now.After(t.diskNext) {
		bytes, _, err := host.Allocated(r.spec.Dir)
		if err != nil {
			return err
		}
		of.DiskBytes, t.diskNext = &bytes, now.Add(diskShare*time.Since(now))
	}
	tick.Tree = &of
	t.last, t.at, t.counters, t.process = now, r.totals, counters, process
	r.counted = counters
	t.commits.Reset()
	r.tellProgress(&tick)
	return t.write(tick)
}

func (t *ticker) write(tick result.Tick) error {
	if err := errors.Join(json.NewEncoder(t.lines).Encode(tick), t.lines.Flush()); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return nil
}

func (t *ticker) close() error { return t.file.Close() }

func difference(before, after *int64) *int64 {
	if before == nil || after == nil {
		return nil
	}
	d := *after - *before
	return &d
}

func rate(n *int64, seconds float64) *float64 {
	if n == nil || seconds <= 0 {
		return nil
	}
	v := float64(*n) / seconds
	return &v
}
