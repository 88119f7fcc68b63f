package estimate

import (
	"cmp"
	"fmt"
	"math"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/subject"
)

// LoadSpec is a database to make.
type LoadSpec struct {
	Engine     string // without a profile
	Sorted     bool   // fillsorted
	Keys       uint64
	PairBytes  float64 // key and value, mean
	Table32    bool    // values that compress
	CacheBytes int64   // of the load
	Threads    int
}

// tableSpace: values from a table of 32 compress; 200M keys of 32 + 110 bytes took 22.1 GiB.
const tableSpace = 0.77

// Load is what making a database takes.
func Load(l LoadSpec, m Machine) Step {
	e, taken := subject.EngineOf(l.Engine)
	costs := e.Cost
	user := float64(l.Keys) * l.PairBytes
	compressed := 1.0
	if l.Table32 && !costs.Mapped {
		compressed = tableSpace
	}
	space := compressed * costs.Space
	cache := float64(l.CacheBytes)
	logs, peakLogs, rate, written := costs.Logs*cache, costs.PeakLogs*cache, costs.KeysPerSecond, user*amplification(costs, l.Keys)
	peak, memory, basis := max(space, compressed*costs.Peak), costs.Memory*cache+128<<20, "measured with 1M keys"
	switch sorted := costs.Sorted; {
	case sorted == nil:
	case l.Sorted:
		logs, peakLogs, rate, written = sorted.Logs*cache, sorted.PeakLogs*cache, sorted.KeysPerSecond, user*compressed*sorted.Amplification
		peak, memory, basis = space, sorted.Memory, "measured with 200M keys"
	default:
		if user < cache {
			logs = min(logs, 2*sorted.Log*cache)
		}
		peakLogs = min(peakLogs, sorted.Log*cache*math.Ceil(math.Max(2, math.Log2(user/sorted.FirstMemTable))))
		basis += "; Pebble preallocates write-ahead logs by the size of --cache"
	}
	s := Step{Kind: LoadKind, Name: fmt.Sprintf("loading %s keys with %s", unit.ShortCount(float64(l.Keys)), l.Engine), Flag: "--keys", Count: l.Keys,
		DiskBytes: bytes(user*space + logs), TableBytes: bytes(user * space), PeakDiskBytes: bytes(user*max(peak, space) + peakLogs),
		MemoryBytes: bytes(memory), fixed: bytes(peakLogs), Basis: basis}
	if costs.InMemory {
		s.MemoryBytes = bytes(2*user + 128<<20)
	}
	const measuredPair = 142 // bytes of a pair that the rates are of
	s.Seconds = 1 + max(float64(l.Keys)*max(1, l.PairBytes/measuredPair)/rate, written/m.writeRate())
	if costs.Mapped && s.DiskBytes > m.memory() {
		// Every key then reads a leaf page, and later writes it.
		beyond := 1 - float64(m.memory())/float64(s.DiskBytes)
		s.Seconds += 2 * beyond * float64(l.Keys) / m.readRate(1)
		s.Basis += "; the file outgrows memory, so that each key waits for a random read"
	}
	s.Basis = cmp.Or(taken, s.Basis)
	return s
}

// amplification is what the device is given for a byte of user data: 4.2 with 5M keys,
// 8.2 with 200M, for LSM trees. Files of mapped engines are written back by the kernel,
// and no such count limits them.
func amplification(c subject.EngineCost, keys uint64) float64 {
	if c.Mapped || c.Space == 0 {
		return 0
	}
	return max(2, 4.2+2.5*math.Log10(float64(max(1, keys))/5e6))
}
