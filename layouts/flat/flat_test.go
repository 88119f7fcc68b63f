package flat

import (
	"testing"

	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
)

func TestFlatPebbleAdmission(t *testing.T) {
	layouttest.TestLayout(t, Layout{Name: "flat", Engine: pebble2.Engine{}},
		layouttest.Expectations{})
}

func FuzzParseAccount(f *testing.F) {
	f.Add(appendAccount(nil,
		&layout.Account{Nonce: 300, Balance: [32]byte{31: 1}, CodeHash: layout.EmptyCode}))
	f.Add(appendAccount(nil, &layout.Account{Balance: [32]byte{0: 1}, CodeHash: layout.Hash{1}}))
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
