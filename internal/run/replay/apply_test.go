package replay

import (
	"context"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/tree"
)

// still is a forest that does nothing, for the loop around it.
type still struct{ lean }

func (s *still) Commit(context.Context) (tree.Commit, error) { return tree.Commit{}, nil }

// BenchmarkApply is the harness alone, per change: the loop, the guard, the clock.
func BenchmarkApply(b *testing.B) {
	batch := &decoded{Batch: changeset.Batch{Changes: make([]changeset.Change, 100)}}
	r := benchRun(&still{})
	r.guard = watch(func(string, time.Duration) {})
	defer r.guard.close()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N/100 + 1 {
		if err := r.apply(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func benchRun(f tree.Forest) *run {
	return &run{
		Session: &session.Session[tree.Counters]{Clock: measure.NewClock()},
		spec:    new(protocol.TreeSpec),
		forest:  f,
	}
}
