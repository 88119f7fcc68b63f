package lookup

import (
	"testing"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/timed"
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

// over is a worker over a small state that is all in memory.
func over(kind string) *timed.Worker {
	chain := protocol.Chain{
		Seed:           3,
		Accounts:       2000,
		ContractShare:  .2,
		SlotsPer:       4,
		BlockAccounts:  500,
		UpdateBlocks:   2,
		UpdateAccounts: 100,
	}

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

	return workerOn(measure.NewClock(), &reader{Reader: state}, g, kind)
}

// played is a worker that looks up the accounts and slots of blocks.
func played(maximum int) *timed.Worker {
	account, key, value := layout.Hash{1}, layout.Hash{2}, []byte("value")
	touches := make([]touch, 0, maximum)
	for len(touches) < maximum {
		touches = append(
			touches,
			touch{account: account, want: layout.Account{Nonce: 7}},
			touch{account: account, key: key, slot: true, value: value},
			touch{account: layout.Hash{3}, absent: true},
		)
	}

	r := &reader{Reader: right{
		accounts: map[layout.Hash]layout.Account{account: {Nonce: 7}},
		slots:    map[layout.Hash][]byte{key: value},
	}}

	return timed.NewWorker(measure.NewClock(),
		&gets{lookups: lookups{inFlight: 1, touches: touches}, reader: r}, r)
}

// fewAllocations in 2000 Gets are those of histograms, which make a part of their counters when a
// time needs it; of a Get there is none.
const fewAllocations = 20

func TestALookupAllocatesNothing(t *testing.T) {
	const count = 2000
	workers := map[string]*timed.Worker{
		"no layout": nullWorker(measure.NewClock()),
		"of blocks": played(6 * count),
	}

	for _, kind := range []string{result.AccountLookup, result.AbsentAccountLookup,
		result.SlotLookup, result.AbsentSlotLookup} {
		workers[kind] = over(kind)
	}

	for name, w := range workers {
		if allocs := testing.AllocsPerRun(5, func() {
			if err := w.Run(count); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}); allocs > fewAllocations {
			t.Errorf("%s: %v allocations in %d lookups", name, allocs, count)
		}
	}
}

func benchmarkLookups(b *testing.B, w *timed.Worker) {
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(uint64(b.N)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkNullLookup is the harness alone: choose and name an account, two clock
// reads, record.
func BenchmarkNullLookup(b *testing.B) { benchmarkLookups(b, nullWorker(measure.NewClock())) }

// The others add a map's answer and its check, which is not timed but is CPU time of
// the run.
func BenchmarkCheckedAccount(b *testing.B) { benchmarkLookups(b, over(result.AccountLookup)) }

func BenchmarkCheckedSlot(b *testing.B) { benchmarkLookups(b, over(result.SlotLookup)) }
