package layouts

import (
	"strings"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/statemodel"
	"github.com/statelab/statelab/internal/run/lookup"
	"github.com/statelab/statelab/result"
)

// heldReads are what a lookup of a present account is predicted to read below the
// layout's own caches, and below the page cache too; nil where there is no model, or
// no cache of its own.
type heldReads struct {
	reads, device *float64
	basis         string
}

// modelled is the state of a row, or of one with other accounts that takes as much of
// the disk for each.
func modelled(row result.LayoutRow, w result.StateWorkload, accounts float64) statemodel.State {
	return statemodel.State{Accounts: accounts, ContractShare: w.ContractShare, SlotsPer: float64(w.SlotsPer),
		BlockAccounts: float64(w.BlockAccounts), DiskBytes: row.DiskPerAccount * accounts}
}

// expectedHeld predicts the measured lookups of a row: after the phases before them,
// with the memory that the layout and the page cache had on so many cores.
func expectedHeld(row result.LayoutRow, w result.StateWorkload, cores int) heldReads {
	if row.Memory == nil || row.Memory.PageCacheBytes == nil {
		return heldReads{}
	}
	memories, shown, basis := memoryOf(row, cores).model(modelName(row.Layout), modelled(row, w, float64(row.Accounts)))
	if memories == nil {
		return heldReads{}
	}
	return shown.of(statemodel.After(memories, phases(w)), basis)
}

// phases are the lookups that the memories of a row have seen: of the last state that
// was opened cold, then those that warm it, then the measured ones.
func phases(w result.StateWorkload) (all []statemodel.Stretch) {
	kinds := []statemodel.Kind{statemodel.Account, statemodel.AbsentAccount}
	if w.SlotsPer > 0 && w.ContractShare > 0 {
		kinds = append(kinds, statemodel.Slot, statemodel.AbsentSlot)
	}
	add := func(kind statemodel.Kind, lookups uint64) {
		all = append(all, statemodel.Stretch{Kind: kind, Lookups: float64(lookups)})
	}
	add(kinds[len(kinds)-1], min(lookup.ColdLookups, w.Reads))
	for _, kind := range kinds {
		add(kind, w.Reads)
	}
	add(statemodel.Account, w.Reads)
	return all
}

// memory is what a layout has to keep what it reads.
type memory struct {
	cacheBytes     float64 // of pages or blocks
	cleanBytes     float64 // of nodes or flat states, above it
	shards         int     // of a block cache
	pinnedBytes    float64 // of a trie's upper branches
	pageCacheBytes float64
}

func memoryOf(row result.LayoutRow, cores int) (m memory) {
	m.pageCacheBytes = float64(*row.Memory.PageCacheBytes)
	for _, share := range row.Memory.Shares {
		switch share.Use {
		case "page cache of the layout", "block cache", "block cache and write buffers", "leaf cache":
			m.cacheBytes = float64(share.Bytes)
		case "clean trie nodes", "clean flat states":
			m.cleanBytes = float64(share.Bytes)
		}
		if strings.HasPrefix(share.Use, "branches of nibble depth") {
			m.pinnedBytes = float64(share.Bytes)
		}
	}
	m.shards = cachesim.ShardCount(int64(m.cacheBytes), cores)
	return m
}

// shown are the memories below which a layout's own reads are, and the device's; 0 is
// the first, and a layout without a cache of its own has no reads of its own.
type shown struct{ reads, device int }

const nowhere = -1

func (s shown) of(below []float64, basis string) heldReads {
	h := heldReads{device: &below[s.device], basis: basis}
	if s.reads != nowhere {
		h.reads = &below[s.reads]
	}
	return h
}

// model is what the memories of a layout hold; nil for a layout without a model.
func (m memory) model(layout string, s statemodel.State) ([]statemodel.Memory, shown, string) {
	geth := statemodel.GethMemory{CleanBytes: m.cleanBytes, PebbleBytes: m.cacheBytes, Shards: m.shards, PageCacheBytes: m.pageCacheBytes}
	switch layout {
	case "chunktrie", "chunktrie:unpinned":
		return statemodel.ChunkTrie(s, m.pinnedBytes, m.pageCacheBytes), shown{0, 1}, "nodes that are not pinned, and their pages"
	case "pagetrie":
		memories, ok := statemodel.PageTrie(s, m.cacheBytes, m.pageCacheBytes)
		if !ok {
			return nil, shown{}, ""
		}
		return memories, shown{0, 1}, "pages by simulated splits"
	case "triedb":
		memories, ok := statemodel.TrieDB(s, m.pageCacheBytes)
		if !ok {
			return nil, shown{}, ""
		}
		return memories, shown{nowhere, 0}, "pages by simulated splits of pagetrie"
	case "flat-mdbx":
		return statemodel.FlatMDBX(s, m.pageCacheBytes), shown{nowhere, 0}, "pages of a B-tree"
	case "flat-pebble":
		return statemodel.FlatPebble(s, m.cacheBytes, m.shards, m.pageCacheBytes), shown{0, 1}, "blocks of one level, and their pages"
	case "nomt":
		return statemodel.NOMT(s, m.cacheBytes), shown{0, 0}, "leaf pages, read past the page cache"
	case "qmdb":
		return statemodel.QMDB(s, m.cacheBytes), shown{0, 0}, "pages of the log, read past the page cache"
	case "geth-path":
		return statemodel.GethPath(s, geth), shown{1, 2}, "nodes, blocks of parts of the trie, and their pages"
	case "geth-hash":
		return statemodel.GethHash(s, geth), shown{1, 2}, "nodes, blocks of any nodes, and their pages"
	case "geth-flat":
		return statemodel.GethFlat(s, geth), shown{1, 2}, "flat states, blocks, and their pages"
	}
	return nil, shown{}, ""
}
