package plan

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestOrderIsABBA(t *testing.T) {
	const points, repeats = 7, 4
	steps := Order(points, repeats, 1)
	places := make([]int, points)
	seen := map[Step]bool{}
	for place, step := range steps {
		places[step.Point] += place
		seen[step] = true
	}

	if len(steps) != points*repeats || len(seen) != len(steps) {
		t.Errorf("%d steps, %d different", len(steps), len(seen))
	}

	for point, sum := range places {
		if sum != places[0] {
			t.Errorf("point %d comes at places that sum to %d, point 0 to %d", point, sum,
				places[0])
		}
	}

	if !slices.Equal(steps, Order(points, repeats, 1)) {
		t.Error("one seed, two orders")
	}

	if slices.Equal(steps, Order(points, repeats, 2)) {
		t.Error("two seeds, one order")
	}

	first := steps[:points]
	if slices.IsSortedFunc(first, func(a, b Step) int { return a.Point - b.Point }) {
		t.Error("the first pass is not shuffled: a trend along the axis could be the machine's")
	}
}

// A plan removes what it made, and nothing else.
func TestAFolderOfSomebodyElseIsNotTouched(t *testing.T) {
	volume := t.TempDir()
	theirs := filepath.Join(volume, "flat-pebble-100")
	file := filepath.Join(theirs, "notes.txt")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}

	for name, act := range map[string]func(string, string) error{
		"claim":   Claim,
		"clear":   Clear,
		"release": Release,
	} {
		if err := act(theirs, "results"); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}

	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}

	ours := filepath.Join(volume, "ours")
	if err := Clear(ours, "results"); err != nil {
		t.Fatal(err)
	}

	if err := os.Mkdir(ours, 0o755); err != nil {
		t.Fatal(err)
	}

	if err := Clear(ours, "other results"); err == nil {
		t.Error("another plan's folder was cleared")
	}

	if err := Release(ours, "results"); err != nil {
		t.Error(err)
	}

	left, err := os.ReadDir(volume)
	if err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestNamesOfFoldersAreSafe(t *testing.T) {
	for label, want := range map[string]string{
		"iavl1":            "iavl1",
		"memiavl:fast A=1": "memiavl-fast-A-1",
		"../../x":          "..-..-x",
		"a/b":              "a-b",
	} {
		if got := FileName(label); got != want {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
	}
}

func TestSummariesTakeLittleOfTheTime(t *testing.T) {
	written := 0
	write := func() error { written++; return nil }
	for _, c := range []struct {
		last summary
		want int
	}{
		{summary{}, 1},
		{summary{at: time.Now().Add(-time.Hour), took: time.Minute}, 1},
		{summary{at: time.Now().Add(-time.Minute), took: time.Hour}, 0},
	} {
		written = 0
		if err := c.last.write(write); err != nil || written != c.want {
			t.Errorf("after %v: written %d times, want %d (%v)", c.last, written, c.want, err)
		}
	}
}
