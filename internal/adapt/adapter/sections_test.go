package adapter

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

// drawn makes keys as geth writes them: as many account as storage trie nodes, and one code in a
// thousand, in an order of the caller's.
func drawn(order func(keys [][]byte)) func(context.Context, int, uint64, func([]byte) error) error {
	return func(_ context.Context, n int, seed uint64, yield func([]byte) error) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		keys := make([][]byte, n)
		for i := range keys {
			path, hash := []byte{byte(rng.IntN(16)), byte(rng.IntN(16)), byte(rng.IntN(16))},
				make([]byte, 32)
			hash[0] = byte(rng.Uint32())
			switch kind := rng.IntN(1000); {
			case kind == 0:
				keys[i] = append([]byte("c"), hash...)
			case kind%2 == 0:
				keys[i] = append([]byte("A"), path...)
			default:
				keys[i] = slices.Concat([]byte("O"), hash, path)
			}
		}

		order(keys)
		for _, key := range keys {
			if err := yield(key); err != nil {
				return err
			}
		}

		return nil
	}
}

func TestSections(t *testing.T) {
	chaindata := filepath.Join(t.TempDir(), "chaindata")
	elsewhere := t.TempDir()
	if err := os.Mkdir(chaindata, 0o755); err != nil {
		t.Fatal(err)
	}

	sample := func(dir, text string, n int, order func([][]byte)) ([][]byte, error) {
		t.Helper()
		var s Sections
		if err := s.Set(text); err != nil {
			t.Fatal(err)
		}

		var keys [][]byte
		err := s.Sample(t.Context(), dir, "pebble2", n, 7, drawn(order), func(key []byte) error {
			keys = append(keys, bytes.Clone(key))
			return nil
		})

		return keys, err
	}

	asFound := func([][]byte) {}
	for text, want := range map[string]string{
		"account trie nodes": "A 100",
		"0x4f":               "O 100",
		"account trie nodes=3;storage trie nodes=1": "A 75 O 25",
		"contract code=1%;0x41=99%":                 "A 99 c 1",
	} {
		keys, err := sample(chaindata, text, 100, asFound)
		counts := map[string]int{}
		for _, key := range keys {
			counts[string(key[:1])]++
		}

		var got []string
		for _, first := range []string{"A", "O", "c"} {
			if counts[first] > 0 {
				got = append(got, fmt.Sprint(first, " ", counts[first]))
			}
		}

		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}

	// The order in which an engine finds its keys does not decide which are chosen.
	const mix = "account trie nodes=3;storage trie nodes=1"
	one, _ := sample(chaindata, mix, 1000, asFound)
	other, _ := sample(chaindata, mix, 1000, slices.Reverse[[][]byte])
	if len(one) != 1000 || !slices.EqualFunc(one, other, bytes.Equal) {
		t.Error("keys that come in another order give another sample")
	}

	// A rare kind takes several rounds of draws.
	if keys, err := sample(chaindata, "contract code", 500,
		asFound); err != nil || len(keys) != 500 {
		t.Errorf("%d codes, %v", len(keys), err)
	}

	for _, c := range []struct{ dir, text, want string }{
		{chaindata, "contract code=1;account trie nodes=1", "too few to sample 25000"},
		{chaindata, "account nodes", "they are of: account trie nodes, contract code, storage " +
			"trie nodes"},
		{elsewhere, "account trie nodes", "the client that wrote the database is not known"},
	} {
		if _, err := sample(c.dir, c.text, 50_000, asFound); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestSectionsOfOthersOnly(t *testing.T) {
	s := Sections{Text: "flat accounts"}
	if err := s.Check(engine.Options{ReadOnly: true}); err == nil ||
		!strings.Contains(err.Error(), "--use-existing") {
		t.Error(err)
	}

	if err := s.Check(engine.Options{Foreign: true}); err != nil {
		t.Error(err)
	}

	for _, wrong := range []string{"0x", "0x4", "0xgg"} {
		if err := s.Set(wrong); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}
