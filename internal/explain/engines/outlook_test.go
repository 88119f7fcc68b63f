package engines

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
)

func TestOutlook(t *testing.T) {
	o := Outlook{
		DatabaseBytes: 224 << 30,
		Curve:         []Spot{{"", 64 << 20, 5.1}, {"", 400 << 20, 2}, {"", 4 << 30, 1.02}},
		Places:        []Spot{{"you are here", 512 << 20, 1.8}, {"go there", 2 << 30, 1.05}},
		Measured:      []Spot{{"", 512 << 20, 1.79}},
	}
	pic, err := o.Picture()
	if err != nil {
		t.Fatal(err)
	}
	text, err := pic.SVG()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"you are here: 512 MiB", "go there: 2 GiB", "1.80", "1.05", "predicted", "measured, at rest", "block reads per Get"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	var file bytes.Buffer
	if err := pic.PNG(&file); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&file); err != nil {
		t.Error(err)
	}
	if _, err := (Outlook{Curve: o.Curve[:1]}).Picture(); err == nil {
		t.Error("drew a curve of one point")
	}
}
