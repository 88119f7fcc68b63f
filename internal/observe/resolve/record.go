package resolve

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/model/trace"
)

// Keys is a stream of Gets: it returns the next key (valid until the following
// call) and whether that is known to be in the database. It is called from one
// goroutine at a time.
type Keys func() (key []byte, known, more bool)

// Record resolves the Gets of keys, those that sample takes, on all cores and
// writes them in the stream's order. It returns how many Gets the stream had,
// for the writer's Close. A key that was said to be in the database and is found not
// to be is an error. Cancelled, it returns the context's error and what is written
// stays usable.
func (r *Resolver) Record(ctx context.Context, keys Keys, sample trace.Sample, out *trace.Writer) (offered uint64, err error) {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	var (
		empty    = make(chan *batch, 2*workers)
		filled   = make(chan *batch, 2*workers)
		inOrder  = make(chan *batch, 2*workers)
		numbered = newNumbering(r)
	)
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
			more = b.fill(keys, sample, &offered)
			filled <- b // both have room for every batch
			inOrder <- b
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			w := r.Walker()
			for b := range filled {
				b.resolve(w)
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
const batchGets = 1024

// batch is a stretch of the stream.
type batch struct {
	keys    []byte // one after the other
	keyEnds []int
	known   []bool

	numbers    []uint32 // of the Gets, one after the other
	numberEnds []int
	found      []bool
	err        error

	done   chan struct{}
	buffer []uint32
}

func (b *batch) fill(keys Keys, sample trace.Sample, offered *uint64) (more bool) {
	b.keys, b.keyEnds, b.known = b.keys[:0], b.keyEnds[:0], b.known[:0]
	for len(b.keyEnds) < batchGets {
		key, known, more := keys()
		if !more {
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
	}
	return true
}

func (b *batch) resolve(w *Walker) {
	b.numbers, b.numberEnds, b.found, b.err = b.numbers[:0], b.numberEnds[:0], b.found[:0], nil
	start := 0
	for i, end := range b.keyEnds {
		key := b.keys[start:end]
		start = end
		var found bool
		if b.buffer, found, b.err = w.Get(key, b.known[i], b.buffer); b.err != nil {
			return
		}
		if b.known[i] && !found {
			b.err = fmt.Errorf("resolve key %x: it should be in the database and is not", key)
			return
		}
		b.numbers = append(b.numbers, b.buffer...)
		b.numberEnds = append(b.numberEnds, len(b.numbers))
		b.found = append(b.found, found)
	}
}

func (b *batch) write(n *numbering, out *trace.Writer) error {
	start := 0
	for i, end := range b.numberEnds {
		for j := start; j < end; j++ {
			number, err := n.of(b.numbers[j], out)
			if err != nil {
				return err
			}
			b.numbers[j] = number
		}
		if err := out.Get(b.found[i], b.numbers[start:end]); err != nil {
			return err
		}
		start = end
	}
	return b.err // behind the Gets that went well
}

// numbering turns the resolver's numbers into the trace's, which are in the
// order of first use.
type numbering struct {
	r      *Resolver
	number []uint32 // by the resolver's, plus one; 0: not used yet
}

func newNumbering(r *Resolver) *numbering { return &numbering{r, make([]uint32, r.blocks)} }

func (n *numbering) of(resolved uint32, out *trace.Writer) (uint32, error) {
	if number := n.number[resolved]; number != 0 {
		return number - 1, nil
	}
	b, err := n.r.Block(resolved)
	if err != nil {
		return 0, err
	}
	number := out.Block(b)
	n.number[resolved] = number + 1
	return number, nil
}
