package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// TestBuilds: runs of Pebble in pure Go and with cgo are compared, and the answer says so; a run
// that is older than the option is known by its process.
func TestBuilds(t *testing.T) {
	with := func(build, name string) func(*result.Run) {
		return func(r *result.Run) {
			r.Engine.Name, r.Engine.Options = name, map[string]string{"cache_bytes": "1"}
			r.Database.Format = "13"
			if r.Host.Go = "go1.26"; build != "" {
				r.Engine.Options[engine.BuildOption] = build
			}
		}
	}

	want := Difference{engine.BuildOption, engine.PureGo, engine.WithCgo}
	for _, c := range []struct{ a, b func(*result.Run) }{
		{with(engine.PureGo, "pebble1"), with(engine.WithCgo, "pebble1")},
		{with("", "pebble1"), with(engine.WithCgo, "pebble1")},
		{with(engine.PureGo, "pebble1"), with(engine.WithCgo, "pebble2")},
	} {
		sides := []Side{group("a", 3, 1000, c.a), group("b", 3, 1000, c.b)}
		if differs := compared(t, sides...).Pairs[0].Differs; !slices.Contains(differs, want) {
			t.Errorf("%v does not name the build", differs)
		}

		for _, row := range Boards(sides)[0].Rows {
			if !strings.HasSuffix(row.Subject, ", "+row.group.Runs[0].Build()) {
				t.Errorf("%q does not name the build", row.Subject)
			}
		}
	}

	same := compared(t, group("a", 3, 1000, with("", "pebble1")),
		group("b", 3, 1000, with(engine.PureGo, "pebble1"))).Pairs[0].Differs
	if slices.ContainsFunc(same,
		func(d Difference) bool { return d.Setting == engine.BuildOption }) {
		t.Errorf("%v names builds that are the same", same)
	}
}
