package lookuppath

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
)

// Source knows the blocks of a database by numbers from 0 on, as they are at one moment.
type Source interface {
	Blocks() uint32 // how many there are
	// Block describes a block. Its decompressed size is read if no Walker has learnt it.
	Block(number uint32) (cachesim.Block, error)
	// Expect is told about how many Gets are going to be recorded.
	Expect(gets uint64)
	// Opening are the blocks, by number, that opening all tables asks the block cache for before
	// the first Get.
	Opening() []uint32
	// Walk begins for one goroutine.
	Walk() PathResolver
}

// PathResolver resolves Gets for one goroutine.
type PathResolver interface {
	// Get appends the numbers of the blocks that a Get of key asks for to dst[:0], in order, and
	// reports whether it finds the key. known says that the caller knows the key to be in the
	// database, which saves most looks into the data.
	Get(key []byte, known bool, dst []uint32) (numbers []uint32, found bool, err error)
	// Learn learns the decompressed sizes of the blocks of these numbers. It may reorder them.
	Learn(numbers []uint32) error
}

// Batcher is a Source whose Gets may be made in batches. Its Walkers are BatchWalkers then.
type Batcher interface {
	// EndsBatch tells whether a batch ends with that Get, from 1 on. It is nil where each Get is
	// made alone.
	EndsBatch() func(made uint64) bool
}

// BatchPathResolver resolves Gets that are made together.
type BatchPathResolver interface {
	// GetMany appends the numbers of the blocks that the Gets ask for to numbers, in order, and
	// says which of them find their key. It may change keys, but not their bytes.
	GetMany(keys [][]byte, known, found []bool, numbers []uint32) ([]uint32, error)
}

// Keys is a stream of Gets: it returns the next key (valid until the following
// call) and whether that is known to be in the database. It is called from one
// goroutine at a time.
type Keys func() (key []byte, known, more bool)

// Record resolves the Gets of keys, about so many, those that sample takes, on all cores and writes
// them in the stream's order, behind one Get that finds nothing and asks for the blocks of opening,
// if there are any. It returns how many Gets the stream had, that one included, for the writer's
// Close. The first Get of a batch asks for the blocks of all of it. A key that was said to be in
// the database and is found not to be is an error. Cancelled, it returns the context's error and
// what is written stays usable.
func Record(
	ctx context.Context, source Source, opening []uint32, keys Keys, about uint64,
	sample trace.Sample, out *trace.Writer,
) (offered uint64,
	err error) {
	source.Expect(about >> sample.Shift)
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	var (
		empty    = make(chan *batch, 2*workers)
		filled   = make(chan *batch, 2*workers)
		inOrder  = make(chan *batch, 2*workers)
		numbered = newNumbering(source)
		ends     func(made uint64) bool
	)

	if b, is := source.(Batcher); is {
		ends = b.EndsBatch()
	}

	if len(opening) > 0 {
		b := batch{gets: []resolved{{to: int32(len(opening))}}, numbers: slices.Clone(opening)}
		if err := b.write(numbered, out); err != nil {
			return 0, err
		}
		defer func() { offered++ }()
	}

	for range cap(empty) {
		empty <- &batch{done: make(chan struct{}, 1)}
	}

	group.Go(func() error {
		defer close(filled)
		defer close(inOrder)
		for more := true; more; {
			b, err := receive(ctx, empty)
			if err != nil {
				return err
			}

			more = b.fill(keys, sample, &offered, ends)
			filled <- b // both have room for every batch
			inOrder <- b
		}

		return nil
	})

	for range workers {
		group.Go(func() error {
			w := source.Walk()
			for b := range filled {
				if ends != nil {
					b.resolveTogether(w.(BatchPathResolver))
				} else {
					b.resolve(w)
				}

				b.learn(w)
				b.done <- struct{}{}
			}

			return nil
		})
	}

	group.Go(func() error {
		for b := range inOrder {
			<-b.done
			if err := b.write(numbered, out); err != nil {
				return err
			}
			empty <- b
		}

		return nil
	})

	err = group.Wait()
	return offered, err
}

func receive(ctx context.Context, from <-chan *batch) (*batch, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case b := <-from:
		return b, nil
	}
}

// batchGets are resolved together by one worker.
const batchGets = 1 << 14

// batch is a stretch of the stream.
type batch struct {
	keys    []byte // one after the other
	keyEnds []int
	known   []bool
	ends    []int // of the batches that the caller makes

	order   []place // in which the Gets are resolved
	gets    []resolved
	numbers []uint32 // of the Gets, in that order
	err     error    // of the Get behind the last of gets

	done             chan struct{}
	buffer, numbered []uint32
}

// place is a Get of a batch, by its number, and where its key is.
type place struct {
	head uint64
	get  int32
}

// resolved is what a Get came to: its numbers are [from, to) of the batch's.
type resolved struct {
	from, to int32
	found    bool
}

