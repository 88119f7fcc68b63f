package adapter

import "fmt"

// Batch keeps Puts and Deletes until they are committed, for engines whose transactions
// bar other writers or hold on to the slices they are given.
type Batch struct {
	buffer []byte // keys and values
	writes []write
}

// write is a Put or Delete; key and value lie in the buffer, back to back.
type write struct {
	keyStart, keyEnd, valueEnd int
	deleted                    bool
}

// Put adds a value.
func (b *Batch) Put(key, value []byte) error { return b.add(key, value, false) }

// Delete adds a deletion.
func (b *Batch) Delete(key []byte) error { return b.add(key, nil, true) }

func (b *Batch) add(key, value []byte, deleted bool) error {
	start := len(b.buffer)
	b.buffer = append(append(b.buffer, key...), value...)
	b.writes = append(b.writes, write{keyStart: start, keyEnd: start + len(key), valueEnd: len(b.buffer), deleted: deleted})
	return nil
}

// Len is the number of writes.
func (b *Batch) Len() int { return len(b.writes) }

// Bytes are those of keys and values.
func (b *Batch) Bytes() int64 { return int64(len(b.buffer)) }

// Each makes the writes in order. Key and value are valid until Reset.
func (b *Batch) Each(put func(key, value []byte) error, remove func(key []byte) error) error {
	for _, w := range b.writes {
		key := b.buffer[w.keyStart:w.keyEnd:w.keyEnd]
		var err error
		if w.deleted {
			err = remove(key)
		} else {
			err = put(key, b.buffer[w.keyEnd:w.valueEnd:w.valueEnd])
		}
		if err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
	}
	return nil
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buffer, b.writes = b.buffer[:0], b.writes[:0] }
