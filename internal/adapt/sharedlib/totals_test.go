//go:build cgo

package sharedlib

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTotalsAreReadOneAtATime: a counter that only grows never falls, however many read it at
// once.
func TestTotalsAreReadOneAtATime(t *testing.T) {
	var totals Totals
	var counter atomic.Int64
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 20_000 {
				_, falls := totals.Read(func() []Stat {
					return []Stat{{Name: "reads.data", Value: counter.Add(1)}}
				})
				if len(falls) > 0 {
					t.Error(falls)
					return
				}
			}
		})
	}
	readers.Wait()
}

// TestTotalsThatFall: each is told once, with what it was.
func TestTotalsThatFall(t *testing.T) {
	var totals Totals
	for i, c := range []struct {
		value int64
		falls []CounterRegression
	}{
		{5, nil},
		{5, nil},
		{4, []CounterRegression{{"reads.data", 5, 4}}},
		{4, nil},
		{-1, []CounterRegression{{"reads.data", 4, -1}}},
	} {
		_, falls := totals.Read(func() []Stat { return []Stat{{"reads.data", c.value}} })
		if !slices.Equal(falls, c.falls) {
			t.Errorf("look %d: %v, want %v", i, falls, c.falls)
		}
	}
}
