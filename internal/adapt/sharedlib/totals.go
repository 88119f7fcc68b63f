//go:build cgo

package sharedlib

import (
	"fmt"
	"sync"
)

// ExamineStats refuses counters that are wrong from the start, and names nobody
// knows, which would be figures silently missing.
func ExamineStats(told []Stat, header string, isKnown func(name string) bool) error {
	seen := map[string]bool{}
	for _, t := range told {
		if seen[t.Name] {
			return fmt.Errorf("the counter %s is reported twice", t.Name)
		}

		seen[t.Name] = true
		if t.Value < 0 {
			return fmt.Errorf("the counter %s is %d: it cannot be negative", t.Name, t.Value)
		}

		if !isKnown(t.Name) {
			return fmt.Errorf("the counter %q is none of %s", t.Name, header)
		}
	}

	return nil
}

// Totals remembers what a library's counters were, to see them fall. The zero value
// is ready.
type Totals struct {
	mutex sync.Mutex
	last  map[string]int64
}

// CounterRegression is a counter that was no total: it went down, or below zero.
type CounterRegression struct {
	Name     string
	From, To int64
}

// String is a sentence: which counter fell, from what to what.
func (f CounterRegression) String() string {
	return fmt.Sprintf("the library's counter %s went from %d to %d", f.Name, f.From, f.To)
}

// Read is what read returns, and which of it fell since the last Read. Reads are one at a time: of
// two at once, the older could be compared with the newer, and seem to have fallen.
func (t *Totals) Read(read func() []Stat) (told []Stat, falls []CounterRegression) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.last == nil {
		t.last = map[string]int64{}
	}

	told = read()
	for _, s := range told {
		if from := t.last[s.Name]; s.Value < from || s.Value < 0 {
			falls = append(falls, CounterRegression{s.Name, from, s.Value})
		}
		t.last[s.Name] = s.Value
	}

	return told, falls
}
