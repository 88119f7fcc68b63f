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

// batches are the Gets of one thread, several in a call. Their keys have a memory of
// their own: a source's key lasts until its next one. A Get of a batch takes as long as
// the batch.
type batches struct {
	gets
	sorted  bool
	many    getMany
	answers []engine.Answer // as many as a batch has keys
	choices []choice
	keys    [][]byte
	bytes   []byte
	ends    []int
}

func (b *batches) Next(most uint64) (key []byte, n uint64) {
	n = min(most, uint64(len(b.answers)))
	b.take(int(n))
	return nil, n
}

func (b *batches) Get(_, dst []byte) (value []byte, found bool, err error) {
	return dst, false, b.many.GetMany(b.keys, b.sorted, b.answers[:len(b.keys)])
}

func (b *batches) Check([]byte, bool) error {
	for i := range b.choices {
		b.asked = b.choices[i]
		if err := b.gets.Check(b.answers[i].Value, b.answers[i].Found); err != nil {
			return fmt.Errorf("%s: %w", b.gets.Asked(), err)
		}
	}
	return nil
}

func (b *batches) Asked() string { return fmt.Sprintf("get %d keys", len(b.keys)) }

// take draws n keys; sorted, in ascending order.
func (b *batches) take(n int) []choice {
	b.choices, b.keys, b.bytes, b.ends = b.choices[:0], b.keys[:0], b.bytes[:0], b.ends[:0]
	for range n {
		b.next(&b.asked)
		b.choices, b.bytes = append(b.choices, b.asked), append(b.bytes, b.asked.key...)
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
