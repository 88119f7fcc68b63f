package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/statelab/statelab/result"
)

// answer is what a Get returned.
type answer struct {
	value uint64
	bytes int
	found bool
}

// read looks sampled keys up at the last version. Answers are checked after the
// clock is read, against what the harness saw written.
func (r *run) read(ctx context.Context) (err error) {
	reader, err := r.forest.Reader()
	if err != nil {
		return fmt.Errorf("make a reader: %w", err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	figures := &r.Result.Figures
	gets := r.sample.gets(r.spec.Gets, r.spec.Seed)
	var dst []byte
	for i, g := range gets {
		start := r.Clock.Ticks()
		value, found, err := reader.Get(g.store, g.key, dst)
		took := r.Clock.Nanos(r.Clock.Ticks() - start)
		if err != nil {
			figures.FailedGets++
			return fmt.Errorf("get key %x of store %s: %w", g.key, r.stores[g.store], err)
		}
		r.gets.Add(took)
		dst = value
		figures.Gets++
		if err := g.check(answer{xxhash.Sum64(value), len(value), found}); err != nil {
			return fmt.Errorf("get key %x of store %s at version %d: %w", g.key, r.stores[g.store], r.totals.version, err)
		}
		if found {
			figures.Found++
		} else {
			figures.Missing++
		}
		if i%10_000 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.Tell(result.Event{Phase: readPhase, Done: uint64(i), Total: uint64(len(gets)), Unit: "Gets"})
		}
	}
	return nil
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

// check compares an answer with what was written.
func (g get) check(a answer) error {
	switch {
	case g.want.live && !a.found:
		return errors.New("not found, but it was written and not removed")
	case !g.want.live && a.found:
		return errors.New("found, but it was removed or never written")
	case g.want.live && (a.bytes != g.want.bytes || a.value != g.want.value):
		return fmt.Errorf("a wrong value of %d bytes: %d were written last", a.bytes, g.want.bytes)
	}
	return nil
}
