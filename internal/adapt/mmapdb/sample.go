package mmapdb

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
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
	places, err := placesIn(c)
	if err != nil || places == nil {
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

// places are the keys prefix+low to prefix+high.
type places struct {
	prefix    []byte
	low, high uint64
}

// placesIn is nil for an empty database.
func placesIn(c Cursor) (*places, error) {
	key, err := c.First()
	if err != nil || key == nil {
		return nil, err
	}
	first := append([]byte{}, key...)
	last, err := c.Last()
	if err != nil || last == nil {
		return nil, err
	}
	shared := 0
	for shared < min(len(first), len(last)) && first[shared] == last[shared] {
		shared++
	}
	return &places{first[:shared:shared], number(first[shared:]), number(last[shared:])}, nil
}

// number reads the first eight bytes; what lacks is zero.
func number(key []byte) uint64 {
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

func draw(c Cursor, p *places, rng *rand.Rand) ([]byte, error) {
	at := rng.Uint64()
	if width := p.high - p.low; width != math.MaxUint64 {
		at = p.low + rng.Uint64N(width+1)
	}
	key, err := c.Seek(binary.BigEndian.AppendUint64(p.prefix, at))
	for steps := rng.IntN(mostSteps); steps > 0 && key != nil && err == nil; steps-- {
		key, err = c.Next()
	}
	if key == nil && err == nil { // beyond the end
		return c.Last()
	}
	return key, err
}
