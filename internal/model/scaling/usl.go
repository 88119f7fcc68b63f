// Package scaling says how throughput grows with the number of threads, where it stops,
// and which resource stops it.
//
// The model is the Universal Scalability Law (N. Gunther, Guerrilla Capacity Planning,
// Springer 2007, chapter 4):
//
//	X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1))
//
// lambda is the throughput of one thread, sigma the share of the work that only one
// thread can do at a time, kappa what threads cost each other in pairs.
//
// Goals: a fit whose parameters cannot be negative, bands by resampling, the same on
// every machine. Non-goals: measuring, drawing.
package scaling

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sample is a throughput that was measured with so many threads, or reads in flight.
type Sample struct {
	Threads    float64
	Throughput float64 // a second
}

// USL is a fitted law.
type USL struct {
	Lambda, Sigma, Kappa float64

	samples   []Sample
	residuals []float64 // relative, widened by the degrees of freedom
	refits    []USL     // of resampled throughputs
}

const (
	fewestThreads = 3 // different numbers of threads that a fit takes
	refits        = 400
	bandShare     = .95
)

// ErrTooFew is of samples at fewer than three numbers of threads.
var ErrTooFew = errors.New("a fit takes measurements at three numbers of threads or more")

// Fit is the law whose N/X is nearest to the samples', by relative error:
//
//	N/X = a + b (N-1) + c N (N-1), with a, b, c >= 0
//
// sigma is b/a, kappa c/a. Its bands are those of laws fitted to throughputs that are
// drawn again with the fit's own residuals.
func Fit(samples []Sample, seed uint64) (USL, error) {
	different := map[float64]bool{}
	for _, s := range samples {
		if !(s.Threads >= 1) || !(s.Throughput > 0) || math.IsInf(s.Throughput, 0) {
			return USL{}, errors.New("a fit takes throughputs above 0 of one thread or more")
		}
		different[s.Threads] = true
	}

	if len(different) < fewestThreads {
		return USL{}, ErrTooFew
	}

	u := fit(samples)
	u.samples = slices.Clone(samples)
	free := len(samples) - u.used()
	widen := math.Sqrt(float64(len(samples)) / math.Max(1, float64(free)))
	for _, s := range samples {
		u.residuals = append(u.residuals, (s.Throughput/u.At(s.Threads)-1)*widen)
	}

	random := rand.New(rand.NewPCG(seed, uint64(len(samples))))
	for range refits {
		drawn := make([]Sample, len(samples))
		for i, s := range samples {
			drawn[i] = Sample{s.Threads, u.At(s.Threads) * math.Max(.01,
				1+u.residuals[random.IntN(len(u.residuals))])}
		}

		u.refits = append(u.refits, fit(drawn))
	}

	return u, nil
}

func fit(samples []Sample) USL {
	var rows [][]float64
	var ones []float64
	for _, s := range samples {
		per := s.Throughput / s.Threads // each row divided by N/X: relative errors
		rows = append(rows,
			[]float64{per, per * (s.Threads - 1), per * s.Threads * (s.Threads - 1)})
		ones = append(ones, 1)
	}

	x := NonNegative(rows, ones)
	if x[0] <= 0 { // nothing but contention: one thread's own time cannot be told
		x[0] = 1e-3 * (x[1] + x[2])
	}

	return USL{Lambda: 1 / x[0], Sigma: x[1] / x[0], Kappa: x[2] / x[0]}
}

func (u USL) used() (n int) {
	for _, p := range []float64{u.Lambda, u.Sigma, u.Kappa} {
		if p > 0 {
			n++
		}
	}
	return n
}

// At is the throughput of n threads.
func (u USL) At(n float64) float64 {
	return u.Lambda * n / (1 + u.Sigma*(n-1) + u.Kappa*n*(n-1))
}

// Band is where a measurement with n threads is expected, in 95 of 100 cases: the
// parameters' uncertainty and the noise of a measurement.
func (u USL) Band(n float64) (low, high float64) {
	var at []float64
	for i, other := range u.refits {
		at = append(at, other.At(n)*math.Max(0, 1+u.residuals[i%len(u.residuals)]))
	}
	return middle(at)
}

func middle(values []float64) (low, high float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(values)
	tail := (1 - bandShare) / 2 * float64(len(values)-1)
	return values[int(tail)], values[len(values)-1-int(tail)]
}

