package bench

import (
	"bytes"
	"testing"

	"github.com/statelab/statelab/internal/base/keyspace"
)

// TestAscending compares the keys of two runs, of which the last is short, with those
// of their indexes.
func TestAscending(t *testing.T) {
	m := &keyspace.Manifest{
		Keys:      150,
		KeyBytes:  20,
		KeyOrder:  keyspace.Hashed,
		KeyHash:   keyspace.Mix,
		BatchKeys: 100,
		Seed:      1,
	}

	a, want := newAscending(m, 100), make([]byte, m.KeyBytes)
	maker := m.KeySpace().Maker()
	for _, batch := range [][2]uint64{{0, 100}, {100, 150}} {
		seen := map[uint64]bool{}
		var last []byte
		for _, k := range a.keys(batch[0], batch[1]) {
			key, index := a.key(k), batch[0]+uint64(k.at)
			if maker.Key(want, index); !bytes.Equal(key, want) || seen[index] || index >= batch[1] {
				t.Errorf("key %x of index %d, want %x once", key, index, want)
			}

			if bytes.Compare(last, key) >= 0 {
				t.Errorf("key %x follows %x", key, last)
			}

			seen[index], last = true, key
		}

		if n := batch[1] - batch[0]; uint64(len(seen)) != n {
			t.Errorf("%d keys, want %d", len(seen), n)
		}
	}
}
