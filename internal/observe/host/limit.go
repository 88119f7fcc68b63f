//go:build linux

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/result"
)

// MeasureDisk measures what the disk gives to random reads: every number in flight
// Repeats times, all numbers in turn, so that a drift of the machine hits all
// alike and shows in the spread. tell hears of every reading.
func MeasureDisk(
	ctx context.Context, plan DiskPlan, tell func(text string),
) (d *result.Disk, err error) {
	if plan.Repeats < 1 || len(plan.InFlight) == 0 || !slices.IsSorted(plan.InFlight) {
		return nil, fmt.Errorf("the disk's limit: %d repeats of %v in flight", plan.Repeats,
			plan.InFlight)
	}

	probe, err := OpenProbe(ctx, plan.Dir)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, probe.Close()) }()
	watch := StartWatch(plan.Dir)
	d = &result.Disk{
		Started:    time.Now(),
		Dir:        plan.Dir,
		Host:       Describe(plan.Dir),
		BlockBytes: directBytes,
		AreaBytes:  probe.Bytes(),
		Seconds:    plan.Seconds,
		Repeats:    plan.Repeats,
	}

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

			if point, d.FioVersion, err = fioRead(ctx, fio, probe.Paths(), n,
				plan.Seconds); err != nil {
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
	if d.FindContradiction() != "" {
		d.Warnings = append(d.Warnings, d.Warning())
	}

	return d, nil
}

func findFio(wanted bool, paths []string) (fio, why string) {
	if !wanted {
		return "", "--fio none"
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
		p.Spread = result.Range{
			Low:  min(p.Spread.Low, r.ReadsPerSecond),
			High: max(p.Spread.High, r.ReadsPerSecond),
		}

		speeds, means, p99s = append(speeds, r.ReadsPerSecond), append(means, r.MeanNanos),
			append(p99s, float64(r.P99Nanos))
	}

	p.ReadsPerSecond, p.MeanNanos, p.P99Nanos = median(speeds), median(means), median(p99s)
	return p
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// maxFioFiles keeps fio, which opens every file once a reader, below common
// limits of open files.
const maxFioFiles = 16

// fioRead lets fio do what Probe.Read does, to the same files.
func fioRead(
	ctx context.Context, fio string, paths []string, inFlight int, seconds float64,
) (point ProbePoint, version string, err error) {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.ReplaceAll(path, ":", `\:`)
	}

	cmd := exec.CommandContext(ctx, fio, "--name=probe", "--filename="+strings.Join(names, ":"),
		"--readonly", "--rw=randread", "--bs="+strconv.Itoa(directBytes),
		"--direct=1", "--ioengine=psync", "--thread", "--numjobs="+strconv.Itoa(inFlight),
		"--group_reporting", "--norandommap", "--randrepeat=0",
		"--time_based", fmt.Sprintf("--runtime=%dms", int64(seconds*1e3)), "--output-format=json")

	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return point, "", fmt.Errorf("%s: %w: %s", fio, errors.Join(err, ctx.Err()),
			strings.TrimSpace(complaint.String()))
	}

	point, version, err = parseFio(out.Bytes())
	point.InFlight = inFlight
	return point, version, err
}

// parseFio reads fio's JSON of one group of jobs. Notes may precede it.
func parseFio(text []byte) (point ProbePoint, version string, err error) {
	var all struct {
		Version string `json:"fio version"`
		Jobs    []struct {
			Error int `json:"error"`
			Read  struct {
				IOPS    float64 `json:"iops"`
				Reads   uint64  `json:"total_ios"`
				Runtime float64 `json:"runtime"` // ms
				Latency struct {
					Mean       float64            `json:"mean"`
					Percentile map[string]float64 `json:"percentile"`
				} `json:"clat_ns"`
			} `json:"read"`
		} `json:"jobs"`
	}

	if err := json.Unmarshal(text[max(0, bytes.IndexByte(text, '{')):], &all); err != nil {
		return point, "", fmt.Errorf("understand fio: %w", err)
	}

	if len(all.Jobs) != 1 || all.Jobs[0].Error != 0 {
		return point, "", fmt.Errorf("understand fio: %d groups of jobs where there is one, or "+
			"an error", len(all.Jobs))
	}

	r := all.Jobs[0].Read
	p99 := r.Latency.Percentile["99.000000"]
	if !(r.IOPS > 0) || !(r.Latency.Mean > 0) || !(p99 > 0) || p99 > 1e18 {
		return point, "", fmt.Errorf("understand fio: %v reads/s of %v ns, p99 %v ns", r.IOPS,
			r.Latency.Mean, p99)
	}

	return ProbePoint{
		Reads:          r.Reads,
		Seconds:        r.Runtime / 1e3,
		ReadsPerSecond: r.IOPS,
		MeanNanos:      r.Latency.Mean,
		P99Nanos:       int64(p99),
	}, all.Version, nil
}
