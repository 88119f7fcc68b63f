package mmapdb

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"

	"github.com/statelab/statelab/internal/adapt/adapter"
)

// Cursor walks keys in order. Each call returns a key, valid until the next call,
// or nil where there is none.
type Cursor struct {
	First, Last, Next func() ([]byte, error)
	Seek              func(key []byte) ([]byte, error) // the first key from there on
}

// mostSteps is how far a sample may lie behind the place that was drawn: without
// steps, a key after a wide gap would be drawn more often than its neighbours.
const mostSteps = 16

// Sample calls yield with n keys from places drawn evenly between the first key
// and the last, read as numbers. That is evenly over the data where keys are
// hashes or a dense sequence; where a few prefixes hold most keys, the others are
// drawn too often.
func Sample(ctx context.Context, c Cursor, n int, seed uint64, yield func(key []byte) error) error {
	places, any, err := placesIn(c)
	if err != nil || !any {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6d6d6170))
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		key, err := draw(c, places, rng)
		if err != nil {
			return err
		}
		if err := yield(key); err != nil {
			return err
		}
	}
	return nil
}

// placesIn is the interval of all keys; any is false for an empty database.
func placesIn(c Cursor) (places adapter.Interval, any bool, err error) {
	key, err := c.First()
	if err != nil || key == nil {
		return places, false, err
	}
	first := bytes.Clone(key)
	last, err := c.Last()
	if err != nil || last == nil {
		return places, false, err
	}
	return adapter.Between(first, last), true, nil
}

func draw(c Cursor, p adapter.Interval, rng *rand.Rand) ([]byte, error) {
	at := rng.Uint64()
	if width := p.High - p.Low; width != math.MaxUint64 {
		at = p.Low + rng.Uint64N(width+1)
	}
	key, err := c.Seek(p.At(at))
	for steps := rng.IntN(mostSteps); steps > 0 && key != nil && err == nil; steps-- {
		key, err = c.Next()
	}
	if key == nil && err == nil { // beyond the end
		return c.Last()
	}
	return key, err
}
