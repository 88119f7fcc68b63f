package treetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/statelab/statelab/tree"
)

// The stores of every forest here, by number.
const (
	bank    = iota
	empty   // never written to
	staking // emptied and filled again
	wasm
)

func storeNames() []string { return []string{"bank", "empty", "staking", "wasm"} }

const (
	streamVersions = 64
	streamKeys     = 700 // a store
	firstChanges   = 900 // of version 1: several of the batches that trees write
	laterChanges   = 150
)

// change is one write of the stream.
type change struct {
	store  int
	key    []byte
	value  []byte
	remove bool
}

// stream is a seeded history in insertion order. Among its versions are empty
// ones and those that empty a store; among its changes removals of absent keys,
// the same value again, a key several times, and empty values.
func stream() [][]change {
	rng := rand.New(rand.NewPCG(20_231_115, 64))
	held := newState()
	versions := make([][]change, streamVersions)
	for v := range versions {
		versions[v] = changes(rng, v+1, held)
		held.apply(versions[v])
	}
	return versions
}

func changes(rng *rand.Rand, version int, held state) (made []change) {
	n := laterChanges
	switch {
	case version == 1:
		n = firstChanges
	case version%10 == 0:
		return nil
	case version%16 == 0:
		for _, key := range held.keys(staking) {
			made = append(made, change{store: staking, key: []byte(key), remove: true})
		}
		rng.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
		return made
	}

	for range n {
		c := change{store: []int{bank, staking, wasm}[rng.IntN(3)]}
		c.key = streamKey(c.store, rng.IntN(streamKeys))
		switch what := rng.IntN(20); {
		case what < 5:
			c.remove = true
		case what == 5:
			c.value = []byte{}
		case what == 6 && held[c.store][string(c.key)] != nil:
			c.value = held[c.store][string(c.key)]
		default:
			c.value = randomBytes(rng, 1+rng.IntN(2000))
		}

		made = append(made, c)
	}

	return made
}

// streamKey is of 5 to 63 bytes, and another for every number.
func streamKey(store, number int) []byte {
	rng := rand.New(rand.NewPCG(uint64(store), uint64(number)))
	return append(randomBytes(rng, 1+rng.IntN(59)), fmt.Sprintf("%04d", number)...)
}

func randomBytes(rng *rand.Rand, n int) []byte {
	made := make([]byte, n)
	for i := range made {
		made[i] = byte(rng.Uint32())
	}
	return made
}

// state is what a forest has to hold: by store, by key.
type state []map[string][]byte

func newState() state {
	s := make(state, len(storeNames()))
	for i := range s {
		s[i] = map[string][]byte{}
	}
	return s
}

// stateAt is the state after version of the stream.
func stateAt(version int64) state {
	s := newState()
	for _, made := range stream()[:version] {
		s.apply(made)
	}
	return s
}

func (s state) apply(made []change) {
	for _, c := range made {
		if c.remove {
			delete(s[c.store], string(c.key))
		} else {
			s[c.store][string(c.key)] = c.value
		}
	}
}

func (s state) keys(store int) []string { return slices.Sorted(maps.Keys(s[store])) }

func (s state) leaves() (counts []int64) {
	for _, values := range s {
		counts = append(counts, int64(len(values)))
	}
	return counts
}

// compare reads every key of the stream and names the first that f holds
// otherwise.
func (s state) compare(f tree.Forest) error {
	r, err := f.Reader()
	if err != nil {
		return err
	}

	var got []byte
	for store, values := range s {
		for number := range streamKeys {
			key := streamKey(store, number)
			want, has := values[string(key)]
			value, found, err := r.Get(store, key, got)
			if err != nil {
				return fmt.Errorf("get %x of %s: %w", key, storeNames()[store], err)
			}

			if found != has || string(value) != string(want) {
				return fmt.Errorf("%s holds %d bytes (%v) under %x, want %d (%v)",
					storeNames()[store], len(value), found, key, len(want), has)
			}

			got = value
		}
	}

	return r.Close()
}

// write gives changes to f without committing them.
func write(f tree.Forest, made []change) error {
	for _, c := range made {
		var err error
		if c.remove {
			err = f.Remove(c.store, c.key)
		} else {
			err = f.Set(c.store, c.key, c.value)
		}

		if err != nil {
			return fmt.Errorf("%s %x: %w", storeNames()[c.store], c.key, err)
		}
	}

	return nil
}
