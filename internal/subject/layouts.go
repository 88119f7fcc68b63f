package subject

import (
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/internal/model/statemodel"
)

// Layout is a layout of Ethereum's state, or a profile of one that behaves differently.
type Layout struct {
	Label   string // NAME or NAME:PROFILE
	Program Program
	Cost    LayoutCost
	// Formula is what formulas say of a lookup without a cache; nil: nothing.
	Formula func(statemodel.State) Formula
	Model   *Model // of its memory; nil: none
	// Options takes from the options that a layout ran with what its formula and its model depend
	// on; nil: nothing.
	Options func(s *statemodel.State, effective map[string]string)

	// KeepsRecords: a lookup is one Get of a key-value store, as one of contract code is.
	KeepsRecords bool
}

// Name is the layout without a profile.
func (l Layout) Name() string { return base(l.Label) }

// LayoutCost is what a layout takes. Bytes are of the million accounts of
// docs/layouts-measured.md, with 16 slots for a tenth of them, so 2.6 values an account. Rates and
// seconds of openings and lookups lie between those of `statelab layouts --layout L --accounts 100k
// --reads 2000 --memory 64MiB` on a busy machine with two cores and those of
// docs/prices.md on an idle one; the memory of the build is of the former.
type LayoutCost struct {
	PerAccount        float64 // bytes on disk
	Fixed, PeakFixed  float64 // logs and preallocated files
	Peak              float64 // times the bytes at the end
	AccountsPerSecond float64
	BuildMemory       float64 // beyond the budget
	MemoryPerAccount  float64 // of an index without a limit
	Open              float64 // seconds, and for each account
	OpenPerAccount    float64
	GetSeconds        float64 // of a warm lookup
}

