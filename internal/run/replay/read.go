package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// gets are Gets of sampled keys at the last version, for the timed loop: answers are
// checked against what the harness saw written.
type gets struct {
	all            []get
	stores         []string
	version        int64
	at             int // of the next one
	reader         tree.Reader
	store          int // of the one under way
	found, missing uint64
}

func (g *gets) Next(uint64) (key []byte, n uint64) {
	next := &g.all[g.at]
	g.at++
	g.store = next.store
	return next.key, 1
}

func (g *gets) Get(key, dst []byte) (value []byte, found bool, err error) {
	return g.reader.Get(g.store, key, dst)
}

func (g *gets) asked() *get { return &g.all[g.at-1] }

func (g *gets) Asked() string {
	return fmt.Sprintf("get key %x of store %s at version %d", g.asked().key, g.stores[g.store], g.version)
}

// Check compares an answer with what was written.
func (g *gets) Check(value []byte, found bool) error {
	want := g.asked().want
	switch {
	case want.live && !found:
		return errors.New("not found, but it was written and not removed")
	case !want.live && found:
		return errors.New("found, but it was removed or never written")
	case want.live && (len(value) != want.bytes || xxhash.Sum64(value) != want.value):
		return fmt.Errorf("a wrong value of %d bytes: %d were written last", len(value), want.bytes)
	case found:
		g.found++
	default:
		g.missing++
	}
	return nil
}

// read looks sampled keys up at the last version.
func (r *run) read(ctx context.Context) (err error) {
	reader, err := r.forest.Reader()
	if err != nil {
		return fmt.Errorf("make a reader: %w", err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	g := &gets{all: r.sample.gets(r.spec.Gets, r.spec.Seed), stores: r.stores, version: r.totals.version, reader: reader}
	total := uint64(len(g.all))
	err = timed.Run(ctx, r.Session, &timed.Team{Workers: []*timed.Worker{timed.NewWorker(r.Clock, g, g)}}, readPhase, total,
		timed.Times{Service: r.gets}, func(*timed.Tick[tree.Counters]) error {
			r.Tell(result.Event{Phase: readPhase, Done: r.gets.N(), Total: total, Unit: "Gets"})
			return nil
		})
	figures := &r.Result.Figures
	figures.Found, figures.Missing, figures.Gets = g.found, g.missing, g.found+g.missing
	if err != nil && ctx.Err() == nil {
		figures.FailedGets = 1
	}
	return err
}

func (r *run) readFigures(c cost) {
	figures := &r.Result.Figures
	if figures.Gets == 0 {
		r.Absent("the change set has no keys to look up", "gets")
		return
	}
	figures.Seconds = float64(r.gets.Sum()) / 1e9
	figures.GetsPerSecond = float64(figures.Gets) / figures.Seconds
	figures.ServiceNanos = new(r.gets.Summary())
	figures.DeviceReadBytesPerGet = new(float64(c.Process.ReadBytes) / float64(figures.Gets))
	figures.DeviceSource = "the kernel's account of the process (/proc/self/io)"
}
