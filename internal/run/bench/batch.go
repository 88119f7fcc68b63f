package bench

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
)

// batches are a worker's keys, several at a time, in a memory of their own: a source's
// key lasts until its next one.
type batches struct {
	keySource
	sorted  bool
	choices []choice
	keys    [][]byte
	bytes   []byte
	ends    []int
}

// take draws n keys; sorted, in ascending order.
func (b *batches) take(n int) []choice {
	b.choices, b.keys, b.bytes, b.ends = b.choices[:0], b.keys[:0], b.bytes[:0], b.ends[:0]
	for range n {
		c := b.keySource.next()
		b.choices, b.bytes = append(b.choices, c), append(b.bytes, c.key...)
		b.ends = append(b.ends, len(b.bytes))
	}
	from := 0
	for i, to := range b.ends {
		b.choices[i].key, from = b.bytes[from:to], to
	}
	if b.sorted {
		slices.SortFunc(b.choices, func(x, y choice) int { return bytes.Compare(x.key, y.key) })
	}
	for _, c := range b.choices {
		b.keys = append(b.keys, c.key)
	}
	return b.choices
}

// getMany answers the keys of one batch.
type getMany interface {
	GetMany(keys [][]byte, sorted bool, answers []engine.Answer) error
	Close() error
}

// inTurn makes the Gets of a batch one after another.
type inTurn struct{ engine.Reader }

func (r inTurn) GetMany(keys [][]byte, _ bool, answers []engine.Answer) error {
	for i, key := range keys {
		a := &answers[i]
		var err error
		if a.Value, a.Found, err = r.Get(key, a.Value); err != nil {
			return fmt.Errorf("get key %x: %w", key, err)
		}
	}
	return nil
}

// pool makes the Gets of a batch in several goroutines: the caller's and helpers that
// live as long as it does. Whoever is free takes the next key.
type pool struct {
	readers []engine.Reader // the caller's first
	work    chan struct{}   // a token for each helper and batch
	done    sync.WaitGroup
	next    atomic.Int64
	keys    [][]byte
	answers []engine.Answer
	errs    []error // of each reader
}

func newPool(readers []engine.Reader) *pool {
	p := &pool{readers: readers, work: make(chan struct{}), errs: make([]error, len(readers))}
	for i := range readers[1:] {
		go func() {
			for range p.work {
				p.help(i + 1)
				p.done.Done()
			}
		}()
	}
	return p
}

func (p *pool) GetMany(keys [][]byte, _ bool, answers []engine.Answer) error {
	p.keys, p.answers = keys, answers
	p.next.Store(0)
	helpers := min(len(p.readers), len(keys)) - 1
	p.done.Add(max(0, helpers))
	for range helpers {
		p.work <- struct{}{}
	}
	p.help(0)
	p.done.Wait()
	for _, err := range p.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// help takes keys until none is left.
func (p *pool) help(who int) {
	for {
		i := int(p.next.Add(1)) - 1
		if i >= len(p.keys) {
			return
		}
		a := &p.answers[i]
		var err error
		if a.Value, a.Found, err = p.readers[who].Get(p.keys[i], a.Value); err != nil {
			p.errs[who] = fmt.Errorf("get key %x: %w", p.keys[i], err)
			return
		}
	}
}

func (p *pool) Close() error {
	close(p.work)
	var errs []error
	for _, r := range p.readers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// manyOf is how a worker whose reader is first makes its batches: in so many goroutines,
// or, of 0, with the engine's own GetMany where it has one.
func manyOf(first engine.Reader, inFlight int, open func() (engine.Reader, error)) (getMany, error) {
	if own, has := first.(engine.ManyGetter); has && inFlight == 0 {
		return own, nil
	}
	if inFlight <= 1 {
		return inTurn{first}, nil
	}
	readers := []engine.Reader{first}
	for range inFlight - 1 {
		reader, err := open()
		if err != nil {
			for _, r := range readers[1:] {
				err = errors.Join(err, r.Close())
			}
			return nil, err
		}
		readers = append(readers, reader)
	}
	return newPool(readers), nil
}

// runBatches is run for batches: only the call is between the two clock reads. A Get of a
// batch takes as long as the batch.
func (w *worker) runBatches(gets uint64) error {
	for gets > 0 {
		if w.stop.Load() {
			return errStopped
		}
		asked := w.batches.take(int(min(gets, uint64(len(w.answers)))))
		answers := w.answers[:len(asked)]
		start := w.clock.Ticks()
		err := w.many.GetMany(w.batches.keys, w.batches.sorted, answers)
		end := w.clock.Ticks()
		w.service.AddMany(w.clock.Nanos(end-start), uint64(len(asked)))
		if err != nil {
			return fmt.Errorf("get %d keys: %w", len(asked), err)
		}
		for i, c := range asked {
			if err := w.check(c, answers[i].Value, answers[i].Found); err != nil {
				return fmt.Errorf("get key %x: %w", c.key, err)
			}
		}
		gets -= uint64(len(asked))
	}
	return nil
}