// Layouts are all layouts with the profiles that published claims are about, in the order in
// which they are listed.
func Layouts() []Layout {
	chunks := LayoutCost{
		PerAccount:        1505,
		Fixed:             8e6,
		PeakFixed:         8e6,
		Peak:              1.1,
		AccountsPerSecond: 30e3,
		BuildMemory:       60e6,
		Open:              0.01,
		OpenPerAccount:    1.2e-6,
		GetSeconds:        45e-6,
	}
	nomt := Program{"statelab-run-states", "NOMT: values in a B-tree, a trie in pages of six " +
		"binary levels", "MIT OR Apache-2.0", makeLibraries}
	leaves := LayoutCost{
		PerAccount:        303,
		Fixed:             30e6,
		PeakFixed:         30e6,
		Peak:              1.1,
		AccountsPerSecond: 16e3,
		BuildMemory:       300e6,
		Open:              0.01,
		GetSeconds:        80e-6,
	}
	inTrie := LayoutCost{
		PerAccount:        548,
		Fixed:             15e6,
		PeakFixed:         70e6,
		Peak:              1.4,
		AccountsPerSecond: 8e3,
		BuildMemory:       180e6,
		Open:              0.3,
		GetSeconds:        60e-6,
	}
	geth := func(about string) Program {
		return Program{"statelab-run-geth", about, "LGPL-3.0", makeTrees}
	}
	return []Layout{
		{
			Label: "flat-pebble",
			Cost: LayoutCost{
				PerAccount:        245,
				Fixed:             70e6,
				PeakFixed:         80e6,
				Peak:              1.4,
				AccountsPerSecond: 160e3,
				BuildMemory:       90e6,
				Open:              0.05,
				GetSeconds:        15e-6,
			},
			Model:        flatPebble(),
			KeepsRecords: true,
		},
		{
			Label: "flat-mdbx",
			Program: Program{"statelab-run-flatmdbx", "accounts and slots as keys of libmdbx",
				"Apache-2.0", makeRunners},
			Cost: LayoutCost{
				PerAccount:        356,
				Fixed:             8e6,
				PeakFixed:         8e6,
				Peak:              1.1,
				AccountsPerSecond: 60e3,
				BuildMemory:       70e6,
				Open:              0.006,
				GetSeconds:        20e-6,
			},
			Model: flatMDBX(),
		},
		{
			Label: "pagetrie",
			Cost: LayoutCost{
				PerAccount:        554,
				Fixed:             28e6,
				PeakFixed:         28e6,
				Peak:              1.1,
				AccountsPerSecond: 17e3,
				BuildMemory:       110e6,
				Open:              0.001,
				GetSeconds:        35e-6,
			},
			Formula: formula(foldedNodes, splitPages, "pages by simulated splits"),
			Model:   pageTrie(),
		},
		{
			Label: "triedb",
			Program: Program{"statelab-run-states",
				"Base's TrieDB: Ethereum's trie in pages of a mapped file", "MIT", makeTrieDB},
			Formula: formula(nil, splitPages, "pages by simulated splits of pagetrie"),
			Model:   trieDB(),
		},
		{
			Label: "chunktrie",
			Cost:  chunks,
			Formula: formula(foldedNodes, unpinnedNodes,
				"nodes below the pinned depth, one read each"),
			Model: chunkTrie(statemodel.Pinned),
		},
		{
			Label:   "chunktrie:unpinned",
			Cost:    chunks,
			Formula: formula(foldedNodes, foldedNodes, "one read for every node"),
			Model:   chunkTrie(nil),
		},
		{
			Label: "monad",
			Program: Program{"statelab-run-monad", "Monad DB: Ethereum's trie in an append-only " +
				"pool, a read for every node",
				"GPL-3.0-or-later", makeMonad},
			Formula: formula(twoMoreNodes, twoMoreNodes,
				"one read for every node, two of them above the accounts"),
		},
		{
			Label:   "geth-flat",
			Program: geth("go-ethereum's flat state beside its trie, on Pebble"),
			Cost:    inTrie,
			Model: withSlots(inGeth("flat states, blocks, and their pages", statemodel.GethFlat,
				statemodel.FirstGethFlat)),
		},
		{
			Label:   "geth-path",
			Program: geth("go-ethereum's trie, nodes under their paths, on Pebble"),
			Cost:    inTrie,
			Formula: formula(plainNodes, nil, ""),
			Model: withSlots(inGeth("nodes, blocks of parts of the trie, and their pages",
				statemodel.GethPath, statemodel.FirstGethPath)),
		},
		{
			Label:   "geth-hash",
			Program: geth("go-ethereum's trie, nodes under their hashes, on Pebble"),
			Formula: formula(plainNodes, nil, ""),
			Cost: LayoutCost{
				PerAccount:        1154,
				Fixed:             15e6,
				PeakFixed:         70e6,
				Peak:              1.4,
				AccountsPerSecond: 8e3,
				BuildMemory:       170e6,
				Open:              0.3,
				GetSeconds:        90e-6,
			},
			Model: inGeth("nodes, blocks of any nodes, and their pages", statemodel.GethHash,
				statemodel.FirstGethHash),
		},
		{
			Label: "geth-bintrie",
			Program: geth("go-ethereum's binary trie (EIP-7864), groups of its levels under " +
				"their paths, on Pebble"),
			Cost: LayoutCost{
				PerAccount:        340,
				Fixed:             15e6,
				PeakFixed:         70e6,
				Peak:              1.6,
				AccountsPerSecond: 5e3,
				BuildMemory:       900e6,
				Open:              0.1,
				GetSeconds:        90e-6,
			},
			Formula: formula(binaryNodes, nil, ""),
			Options: groupsOf,
			Model: inGeth("groups, stems and their blocks, and their pages", statemodel.BinaryTrie,
				statemodel.FirstBinaryTrie),
		},
		{
			Label:   "nomt",
			Program: nomt,
			Cost:    leaves,
			Formula: formula(nil, leafPage, "one leaf page"),
			Model:   leafPages(),
		},
		{
			Label:   "nomt:prove",
			Program: nomt,
			Cost:    leaves,
			Formula: formula(nil, provenPages, "stored pages of the trie, and the leaf"),
		},
		{
			Label: "qmdb",
			Program: Program{"statelab-run-states",
				"QMDB: an append-only log with an index in memory", "MIT OR Apache-2.0",
				makeLibraries},
			Cost: LayoutCost{
				PerAccount:        453,
				Fixed:             4e6,
				PeakFixed:         4e6,
				Peak:              1.1,
				AccountsPerSecond: 200e3,
				BuildMemory:       100e6,
				MemoryPerAccount:  75,
				Open:              0.02,
				OpenPerAccount:    4.5e-6,
				GetSeconds:        90e-6,
			},
			Formula: formula(nil, newestPage, "the page of the newest operation"),
			Model:   logPages(),
		},
	}
}

