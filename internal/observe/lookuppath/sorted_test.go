package lookuppath

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// TestSeekIsABinarySearch, over keys made to tie in their heads: short ones,
// ones that continue others, zeros at the end, long shared prefixes.
func TestSeekIsABinarySearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	randomKey := func(prefix int) []byte {
		key := bytes.Repeat([]byte{7}, prefix)
		for range random.IntN(20) {
			key = append(key, byte(random.IntN(3)))
		}
		return key
	}

	for range 300 {
		prefix := random.IntN(12)
		var keys [][]byte
		for range random.IntN(60) {
			keys = append(keys, randomKey(prefix))
		}

		slices.SortFunc(keys, bytes.Compare)
		var s SortedKeys
		for _, key := range keys {
			s.Add(key)
		}

		s.Finish()
		for range 200 {
			key := randomKey(max(0, prefix+random.IntN(3)-1))
			want := sort.Search(len(keys), func(i int) bool {
				return bytes.Compare(keys[i], key) >= 0
			})
			if have := s.Seek(key); have != want {
				t.Fatalf("%x in %x: %d, want %d", key, keys, have, want)
			}
		}
	}
}
