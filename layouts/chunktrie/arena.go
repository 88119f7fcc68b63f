//go:build linux

package chunktrie

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arena is where pins lie, outside the Go heap: a collector would keep as much again
// in reserve. The writer alone allocates and frees; readers read.
type arena struct {
	words   []uint64
	next    pin                     // never used from here on
	unused  [mostPinWords + 1][]pin // freed, by their words
	retired []retirement            // in the order of their blocks
}

// retirement is a pin that no root from a block on leads to.
type retirement struct {
	block uint64
	pin   pin
}

// arenaBytes is what of the address space the arena holds: several times what all
// levels take at their fullest, 160 MiB. Memory is taken as pins are written.
const arenaBytes = 1 << 30

func newArena() (*arena, error) {
	raw, err := unix.Mmap(-1, 0, arenaBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve address space for pinned nodes: %w", err)
	}
	return &arena{words: unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), arenaBytes/8), next: 1}, nil
}

func (a *arena) close() error {
	if a == nil || a.words == nil {
		return nil
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&a.words[0])), arenaBytes)
	a.words = nil
	return unix.Munmap(raw)
}

// take returns room for a pin, whose head tells no more than its words; 0 where none
// is left.
func (a *arena) take(words int) (p pin) {
	if words := a.reusable(words); words > 0 {
		free := a.unused[words]
		p = free[len(free)-1]
		a.unused[words] = free[:len(free)-1]
		a.words[p] = uint64(words) << 32
		return p
	}
	if int(a.next)+words > len(a.words) {
		return 0
	}
	p = a.next
	a.next += pin(words)
	a.words[p] = uint64(words) << 32
	return p
}

// reusable is the size of a freed place for that many words, which has at most two
// more; 0 where there is none.
func (a *arena) reusable(words int) int {
	for size := words; size <= min(words+2, mostPinWords); size++ {
		if len(a.unused[size]) > 0 {
			return size
		}
	}
	return 0
}

// retire lets go of a pin that a block replaces.
func (a *arena) retire(block uint64, p pin) { a.retired = append(a.retired, retirement{block, p}) }

// reclaim frees what the readers of blocks from oldest on cannot meet.
func (a *arena) reclaim(oldest uint64) {
	n := 0
	for n < len(a.retired) && a.retired[n].block <= oldest {
		p := a.retired[n].pin
		words := a.head(p).words()
		a.unused[words] = append(a.unused[words], p)
		n++
	}
	a.retired = slices.Delete(a.retired, 0, n)
}

// used is what the arena has ever used at once, in bytes.
func (a *arena) used() int64 { return 8 * int64(a.next) }

// A pin is a branch of the account trie in memory, as much of it as lookups need:
// its place among the arena's words, 0 for none. At that place stand
//
//	a head: child mask (16 bits), nibble depths where the path begins and ends (8 + 8),
//	        words of its place (16)
//	its pointer
//	of each child: its pointer, or its pin (pinnedBit)
//	its path, packed
//
// Pins do not change, but for children that are given up: a block makes new ones,
// and readers of old blocks keep theirs.
type pin uint32

const (
	pinnedBit    = 1 << 62 // of no pointer
	pinHeadWords = 2
	mostPinWords = pinHeadWords + 16 + 4
	evenLevels   = 4
)

type pinHead uint64

func (h pinHead) mask() uint16 { return uint16(h) }
func (h pinHead) begin() int   { return int(uint8(h >> 16)) }
func (h pinHead) end() int     { return int(uint8(h >> 24)) }
func (h pinHead) words() int   { return int(uint16(h >> 32)) }

func (a *arena) head(p pin) pinHead    { return pinHead(a.words[p]) }
func (a *arena) pointer(p pin) pointer { return pointer(a.words[p+1]) }
func (a *arena) child(p pin, i int) link {
	return link(atomic.LoadUint64(&a.words[int(p)+pinHeadWords+i]))
}
func (a *arena) link(p pin, i int, l link) {
	atomic.StoreUint64(&a.words[int(p)+pinHeadWords+i], uint64(l))
}

// follow tells where child i is.
func (a *arena) follow(p pin, i int) (pointer, pin) {
	l := a.child(p, i)
	if child := l.pin(); child != 0 {
		return a.pointer(child), child
	}
	return pointer(l), 0
}

// path is the pin's, packed, behind its children.
func (a *arena) path(p pin, children, nibbles int) []byte {
	if nibbles == 0 {
		return nil
	}
	first := &a.words[int(p)+pinHeadWords+children]
	return unsafe.Slice((*byte)(unsafe.Pointer(first)), (nibbles+1)/2)
}

// link is what a pin holds of a child.
type link uint64

func (l link) pin() pin {
	if l&pinnedBit == 0 {
		return 0
	}
	return pin(l)
}

// pinWords is the size of a node's place. In the first levels, whose branches are
// written anew with nearly every block and grow to 16 children, all places are of one
// size: one that was freed fits the next.
func pinWords(n node) int {
	if n.begin() < evenLevels {
		return mostPinWords
	}
	return pinHeadWords + n.children() + (len(n.path())+7)/8
}

// add pins node n, which lies at a pointer, with no child pinned; 0 where there is
// no room.
func (a *arena) add(n node, at pointer) pin {
	children := n.children()
	p := a.take(pinWords(n))
	if p == 0 {
		return 0
	}
	a.words[p] |= uint64(n.mask()) | uint64(n.begin())<<16 | uint64(n.end())<<24
	a.words[p+1] = uint64(at)
	for i := range children {
		a.link(p, i, link(n.pointer(i)))
	}
	copy(a.path(p, children, n.end()-n.begin()), n.path())
	return p
}
