package subject

// Tree is a versioned state tree.
type Tree struct {
	Name    string
	Program Program
	Cost    TreeCost
	OfNodes bool // it reads the databases of nodes of the Cosmos SDK
}

// TreeCost is what replaying changes into a tree takes. Rate and disk are of the 433,182
// changes, 241 MiB, in docs/trees.md; memory of 120 versions of the same set, 175,563
// changes, 101 MB, by `statelab replay --versions 120 --tree T`.
type TreeCost struct {
	LeavesPerSecond float64
	DiskPerChange   float64 // beyond the keys and values
	Memory          float64 // times the bytes of the changes it keeps in memory
	Bounded         bool    // those are as many as its node cache holds
	InMemory        bool
}

// costliestTree is iavl0, whose memory is that of iavl1.
var costliestTree = TreeCost{LeavesPerSecond: 4.6e3, DiskPerChange: 1745, Memory: 8, Bounded: true}

// Trees are all trees, in the order in which they are listed.
func Trees() []Tree {
	of := func(program, about string) Program {
		return Program{"statelab-run-" + program, about, "Apache-2.0", makeTrees}
	}
	return []Tree{
		{Name: "null", Program: Program{}, Cost: TreeCost{LeavesPerSecond: 2e6, InMemory: true}},
		{Name: "iavl0", Program: of("iavl0",
			"Cosmos IAVL v0.21 on goleveldb"), Cost: costliestTree},
		{Name: "iavl1", OfNodes: true, Program: of("iavl1", "Cosmos IAVL v1 on goleveldb"),
			// 900 MiB resident
			Cost: TreeCost{LeavesPerSecond: 7.2e3, DiskPerChange: 1125, Memory: 8, Bounded: true}},
		{Name: "iavl1-map", Program: of("iavl1", "Cosmos IAVL v1 on an in-memory map"),
			Cost: TreeCost{LeavesPerSecond: 13.7e3, Memory: 12, InMemory: true}}, // 1,228 MiB
		{Name: "iavl2", Program: of("iavl2", "Cosmos IAVL v2 on SQLite"),
			// 253 MiB
			Cost: TreeCost{LeavesPerSecond: 7.9e3, DiskPerChange: 990, Memory: 1.5, Bounded: true}},
		{Name: "avlite", Program: of("avlite", "the IAVL v2 of 2023: log, checkpoints, goleveldb"),
			// 1,026 MiB; 106 MB on disk
			Cost: TreeCost{LeavesPerSecond: 24e3, DiskPerChange: 350, Memory: 9, Bounded: true}},
		{Name: "memiavl", Program: of("memiavl", "memiavl of Cronos, log written in the commit"),
			Cost: TreeCost{LeavesPerSecond: 74e3, DiskPerChange: 100, Memory: 3}}, // 400 MiB
		{
			Name:    "memiavl-async",
			Program: of("memiavl", "memiavl of Cronos, log written behind the commit"),
			Cost:    TreeCost{},
		},
		{
			Name:    "cosmosstore",
			Program: of("cosmosstore", "Cosmos SDK store v2: rootmulti over IAVL v1"),
			// 959 MiB
			Cost: TreeCost{LeavesPerSecond: 7.6e3, DiskPerChange: 1118, Memory: 8.5, Bounded: true},
		},
	}
}

// TreeOfNodes names the tree that reads the databases of nodes.
func TreeOfNodes() string {
	t, _ := find(Trees(), func(t Tree) bool { return t.OfNodes })
	return t.Name
}

// TreeOf is the tree of a name. One without measurements has the costs of the costliest; taken
// then says so.
func TreeOf(name string) (t Tree, taken string) {
	t, _ = find(Trees(), func(t Tree) bool { return t.Name == name })
	if t.Cost == (TreeCost{}) {
		t.Cost, taken = costliestTree, "taken for iavl0: no measurement of "+name
	}
	return t, taken
}
