package bench

import (
	"context"
	"errors"
	"testing"

	"github.com/statelab/statelab/engine"
)

// longKeys is a database of long keys.
type longKeys struct{ engine.DB }

func (longKeys) SampleKeys(_ context.Context, n int, _ uint64, yield func([]byte) error) error {
	key := make([]byte, 1<<20)
	for range n {
		if err := yield(key); err != nil {
			return err
		}
	}
	return nil
}

// A sample that was cut would have no keys of the tables that come last.
func TestSamplesAreWhole(t *testing.T) {
	s, err := sampleKeys(t.Context(), longKeys{}, 3, 1)
	if err != nil || s.len() != 3 {
		t.Errorf("%v keys, %v", s, err)
	}

	failure := new(engine.Failure)
	if _, err := sampleKeys(t.Context(), longKeys{}, maxSampleBytes>>20+1, 1); !errors.As(err,
		&failure) || failure.Code != engine.CodeUsage {
		t.Errorf("a sample that is too large: %v", err)
	}
}
