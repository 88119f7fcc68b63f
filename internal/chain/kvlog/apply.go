package kvlog

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/statelab/statelab/engine"
)

// Applied is what a database was built from.
type Applied struct {
	Puts    uint64 `json:"puts"`
	Deletes uint64 `json:"deletes"`
	Batches uint64 `json:"batches"`
	Bytes   uint64 `json:"bytes"` // of the keys and values put
}

// maxPendingBytes is how large a batch becomes at most: a log that never commits must not fill the
// memory.
const maxPendingBytes = 64 << 20

// Apply makes in db what a log writes, in its order and in its batches, so that the levels become
// those of the program that wrote the log. The values have the logged sizes; their bytes are
// random, which no compression shortens.
func Apply(
	ctx context.Context, from Source, db engine.DB, told func(ops uint64) error,
) (done Applied, err error) {
	batch, err := db.Writer()
	if err != nil {
		return done, err
	}

	single, err := db.Writer()
	if err != nil {
		return done, errors.Join(err, batch.Close())
	}

	defer func() { err = errors.Join(err, batch.Close(), single.Close()) }()
	var value []byte
	pending := uint64(0)
	put := func(to engine.Writer, op *Op) error {
		value = slices.Grow(value[:0], int(op.Number))[:op.Number]
		done.Puts++
		fillRandom(value, done.Puts)
		done.Bytes += uint64(len(op.Key)) + op.Number
		return to.Put(op.Key, value)
	}

	remove := func(from engine.Writer, op *Op) error {
		done.Deletes++
		return from.Delete(op.Key)
	}

	commit := func(w engine.Writer) error {
		done.Batches++
		return w.Commit()
	}

	err = each(from, told, func(op *Op) error {
		switch op.Kind {
		case Put:
			return errors.Join(put(single, op), commit(single))
		case Delete:
			return errors.Join(remove(single, op), commit(single))
		case BatchPut:
			err = put(batch, op)
		case BatchDelete:
			err = remove(batch, op)
		case Commit:
		default:
			return nil
		}

		pending += uint64(len(op.Key)) + op.Number
		if err == nil && pending > 0 && (op.Kind == Commit || pending >= maxPendingBytes) {
			pending, err = 0, commit(batch)
		}

		return err
	})

	if err == nil && pending > 0 {
		err = commit(batch)
	}

	if err == nil {
		err = db.Settle(ctx, nil)
	}

	return done, err
}

func fillRandom(b []byte, seed uint64) {
	random := rand.NewPCG(seed, 0)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, random.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(random.Uint64())
	}
}
