package advice

import (
	"strings"
	"testing"

	"github.com/statelab/statelab/result/figure"
)

// TestJudgeMemory: the verdict on a node that maps its database names what limits it, and the
// smallest memory that is worth having.
func TestJudgeMemory(t *testing.T) {
	const gib = 1 << 30
	others := []MemoryReads{
		{2 * gib, 4000, 3900, 4100},
		{6 * gib, 1200, 1100, 1300},
		{8 * gib, 900, 800, 1000},
		{12 * gib, 0, 0, 10},
	}

	for _, c := range []struct {
		name          string
		waiting, busy float64
		others        []MemoryReads
		want          Bottleneck
		memory        int64
	}{
		{"idle", 0.03, 0.04, others, NotGets, 0},
		{"another process reads", 0.03, 0.9, others, DiskReads, 0},
		{"more memory helps", 0.7, 0.9, others, SmallMemory, 8 * gib},
		{"more memory does not help", 0.7, 0.9, others[:2], DiskReads, 0},
		{"not known", 0.7, 0.9, nil, DiskReads, 0},
	} {
		v := JudgeMemory(MemoryEvidence{
			Program:  "reth",
			Waiting:  figure.Known(c.waiting),
			DiskBusy: figure.Known(c.busy),
			Present:  MemoryReads{MemoryBytes: 4 * gib, PerSecond: 2000, Least: 2000, Most: 2000},
			Others:   c.others,
		})
		memory := int64(0)
		if v.Memory != nil {
			memory = v.Memory.MemoryBytes
		}

		if v.Bottleneck != c.want || memory != c.memory || !strings.HasSuffix(v.Sentence, ".") {
			t.Errorf("%s: %q, %d bytes: %s", c.name, v.Bottleneck, memory, v.Sentence)
		}
	}
}

// TestSetMemory: what limits the memory says where to set it.
func TestSetMemory(t *testing.T) {
	for group, want := range map[string]string{
		"":             "a machine with 400 MiB of memory",
		"reth.service": "MemoryMax=400M of reth.service",
		"docker-1234":  "400 MiB as the limit of the control group docker-1234",
	} {
		if got := SetMemory(group, 400<<20); !strings.Contains(got, want) {
			t.Errorf("%q: %s", group, got)
		}
	}
}
