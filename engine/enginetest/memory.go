package enginetest

import (
	"testing"

	"github.com/statelab/statelab/engine"
)

// testMemoryBudget checks that the parts of a budget are its size, and that the
// block cache among them is the one the engine runs with.
func (s suite) testMemoryBudget(t *testing.T) {
	const budget = 96 << 20
	db := s.open(t, engine.Options{Dir: newDir(t), Create: true, MemoryBytes: budget})
	defer func() { must(t, db.Close()) }()
	reporter, is := db.(engine.MemoryReporter)
	if !is {
		t.Fatal("the capability memory_budget without a MemoryReporter")
	}
	load(t, db, 1000)
	var sum int64
	shares := reporter.Memory()
	for i, share := range shares {
		sum += share.Bytes
		if i > 0 && share.Bytes > shares[i-1].Bytes {
			t.Errorf("not the largest first: %+v", shares)
		}
		switch share.Basis {
		case "limit", "measured", "estimate":
		default:
			t.Errorf("%s: basis %q", share.Use, share.Basis)
		}
	}
	if sum > budget || sum < budget*9/10 {
		t.Errorf("the parts add up to %d of a budget of %d: %+v", sum, budget, shares)
	}
	if errs := s.engine.Check(engine.Options{Dir: newDir(t), MemoryBytes: budget, CacheBytes: cacheBytes}); len(errs) == 0 {
		t.Error("a budget and a cache pass Check")
	}
}
