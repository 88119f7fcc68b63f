package lsm

import (
	"math"
	"testing"
)

// TestPassesOfTheStudy: the load of the published Small database, 200 M keys of 142 bytes with
// tables of 22 GB, was repeated with Pebble, which counted that it wrote 8.2 bytes for each, the
// log included.
func TestPassesOfTheStudy(t *testing.T) {
	const user, tables, counted = 200e6 * 142, 22e9, 8.2
	l := Loading{BaseBytes: 64 << 20, BufferBytes: 128 << 20, Flushes: 4}
	said := 1 + tables/user*l.WriteAmp(tables, float64(l.BufferBytes)*tables/user)
	if math.Abs(said/counted-1) > 0.2 {
		t.Errorf("%.2f, counted %.2f", said, counted)
	}

	if once := l.WriteAmp(1e6, 2e6); once != 1 {
		t.Errorf("one flush is written %v times", once)
	}
}
