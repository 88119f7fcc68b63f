// Package workload chooses which key is asked for next. It is pure: the same
// plan and seed give the same operations on every machine.
//
// Goals: standard names (db_bench's) with their standard meaning; streams per
// worker that share nothing. Non-goals: when to ask (pace), what the key's
// bytes are (keyspace).
package workload

import (
	"fmt"
	"math"
	"math/bits"
)

// Names of workloads, as db_bench uses them; fillsorted is ours.
const (
	FillRandom = "fillrandom" // load in random key order through the write path
	// build sorted tables and ingest them into the shape fillrandom settles into
	FillSorted       = "fillsorted"
	ReadRandom       = "readrandom"       // Gets of existing keys
	MultiReadRandom  = "multireadrandom"  // readrandom in batches: MultiGet
	ReadMissing      = "readmissing"      // negative lookups
	Overwrite        = "overwrite"        // random updates of existing keys
	ReadWhileWriting = "readwhilewriting" // readrandom beside one or more writers
)

// About describes a workload in one line.
type About struct{ Name, Verb, Text string }

// All lists the workloads in the order of help texts.
func All() []About {
	return []About{
		{FillRandom, "load", "write every key once, in random key order, through the engine's " +
			"write path"},
		{FillSorted, "load", "build sorted tables and ingest them into the level shape that " +
			"fillrandom settles into"},
		{ReadRandom, "sweep", "Gets of existing keys, uniform or --zipf; --missing 20% adds " +
			"negative lookups"},
		{MultiReadRandom, "sweep", "Gets of existing keys in batches of --batch-gets, " +
			"--in-flight of them at once"},
		{ReadMissing, "sweep", "negative lookups only: Gets of missing keys"},
		{Overwrite, "sweep", "random updates of existing keys, in batches, settled afterwards"},
		{ReadWhileWriting, "sweep", "readrandom while writers update random keys at --write-rate"},
	}
}

// Choice describes which keys are asked for.
type Choice struct {
	Keys         uint64  // present keys are 0 .. Keys-1; greater indexes are absent
	MissingShare float64 // of all operations, 0..1
	ZipfTheta    float64 // exponent of the popularity of present keys; 0 is uniform
	Seed         uint64
}

// Check names everything wrong with c.
func (c Choice) Check() (errs []error) {
	if !(c.MissingShare >= 0 && c.MissingShare <= 1) {
		errs = append(errs,
			fmt.Errorf("a share of %v absent keys: write --missing 20%%", c.MissingShare))
	}

	if !(c.ZipfTheta >= 0 && c.ZipfTheta <= 5) {
		errs = append(errs,
			fmt.Errorf("zipf exponent %v: from 0 (uniform) to 5, such as --zipf 0.99", c.ZipfTheta))
	}

	return errs
}

// Stream is the choices of one worker in one phase.
type Stream struct {
	rng      rng
	keys     uint64
	missing  uint64 // of 2^64
	missNext uint64 // absent keys are asked for in turn, never twice
	zipf     *zipf
	scramble uint64
}

// Phases have streams of their own, so that the measured operations do not
// depend on how long the warm-up was.
const (
	WarmPhase = iota + 1
	MeasurePhase
	WritePhase
)

// Stream returns the choices of a worker (0, 1, ...) in a phase.
func (c Choice) Stream(phase, worker int) *Stream {
	start := c.Seed + uint64(phase)*0xd1342543de82ef95 + uint64(worker)*0xaf251af3b0f025b5
	s := &Stream{rng: rng{start}, keys: c.Keys, scramble: c.Seed}
	// Absent indexes differ between workers and phases: 2^40 operations each.
	s.missNext = c.Keys + uint64(phase)<<56 + uint64(worker)<<40
	if c.MissingShare > 0 {
		s.missing = shareOf64(c.MissingShare)
	}

	if c.ZipfTheta > 0 {
		s.zipf = newZipf(c.Keys, c.ZipfTheta)
	}

	return s
}

// Next returns the index to ask for; absent says that no load wrote it.
func (s *Stream) Next() (index uint64, absent bool) {
	if s.missing != 0 && (s.missing == ^uint64(0) || s.rng.next() < s.missing) {
		s.missNext++
		return s.missNext, true
	}

	if s.zipf != nil {
		// Popular keys are scattered over the key space, as YCSB's scrambled
		// zipfian does.
		rank := s.zipf.next(&s.rng)
		high, _ := bits.Mul64(scrambled(rank+s.scramble), s.keys)
		return high, false
	}

	high, _ := bits.Mul64(s.rng.next(), s.keys)
	return high, false
}

func shareOf64(share float64) uint64 {
	if share >= 1 {
		return ^uint64(0)
	}
	return uint64(share * (1 << 63) * 2)
}

// rng is splitmix64 (Steele, Lea, Flood 2014).
type rng struct{ state uint64 }

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	return scrambled(r.state)
}

// unit returns a number in [0, 1).
func (r *rng) unit() float64 { return float64(r.next()>>11) / (1 << 53) }

func scrambled(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Names are the workloads of a verb.
func Names(verb string) (names []string) {
	for _, w := range All() {
		if w.Verb == verb {
			names = append(names, w.Name)
		}
	}
	return names
}

// zipf draws ranks 0..n-1 with P(k) proportional to (k+1)^-theta by
// rejection-inversion (Hörmann and Derflinger 1996): constant time and memory
// for any n, any theta > 0.
type zipf struct {
	n, theta        float64
	fromH, toH, cut float64
}

func newZipf(n uint64, theta float64) *zipf {
	z := &zipf{n: float64(n), theta: theta}
	z.fromH = z.h(1.5) - 1
	z.toH = z.h(z.n + 0.5)
	z.cut = 2 - z.inverse(z.h(2.5)-math.Pow(2, -theta))
	return z
}

func (z *zipf) next(r *rng) uint64 {
	for {
		u := z.toH + r.unit()*(z.fromH-z.toH)
		x := z.inverse(u)
		k := math.Min(math.Max(math.Round(x), 1), z.n)
		if k-x <= z.cut || u >= z.h(k+0.5)-math.Pow(k, -z.theta) {
			return uint64(k) - 1
		}
	}
}

// h is an antiderivative of x^-theta.
func (z *zipf) h(x float64) float64 {
	if z.theta == 1 {
		return math.Log(x)
	}
	return (math.Pow(x, 1-z.theta) - 1) / (1 - z.theta)
}

func (z *zipf) inverse(y float64) float64 {
	if z.theta == 1 {
		return math.Exp(y)
	}
	return math.Pow(1+y*(1-z.theta), 1/(1-z.theta))
}
