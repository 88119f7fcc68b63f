package adapter

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestSamplingReadsABlockOnce: of blocks that are mostly refused, as beside one with many small
// entries, and of keys that are mostly deleted, each block is read and each key looked up once,
// however many keys are drawn; the keys that are drawn are those of reading every time.
func TestSamplingReadsABlockOnce(t *testing.T) {
	const blocks, full, few, draws = 500, 400, 2, 20_000
	content := make([][][]byte, blocks)
	total := 0
	for i := range content {
		n := few
		if i == 7 {
			n = full
		}

		for range n {
			content[i] = append(content[i], binary.BigEndian.AppendUint32(nil, uint32(total)))
			total++
		}
	}

	exists := func(key []byte) bool { return binary.BigEndian.Uint32(key)%10 == 0 }
	reads, asked := 0, 0
	var drawn []uint32
	table := SampledTable{Rng: rand.New(rand.NewPCG(1, 2)), Blocks: blocks,
		Block:  func(i int) ([][]byte, error) { reads++; return content[i], nil },
		Exists: func(key []byte) (bool, error) { asked++; return exists(key), nil }}
	if err := table.Sample(t.Context(), draws, func(key []byte) error {
		drawn = append(drawn, binary.BigEndian.Uint32(key))
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	if reads > blocks || asked > total {
		t.Errorf("%d reads of %d blocks, %d lookups of %d keys", reads, blocks, asked, total)
	}

	// The rule as it was before blocks were kept, word for word.
	rng, fullest, want := rand.New(rand.NewPCG(1, 2)), 0, []uint32(nil)
	block := func() [][]byte {
		keys := content[rng.IntN(blocks)]
		fullest = max(fullest, len(keys))
		return keys
	}

	key := func() []byte {
		for attempt := 1; ; attempt++ {
			if keys := block(); attempt == refusals || rng.IntN(fullest) < len(keys) {
				return keys[rng.IntN(len(keys))]
			}
		}
	}

	for range fullnessSample {
		block()
	}

	for range draws {
		if k := key(); exists(k) {
			want = append(want, binary.BigEndian.Uint32(k))
		}
	}

	if len(drawn) != len(want) {
		t.Fatalf("%d keys, want %d", len(drawn), len(want))
	}

	for i := range want {
		if drawn[i] != want[i] {
			t.Fatalf("key %d is %d, want %d", i, drawn[i], want[i])
		}
	}
}
