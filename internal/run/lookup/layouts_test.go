package lookup_test

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layouts/chunktrie"
	"github.com/statelab/statelab/layouts/flat"
	"github.com/statelab/statelab/layouts/pagetrie"
	"github.com/statelab/statelab/result"
)

func small() protocol.Chain {
	return protocol.Chain{
		Seed:           3,
		Accounts:       3000,
		ContractShare:  .1,
		SlotsPer:       5,
		BlockAccounts:  700,
		UpdateBlocks:   4,
		UpdateAccounts: 50,
	}
}

func spec(t *testing.T, l layout.Layout, stage, dir string) *protocol.LayoutSpec {
	t.Helper()
	return &protocol.LayoutSpec{Schema: schema.LayoutSpec, Stage: stage, Out: t.TempDir(),
		Layout: l.Info().Name, Dir: dir, Chain: small(), Reads: 500}
}

func tell(result.Event) {}

func flatPebble() layout.Layout {
	return flat.Layout{Name: "flat-pebble", Engine: pebble2.Engine{}}
}

// Each stage runs on whatever keeps the contract; the harness checks every value.
func TestBuildAndLookUp(t *testing.T) {
	var roots []result.StateAt
	for _, l := range []layout.Layout{flatPebble(), pagetrie.Layout{}, chunktrie.Layout{}} {
		t.Run(l.Info().Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			build, err := lookup.Run(context.Background(), l, spec(t, l, protocol.Build, dir), tell)
			if err != nil {
				t.Fatal(err)
			}

			b := build.Figures.State
			if b.Block != 9 || b.Updates.Updates != 200 || b.Updates.Blocks != 4 ||
				b.DiskBytes == 0 || b.Slots < 1000 || b.Slots > 2000 || b.Slots%5 != 0 {
				t.Errorf("%+v, updates %+v", b, b.Updates)
			}

			if l.Info().Root == layout.EthereumRoot {
				if len(b.Roots) != 9 || roots != nil && roots[8] != b.Roots[8] {
					t.Errorf("roots %v, another layout has %v", b.Roots, roots)
				}
				roots = b.Roots
			}

			s := spec(t, l, protocol.Lookup, dir)
			read, err := lookup.Run(context.Background(), l, s, tell)
			if err != nil {
				t.Fatal(err)
			}

			// Four kinds: first and cold, and with one and 64 in flight.
			if got := read.Figures.State.Lookups; len(got) != 16 {
				t.Fatalf("%d measurements", len(got))
			}

			for _, of := range read.Figures.State.Lookups {
				count := uint64(500)
				if of.Condition == result.FirstLookups {
					count = 5
					// The kernel's count is the check of the layout's own.
					if of.BlockReads.IsKnown() && of.MajorFaults == 0 &&
						of.ReadCalls < of.BlockReads.OrZero() {
						t.Errorf("%g read calls for %g reads", of.ReadCalls, of.BlockReads.OrZero())
					}
				}

				if of.Count != count || of.ServiceNanos.N != count ||
					l.Info().Root == layout.EthereumRoot && !(of.Nodes.OrZero() > 1 &&
						of.Nodes.OrZero() < 10) {
					t.Errorf("%+v", of)
				}
			}

			if stored, err := result.ReadRun(s.Out); err != nil || stored.Status != result.OK {
				t.Errorf("the run folder: %+v, %v", stored, err)
			}
		})
	}
}

// lying answers for an account that was never written, or with another's balance.
type lying struct {
	layout.Layout
	absent bool
}

func (l lying) Open(ctx context.Context, o layout.Options) (layout.State, error) {
	s, err := l.Layout.Open(ctx, o)
	return lyingState{s, l}, err
}

type lyingState struct {
	layout.State
	lying
}

func (s lyingState) Reader() (layout.Reader, error) {
	r, err := s.State.Reader()
	return lyingReader{r, s.lying}, err
}

type lyingReader struct {
	layout.Reader
	lying
}

func (r lyingReader) Account(account layout.Hash) (layout.Account, bool, error) {
	a, found, err := r.Reader.Account(account)
	if r.absent {
		return a, true, err
	}
	a.Nonce++
	return a, found, err
}

func TestWrongAnswersFailTheRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := flatPebble()
	if _, err := lookup.Run(context.Background(), l, spec(t, l, protocol.Build, dir),
		tell); err != nil {
		t.Fatal(err)
	}

	for _, absent := range []bool{true, false} {
		run, err := lookup.Run(context.Background(), lying{l, absent},
			spec(t, l, protocol.Lookup, dir), tell)
		if err == nil || !strings.Contains(err.Error(), "wrong answer") ||
			run.Status != result.Failed {
			t.Errorf("absent %v: %v, %s", absent, err, run.Status)
		}
	}
}

// A generator that replays the updates knows what they left; one that does not
// knows what they found.
func TestGeneratorKnowsTheNewestBlock(t *testing.T) {
	chain := small()
	before, after := lookup.NewGenerator(chain, 0), lookup.NewGenerator(chain, chain.UpdateBlocks)
	accounts, slots, contracts := 0, 0, 0
	for index := range chain.Accounts {
		if before.Hash(index) != after.Hash(index) {
			t.Fatalf("account %d has two names", index)
		}

		if before.Account(index) != after.Account(index) {
			accounts++
		}

		if !after.HasStorage(index) {
			continue
		}

		contracts++
		for j := range chain.SlotsPer {
			value := after.Slot(nil, index, j)
			if len(value) == 0 || len(value) > 32 || value[0] == 0 {
				t.Fatalf("slot %d of account %d: %x", j, index, value)
			}

			if string(before.Slot(nil, index, j)) != string(value) {
				slots++
			}
		}
	}

	// 4 blocks of 50 different accounts of 3000: some are changed twice.
	if accounts < 190 || accounts > 200 || slots < 5 || slots > 40 || contracts < 250 ||
		contracts > 350 {
		t.Errorf("%d accounts and %d slots changed, %d contracts", accounts, slots, contracts)
	}
}

func TestChainCheckNamesEveryMistake(t *testing.T) {
	wrong := protocol.Chain{ContractShare: math.NaN(), SlotsPer: 1 << 30, UpdateAccounts: 1}
	if errs := wrong.Check(); len(errs) != 5 {
		t.Errorf("%v", errs)
	}
}
