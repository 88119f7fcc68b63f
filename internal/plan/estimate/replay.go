package estimate

import (
	"fmt"

	"github.com/statelab/statelab/internal/base/unit"
)

// ReplaySpec is a change set into one tree.
type ReplaySpec struct {
	Tree    string
	Changes int64 // sets and removals
	Bytes   int64 // of their keys and values

	Stores     int
	CacheNodes int64 // of a store; 0: the tree's own
}

// treeCosts: rate and disk are of the 433,182 changes, 241 MiB, in docs/trees.md;
// memory of 120 versions of the same set, 175,563 changes, 101 MB, by `statelab replay
// --versions 120 --tree T`.
type treeCosts struct {
	leavesPerSecond float64
	diskPerChange   float64 // beyond the keys and values
	memory          float64 // times the bytes of the changes it keeps in memory
	bounded         bool    // those are as many as its node cache holds
	inMemory        bool
	known           bool
}

func treeCostsOf(tree string) treeCosts {
	switch tree {
	case "iavl0":
		return treeCosts{leavesPerSecond: 4.6e3, diskPerChange: 1745, memory: 8, bounded: true, known: true} // memory as iavl1's
	case "iavl1":
		return treeCosts{leavesPerSecond: 7.2e3, diskPerChange: 1125, memory: 8, bounded: true, known: true} // 900 MiB resident
	case "iavl1-map":
		return treeCosts{leavesPerSecond: 13.7e3, memory: 12, inMemory: true, known: true} // 1,228 MiB
	case "avlite":
		return treeCosts{leavesPerSecond: 24e3, diskPerChange: 350, memory: 9, bounded: true, known: true} // 1,026 MiB; 106 MB on disk
	case "iavl2":
		return treeCosts{leavesPerSecond: 7.9e3, diskPerChange: 990, memory: 1.5, bounded: true, known: true} // 253 MiB
	case "memiavl":
		return treeCosts{leavesPerSecond: 74e3, diskPerChange: 100, memory: 3, known: true} // 400 MiB
	case "cosmosstore":
		return treeCosts{leavesPerSecond: 7.6e3, diskPerChange: 1118, memory: 8.5, bounded: true, known: true} // 959 MiB
	case "null":
		return treeCosts{leavesPerSecond: 2e6, inMemory: true, known: true}
	}
	return treeCosts{leavesPerSecond: 4.6e3, diskPerChange: 1745, memory: 8, bounded: true}
}

// Replay is what one pass of a change set into a tree takes. Its disk stays.
func Replay(r ReplaySpec, m Machine) Step {
	costs := treeCostsOf(r.Tree)
	changes := float64(r.Changes)
	disk := float64(r.Bytes) + changes*costs.diskPerChange
	if costs.inMemory {
		disk = 0
	}
	kept := 1.0
	if costs.bounded {
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
		MemoryBytes: bytes(100<<20 + kept*costs.memory*float64(r.Bytes)), Seconds: 2 + max(changes/costs.leavesPerSecond, disk/m.writeRate()),
		Basis: "measured with 433,182 changes"}
	if !costs.known {
		s.Basis = "taken for iavl0: no measurement of " + r.Tree
	}
	return s
}
