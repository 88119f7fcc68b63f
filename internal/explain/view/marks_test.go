package view

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
)

// A value says what it is, whatever the axis is called, and no label is left out because a mark
// is beside its point.
func TestValuesAreNamedAndLabelled(t *testing.T) {
	pic := NewPicture("test", "block reads per Get")
	pic.LogX = true
	panel := pic.Panels[0]
	at := XYs{{X: 1 << 20, Y: 2.99}, {X: 1.5 * (1 << 20), Y: 2.94}, {X: 8 << 20, Y: 1}}
	panel.Line("measured", at, Style{Color: Ink})
	panel.Line("device reads", at, Style{Color: Muted, Says: "device reads per Get"})
	pic.Marks = []Mark{{X: 1.2 * (1 << 20), Name: "IP1"}, {X: 1.6 * (1 << 20), Name: "IP2"}}
	pic.Sizes(0)
	panel.FitY(nil)
	panel.Labels(at, []string{"2.99", "2.94", "1.00"})
	svg, err := pic.svg(narrowForm)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">2.99</text>", ">2.94</text>", ">1.00</text>", "<title>measured: 2.99 block reads per Get at cache size 1 MiB</title>",
		"<title>2.99 device reads per Get at cache size 1 MiB</title>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s", want)
		}
	}
}

// A logarithmic axis says so, and has more than two ticks.
func TestLogarithmicAxis(t *testing.T) {
	pic := NewPicture("test", "Gets per second")
	pic.Panels[0].LogY = true
	pic.Panels[0].Line("a", XYs{{X: 1, Y: 7000}, {X: 2, Y: 31000}}, Style{Color: Ink})
	pic.Panels[0].FitY(ShortCount)
	y := pic.Panels[0].Y
	var labels []string
	for _, tick := range y.Tick.Marker.Ticks(y.Min, y.Max) {
		labels = append(labels, tick.Label)
	}
	_, log := y.Scale.(plot.LogScale)
	if !log || y.Label.Text != "Gets per second (log scale)" || !slices.Equal(labels, []string{"7k", "10k", "15k", "20k", "30k", "40k"}) {
		t.Errorf("%q with ticks %q from %v to %v", y.Label.Text, labels, math.Round(y.Min), math.Round(y.Max))
	}
}
