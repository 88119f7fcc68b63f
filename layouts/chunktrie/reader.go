//go:build linux

package chunktrie

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// Reader looks up at one block.
type Reader struct {
	store   *Store
	at      *version
	flight  *flight
	lookups tally
}

// tally counts what one goroutine touched and read; others may look.
type tally struct{ nodes, sectors, reads, readBytes atomic.Int64 }

func (t *tally) add(nodes, sectors, reads, readBytes int64) {
	t.nodes.Add(nodes)
	t.sectors.Add(sectors)
	if reads > 0 {
		t.reads.Add(reads)
		t.readBytes.Add(readBytes)
	}
}

var errClosed = errors.New("the reader is closed")

// Account looks an account up.
func (r *Reader) Account(account layout.Hash) (a layout.Account, found bool, err error) {
	n, err := r.leaf(&account)
	if n == nil || err != nil {
		return a, false, err
	}
	if a, err = parseAccount(n.value()); err != nil {
		return a, false, fmt.Errorf("chunktrie: account %x: %w", account, err)
	}
	return a, true, nil
}

// Slot copies a slot's value behind dst[:0].
func (r *Reader) Slot(account, key layout.Hash, dst []byte) (value []byte, found bool, err error) {
	n, err := r.leaf(&account)
	if n == nil || err != nil {
		return nil, false, err
	}

	if n.mask() == 0 {
		return nil, false, nil
	}

	n, err = r.descend(&key, n.pointer(0), 0, slotBranch, slotLeaf)
	if n == nil || err != nil {
		return nil, false, err
	}

	return append(dst[:0], n.value()...), true, nil
}

// leaf finds an account's leaf; nil if there is none. It is valid until the next
// lookup.
func (r *Reader) leaf(account *layout.Hash) (node, error) {
	if r.at == nil {
		return nil, fmt.Errorf("chunktrie: account %x: %w", *account, errClosed)
	}
	if r.at.root.at == 0 {
		return nil, nil
	}
	return r.descend(account, r.at.root.at, r.at.root.pin, accountBranch, accountLeaf)
}

// descend follows key from the node at p, which begins at depth 0, to its leaf;
// nil if it is absent.
func (r *Reader) descend(
	key *layout.Hash, p pointer, pinned pin, branch, leaf kind,
) (found node, err error) {
	var nodes, sectors, reads, bytes int64
	for depth := 0; ; {
		nodes++
		sectors += int64(p.sectors())
		if pinned != 0 {
			a, head := r.store.pins.arena, r.store.pins.head(pinned)
			end, mask := head.end(), head.mask()
			if mpt.Common(key, depth, a.path(pinned, bits.OnesCount16(mask), end-depth),
				end-depth) < end-depth {
				break
			}

			i, exists := childIndex(mask, mpt.Nibble(key, end))
			if !exists {
				break
			}

			p, pinned = a.follow(pinned, i)
			depth = end + 1
			continue
		}

		var n node
		var asked int64
		n, asked, err = r.store.flights.read(r.store.nodes, p, r.flight)
		reads += min(asked, 1)
		bytes += asked
		if err != nil {
			break
		}

		end := n.end()
		if n.begin() != depth || n.kind() != branch && n.kind() != leaf {
			err = errDepth
			break
		}

		if mpt.Common(key, depth, n.path(), end-depth) < end-depth {
			break
		}

		if n.kind() == leaf {
			found = n
			break
		}

		i, exists := n.child(mpt.Nibble(key, end))
		if !exists {
			break
		}

		p, depth = n.pointer(i), end+1
	}

	r.lookups.add(nodes, sectors, reads, bytes)
	if err != nil {
		return nil, fmt.Errorf("chunktrie: node %d on the way to %x: %w", nodes, *key, err)
	}

	return found, nil
}

// Refresh moves on to the newest block.
func (r *Reader) Refresh() error {
	if r.at == nil {
		return errClosed
	}
	r.store.mutex.Lock()
	defer r.store.mutex.Unlock()
	r.store.leave(r.at)
	r.at = r.store.enter(r.store.newest())
	return nil
}

// Touched counts nodes, pinned or read, and their sectors.
func (r *Reader) Touched() layout.Touched {
	nodes, sectors := r.lookups.nodes.Load(), r.lookups.sectors.Load()
	return layout.Touched{Nodes: &nodes, Pages: &sectors}
}

// Close lets go of the block.
func (r *Reader) Close() error {
	if r.at == nil {
		return nil
	}

	r.store.mutex.Lock()
	defer r.store.mutex.Unlock()
	r.store.leave(r.at)
	r.at = nil
	delete(r.store.readers, r)
	r.store.closedReads += r.lookups.reads.Load()
	r.store.closedReadBytes += r.lookups.readBytes.Load()
	return nil
}

// flights let readers that want the same node at the same time share one read.
type flights struct{ shards [flightShards]flightShard }

const flightShards = 64

type flightShard struct {
	mutex sync.Mutex
	open  map[pointer]*flight // by the node that is being read
	_     [48]byte            // neighbours' locks stay off this one's line
}

// flight is one goroutine's part in reads: it makes one, or waits for another's.
// One at a time, it is used again and again.
type flight struct {
	buffer []byte
	next   *flight // who waits for the same read
	done   chan struct{}
	node   node // what another's read brought
	err    error
}

func newFlights() *flights {
	f := &flights{}
	for i := range f.shards {
		f.shards[i].open = map[pointer]*flight{}
	}
	return f
}

func newFlight() *flight { return &flight{buffer: newReadBuffer(), done: make(chan struct{}, 1)} }

// read reads the node at p into own's buffer and tells how many bytes it asked for;
// 0 where another's read brought them.
func (f *flights) read(file *nodeFile, p pointer, own *flight) (n node, asked int64, err error) {
	s := &f.shards[(uint64(p)*0x9e3779b97f4a7c15)>>58]
	s.mutex.Lock()
	if first := s.open[p]; first != nil {
		own.next, first.next = first.next, own
		s.mutex.Unlock()
		<-own.done
		return own.node, 0, own.err
	}

	s.open[p] = own
	s.mutex.Unlock()
	n, asked, err = file.read(p, own.buffer)
	s.mutex.Lock()
	delete(s.open, p)
	s.mutex.Unlock()
	for own.next != nil { // nobody joins any more
		other := own.next
		own.next, other.next = other.next, nil
		other.node, other.err = append(other.buffer[:0], n...), err
		other.done <- struct{}{}
	}

	return n, asked, err
}
