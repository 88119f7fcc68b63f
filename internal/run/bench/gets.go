package bench

import (
	"errors"
	"fmt"
)

// gets are the Gets of one thread, for the timed loop: keys of a source, whose answers
// are checked and counted.
type gets struct {
	keySource
	asked          choice
	found, missing uint64
}

func (g *gets) Next(uint64) (key []byte, n uint64) {
	g.next(&g.asked)
	return g.asked.key, 1
}

func (g *gets) Asked() string { return fmt.Sprintf("get key %x", g.asked.key) }

// Check compares the answer with what the key must give. A fast wrong answer is
// a failure.
func (g *gets) Check(value []byte, found bool) error {
	switch {
	case found && g.asked.absent && !g.mayExist():
		return fmt.Errorf("wrong answer: a value of %d bytes for a key that was never written", len(value))
	case found:
		g.found++
		if g.asked.absent {
			return nil
		}
		if err := g.check(&g.asked, value); err != nil {
			return fmt.Errorf("wrong answer: %w", err)
		}
		return nil
	case g.asked.absent:
		g.missing++
		return nil
	}
	return errors.New("wrong answer: a key that was written is missing")
}
