// Package measure is what stands in the hot loop: a clock, a histogram and the
// recorder that one worker writes while another goroutine looks on.
//
// Goals: a clock pair and a record cost tens of nanoseconds and no allocation;
// nothing is shared between workers; what falls outside the range is counted,
// not moved into it.
// Non-goals: deciding what is timed (bench does), storing (result does),
// comparing (stats does).
package measure

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"
)

// Kinds of clock.
const (
	TSC       = "tsc"       // the processor's time-stamp counter
	Monotonic = "monotonic" // CLOCK_MONOTONIC
)

// Clock reads time in the hot loop. Safe for concurrent use.
//
// A tick is whatever the source counts. Keep ticks between two readings and
// convert their difference:
//
//	start := clock.Ticks()
//	call()
//	nanos := clock.Nanos(clock.Ticks() - start)
type Clock struct {
	tsc  bool
	mult uint64 // nanoseconds per tick, times 2^32

	origin time.Time // zero of the monotonic fallback

	why string
	// bounds the error of the rate, in parts per million: how far apart the readings of both clocks
	// could have been
	errorPPM  float64
	costNanos float64
}

// calibration is how long the two clocks are watched. The error is the width of
// one reading (tens of nanoseconds) over this: a few parts per million.
const calibration = 20 * time.Millisecond

// NewClock chooses the fastest clock that can be trusted here and calibrates it
// against CLOCK_MONOTONIC, which takes about 20 ms.
func NewClock() *Clock {
	c := &Clock{mult: 1 << 32, origin: time.Now()}
	if c.why = whyNotTSC(); c.why == "" {
		c.calibrate()
	}
	c.costNanos = c.cost()
	return c
}

// Ticks reads the source.
func (c *Clock) Ticks() int64 {
	if c.tsc {
		return readTSC()
	}
	return int64(time.Since(c.origin))
}

// Nanos converts a difference of ticks. A negative difference stays negative:
// it is the clock's fault and the histogram counts it as such.
func (c *Clock) Nanos(ticks int64) int64 {
	if ticks < 0 {
		return -c.Nanos(-ticks)
	}
	high, low := bits.Mul64(uint64(ticks), c.mult)
	return int64(high<<32 | low>>32)
}

// Kind is TSC or Monotonic.
func (c *Clock) Kind() string {
	if c.tsc {
		return TSC
	}
	return Monotonic
}

// WhyNotTSC says why the time-stamp counter is not used; "" where it is.
func (c *Clock) WhyNotTSC() string { return c.why }

// CostNanos is what one reading costs.
func (c *Clock) CostNanos() float64 { return c.costNanos }

// calibrate finds the rate of the time-stamp counter, and drops it where the
// result is no rate.
func (c *Clock) calibrate() {
	first := pairUp(c.origin)
	for time.Since(c.origin) < calibration {
		time.Sleep(time.Millisecond)
	}

	last := pairUp(c.origin)

	nanos, ticks := float64(last.nanos-first.nanos), float64(last.ticks-first.ticks)
	if !(ticks > 0) {
		c.why = "the time-stamp counter does not advance"
		return
	}

	rate := nanos / ticks
	if rate > 10 || rate < 0.05 { // 100 MHz .. 20 GHz
		c.why = fmt.Sprintf("the time-stamp counter runs at an unlikely rate (%.3g ns a tick)",
			rate)
		return
	}

	c.tsc = true
	c.mult = uint64(math.Round(rate * (1 << 32)))
	c.errorPPM = 1e6 * float64(first.width+last.width) / 2 / ticks
}

// pair is one moment on both clocks: nanos was read within width ticks around ticks.
type pair struct{ ticks, width, nanos int64 }

// pairUp takes the tightest of many tries: an interrupt between the two readings
// of the counter only makes a try wider.
func pairUp(origin time.Time) pair {
	best := pair{width: math.MaxInt64}
	for range 200 {
		before := readTSC()
		nanos := int64(time.Since(origin))
		after := readTSC()
		if width := after - before; width >= 0 && width < best.width {
			best = pair{before + width/2, width, nanos}
		}
	}

	return best
}

// cost takes the quickest of a few bursts, which leaves interruptions out.
func (c *Clock) cost() float64 {
	const readings = 2000
	best := math.Inf(1)
	for range 5 {
		start := time.Now()
		for range readings {
			c.Ticks()
		}
		best = min(best, float64(time.Since(start))/readings)
	}

	return best
}

// whyNotTSC reads what the kernel knows of the counter.
func whyNotTSC() string {
	if !haveTSC {
		return "no time-stamp counter is read on this architecture"
	}

	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "processor flags are unknown: " + err.Error()
	}

	sources, err := os.ReadFile(
		"/sys/devices/system/clocksource/clocksource0/available_clocksource",
	)
	if err != nil {
		return "the kernel's clock sources are unknown: " + err.Error()
	}

	return judgeTSC(cpuinfo, string(sources))
}

// judgeTSC wants a counter of constant rate that never stops, on every
// processor, and one the kernel has not thrown out: it watches for counters
// that drift apart and takes such a one off its list.
func judgeTSC(cpuinfo []byte, sources string) string {
	processors := 0
	for line := range bytes.Lines(cpuinfo) {
		name, value, _ := strings.Cut(string(line), ":")
		if strings.TrimSpace(name) != "flags" {
			continue
		}

		processors++
		flags := strings.Fields(value)
		for _, want := range []string{"constant_tsc", "nonstop_tsc"} {
			if !slices.Contains(flags, want) {
				return "a processor lacks " + want
			}
		}
	}

	if processors == 0 {
		return "processor flags are unknown: /proc/cpuinfo lists none"
	}

	if !slices.Contains(strings.Fields(sources), "tsc") {
		return "the kernel does not offer tsc as a clock source"
	}

	return ""
}
