package layouts

import (
	"fmt"
	"math"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func outlookWorkload() result.StateWorkload {
	return result.StateWorkload{
		ContractShare: .1,
		SlotsPer:      16,
		BlockAccounts: 5000,
		Reads:         20_000,
		MemoryBytes:   64 << 20,
	}
}

// More memory never reads more, more accounts never less, and no layout reads more than
// without any; what has no figure is left out.
func TestOutlookIsInOrder(t *testing.T) {
	for _, layout := range []string{"chunktrie", "chunktrie:unpinned", "pagetrie", "flat-mdbx",
		"flat-pebble", "geth-path", "geth-hash", "geth-flat",
		"geth-bintrie", "nomt", "qmdb"} {
		rows := []result.LayoutRow{
			{Layout: layout, Status: result.OK, Accounts: 1e5, DiskPerAccount: figure.Known(9e9)},
			{Layout: layout, Status: result.OK, Accounts: 1e6, DiskPerAccount: figure.Known(700)},
			{Layout: layout, Status: result.Failed, Accounts: 1e7,
				DiskPerAccount: figure.Known(9e9)},
		}

		type at struct {
			figure string
			memory int64
		}

		uncached := map[uint64]float64{}
		// by figure and accounts; by figure and memory
		minimum, smaller := map[string]float64{}, map[at]float64{}
		own := 0
		for _, o := range outlook(layout, rows, outlookWorkload()) {
			if math.IsNaN(o.Value) || o.Value < 0 || o.Basis == "" {
				t.Errorf("%s: %+v", layout, o)
			}

			if o.PerAccount {
				own++
				want := float64(64<<20) / 1e6 * float64(o.Accounts)
				if math.Abs(float64(o.MemoryBytes)-want) > 1 {
					t.Errorf("%s: memory as here is %d bytes, not %g", layout, o.MemoryBytes, want)
				}

				continue
			}

			if o.Figure == "reads_per_lookup" {
				uncached[o.Accounts] = o.Value
			}

			if o.MemoryBytes == 0 {
				continue
			}

			if maximum, known := uncached[o.Accounts]; known && o.Value > maximum+1e-9 &&
				layout != "chunktrie" {
				t.Errorf("%s at %d: %g %s with %d bytes of memory, %g without any", layout,
					o.Accounts, o.Value, o.Figure, o.MemoryBytes, maximum)
			}

			with := fmt.Sprint(o.Figure, o.Accounts)
			if before, known := minimum[with]; known && o.Value > before+1e-9 {
				t.Errorf("%s at %d: %g %s with %d bytes of memory, %g with less", layout,
					o.Accounts, o.Value, o.Figure, o.MemoryBytes, before)
			}

			minimum[with] = o.Value
			key := at{o.Figure, o.MemoryBytes}
			if before, known := smaller[key]; known && o.Value < before-1e-9 {
				t.Errorf("%s: %g %s at %d accounts, %g at fewer", layout, o.Value, o.Figure,
					o.Accounts, before)
			}

			smaller[key] = o.Value
		}

		if own == 0 && layout != "qmdb" { // whose index alone takes more
			t.Errorf("%s: nothing with memory as here", layout)
		}
	}

	if got := outlook("pagetrie", nil, outlookWorkload()); got != nil {
		t.Errorf("nothing was built, and %+v is predicted", got)
	}
}

// Two figures that can be told by hand. A budget that holds 6 levels of pins leaves a
// chunk trie of a billion accounts reads for the depths from 6 on and the leaf; a
// B-tree's leaves of which a share is in memory are read for the rest.
func TestSteadyByHand(t *testing.T) {
	w := outlookWorkload()
	w.ContractShare = 0
	row := result.LayoutRow{DiskPerAccount: figure.Known(700)}
	chunks := steadyHeld("chunktrie", modelled(row, w, 1e9), 64<<30)
	if want := 4.196; math.Abs(*chunks.reads-1-statemodel.UnpinnedNodes(1e9)+1) > .02 ||
		math.Abs(*chunks.reads-want) > 1.1 {
		t.Errorf("%.3f reads of nodes, the sum gives %.3f", *chunks.reads,
			statemodel.UnpinnedNodes(1e9))
	}

	// 1e9 records of 2 + 8 + 33 + 12.5 bytes on pages of 4076 bytes filled by ln 2: 19.6
	// million leaves, 80.5 GB; with half of that and a half per cent for branches.
	leaves := 1e9 * 55.5 / (4076 * math.Ln2) * 4096
	tree := steadyHeld("flat-mdbx", modelled(row, w, 1e9), leaves/2*1.005)
	if math.Abs(*tree.device-.5) > .02 {
		t.Errorf("%.3f device reads with half of the leaves in memory", *tree.device)
	}
}

// A row without a held page cache has no prediction, one with as much memory as files
// has compulsory reads only.
func TestExpectedHeldOfRows(t *testing.T) {
	w := outlookWorkload()
	row := result.LayoutRow{Layout: "pagetrie", Accounts: 100_000,
		DiskPerAccount: figure.Known(700),
		Memory: &result.Memory{Shares: []engine.MemoryShare{{Holds: engine.Blocks,
			Bytes: 1 << 30}}}}

	if h := expectedHeld(row, w, 2); h.reads != nil || h.device != nil {
		t.Errorf("%+v without a page cache that was held", h)
	}

	zero := int64(0)
	row.Memory.PageCacheBytes = &zero
	all := expectedHeld(row, w, 2)
	if *all.reads > .2 || *all.reads != *all.device {
		t.Errorf("%.3f reads, %.3f of the device: all pages fit, and there is no page cache",
			*all.reads, *all.device)
	}

	row.Memory.Shares[0].Bytes = 0
	none, formula := expectedHeld(row, w, 2), expected("pagetrie", modelled(row, w, 1e5))
	if math.Abs(*none.reads-*formula.Reads) > 1e-6 || formula.Nodes == nil {
		t.Errorf("%.3f reads without a cache, by the formula %.3f", *none.reads, *formula.Reads)
	}

	row.Layout = "unheard-of"
	if h := expectedHeld(row, w, 2); h.reads != nil {
		t.Errorf("%+v of a layout without a model", h)
	}
}

// What a model depends on among the options comes from those that a layout ran with.
func TestModelledAsItRan(t *testing.T) {
	row := result.LayoutRow{
		Layout:  "geth-bintrie BlockSize=16KiB",
		Options: map[string]string{"GroupDepth": "7", "Levels[0].block_size": "16384"},
	}

	if s := modelled(row, outlookWorkload(), 1e6); s.GroupDepth != 7 || s.BlockBytes != 16384 {
		t.Errorf("%+v", s)
	}

	row.Layout = "geth-path"
	if s := modelled(row, outlookWorkload(), 1e6); s.GroupDepth != 0 {
		t.Errorf("of another layout: %+v", s)
	}
}
