package iavl1

import (
	"slices"
	"sync"

	"cosmossdk.io/core/store"

	"github.com/statelab/statelab/internal/adapt/iavlforest"
)

// mapDB keeps entries in a hash map. iavl looks keys up and writes batches; it
// iterates a few times over next to nothing when a forest is new, which may
// therefore be slow.
type mapDB struct {
	mutex  sync.RWMutex
	values map[string][]byte
}

func newMapDB() *mapDB { return &mapDB{values: map[string][]byte{}} }

func (d *mapDB) Get(key []byte) ([]byte, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	return d.values[string(key)], nil
}

func (d *mapDB) Has(key []byte) (bool, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	_, has := d.values[string(key)]
	return has, nil
}

func (d *mapDB) Set(key, value []byte) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.values[string(key)] = value
	return nil
}

func (d *mapDB) Delete(key []byte) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	delete(d.values, string(key))
	return nil
}

func (*mapDB) Close() error { return nil }

func (d *mapDB) NewBatch() store.Batch { return &mapBatch{db: d} }

func (d *mapDB) NewBatchWithSize(int) store.Batch { return d.NewBatch() }

// mapBatch keeps the slices it is given, as iavl makes them for it.
type mapBatch struct {
	db     *mapDB
	writes []mapWrite
	bytes  int
}

type mapWrite struct {
	key    string
	value  []byte
	remove bool
}

func (b *mapBatch) Set(key, value []byte) error {
	b.writes = append(b.writes, mapWrite{key: string(key), value: value})
	b.bytes += len(key) + len(value)
	return nil
}

func (b *mapBatch) Delete(key []byte) error {
	b.writes = append(b.writes, mapWrite{key: string(key), remove: true})
	b.bytes += len(key)
	return nil
}

func (b *mapBatch) Write() error {
	b.db.mutex.Lock()
	defer b.db.mutex.Unlock()
	for _, w := range b.writes {
		if w.remove {
			delete(b.db.values, w.key)
		} else {
			b.db.values[w.key] = w.value
		}
	}
	return b.Close()
}

func (b *mapBatch) WriteSync() error { return b.Write() }

func (b *mapBatch) Close() error {
	b.writes, b.bytes = nil, 0
	return nil
}

func (b *mapBatch) GetByteSize() (int, error) { return b.bytes, nil }

func (d *mapDB) Scan(start, end []byte) (iavlforest.Iterator, error) { return d.Iterator(start, end) }

func (d *mapDB) Iterator(start, end []byte) (store.Iterator, error) {
	return &mapIterator{db: d, start: start, end: end, keys: d.keys(start, end)}, nil
}

func (d *mapDB) ReverseIterator(start, end []byte) (store.Iterator, error) {
	keys := d.keys(start, end)
	slices.Reverse(keys)
	return &mapIterator{db: d, start: start, end: end, keys: keys}, nil
}

func (d *mapDB) keys(start, end []byte) (keys []string) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	for key := range d.values {
		if key >= string(start) && (end == nil || key < string(end)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

type mapIterator struct {
	db         *mapDB
	start, end []byte
	keys       []string // left
}

func (i *mapIterator) Domain() (start, end []byte) { return i.start, i.end }

func (i *mapIterator) Valid() bool { return len(i.keys) > 0 }

func (i *mapIterator) Next() { i.keys = i.keys[1:] }

func (i *mapIterator) Key() []byte { return []byte(i.keys[0]) }

func (i *mapIterator) Value() []byte {
	i.db.mutex.RLock()
	defer i.db.mutex.RUnlock()
	return i.db.values[i.keys[0]]
}

func (*mapIterator) Error() error { return nil }

func (*mapIterator) Close() error { return nil }
