// Package memoryuse knows what a part of memory keeps by the text of its use. Libraries behind
// the C headers have no other way to say it: native/statelab_engine.h lists the texts. Folders of
// results that are older than engine.MemoryShare.Holds have the text alone, too.
package memoryuse

import (
	"strings"

	"github.com/statelab/statelab/engine"
)

// Holding is what a part of this use keeps; "": it answers no read.
func Holding(use string) engine.Holding {
	switch use {
	case "page cache of the layout", "block cache", "block cache and write buffers", "leaf cache":
		return engine.Blocks
	case "clean trie nodes", "clean flat states":
		return engine.CleanState
	case "index and the rest of the heap":
		return engine.EntryIndex
	case "filters and indexes outside the cache":
		return engine.TableMetadata
	}

	if strings.HasPrefix(use, "branches of nibble depth ") {
		return engine.PinnedBranches
	}

	return ""
}
