package scaling

import "fmt"

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
	DeviceMost      float64 // reads a second that the device gives with any number in flight
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
	mostInFlight = .8 // of the Gets asked for, where they wait for a processor
)

// Binds names the resource that binds, and the figures that say so.
func (e Evidence) Binds() (r Resource, why string) {
	switch {
	case e.FaultsAreInCode && e.FaultsPerGet >= oftenFaults && e.Threads > e.Procs && e.InFlight < mostInFlight*float64(e.Threads):
		return PageFaults, fmt.Sprintf("%.2f page faults a Get are taken in Go code, which keeps its processor until the page is there: of %d Gets asked for "+
			"at the same time %.1f were under way on %d processors of Go's scheduler", e.FaultsPerGet, e.Threads, e.InFlight, e.Procs)
	case e.DeviceMost > 0 && e.ReadsPerSecond >= busyDevice*e.DeviceMost:
		return DeviceReads, fmt.Sprintf("%.0f%% of the %.0f reads a second that the disk gives", 100*e.ReadsPerSecond/e.DeviceMost, e.DeviceMost)
	case e.CPUShare+e.OthersShare >= busyCPU && e.CPUShare >= .1:
		others := ""
		if e.OthersShare >= .05 {
			others = fmt.Sprintf(" while measuring, other programs %.0f%% over the whole run", 100*e.OthersShare)
		}
		return CPU, fmt.Sprintf("this process used %.0f%% of all processors%s", 100*e.CPUShare, others)
	case e.DeviceOneNanos > 0 && e.ServiceNanos > 0 && e.ReadsPerGet*e.DeviceOneNanos >= mostlyDevice*e.ServiceNanos:
		return DeviceLatency, fmt.Sprintf("%.2f reads a Get one after another, of %.0f us each, are %.0f%% of its %.0f us: more in flight give more",
			e.ReadsPerGet, e.DeviceOneNanos/1e3, 100*min(1, e.ReadsPerGet*e.DeviceOneNanos/e.ServiceNanos), e.ServiceNanos/1e3)
	case e.Saturated && (e.DeviceMost > 0 || e.ReadsPerGet == 0):
		return Locks, fmt.Sprintf("neither the processors (%.0f%%) nor the device are busy", 100*(e.CPUShare+e.OthersShare))
	case e.DeviceMost > 0 && e.ReadsPerSecond > 0:
		return Unknown, fmt.Sprintf("neither the processors (%.0f%%) nor the disk (%.0f%% of the %.0f reads a second that it gives) are at their limit",
			100*(e.CPUShare+e.OthersShare), 100*e.ReadsPerSecond/e.DeviceMost, e.DeviceMost)
	}
	return Unknown, "the device was not measured, its measurement was not used, or its reads were not counted"
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
	for n := 1.0; n <= mostThreads; n++ {
		if u.At(n) >= throughput {
			return advised, n, true
		}
	}
	return advised, 0, false
}
