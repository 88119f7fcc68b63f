package inspect

import (
	"testing"

	"github.com/statelab/statelab/internal/model/fidelity"
)

// TestSmallTablesHaveNoDifferences: what is too small to tell is named as such, and not as like a
// node's, beside tables that can be compared.
func TestSmallTablesHaveNoDifferences(t *testing.T) {
	table := func(name string, small int64, differences int) fidelity.Verdict {
		return fidelity.Verdict{
			Table:       fidelity.Table{Name: name, Keys: 1},
			TooSmall:    small,
			Differences: make([]fidelity.Difference, differences),
		}
	}

	const base = 64 << 20
	for _, c := range []struct {
		tables []fidelity.Verdict
		want   string
	}{
		{[]fidelity.Verdict{table("", base, 0)}, "D is too small to tell whether it has a " +
			"long-running node's shape: with less than about 64.0 MiB all of its keys lie in " +
			"one level, and those of a node lie in several. Load more keys."},
		{[]fidelity.Verdict{table("a", 0, 2), table("b", base, 0)}, "2 differences between D " +
			"and a long-running node's shape; too small for the sizes of levels to tell, below " +
			"about 64.0 MiB: b."},
		{[]fidelity.Verdict{table("a", 0, 0), table("b", base, 0)}, "D has a long-running " +
			"node's shape: no difference found; too small for the sizes of levels to tell, " +
			"below about 64.0 MiB: b."},
	} {
		if got := (&Comparison{Source: "D", Tables: c.tables}).sentence(); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