// maxThreads bounds where a saturation point is looked for.
const (
	maxThreads     = 1024
	saturatedShare = .9
)

// Saturation is the smallest number of threads with nine tenths of the most that up to
// 1,024 threads give, and that most.
func (u USL) Saturation() (threads int, maximum float64) {
	for n := 1.0; n <= maxThreads; n++ {
		maximum = math.Max(maximum, u.At(n))
	}

	for n := 1; n < maxThreads; n++ {
		if u.At(float64(n)) >= saturatedShare*maximum {
			return n, maximum
		}
	}

	return maxThreads, maximum
}

// SaturationBand is the range of Saturation over the laws that the band is made of.
func (u USL) SaturationBand() (low, high int) {
	var at []float64
	for _, other := range u.refits {
		n, _ := other.Saturation()
		at = append(at, float64(n))
	}
	minimum, maximum := middle(at)
	return int(minimum), int(maximum)
}

// NonNegative is the x >= 0 with the least sum of squares of rows x - wanted. It tries
// every set of columns that may be above 0, so it is for few columns: the best of those
// sets whose solution is not negative is the optimum (Lawson and Hanson, Solving Least
// Squares Problems, 1974, chapter 23).
func NonNegative(rows [][]float64, wanted []float64) []float64 {
	columns := len(rows[0])
	best, minimum := make([]float64, columns), squares(rows, make([]float64, columns), wanted)
	for set := 1; set < 1<<columns; set++ {
		var chosen []int
		for c := range columns {
			if set>>c&1 == 1 {
				chosen = append(chosen, c)
			}
		}

		if len(chosen) > len(rows) {
			continue
		}

		solved, ok := leastSquares(rows, chosen, wanted)
		if !ok {
			continue // columns that say the same
		}

		x := make([]float64, columns)
		negative := false
		for j, c := range chosen {
			x[c] = solved[j]
			negative = negative || !(x[c] >= 0)
		}

		if s := squares(rows, x, wanted); !negative && s < minimum {
			best, minimum = x, s
		}
	}

	return best
}

