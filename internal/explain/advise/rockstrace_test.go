package advise

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/chain/clients"
)

// TestJudgeTrace: the recommended cache is the smallest that reads nearly as little as the largest
// one that there is memory for; the present one stays if it does.
func TestJudgeTrace(t *testing.T) {
	const mib, floor = 1 << 20, 0.01
	// A working set of 10 MiB of which every MiB gets as many Gets.
	reads := func(_ int, cacheBytes int64) (float64, error) {
		return floor + max(0, 1-float64(cacheBytes)/(10*mib)), nil
	}

	for _, c := range []struct {
		now, memory   int64 // MiB
		least, most   int64 // MiB, of the recommended cache
		says, saysNot string
	}{
		{2, 0, 9, 10, "0.810 block reads per Get of the trace T with a block cache of 2.00 MiB.",
			"within"},
		{64, 0, 64, 64, "No larger block cache saves more than 1% of them.", "would read"},
		{2, 6, 5, 6, "and no larger one within 6.00 MiB less than 0.410.", "No larger"},
		{64, 6, 5, 6, "would read 0.41", "No larger"},
	} {
		r := RocksAdvice{Source: "D", Client: clients.AnyRocksDB, NowBytes: c.now * mib,
			MemoryBytes: c.memory * mib, Reads: reads,
			List: &List{Name: "T", Gets: 100, WarmupGets: 100, Bytes: 10 * mib}}
		if err := r.JudgeTrace(nil, floor); err != nil {
			t.Fatal(err)
		}

		if then := r.Then.CacheBytes; then < c.least*mib || then > c.most*mib ||
			!strings.Contains(r.Answer, c.says) || strings.Contains(r.Answer, c.saysNot) {
			t.Errorf("%d MiB, memory of %d MiB: %+v: %s", c.now, c.memory, r.Then, r.Answer)
		}

		if last := r.Curve[len(r.Curve)-1]; last.CacheBytes != 16*mib {
			t.Errorf("the curve ends at %+v", last)
		}
	}
}

// TestRocksFilters: filters that no Get consults are said with the reads that they save of those
// of the present cache, and not at all where they save none.
func TestRocksFilters(t *testing.T) {
	const now = 8 << 20
	of := func(perGet float64) func(int, int64) (float64, error) {
		return func(_ int, cacheBytes int64) (float64, error) {
			if cacheBytes > now {
				return 0, nil
			}
			return perGet, nil
		}
	}

	for with, says := range map[float64]string{
		1.5: ": 3.00 -> 1.50 block reads per Get with a cache of 8.00 MiB.",
		3:   "",
	} {
		r := RocksAdvice{Source: "D", Client: clients.AnyRocksDB, NowBytes: now, Reads: of(3),
			Costly: []CostlyOption{{Option: "filter_policy", Reads: of(with),
				Filters: &advice.FilterUse{Families: []string{"a"}, Tables: 2, Filtered: 2}}}}
		if err := r.Judge(nil, nil, 0); err != nil {
			t.Fatal(err)
		}

		if said := strings.Contains(r.Answer, "no Get consults"); said != (says != "") ||
			!strings.Contains(r.Answer, says) || (r.Ignored() != nil) != said {
			t.Errorf("%v with filters: %s", with, r.Answer)
		}
	}
}
