package measure

import (
	"strings"
	"testing"
	"time"
)

func TestClockAgreesWithTheSystem(t *testing.T) {
	for _, c := range []*Clock{NewClock(), {mult: 1 << 32, origin: time.Now()}} {
		began, ticks, begun := time.Now(), c.Ticks(), time.Now()
		time.Sleep(200 * time.Millisecond)
		ending, got, ended := time.Now(), c.Nanos(c.Ticks()-ticks), time.Now()
		// However long the test was preempted between the readings, the system's clock surrounds
		// them.
		minimum, maximum := int64(ending.Sub(begun)), int64(ended.Sub(began))
		if got < minimum-5e4 || got > maximum+5e4 {
			t.Errorf("%s: %d ns passed, the system says %d to %d", c.Kind(), got, minimum, maximum)
		}

		t.Logf("%s: %.1f ns a reading, rate within %.2f ppm, doubt %q", c.Kind(), c.CostNanos(),
			c.errorPPM, c.WhyNotTSC())
	}
}

func TestClockRateStaysWithinItsError(t *testing.T) {
	c := NewClock()
	if c.Kind() != TSC {
		t.Skip(c.WhyNotTSC())
	}

	first := pairUp(c.origin)
	time.Sleep(500 * time.Millisecond)
	last := pairUp(c.origin)
	nanos := last.nanos - first.nanos
	off := float64(c.Nanos(last.ticks-first.ticks)-nanos) / float64(nanos) * 1e6
	// Over a span 25 times the calibration the check itself adds little.
	if limit := 1.1*c.errorPPM + 0.5; off < -limit || off > limit {
		t.Errorf("rate is off by %.3f ppm, stated error %.3f", off, c.errorPPM)
	}

	t.Logf("rate off by %.3f ppm, stated error %.3f ppm", off, c.errorPPM)
}

func TestNanosConvertsAnyDifference(t *testing.T) {
	c := &Clock{mult: 3 << 30} // 0.75 ns a tick
	for ticks, want := range map[int64]int64{0: 0, 4: 3, -4: -3, 4e15: 3e15, 4e18: 3e18} {
		if got := c.Nanos(ticks); got != want {
			t.Errorf("Nanos(%d) = %d, want %d", ticks, got, want)
		}
	}
}

func TestJudgeTSC(t *testing.T) {
	const good = "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc\n"
	const bad = "processor\t: 1\nflags\t\t: fpu constant_tsc\n"
	for _, c := range []struct{ cpuinfo, sources, doubt string }{
		{good, "tsc hpet acpi_pm\n", ""},
		{good + good, "kvm-clock tsc\n", ""},
		{good + bad, "tsc\n", "lacks nonstop_tsc"},
		{good, "hpet acpi_pm\n", "does not offer tsc"},
		{"model name : x\n", "tsc\n", "lists none"},
	} {
		got := judgeTSC([]byte(c.cpuinfo), c.sources)
		if (got == "") != (c.doubt == "") || !strings.Contains(got, c.doubt) {
			t.Errorf("judgeTSC(%q, %q) = %q, want %q", c.cpuinfo, c.sources, got, c.doubt)
		}
	}
}

func BenchmarkClockPair(b *testing.B) {
	tsc := NewClock()
	for _, c := range []*Clock{tsc, {mult: 1 << 32, origin: time.Now()}} {
		b.Run(c.Kind(), func(b *testing.B) {
			b.ReportAllocs()
			var sum int64
			for b.Loop() {
				start := c.Ticks()
				sum += c.Nanos(c.Ticks() - start)
			}

			b.ReportMetric(float64(sum)/float64(b.N), "ns-seen")
		})
	}
}
