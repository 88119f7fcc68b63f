package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/timed"
	"github.com/statelab/statelab/tree"
)

// shelf answers Gets from a map.
type shelf struct {
	tree.Reader
	pairs map[string][]byte
}

func (s shelf) Get(_ int, key, dst []byte) ([]byte, bool, error) {
	value, found := s.pairs[string(key)]
	return append(dst[:0], value...), found, nil
}

// stored is a shelf of so many keys, and Gets of all of them and of as many absent ones.
func stored(keys, rounds int) (shelf, *gets) {
	s, g := shelf{pairs: map[string][]byte{}}, &gets{stores: []string{"bank"}, version: 9}
	for i := range keys {
		key, value := fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d", i)
		s.pairs[string(key)] = value
		want := expected{live: true, value: xxhash.Sum64(value), bytes: len(value)}
		g.all = append(g.all, get{key: key, want: want}, get{key: fmt.Appendf(nil, "none %d", i)})
	}

	for once := g.all; rounds > 1; rounds-- {
		g.all = append(g.all, once...)
	}

	g.reader = s
	return s, g
}

// fewAllocations in 2000 Gets are those of histograms, which make a part of their counters when a
// time needs it; of a Get there is none.
const fewAllocations = 20

func TestAGetOfATreeAllocatesNothing(t *testing.T) {
	_, g := stored(100, 60)
	w := timed.NewWorker(measure.NewClock(), g, g)
	if allocs := testing.AllocsPerRun(5, func() {
		if err := w.Run(2000); err != nil {
			t.Error(err)
		}
	}); allocs > fewAllocations {
		t.Errorf("%v allocations in 2000 Gets", allocs)
	}

	if g.found != 6000 || g.missing != 6000 {
		t.Errorf("%d found and %d missing of 12000", g.found, g.missing)
	}
}

func TestAWrongAnswerOfATreeIsNamed(t *testing.T) {
	for want, spoil := range map[string]func(shelf){
		"not found, but":                    func(s shelf) { delete(s.pairs, "key 5") },
		"found, but it was removed":         func(s shelf) { s.pairs["none 5"] = nil },
		"wrong value of 5 bytes: 7 were":    func(s shelf) { s.pairs["key 5"] = []byte("short") },
		"wrong value of 7 bytes: 7 were":    func(s shelf) { s.pairs["key 5"] = []byte("value 6") },
		"of store bank at version 9: not f": func(s shelf) { delete(s.pairs, "key 5") },
	} {
		s, g := stored(10, 1)
		spoil(s)
		err := timed.NewWorker(measure.NewClock(), g, g).Run(20)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "get key ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
