package lookup

import (
	"testing"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
)

// right answers every lookup with what the generator wrote, made ahead.
type right struct {
	layout.Reader
	accounts map[layout.Hash]layout.Account
	slots    map[layout.Hash][]byte
}

func (r right) Account(h layout.Hash) (layout.Account, bool, error) {
	a, found := r.accounts[h]
	return a, found, nil
}

func (r right) Slot(_, key layout.Hash, dst []byte) ([]byte, bool, error) {
	value, found := r.slots[key]
	return append(dst[:0], value...), found, nil
}

// workerOn is a worker over a small state that is all in memory.
func workerOn(kind string, most int) *worker {
	chain := protocol.Chain{Seed: 3, Accounts: 2000, ContractShare: .2, SlotsPer: 4, BlockAccounts: 500, UpdateBlocks: 2, UpdateAccounts: 100}
	g := NewGenerator(chain, chain.UpdateBlocks)
	state := right{accounts: map[layout.Hash]layout.Account{}, slots: map[layout.Hash][]byte{}}
	for index := range chain.Accounts {
		state.accounts[g.Hash(index)] = g.Account(index)
		for j := range chain.SlotsPer {
			if g.HasStorage(index) {
				state.slots[g.SlotHash(index, j)] = g.Slot(nil, index, j)
			}
		}
	}
	w := nullWorker(measure.NewClock(), uint64(most))
	w.reader, w.generator, w.lookups.kind = state, g, kind
	return w
}

func TestALookupAllocatesNothing(t *testing.T) {
	const count = 2000
	workers := map[string]*worker{"no layout": nullWorker(measure.NewClock(), count)}
	for _, kind := range []string{result.AccountLookup, result.AbsentAccountLookup, result.SlotLookup, result.AbsentSlotLookup} {
		workers[kind] = workerOn(kind, count)
	}
	for name, w := range workers {
		if allocs := testing.AllocsPerRun(5, func() {
			w.nanos, w.lookups.skip = w.nanos[:0], 0
			if err := w.runInParts(); err != nil || w.done.Load() != count {
				t.Errorf("%s: %d done, %v", name, w.done.Load(), err)
			}
		}); allocs != 0 {
			t.Errorf("%s: %v allocations in %d lookups", name, allocs, count)
		}
	}
}

func benchmarkLookups(b *testing.B, w *worker) {
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.runInParts(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkNullLookup is the harness alone: choose and name an account, two clock
// reads, record.
func BenchmarkNullLookup(b *testing.B) {
	benchmarkLookups(b, nullWorker(measure.NewClock(), uint64(b.N)))
}

// The others add a map's answer and its check, which is not timed but is CPU time of
// the run.
func BenchmarkCheckedAccount(b *testing.B) {
	benchmarkLookups(b, workerOn(result.AccountLookup, b.N))
}

func BenchmarkCheckedSlot(b *testing.B) { benchmarkLookups(b, workerOn(result.SlotLookup, b.N)) }