// LayoutOf is the layout of a label, whatever options follow it. A profile that is not listed has
// the costs of its layout, and a layout without measurements those of another; taken then says so.
func LayoutOf(label string) (l Layout, taken string) {
	all, entry := Layouts(), label
	if end := strings.IndexByte(label, ' '); end >= 0 {
		entry = label[:end]
	}

	l, known := find(all, func(l Layout) bool { return l.Label == entry })
	if !known {
		of, _ := find(all, func(l Layout) bool { return l.Label == base(label) })
		l = Layout{Label: label, Program: of.Program, Cost: of.Cost}
	}

	if l.Cost == (LayoutCost{}) {
		l.Cost = LayoutCost{
			PerAccount:        1154,
			Fixed:             70e6,
			PeakFixed:         70e6,
			Peak:              1.4,
			AccountsPerSecond: 6e3,
			BuildMemory:       300e6,
			Open:              0.7,
			GetSeconds:        200e-6,
		}
		taken = "taken for geth-hash: no measurement of " + label
	}

	return l, taken
}

// Records is the layout whose lookups are Gets of a key-value store.
func Records() Layout {
	l, _ := find(Layouts(), func(l Layout) bool { return l.KeepsRecords })
	return l
}

// Formula is what formulas say of a lookup of a present account without a cache: the nodes of
// Ethereum's trie that it walks, and what it reads; nil where there is no formula.
type Formula struct {
	Nodes, Reads *float64
	Basis        string // of the reads
}

// formula makes one of functions, nil where there is none; basis is that of reads.
func formula(
	nodes, reads func(statemodel.State) *float64, basis string,
) func(statemodel.State) Formula {
	return func(s statemodel.State) (f Formula) {
		if nodes != nil {
			f.Nodes = nodes(s)
		}

		if reads != nil {
			f.Reads = reads(s)
		}

		if f.Reads != nil {
			f.Basis = basis
		}

		return f
	}
}

func foldedNodes(s statemodel.State) *float64 { return new(mpt.ExpectedFoldedNodes(s.Accounts)) }
func twoMoreNodes(s statemodel.State) *float64 {
	return new(2 + mpt.ExpectedFoldedNodes(s.Accounts))
}
func plainNodes(s statemodel.State) *float64 { return new(mpt.ExpectedNodes(s.Accounts)) }
func binaryNodes(s statemodel.State) *float64 {
	return new(statemodel.BinaryNodes(s.Stems(), s.Group()))
}
func unpinnedNodes(s statemodel.State) *float64 { return new(statemodel.UnpinnedNodes(s.Accounts)) }
func provenPages(s statemodel.State) *float64   { return new(statemodel.NOMTProof(s)) }
func leafPage(s statemodel.State) *float64 {
	return &statemodel.Steady(statemodel.NOMT(s, 0), statemodel.Account)[0]
}
func newestPage(s statemodel.State) *float64 {
	return &statemodel.Steady(statemodel.QMDB(s, 0), statemodel.Account)[0]
}
func splitPages(s statemodel.State) *float64 {
	if pages, ok := statemodel.Pages(s); ok {
		return &pages
	}
	return nil
}

// groupsOf are the levels of a binary trie's group, and the blocks that its store was asked for.
func groupsOf(s *statemodel.State, effective map[string]string) {
	s.GroupDepth, _ = strconv.ParseFloat(effective["GroupDepth"], 64)
	s.BlockBytes, _ = strconv.ParseFloat(effective["Levels[0].block_size"], 64)
}
