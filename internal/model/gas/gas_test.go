package gas

import (
	"math"
	"testing"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func disk() result.Hardware {
	at := func(n int, rate, mean float64) result.DiskPoint {
		return result.DiskPoint{
			InFlight:       n,
			ReadsPerSecond: rate,
			MeanNanos:      mean,
			Spread:         result.Range{Low: .9 * rate, High: 1.1 * rate},
		}
	}

	return result.Hardware{
		Name: "nvme",
		Points: []result.DiskPoint{at(1, 12_500, 80_000), at(8, 90_000, 89_000),
			at(32, 270_000, 118_000),
			at(64, 280_000, 228_000)},
	}
}

// The EIP says of its own parameters: 2,100 gas buy 21 us, 3,000 buy 30, 10,000 buy 100;
// and what follows from them.
func TestParametersAreThoseOfTheEIP(t *testing.T) {
	want := map[string][2]float64{
		ColdAccount:  {2600, 3000},
		ColdStorage:  {2100, 2100},
		Warm:         {100, 100},
		AccountWrite: {6700, 9000},
		StorageWrite: {2800, 10_000},
		Create:       {7000, 12_000},
		Refund:       {4800, 11_616},
		ListAddress:  {2400, 2900},
		ListKey:      {1900, 2000},
	}

	for _, p := range Parameters() {
		if w, listed := want[p.Name]; listed && (p.Today != w[0] || p.Proposed != w[1]) {
			t.Errorf("%s: %v today, %v proposed, want %v", p.Name, p.Today, p.Proposed, w)
		}
	}

	for gas, us := range map[float64]float64{2100: 21, 3000: 30, 10_000: 100} {
		r := result.PriceRow{CPUNanos: figure.Known(us * 1e3)}
		if Fill(&r, disk(), 100e6); math.Abs(r.AloneGas.Value-gas) > 1e-9 {
			t.Errorf("%v us cost %v gas, want %v", us, r.AloneGas.Value, gas)
		}
	}
}

// By hand: 2 reads of 80 us and 10 us of CPU are 170 us, 17,000 gas; with 32 in flight a
// read takes 1/270,000 s.
func TestFillByHand(t *testing.T) {
	r := result.PriceRow{
		CPUNanos: figure.Known(10_000),
		Reads:    result.Estimate{Value: 2, Low: 1.5, High: 2.5},
	}
	Fill(&r, disk(), 100e6)
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-6*want }
	if !near(r.AloneNanos.Value, 170_000) || !near(r.AloneGas.Value, 17_000) ||
		r.QueueDepth != 32 || !near(r.QueuedNanos.Value, 10_000+2e9/270_000) {
		t.Errorf("%+v", r)
	}

	if !near(r.AloneNanos.Low, 10_000+1.5*80_000/1.1) ||
		!near(r.AloneNanos.High, 10_000+2.5*80_000/.9) {
		t.Errorf("%+v", r.AloneNanos)
	}

	s := SafeAt(r, disk(), 3000, 100e6) // 30 us: 20 us for 2 reads, 10 us each
	if s.Already || s.Never || !near(s.ReadNanos, 10_000) || !near(s.CachedPart, 1-20.0/160) ||
		s.InFlight != 32 {
		t.Errorf("%+v", s)
	}

	if s := SafeAt(r, disk(), 900, 100e6); !s.Never {
		t.Errorf("%+v of less than the CPU time", s)
	}

	if s := SafeAt(r, disk(), 17_001, 100e6); !s.Already {
		t.Errorf("%+v of more than the time alone", s)
	}
}
