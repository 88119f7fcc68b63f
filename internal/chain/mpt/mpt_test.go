package mpt

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/layout"
)

// TestHexPrefix checks the examples of the yellow paper's appendix C and of every
// description of it since.
func TestHexPrefix(t *testing.T) {
	for _, c := range []struct {
		nibbles []byte
		leaf    bool
		want    string
	}{
		{[]byte{1, 2, 3, 4, 5}, false, "112345"},
		{[]byte{0, 1, 2, 3, 4, 5}, false, "00012345"},
		{[]byte{0, 15, 1, 12, 11, 8}, true, "200f1cb8"},
		{[]byte{15, 1, 12, 11, 8}, true, "3f1cb8"},
		{nil, true, "20"},
	} {
		if got := hex.EncodeToString(appendHexPrefix(nil, c.nibbles, c.leaf)); got != c.want {
			t.Errorf("%v, leaf %v: %s, want %s", c.nibbles, c.leaf, got, c.want)
		}
	}
}

func TestEmptyRootIsTheHashOfTheEmptyString(t *testing.T) {
	h := NewHasher()
	if sum := h.Sum([]byte{0x80}); sum != layout.EmptyRoot {
		t.Errorf("hash of an empty string %x, want %x", sum, layout.EmptyRoot)
	}

	if sum := h.Sum(nil); sum != layout.EmptyCode {
		t.Errorf("hash of nothing %x, want %x", sum, layout.EmptyCode)
	}

	if root := NewReference().Root(); root != layout.EmptyRoot {
		t.Errorf("root %x, want %x", root, layout.EmptyRoot)
	}
}

func TestCommon(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		var path layout.Hash
		for i := range path {
			path[i] = byte(rng.Uint32())
		}

		depth := rng.IntN(PathNibbles)
		count := rng.IntN(PathNibbles - depth + 1)
		nibbles := AppendNibbles(nil, path[:], depth, depth+count)
		want := count
		if count > 0 && rng.IntN(3) > 0 {
			want = rng.IntN(count)
			nibbles[want] ^= byte(1 + rng.IntN(15))
		}

		packed := AppendPacked(nil, nibbles)
		if !bytes.Equal(AppendNibbles(nil, packed, 0, count), nibbles) {
			t.Fatalf("%v packed and unpacked differs", nibbles)
		}

		if got := Common(&path, depth, packed, count); got != want {
			t.Fatalf("path %x from %d, %v: %d in common, want %d", path, depth, nibbles, got, want)
		}
	}
}

// TestExpectedNodes holds the formulas against what go-ethereum's trie showed
// at 200,000 keys, 6.13, and against the reference trie, which folds.
func TestExpectedNodes(t *testing.T) {
	for n, want := range map[float64]float64{
		0:     0,
		1:     1,
		2:     2 + 1.0/15,
		1e5:   5.88,
		2e5:   6.14,
		1e6:   6.68,
		2.5e8: 8.67,
		1e9:   9.20,
	} {
		if got := ExpectedNodes(n); math.Abs(got-want) > 0.006 {
			t.Errorf("%g keys: %.3f nodes, want %.2f", n, got, want)
		}
	}

	const keys = 50_000
	var trie refTrie
	rng := rand.New(rand.NewPCG(2, 2))
	for range keys {
		trie.put(randomHash(rng), []byte{1})
	}

	mean := float64(trie.top.depths(1)) / keys
	if want := ExpectedFoldedNodes(keys); math.Abs(mean/want-1) > 0.001 {
		t.Errorf("%.3f nodes a lookup, expected %.3f", mean, want)
	}
}

// depths sums the depths of the leaves.
func (n *refNode) depths(depth int) (sum int) {
	if n.children == nil {
		return depth
	}

	for _, child := range n.children {
		if child != nil {
			sum += child.depths(depth + 1)
		}
	}

	return sum
}

// TestOrderDoesNotMatter builds one state in two ways, one of them with entries
// that are deleted again.
func TestOrderDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	straight, winding := NewReference(), NewReference()
	var changes []layout.Change
	for range 300 {
		changes = append(changes, randomChange(rng))
	}

	for _, c := range changes {
		change(t, straight, c)
	}

	for _, i := range rng.Perm(len(changes)) {
		c, extra := changes[i], randomChange(rng)
		more := c
		more.Slots = append(append([]layout.Slot{}, c.Slots...), extra.Slots...)
		change(t, winding, extra)
		change(t, winding, more)
		for _, s := range extra.Slots {
			change(t, winding, layout.Change{
				Account: c.Account,
				New:     c.New,
				Slots:   []layout.Slot{{Key: s.Key}},
			})
		}

		change(t, winding, layout.Change{Account: extra.Account})
	}

	if a, b := straight.Root(), winding.Root(); a != b {
		t.Errorf("roots %x and %x", a, b)
	}

	for _, c := range changes {
		change(t, winding, layout.Change{Account: c.Account})
	}

	if root := winding.Root(); root != layout.EmptyRoot {
		t.Errorf("root %x of a state whose accounts are all deleted", root)
	}
}

func TestHashingAllocatesNothing(t *testing.T) {
	h := NewHasher()
	var children [16]Ref
	for i := range children {
		children[i] = HashRef(&layout.EmptyRoot)
	}

	path, value := make([]byte, 60), make([]byte, 0, 120)
	var account layout.Account
	if n := testing.AllocsPerRun(100, func() {
		value = AppendAccount(value[:0], &account, &layout.EmptyRoot)
		children[3] = h.Leaf(path, value)
		children[4] = h.PrefixedBranch(path[:3], &children)
	}); n > 0 {
		t.Errorf("%g allocations a node", n)
	}
}

func BenchmarkBranch(b *testing.B) {
	h := NewHasher()
	var children [16]Ref
	for i := range children {
		children[i] = HashRef(&layout.EmptyRoot)
	}
	for b.Loop() {
		children[0] = h.Branch(&children)
	}
}

func change(t *testing.T, r *Reference, c layout.Change) {
	t.Helper()
	if err := r.Change(c); err != nil {
		t.Fatal(err)
	}
}

func randomHash(rng *rand.Rand) (h layout.Hash) {
	for i := range h {
		h[i] = byte(rng.Uint32())
	}
	return h
}

func randomChange(rng *rand.Rand) layout.Change {
	c := layout.Change{
		Account: randomHash(rng),
		New:     &layout.Account{Nonce: rng.Uint64() >> rng.IntN(64), CodeHash: layout.EmptyCode},
	}

	for i := rng.IntN(32); i < 32; i++ {
		c.New.Balance[i] = byte(rng.Uint32())
	}

	for range rng.IntN(20) {
		c.Slots = append(c.Slots, layout.Slot{
			Key:   randomHash(rng),
			Value: []byte{1 + byte(rng.IntN(255))},
		})
	}

	return c
}
