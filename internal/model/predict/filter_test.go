package predict

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/bloom"

	"github.com/statelab/statelab/engine"
)

// TestFalsePositives asks the library's own filters.
func TestFalsePositives(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	key := make([]byte, 0, 32)
	next := func() []byte {
		key = key[:0]
		for range 4 {
			key = binary.BigEndian.AppendUint64(key, random.Uint64())
		}
		return key
	}

	for _, keys := range []int{400, 3000, 60_000} {
		passed, asked, bytes := 0, 0, 0
		for asked < 600_000 {
			writer := bloom.FilterPolicy(10).NewWriter(0)
			for range keys {
				writer.AddKey(next())
			}

			filter := writer.Finish(nil)
			bytes = len(filter)
			for range 50_000 {
				asked++
				if bloom.FilterPolicy(10).MayContain(0, filter, next()) {
					passed++
				}
			}
		}

		measured := float64(passed) / float64(asked)
		computed := FalsePositives(engine.Level{
			Files:       1,
			Keys:        int64(keys),
			FilterBytes: int64(bytes),
		})

		if off := computed/measured - 1; off < -0.06 || off > 0.06 {
			t.Errorf("%d keys: %.5f of absent keys pass, computed %.5f", keys, measured, computed)
		}
	}
}
