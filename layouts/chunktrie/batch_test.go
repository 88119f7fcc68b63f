//go:build linux

package chunktrie

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// BatchReader looks many accounts up at once: what a chunk trie is made for, since
// the reads of one key cannot overlap.
type BatchReader interface {
	layout.Reader
	// Accounts fills out, as long as keys, with up to inFlight reads at a time. A
	// node that several keys need is read once, and counts once.
	Accounts(keys []layout.Hash, inFlight int, out []Found) error
}

var _ BatchReader = (*Reader)(nil)

// Found is one answer of a batch.
type Found struct {
	Account layout.Account
	Exists  bool
}

// batch is the keys of one call in order, and the nodes they wait for.
type batch struct {
	reader *Reader
	keys   []layout.Hash
	order  []int32 // of keys
	out    []Found

	mutex sync.Mutex
	more  sync.Cond
	tasks []task
	open  int // tasks not done, those being worked on included
	err   error
}

// task is a node and the keys, from <= i < to in order, that lead through it.
type task struct {
	at       pointer
	pin      pin
	depth    int
	from, to int
}

// Accounts looks keys up, many reads at a time.
func (r *Reader) Accounts(keys []layout.Hash, inFlight int, out []Found) error {
	if r.at == nil {
		return fmt.Errorf("chunktrie: batch: %w", errClosed)
	}

	if len(out) != len(keys) || inFlight < 1 {
		return fmt.Errorf("chunktrie: batch of %d keys into %d answers, %d in flight", len(keys),
			len(out), inFlight)
	}

	clear(out)
	root := r.at.root
	if root.at == 0 || len(keys) == 0 {
		return nil
	}

	b := &batch{reader: r, keys: keys, out: out, order: make([]int32, len(keys))}
	b.more.L = &b.mutex
	for i := range b.order {
		b.order[i] = int32(i)
	}

	slices.SortFunc(b.order, func(x, y int32) int { return bytes.Compare(keys[x][:], keys[y][:]) })
	b.push(task{at: root.at, pin: root.pin, to: len(keys)})
	var workers sync.WaitGroup
	for range min(inFlight, len(keys)) {
		workers.Go(b.work)
	}

	workers.Wait()
	return b.err
}

func (b *batch) push(t task) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.tasks = append(b.tasks, t)
	b.open++
	b.more.Signal()
}

// take waits for a task; false if there will be none.
func (b *batch) take() (task, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for len(b.tasks) == 0 && b.open > 0 && b.err == nil {
		b.more.Wait()
	}

	if b.open == 0 || b.err != nil {
		return task{}, false
	}

	t := b.tasks[len(b.tasks)-1] // the deepest: fewer wait
	b.tasks = b.tasks[:len(b.tasks)-1]
	return t, true
}

func (b *batch) done(err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.open--
	if b.err == nil {
		b.err = err
	}

	if b.open == 0 || b.err != nil {
		b.more.Broadcast()
	}
}

func (b *batch) work() {
	own := newFlight()
	for {
		t, some := b.take()
		if !some {
			return
		}
		b.done(b.visit(t, own))
	}
}

// visit takes a task's keys through its node. Pinned children are visited at once;
// those to be read are for whoever is free.
func (b *batch) visit(t task, own *flight) error {
	store, lookups := b.reader.store, &b.reader.lookups
	if t.pin != 0 {
		lookups.add(1, int64(t.at.sectors()), 0, 0)
		a, head := store.pins.arena, store.pins.head(t.pin)
		path := a.path(t.pin, bits.OnesCount16(head.mask()), head.end()-t.depth)
		return b.part(t, head.mask(), head.end(), path, own, func(i int) (pointer, pin) {
			return a.follow(t.pin, i)
		})
	}

	n, asked, err := store.flights.read(store.nodes, t.at, own)
	if err != nil {
		return fmt.Errorf("chunktrie: node of %d keys from %x on: %w", t.to-t.from, b.key(t.from),
			err)
	}

	lookups.add(1, int64(t.at.sectors()), min(asked, 1), asked)
	if n.begin() != t.depth || n.kind() != accountBranch && n.kind() != accountLeaf {
		return fmt.Errorf("chunktrie: node of %d keys from %x on: %w", t.to-t.from, b.key(t.from),
			errDepth)
	}

	if n.kind() == accountLeaf {
		return b.answer(t, n)
	}

	return b.part(t, n.mask(), n.end(), n.path(), own, func(i int) (pointer, pin) {
		return n.pointer(i), 0
	})
}

// part sends a task's keys on to the children of its branch.
func (b *batch) part(
	t task, mask uint16, end int, path []byte, own *flight, child func(i int) (pointer, pin),
) error {
	onPath := func(i int) bool {
		return mpt.Common(b.key(i), t.depth, path, end-t.depth) == end-t.depth
	}
	for from := t.from; from < t.to; {
		if !onPath(from) {
			from++
			continue
		}

		nibble, to := mpt.Nibble(b.key(from), end), from+1
		for to < t.to && mpt.Nibble(b.key(to), end) == nibble && onPath(to) {
			to++
		}

		if i, exists := childIndex(mask, nibble); exists {
			below := task{depth: end + 1, from: from, to: to}
			if below.at, below.pin = child(i); below.pin == 0 {
				b.push(below)
			} else if err := b.visit(below, own); err != nil {
				return err
			}
		}

		from = to
	}

	return nil
}

// answer gives a leaf to those keys that it belongs to.
func (b *batch) answer(t task, leaf node) error {
	rest := mpt.PathNibbles - t.depth
	for i := t.from; i < t.to; i++ {
		if mpt.Common(b.key(i), t.depth, leaf.path(), rest) < rest {
			continue
		}

		a, err := parseAccount(leaf.value())
		if err != nil {
			return fmt.Errorf("chunktrie: account %x: %w", *b.key(i), err)
		}

		b.out[b.order[i]] = Found{a, true}
	}

	return nil
}

func (b *batch) key(i int) *layout.Hash { return &b.keys[b.order[i]] }
