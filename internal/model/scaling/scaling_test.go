package scaling

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// A law that made the samples is found again, and its bands hold what it says of
// numbers of threads that the fit did not see.
func TestFitFindsTheLawThatMadeTheSamples(t *testing.T) {
	for _, want := range []USL{
		{Lambda: 1000, Sigma: .05, Kappa: .001},
		{Lambda: 5e4, Sigma: .3},
		{Lambda: 10},
	} {
		exact, noisy := []Sample{}, []Sample{}
		random := rand.New(rand.NewPCG(1, 2))
		for _, n := range []float64{1, 2, 8, 32} {
			exact = append(exact, Sample{n, want.At(n)})
			for range 3 {
				noisy = append(noisy, Sample{n, want.At(n) * (1 + .02*random.NormFloat64())})
			}
		}

		u, err := Fit(exact, 1)
		if err != nil {
			t.Fatal(err)
		}

		if off := math.Abs(u.Lambda/want.Lambda-1) + math.Abs(u.Sigma-want.Sigma) +
			math.Abs(u.Kappa-want.Kappa); off > 1e-6 {
			t.Errorf("%+v, want %+v", u, want)
		}

		if u, err = Fit(noisy, 1); err != nil {
			t.Fatal(err)
		}

		for _, n := range []float64{4, 16} {
			if low, high := u.Band(n); !(low < want.At(n) && want.At(n) < high) ||
				math.Abs(u.At(n)/want.At(n)-1) > .1 {
				t.Errorf("%v threads: %v, %v to %v; the law says %v", n, u.At(n), low, high,
					want.At(n))
			}
		}
	}
}

func TestFitRefusesWhatItCannotFit(t *testing.T) {
	for _, samples := range [][]Sample{
		nil,
		{{1, 5}, {2, 9}, {2, 8}},
		{{1, 5}, {2, 0}, {3, 5}},
		{{0, 1}, {1, 1}, {2, 2}},
		{{1, math.NaN()}, {2, 1}, {3, 1}},
	} {
		if u, err := Fit(samples, 1); err == nil {
			t.Errorf("%v: %+v", samples, u)
		}
	}
}

// Nine tenths of lambda/sigma are reached where N (1 - .9) = .9 (1 - sigma) / sigma.
func TestSaturationByHand(t *testing.T) {
	u, err := Fit([]Sample{{1, 100}, {4, 400 / 1.3}, {16, 1600 / 2.5}}, 1) // sigma .1
	if err != nil {
		t.Fatal(err)
	}

	_, maximum := u.Saturation()
	if want := u.At(maxThreads); math.Abs(maximum/want-1) > 1e-9 {
		t.Errorf("at most %v, want %v", maximum, want)
	}

	n, _ := u.Saturation()
	if u.At(float64(n)) < .9*maximum || u.At(float64(n-1)) >= .9*maximum {
		t.Errorf("%d threads give %v, one less %v, of %v", n, u.At(float64(n)), u.At(float64(n-1)),
			maximum)
	}

	peak := USL{Lambda: 1, Kappa: .01} // most at N = 10
	if n, maximum := peak.Saturation(); n > 10 || math.Abs(maximum-peak.At(10)) > 1e-9 {
		t.Errorf("%d threads, at most %v", n, maximum)
	}
}

// The oracle is the definition: at the optimum no column that is above 0 has a slope,
// and no other could lessen the sum by growing.
func TestNonNegativeIsAtItsOptimum(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var rows [][]float64
		var wanted []float64
		for range 8 {
			rows = append(rows, []float64{random.NormFloat64(), random.NormFloat64(),
				random.NormFloat64()})
			wanted = append(wanted, random.NormFloat64())
		}

		x := NonNegative(rows, wanted)
		for c := range x {
			slope := 0.0
			for i, row := range rows {
				off := -wanted[i]
				for j, v := range row {
					off += v * x[j]
				}
				slope += off * row[c]
			}

			if x[c] < 0 || x[c] > 0 && math.Abs(slope) > 1e-9 || x[c] == 0 && slope < -1e-9 {
				t.Fatalf("column %d is %v with slope %v", c, x[c], slope)
			}
		}
	}
}

func TestBindsNamesTheResource(t *testing.T) {
	for want, e := range map[Resource]Evidence{
		PageFaults: {
			Threads:         64,
			Procs:           2,
			InFlight:        2.1,
			FaultsPerGet:    .9,
			FaultsAreInCode: true,
			CPUShare:        .4,
		},
		DeviceReads: {
			Threads:        64,
			Procs:          64,
			InFlight:       63,
			ReadsPerSecond: 70e3,
			DeviceMax:      75e3,
			CPUShare:       .5,
		},
		CPU: {
			Threads:        4,
			Procs:          4,
			InFlight:       4,
			CPUShare:       .95,
			ReadsPerSecond: 10,
			DeviceMax:      75e3,
		},
		DeviceLatency: {
			Threads:        1,
			Procs:          2,
			InFlight:       1,
			ReadsPerGet:    1,
			DeviceOneNanos: 50e3,
			ServiceNanos:   60e3,
			ReadsPerSecond: 16e3,
			DeviceMax:      75e3,
		},
		Locks: {
			Threads:        64,
			Procs:          64,
			InFlight:       64,
			CPUShare:       .2,
			ReadsPerSecond: 1e3,
			DeviceMax:      75e3,
			ServiceNanos:   1e6,
			Saturated:      true,
		},
		Unknown: {Threads: 1, Procs: 2, InFlight: 1, ReadsPerGet: 1},
	} {
		if got, why := e.Bottleneck(); got != want || why == "" {
			t.Errorf("%s (%s), want %s", got, why, want)
		}
	}

	// What is known and not at its limit is told with its figures.
	below := Evidence{
		Threads:        16,
		Procs:          16,
		InFlight:       16,
		CPUShare:       .51,
		ReadsPerGet:    1,
		ReadsPerSecond: 55e3,
		DeviceMax:      70e3,
		ServiceNanos:   3e5,
	}

	if got, why := below.Bottleneck(); got != Unknown ||
		!strings.Contains(why, "the processors (51%) nor the disk (79% of the 70000") {
		t.Errorf("%s (%s)", got, why)
	}

	// The same faults taken in C give the processor back.
	e := Evidence{Threads: 64, Procs: 2, InFlight: 40, FaultsPerGet: .9, CPUShare: .4}
	if got, _ := e.Bottleneck(); got == PageFaults {
		t.Errorf("%s of an engine in C", got)
	}
}

func TestAdviceHoldsWithoutContentionOnly(t *testing.T) {
	free := USL{Lambda: 1000}
	if advised, needed, ok := free.AdviceAt(8000); !ok || advised != needed || needed != 8 {
		t.Errorf("%v advised, %v needed", advised, needed)
	}

	if advised, needed, ok := (USL{Lambda: 1000, Sigma: .1}).AdviceAt(4000); !ok || advised != 4 ||
		needed != 6 {
		t.Errorf("%v advised, %v needed", advised, needed)
	}

	if _, _, ok := (USL{Lambda: 1000, Sigma: .5}).AdviceAt(4000); ok {
		t.Error("a throughput that is never reached")
	}
}
