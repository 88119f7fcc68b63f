package testring

import (
	"os"
	"path/filepath"
	"testing"
)

// probe records how a test ended, which its goroutine must not survive.
type probe struct {
	testing.TB
	skipped, failed bool
}

type ended struct{}

func (p *probe) Helper()               { _ = p }
func (p *probe) Skipf(string, ...any)  { p.skipped = true; panic(ended{}) }
func (p *probe) Fatalf(string, ...any) { p.failed = true; panic(ended{}) }

// end is how a test ends that does what do does.
func end(t *testing.T, do func(testing.TB)) (skipped, failed bool) {
	p := &probe{TB: t}
	defer func() {
		if e := recover(); e != nil && e != any(ended{}) {
			panic(e)
		}
		skipped, failed = p.skipped, p.failed
	}()

	do(p)
	return false, false
}

// TestWhatIsLackingSkipsInsideAndFailsOutside: a lack is a skip in make test and a failure in
// make ci; what is here is neither.
func TestWhatIsLackingSkipsInsideAndFailsOutside(t *testing.T) {
	here := filepath.Join(t.TempDir(), "here")
	if err := os.WriteFile(here, nil, 0o755); err != nil {
		t.Fatal(err)
	}

	lacks := func(t testing.TB) { Program(t, "statelab-no-such-program") }
	outer := func(t testing.TB) { Outer(t, "hours") }
	has := func(t testing.TB) { Program(t, here) }
	for _, c := range []struct {
		name            string
		all             string
		do              func(testing.TB)
		skipped, failed bool
	}{
		{"a lack in make test", "", lacks, true, false},
		{"a lack in make ci", "1", lacks, false, true},
		{"an outer test in make test", "", outer, true, false},
		{"an outer test in make ci", "1", outer, false, false},
		{"a program in make test", "", has, false, false},
		{"a program in make ci", "1", has, false, false},
	} {
		t.Setenv(Variable, c.all)
		if skipped, failed := end(t, c.do); skipped != c.skipped || failed != c.failed {
			t.Errorf("%s: skipped %v, failed %v", c.name, skipped, failed)
		}
	}
}
