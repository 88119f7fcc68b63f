package flat

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
)

func TestFlatPebbleKeepsWhatTheReferenceKeeps(t *testing.T) { keepsTheState(t, pebble2.Engine{}) }

// keepsTheState makes and unmakes few accounts and slots, so that most things happen
// to each of them. The last names are those that a carry of a range's end meets.
func keepsTheState(t *testing.T, e engine.Engine) {
	l, dir, r := Layout{Name: "flat", Engine: e}, t.TempDir(), rand.New(rand.NewPCG(1, 2))
	names := []state.Hash{{31: 0}, {31: 1}, state.Hash(bytes.Repeat([]byte{0xff}, 32)), {30: 1, 31: 0xff}}
	for range 40 {
		var name state.Hash
		binary.LittleEndian.PutUint64(name[:], r.Uint64())
		names = append(names, name)
	}
	s := open(t, l, state.Options{Dir: dir, Create: true})
	defer func() { s.Close() }()
	reference := mpt.NewReference()
	for block := uint64(1); block <= 40; block++ {
		for _, i := range r.Perm(len(names))[:r.IntN(15)] {
			c := state.Change{Account: names[i]}
			if r.IntN(4) > 0 {
				c.New = &state.Account{Nonce: r.Uint64() >> r.IntN(64), CodeHash: state.EmptyCode}
				copy(c.New.Balance[r.IntN(33):], bytes.Repeat([]byte{7}, 32))
				if r.IntN(2) == 0 {
					c.New.CodeHash = names[r.IntN(len(names))]
				}
				for _, k := range r.Perm(len(names))[:r.IntN(8)] {
					c.Slots = append(c.Slots, state.Slot{Key: names[k], Value: bytes.Repeat([]byte{9}, r.IntN(33))})
				}
			}
			if err := s.Change(c); err != nil {
				t.Fatal(err)
			}
			if err := reference.Change(c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Commit(context.Background()); err != nil || s.Block() != block {
			t.Fatalf("block %d: at %d, %v", block, s.Block(), err)
		}
		if block%13 == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, l, state.Options{Dir: dir})
		}
		if s.Block() != block {
			t.Fatalf("reopened at block %d, not %d", s.Block(), block)
		}
		compare(t, s, reference, names)
	}
}

func open(t *testing.T, l Layout, o state.Options) state.State {
	t.Helper()
	s, err := l.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compare(t *testing.T, s state.State, reference *mpt.Reference, names []state.Hash) {
	t.Helper()
	reader, err := s.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, account := range names {
		got, found, err := reader.Account(account)
		want, exists := reference.Account(account)
		if err != nil || found != exists || got != want {
			t.Fatalf("block %d, account %x: %+v, %v, %v; the reference has %+v, %v", s.Block(), account, got, found, err, want, exists)
		}
		for _, key := range names {
			got, found, err := reader.Slot(account, key, nil)
			if want := reference.Slot(account, key); err != nil || found != (len(want) > 0) || !bytes.Equal(got, want) {
				t.Fatalf("block %d, slot %x of %x: %x, %v, %v; the reference has %x", s.Block(), key, account, got, found, err, want)
			}
		}
	}
}

func FuzzParseAccount(f *testing.F) {
	f.Add(appendAccount(nil, &state.Account{Nonce: 300, Balance: [32]byte{31: 1}, CodeHash: state.EmptyCode}))
	f.Add(appendAccount(nil, &state.Account{Balance: [32]byte{0: 1}, CodeHash: state.Hash{1}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAccount(text)
		if err != nil {
			return
		}
		if again, err := parseAccount(appendAccount(nil, &a)); err != nil || again != a {
			t.Errorf("%x: %+v, then %+v, %v", text, a, again, err)
		}
	})
}
