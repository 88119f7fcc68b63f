package view

import (
	"fmt"
	"testing"

	"gonum.org/v1/plot/vg"
)

// Groups of many bars stay apart in panels side by side, as they do above each other.
func TestGroupsOfBarsStayApart(t *testing.T) {
	groups, sets := []string{"1 MiB", "2 MiB", "4 MiB"}, 5
	b := Bars{Groups: groups, Panels: []BarPanel{{Y: "a"}, {Y: "b"}}, Beside: true}
	for n := range sets {
		b.Sets = append(b.Sets, BarSet{Name: fmt.Sprint(n), Values: [][]float64{{1, 2, 3}, {3, 2, 1}}})
	}
	pic := b.Picture(nil)
	for _, f := range []form{wideForm, narrowForm} {
		if _, err := pic.svg(f); err != nil {
			t.Fatal(err)
		}
		if len(pic.hits) != 2*sets*len(groups) {
			t.Fatalf("%d bars", len(pic.hits))
		}
		width := pic.bars[0].Width * pic.barScale(f)
		for g := range len(groups) - 1 {
			last, next := pic.hits[(sets-1)*len(groups)+g].at.X, pic.hits[g+1].at.X
			if last+width/2 >= next-width/2 {
				t.Errorf("narrow %v: the last bar of %s ends at %.0f, the first of the next group begins at %.0f", f.narrow, groups[g], last+width/2, next-width/2)
			}
		}
	}
}

// A name below a group is cut only where it has no room.
func TestNamesOfGroupsFit(t *testing.T) {
	const name = "block reads per Get"
	b := Bars{Groups: []string{name, "p50", "p99", "CPU", "Gets"}, Panels: []BarPanel{{Y: "a"}}, Sets: []BarSet{{Values: [][]float64{{1, 1, 1, 1, 1}}}}}
	pic := b.Picture(nil)
	axis := pic.Panels[0].X
	nameGroups(&axis, 650, false)
	if got := axis.Tick.Marker.Ticks(0, 4)[0].Label; got != name {
		t.Errorf("%q with room for it", got)
	}
	axis = pic.Panels[0].X
	nameGroups(&axis, 300, false)
	if got := axis.Tick.Marker.Ticks(0, 4)[0].Label; labelWidth(axis.Tick.Label, got) > 300/5 || got == name {
		t.Errorf("%q in a fifth of the width", got)
	}
}

// Lines that stand close together have names that do not lie over each other.
func TestNamesOfCloseLines(t *testing.T) {
	pic := NewPicture("", "reads")
	pic.LogX = true
	pic.Panels[0].Line("measured", XYs{{X: 100, Y: 1}, {X: 400, Y: 1}}, CurveStyle(0))
	pic.Panels[0].FitY(nil)
	for i, x := range []float64{20, 20.5, 50, 50.2} {
		pic.Marks = append(pic.Marks, Mark{X: x, Name: fmt.Sprintf("IP%d: cache needed", i)})
	}
	pic.Sizes(0, 20)
	for _, f := range []form{wideForm, narrowForm} {
		if _, err := pic.svg(f); err != nil {
			t.Fatal(err)
		}
		type span struct{ from, to vg.Length }
		rows := map[int][]span{}
		for i, at := range pic.marks.names {
			k := pic.marks.list[i]
			x := vg.Length(pic.Panels[0].X.Norm(k.X)) * 200 // narrower than either form
			mine := span{x + at.left, x + at.left + markStyle(Ink, f.mark).Width(k.Name)}
			for _, other := range rows[at.row] {
				if mine.from < other.to && other.from < mine.to && f.narrow {
					t.Errorf("%s lies over another name of its row", k.Name)
				}
			}
			rows[at.row] = append(rows[at.row], mine)
		}
	}
}
