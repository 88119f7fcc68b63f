//go:build cgo

package sharedlib

// #include "statelab_engine.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/memoryuse"
)

// size is size_t.
type size interface{ ~uint32 | ~uint64 }

// Effective are the settings a library tells. S is the caller's statelab_setting.
func Effective[S any, N size](ask func(into *S, capacity N) N) map[string]string {
	effective := map[string]string{}
	for _, s := range filled[C.statelab_setting](ask) {
		if s.name != nil && s.value != nil {
			effective[Text(s.name)] = Text(s.value)
		}
	}
	return effective
}

// Memory is what a library says its memory goes to. M is the caller's statelab_memory.
func Memory[M any, N size](ask func(into *M, capacity N) N) (shares []engine.MemoryShare) {
	for _, m := range filled[C.statelab_memory](ask) {
		if m.use != nil && m.basis != nil {
			shares = append(shares, engine.MemoryShare{
				Use:   Text(m.use),
				Basis: Text(m.basis),
				Bytes: int64(m.bytes),
				Holds: memoryuse.Holding(Text(m.use)),
			})
		}
	}

	return shares
}

// ExamineMemory names what cannot be.
func ExamineMemory(shares []engine.MemoryShare) error {
	for _, share := range shares {
		if share.Bytes < 0 ||
			share.Basis != "limit" && share.Basis != "measured" && share.Basis != "estimate" {
			return fmt.Errorf("memory %q: %d bytes, basis %q: want a positive size known by "+
				"limit, measured or estimate", share.Use, share.Bytes, share.Basis)
		}
	}
	return nil
}

// Stat is a counter as the library names it.
type Stat struct {
	Name  string
	Value int64
}

// Stats are a library's counters. S is the caller's statelab_stat.
func Stats[S any, N size](ask func(into *S, capacity N) N) (told []Stat) {
	for _, s := range filled[C.statelab_stat](ask) {
		if s.name != nil {
			told = append(told, Stat{Text(s.name), int64(s.value)})
		}
	}
	return told
}

// maxEntries bounds the lists a library tells.
const maxEntries = 4096

// filled asks for a list, again with more room if there is more than fits. Theirs is
// the caller's name of Own.
func filled[Own, Theirs any, N size](ask func(into *Theirs, capacity N) N) []Own {
	for room := 64; ; room *= 2 {
		list := make([]Own, room)
		if n := ask((*Theirs)(unsafe.Pointer(&list[0])), N(room)); n <= N(room) ||
			room >= maxEntries {
			return list[:min(int(n), room)]
		}
	}
}
