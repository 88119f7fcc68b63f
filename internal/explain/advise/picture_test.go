package advise

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/statelab/statelab/result"
)

func TestPicture(t *testing.T) {
	a := Advice{
		Database: result.Database{Bytes: 224 << 30},
		Curve: []Place{
			{CacheBytes: 64 << 20, BlockReadsPerGet: 5.1},
			{CacheBytes: 400 << 20, BlockReadsPerGet: 2},
			{CacheBytes: 4 << 30, BlockReadsPerGet: 1.02},
		},
		Now: State{Place: Place{CacheBytes: 512 << 20, BlockReadsPerGet: 1.8},
			stateFacts: stateFacts{Whose: "you are here"}},
		Then:     State{Place: Place{CacheBytes: 2 << 30, BlockReadsPerGet: 1.05}},
		Verified: []Verified{{CacheBytes: 512 << 20, Measured: 1.79}},
	}

	text, err := json.Marshal(a.Chart())
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"you are here: 512 MiB", "recommended: 2 GiB", "1.80", "1.05",
		"predicted", "measured, at rest", "block reads per Get"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}

	var file bytes.Buffer
	if err := a.Chart().SVG(&file, ""); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"you are here: 512 MiB", "recommended: 2 GiB",
		"measured, at rest", "block reads per Get"} {
		if !strings.Contains(file.String(), ">"+want+"</text>") {
			t.Errorf("the file does not say %q", want)
		}
	}

	a.Curve = a.Curve[:1]
	if a.Chart() != nil {
		t.Error("drew a curve of one point")
	}
}