func (b *batch) fill(
	keys Keys, sample trace.Sample, offered *uint64, ends func(made uint64) bool,
) (more bool) {
	b.keys, b.keyEnds, b.known, b.ends = b.keys[:0], b.keyEnds[:0], b.known[:0], b.ends[:0]
	for ended := true; len(b.keyEnds) < batchGets || !ended; {
		key, known, more := keys()
		if !more {
			if !ended {
				b.ends = append(b.ends, len(b.keyEnds))
			}
			return false
		}

		*offered++
		if !sample.Takes(key) {
			if *offered%(16*batchGets) == 0 {
				return true // a rare sample must not keep a cancelled run going
			}
			continue
		}

		b.keys = append(b.keys, key...)
		b.keyEnds = append(b.keyEnds, len(b.keys))
		b.known = append(b.known, known)
		if ends == nil {
			continue
		}

		if ended = ends(*offered); ended {
			b.ends = append(b.ends, len(b.keyEnds))
		}
	}

	return true
}

// resolve resolves the Gets in the order of their keys, which is that of blocks
// in tables.
func (b *batch) resolve(w PathResolver) {
	b.order, b.numbers, b.gets, b.err = b.order[:0], b.numbers[:0],
		slices.Grow(b.gets[:0], len(b.keyEnds))[:len(b.keyEnds)], nil
	for i := range b.keyEnds {
		b.order = append(b.order, place{headOf(b.key(i)), int32(i)})
	}

	slices.SortFunc(b.order, func(x, y place) int { return cmp.Compare(x.head, y.head) })
	for _, p := range b.order {
		i := int(p.get)
		if i >= len(b.gets) {
			continue // behind one that failed
		}

		var found bool
		var err error
		if b.buffer, found, err = w.Get(b.key(i), b.known[i], b.buffer); err == nil &&
			b.known[i] && !found {
			err = missed(b.key(i))
		}

		if err != nil {
			b.gets, b.err = b.gets[:i], err
			continue
		}

		from := int32(len(b.numbers))
		b.numbers = append(b.numbers, b.buffer...)
		b.gets[i] = resolved{from, int32(len(b.numbers)), found}
	}
}

func missed(key []byte) error {
	return fmt.Errorf("resolve key %x: it should be in the database and is not", key)
}

// resolveTogether resolves the Gets batch by batch.
func (b *batch) resolveTogether(w BatchPathResolver) {
	b.numbers, b.gets, b.err = b.numbers[:0], b.gets[:0], nil
	for _, end := range b.ends {
		from, first := len(b.gets), int32(len(b.numbers))
		var keys [][]byte
		for i := from; i < end; i++ {
			keys = append(keys, b.key(i))
		}

		found := make([]bool, len(keys))
		if b.numbers, b.err = w.GetMany(keys, b.known[from:end], found, b.numbers); b.err != nil {
			return
		}

		last := int32(len(b.numbers))
		for i, is := range found {
			if b.known[from+i] && !is {
				b.gets, b.err = b.gets[:from], missed(keys[i])
				return
			}

			b.gets = append(b.gets, resolved{first, last, is})
			first = last
		}
	}
}

// learn learns the sizes of the blocks.
func (b *batch) learn(w PathResolver) {
	b.numbered = append(b.numbered[:0], b.numbers...)
	if err := w.Learn(b.numbered); err != nil && b.err == nil {
		b.err = err // unless it is met again where the block is first used
	}
}

func (b *batch) key(i int) []byte {
	start := 0
	if i > 0 {
		start = b.keyEnds[i-1]
	}
	return b.keys[start:b.keyEnds[i]]
}

func (b *batch) write(n *numbering, out *trace.Writer) error {
	for _, g := range b.gets {
		numbers := b.numbers[g.from:g.to]
		if n.opener != nil {
			n.opened = n.opener.Open(n.opened[:0], numbers)
			numbers = n.opened
		}

		for j := range numbers {
			number, err := n.of(numbers[j], out)
			if err != nil {
				return err
			}
			numbers[j] = number
		}

		if err := out.Get(g.found, numbers); err != nil {
			return err
		}
	}

	return b.err // behind the Gets that went well
}

// numbering turns the source's numbers into the trace's, which are in the
// order of first use.
type numbering struct {
	source Source
	number []uint32 // by the source's, plus one; 0: not used yet
	opener Opener   // nil: all tables stay open
	opened []uint32 // of the Get being written
}

func newNumbering(source Source) *numbering {
	n := &numbering{source: source, number: make([]uint32, source.Blocks())}
	n.opener, _ = source.(Opener)
	return n
}

func (n *numbering) of(resolved uint32, out *trace.Writer) (uint32, error) {
	if number := n.number[resolved]; number != 0 {
		return number - 1, nil
	}

	b, err := n.source.Block(resolved)
	if err != nil {
		return 0, err
	}

	number := out.Block(b)
	n.number[resolved] = number + 1
	return number, nil
}
