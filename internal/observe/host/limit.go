//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"time"

	"github.com/statelab/statelab/result"
)

// Limit measures what the disk gives to random reads: every number in flight
// Repeats times, all numbers in turn, so that a drift of the machine hits all
// alike and shows in the spread. tell hears of every reading.
func Limit(ctx context.Context, plan LimitPlan, tell func(text string)) (d *result.Disk, err error) {
	if plan.Repeats < 1 || len(plan.InFlight) == 0 || !slices.IsSorted(plan.InFlight) {
		return nil, fmt.Errorf("the disk's limit: %d repeats of %v in flight", plan.Repeats, plan.InFlight)
	}
	probe, err := OpenProbe(ctx, plan.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, probe.Close()) }()
	watch := StartWatch(plan.Dir)
	d = &result.Disk{Started: time.Now(), Dir: plan.Dir, Host: Facts(plan.Dir), BlockBytes: directBytes, AreaBytes: probe.Bytes(), Seconds: plan.Seconds,
		Repeats: plan.Repeats}
	fio, why := findFio(plan.Fio, probe.Paths())
	d.FioAbsent = why
	ours, theirs := map[int][]ProbePoint{}, map[int][]ProbePoint{}
	for repeat := range plan.Repeats {
		for _, n := range plan.InFlight {
			tell(fmt.Sprintf("disk: %d in flight, repeat %d of %d", n, repeat+1, plan.Repeats))
			point, err := probe.Read(ctx, n, plan.Seconds)
			if err != nil {
				return nil, fmt.Errorf("probe the disk of %s: %w", plan.Dir, err)
			}
			ours[n] = append(ours[n], point)
			if fio == "" {
				continue
			}
			if point, d.FioVersion, err = fioRead(ctx, fio, probe.Paths(), n, plan.Seconds); err != nil {
				return nil, fmt.Errorf("probe the disk of %s: %w", plan.Dir, err)
			}
			theirs[n] = append(theirs[n], point)
		}
	}
	for _, n := range plan.InFlight {
		d.Points = append(d.Points, limitOf(n, ours[n]))
		if fio != "" {
			d.Fio = append(d.Fio, limitOf(n, theirs[n]))
		}
	}
	allocation, err := Allocations()
	if err != nil {
		return nil, err
	}
	d.Allocation = &allocation
	d.Machine, d.Warnings = watch.Stop()
	if d.Judge() != "" {
		d.Warnings = append(d.Warnings, d.Warning())
	}
	return d, nil
}

func findFio(wanted bool, paths []string) (fio, why string) {
	if !wanted {
		return "", "--with none"
	}
	fio, err := exec.LookPath("fio")
	if err != nil {
		return "", "fio is not on PATH"
	}
	if len(paths) > maxFioFiles {
		return "", fmt.Sprintf("%d files are read: fio would open each once a reader", len(paths))
	}
	return fio, ""
}

func limitOf(inFlight int, repeats []ProbePoint) result.DiskPoint {
	p := result.DiskPoint{InFlight: inFlight, Spread: result.Range{Low: math.Inf(1)}}
	var speeds, means, p99s []float64
	for _, r := range repeats {
		p.Reads += r.Reads
		p.Spread = result.Range{Low: min(p.Spread.Low, r.ReadsPerSecond), High: max(p.Spread.High, r.ReadsPerSecond)}
		speeds, means, p99s = append(speeds, r.ReadsPerSecond), append(means, r.MeanNanos), append(p99s, float64(r.P99Nanos))
	}
	p.ReadsPerSecond, p.MeanNanos, p.P99Nanos = median(speeds), median(means), median(p99s)
	return p
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
