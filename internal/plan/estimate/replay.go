package estimate

import "fmt"

// ReplaySpec is a change set into one tree.
type ReplaySpec struct {
	Tree    string
	Changes int64 // sets and removals
	Bytes   int64 // of their keys and values
}

// treeCosts are of the 433,182 changes, 241 MiB, in docs/methods/replay.md.
type treeCosts struct {
	leavesPerSecond float64
	diskPerChange   float64 // beyond the keys and values
	memoryPerChange float64 // of trees that are wholly in memory
	inMemory        bool
	known           bool
}

func treeCostsOf(tree string) treeCosts {
	// leavesPerSecond, diskPerChange, memoryPerChange
	switch tree {
	case "iavl0":
		return treeCosts{4.6e3, 1745, 0, false, true}
	case "iavl1":
		return treeCosts{7.2e3, 1125, 0, false, true}
	case "iavl1-map":
		return treeCosts{13.7e3, 0, 1700, true, true}
	case "avlite":
		return treeCosts{24e3, 632, 200, false, true}
	case "iavl2":
		return treeCosts{7.9e3, 990, 200, false, true}
	case "memiavl":
		return treeCosts{74e3, 100, 700, false, true}
	case "cosmosstore":
		return treeCosts{7.6e3, 1118, 0, false, true}
	case "null":
		return treeCosts{2e6, 0, 0, true, true}
	}
	return treeCosts{leavesPerSecond: 4.6e3, diskPerChange: 1745}
}

// Replay is what one pass of a change set into a tree takes. Its disk stays.
func Replay(r ReplaySpec, m Machine) Step {
	costs := treeCostsOf(r.Tree)
	changes := float64(r.Changes)
	disk := float64(r.Bytes) + changes*costs.diskPerChange
	if costs.inMemory {
		disk = 0
	}
	const compactions = 1.2
	s := Step{Kind: ReplayKind, Name: fmt.Sprintf("%d changes into %s", r.Changes, r.Tree), DiskBytes: bytes(disk), PeakDiskBytes: bytes(disk * compactions),
		MemoryBytes: bytes(200<<20 + changes*costs.memoryPerChange), Seconds: 2 + max(changes/costs.leavesPerSecond, disk/m.writeRate()),
		Basis: "measured with 433,182 changes"}
	if !costs.known {
		s.Basis = "taken for iavl0: no measurement of " + r.Tree
	}
	return s
}
