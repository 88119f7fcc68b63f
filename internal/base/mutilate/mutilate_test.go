package mutilate

import (
	"strings"
	"testing"
)

func TestMutilations(t *testing.T) {
	records := strings.Split("a b c d e f g h i j k l", " ")
	want := map[string]string{
		Dropped:   "abdefghijkl",
		Doubled:   "abccdefghijkl",
		Merged:    "ab(cd)efghijkl",
		Reordered: "abdcefghijkl",
		Sampled:   "ak",
	}

	for _, c := range Of(t, records, 2, func(a, b string) string { return "(" + a + b + ")" }) {
		if got := strings.Join(c.Records, ""); got != want[c.Name] {
			t.Errorf("%s: %s, want %s", c.Name, got, want[c.Name])
		}
		delete(want, c.Name)
	}

	if len(want) > 0 {
		t.Errorf("not made: %v", want)
	}

	if got := strings.Join(records, ""); got != "abcdefghijkl" {
		t.Errorf("the valid records became %s", got)
	}
}
