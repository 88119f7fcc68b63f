package estimate

import (
	"cmp"
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/subject"
)

// ReplaySpec is a change set into one tree.
type ReplaySpec struct {
	Tree    string
	Changes int64 // sets and removals
	Bytes   int64 // of their keys and values

	Stores     int
	CacheNodes int64 // of a store; 0: the tree's own
}

// Replay is what one pass of a change set into a tree takes. Its disk stays.
func Replay(r ReplaySpec, m Machine) Step {
	t, taken := subject.TreeOf(r.Tree)
	costs := t.Cost
	changes := float64(r.Changes)
	disk := float64(r.Bytes) + changes*costs.DiskPerChange
	if costs.InMemory {
		disk = 0
	}
	kept := 1.0
	if costs.Bounded {
		const usualNodes = 1_000_000 // of a store, by the trees' profiles
		nodes := r.CacheNodes
		if nodes == 0 {
			nodes = usualNodes
		}
		kept = min(1, float64(max(1, r.Stores))*float64(nodes)/max(1, changes))
	}
	const compactions = 1.2
	s := Step{Kind: ReplayKind, Name: fmt.Sprintf("%s changes into %s", unit.ShortCount(changes), r.Tree),
		DiskBytes: bytes(disk), PeakDiskBytes: bytes(disk * compactions),
		MemoryBytes: bytes(100<<20 + kept*costs.Memory*float64(r.Bytes)), Seconds: 2 + max(changes/costs.LeavesPerSecond, disk/m.writeRate()),
		Basis: "measured with 433,182 changes"}
	s.Basis = cmp.Or(taken, s.Basis)
	return s
}
