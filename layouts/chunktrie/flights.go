//go:build linux

package chunktrie

import "sync"

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
