package adapter

import "fmt"

// Batch keeps Puts and Deletes until they are committed, for engines whose transactions
// bar other writers or hold on to the slices they are given.
type Batch struct {
	buffer []byte // keys and values
	writes []write
}

// write is a Put or Delete; key and value lie in the buffer, back to back. A range that is deleted
// has its end for a value.
type write struct {
	keyStart, keyEnd, valueEnd int
	kind                       kind
}

type kind uint8

const (
	put kind = iota
	deleteKey
	deleteRange
)

// Put adds a value.
func (b *Batch) Put(key, value []byte) error { return b.add(key, value, put) }

// Delete adds a deletion.
func (b *Batch) Delete(key []byte) error { return b.add(key, nil, deleteKey) }

// AddRange adds the deletion of every key from <= key < to.
func (b *Batch) AddRange(from, to []byte) error { return b.add(from, to, deleteRange) }

func (b *Batch) add(key, value []byte, kind kind) error {
	start := len(b.buffer)
	b.buffer = append(append(b.buffer, key...), value...)
	b.writes = append(b.writes, write{
		keyStart: start,
		keyEnd:   start + len(key),
		valueEnd: len(b.buffer),
		kind:     kind,
	})

	return nil
}

// Len is the number of writes.
func (b *Batch) Len() int { return len(b.writes) }

// Bytes are those of keys and values.
func (b *Batch) Bytes() int64 { return int64(len(b.buffer)) }

// Each makes the writes in order. Key and value are valid until Reset. removeRange may be nil where
// AddRange is not called.
func (b *Batch) Each(
	put func(key, value []byte) error, remove func(key []byte) error,
	removeRange func(from, to []byte) error,
) error {
	for _, w := range b.writes {
		key, value := b.buffer[w.keyStart:w.keyEnd:w.keyEnd],
			b.buffer[w.keyEnd:w.valueEnd:w.valueEnd]
		var err error
		switch w.kind {
		case deleteKey:
			err = remove(key)
		case deleteRange:
			err = removeRange(key, value)
		default:
			err = put(key, value)
		}

		if err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
	}

	return nil
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buffer, b.writes = b.buffer[:0], b.writes[:0] }