// leastSquares is the x with the least sum of squares of the chosen columns of rows times x, less
// wanted, by Householder's reflections (Golub and Van Loan, Matrix Computations, 5.3). It fails if
// a column is a sum of those before it.
func leastSquares(rows [][]float64, chosen []int, wanted []float64) (x []float64, ok bool) {
	columns, right, diagonal := make([][]float64, len(chosen)), slices.Clone(wanted),
		make([]float64, len(chosen))
	for j, c := range chosen {
		for _, row := range rows {
			columns[j] = append(columns[j], row[c])
		}
	}

	for j, column := range columns {
		v := column[j:]
		length := math.Sqrt(dot(v, v))
		if length <= 1e-14*math.Sqrt(dot(column, column)) {
			return nil, false
		}

		diagonal[j] = -math.Copysign(length, v[0])
		v[0] -= diagonal[j]
		for _, other := range slices.Concat(columns[j+1:], [][]float64{right}) {
			scale := 2 * dot(v, other[j:]) / dot(v, v)
			for i := range v {
				other[j+i] -= scale * v[i]
			}
		}
	}

	x = make([]float64, len(chosen))
	for j := len(x) - 1; j >= 0; j-- {
		x[j] = right[j]
		for k := j + 1; k < len(x); k++ {
			x[j] -= columns[k][j] * x[k]
		}
		x[j] /= diagonal[j]
	}

	return x, true
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func squares(rows [][]float64, x, wanted []float64) (sum float64) {
	for i, row := range rows {
		off := -wanted[i]
		for c, v := range row {
			off += v * x[c]
		}
		sum += off * off
	}
	return sum
}

// Resource is what keeps more threads from giving more.
type Resource string

// Resources. The words are what a report says.
const (
	PageFaults    Resource = "page faults that hold a processor"
	DeviceReads   Resource = "the device's reads a second"
	DeviceLatency Resource = "the device's latency"
	CPU           Resource = "the processors"
	Locks         Resource = "locks or queues inside the engine"
	Unknown       Resource = "unknown"
)

// Evidence is what was measured at one number of threads. A figure that is not known is 0.
type Evidence struct {
	Threads         int
	Procs           int     // of Go's scheduler
	InFlight        float64 // Little's law
	CPUShare        float64 // of all processors, 0..1: by this process
	OthersShare     float64 // and by others, over the whole run
	FaultsPerGet    float64 // major
	ServiceNanos    float64 // mean
	ReadsPerGet     float64 // of the device
	ReadsPerSecond  float64
	DeviceMax       float64 // reads a second that the device gives with any number in flight
	DeviceOneNanos  float64 // of one read alone
	Saturated       bool    // more threads give hardly more
	FaultsAreInCode bool    // of Go: the engine maps its files and reads them without a call into C
}

// What a share must be for a resource to be the one that binds.
const (
	busyCPU      = .85
	busyDevice   = .8
	mostlyDevice = .5
	oftenFaults  = .05
	maxInFlight  = .8 // of the Gets asked for, where they wait for a processor
)

// Bottleneck names the resource that binds, and the figures that say so.
func (e Evidence) Bottleneck() (r Resource, why string) {
	switch {
	case e.FaultsAreInCode && e.FaultsPerGet >= oftenFaults && e.Threads > e.Procs &&
		e.InFlight < maxInFlight*float64(e.Threads):
		return PageFaults, fmt.Sprintf("%.2f page faults a Get are taken in Go code, which keeps "+
			"its processor until the page is there: of %d Gets asked for at the same time %.1f "+
			"were under way on %d processors of Go's scheduler", e.FaultsPerGet, e.Threads,
			e.InFlight, e.Procs)
	case e.DeviceMax > 0 && e.ReadsPerSecond >= busyDevice*e.DeviceMax:
		return DeviceReads, fmt.Sprintf("%.0f%% of the %.0f reads a second that the disk gives",
			100*e.ReadsPerSecond/e.DeviceMax, e.DeviceMax)
	case e.CPUShare+e.OthersShare >= busyCPU && e.CPUShare >= .1:
		others := ""
		if e.OthersShare >= .05 {
			others = fmt.Sprintf(" while measuring, other programs %.0f%% over the whole run",
				100*e.OthersShare)
		}
		return CPU, fmt.Sprintf("this process used %.0f%% of all processors%s", 100*e.CPUShare,
			others)
	case e.DeviceOneNanos > 0 && e.ServiceNanos > 0 &&
		e.ReadsPerGet*e.DeviceOneNanos >= mostlyDevice*e.ServiceNanos:
		return DeviceLatency, fmt.Sprintf("%.2f reads a Get one after another, of %.0f us each, "+
			"are %.0f%% of its %.0f us: more in flight give more", e.ReadsPerGet,
			e.DeviceOneNanos/1e3, 100*min(1, e.ReadsPerGet*e.DeviceOneNanos/e.ServiceNanos),
			e.ServiceNanos/1e3)
	case e.Saturated && (e.DeviceMax > 0 || e.ReadsPerGet == 0):
		return Locks, fmt.Sprintf("neither the processors (%.0f%%) nor the device are busy",
			100*(e.CPUShare+e.OthersShare))
	case e.DeviceMax > 0 && e.ReadsPerSecond > 0:
		return Unknown, fmt.Sprintf("neither the processors (%.0f%%) nor the disk (%.0f%% of the "+
			"%.0f reads a second that it gives) are at their limit", 100*(e.CPUShare+e.OthersShare),
			100*e.ReadsPerSecond/e.DeviceMax, e.DeviceMax)
	}

	return Unknown, "the device was not measured, its measurement was not used, or its reads " +
		"were not counted"
}

// Advice is the number of threads that reads of so many seconds need to answer a number
// of reads within a time, by the rule that clients publish: S*N/T.
//
//	threads = seconds of a read x reads / seconds
//
// It is Little's law with the latency of one thread, which holds as long as a read takes
// no longer when others are in flight.
func Advice(readNanos, readsPerSecond float64) float64 { return readNanos / 1e9 * readsPerSecond }

// AdviceAt is what S*N/T says of a throughput, and the threads that the law needs for it;
// ok is false where the law never gets there.
func (u USL) AdviceAt(throughput float64) (advised, needed float64, ok bool) {
	advised = Advice(1e9/u.Lambda, throughput)
	for n := 1.0; n <= maxThreads; n++ {
		if u.At(n) >= throughput {
			return advised, n, true
		}
	}
	return advised, 0, false
}
