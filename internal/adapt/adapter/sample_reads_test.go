package adapter

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestSamplingReadsABlockOnce: of blocks that are mostly refused, as beside one with many small
// entries, and of keys that are mostly deleted, each block is read and each key looked up once,
// however many keys are drawn.
func TestSamplingReadsABlockOnce(t *testing.T) {
	const blocks, full, few, draws = 500, 400, 2, 20_000
	content := make([][]SampledEntry, blocks)
	total := 0
	for i := range content {
		n := few
		if i == 7 {
			n = full
		}

		for range n {
			key := binary.BigEndian.AppendUint32(nil, uint32(total))
			content[i] = append(content[i], SampledEntry{Key: key})
			total++
		}
	}

	reads, asked := 0, 0
	table := SampledTable{Rng: rand.New(rand.NewPCG(1, 2)), Blocks: blocks,
		Block: func(i int) ([]SampledEntry, error) { reads++; return content[i], nil },
		Counts: func(e SampledEntry) (bool, error) {
			asked++
			return binary.BigEndian.Uint32(e.Key)%10 == 0, nil
		}}
	met, err := table.Sample(t.Context(), draws)
	if err != nil {
		t.Fatal(err)
	}

	if reads > blocks || asked > total {
		t.Errorf("%d reads of %d blocks, %d lookups of %d keys", reads, blocks, asked, total)
	}

	// 140 of 1398 entries are of keys that are there.
	if len(met) < draws*9/100 || len(met) > draws*11/100 {
		t.Errorf("%d of %d draws met a key", len(met), draws)
	}
}
