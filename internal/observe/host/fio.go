//go:build linux

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// maxFioFiles keeps fio, which opens every file once a reader, below common
// limits of open files.
const maxFioFiles = 16

// fioRead lets fio do what Probe.Read does, to the same files.
func fioRead(ctx context.Context, fio string, paths []string, inFlight int, seconds float64) (point ProbePoint, version string, err error) {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.ReplaceAll(path, ":", `\:`)
	}
	cmd := exec.CommandContext(ctx, fio, "--name=probe", "--filename="+strings.Join(names, ":"), "--readonly", "--rw=randread", "--bs="+strconv.Itoa(directBytes),
		"--direct=1", "--ioengine=psync", "--thread", "--numjobs="+strconv.Itoa(inFlight), "--group_reporting", "--norandommap", "--randrepeat=0",
		"--time_based", fmt.Sprintf("--runtime=%dms", int64(seconds*1e3)), "--output-format=json")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return point, "", fmt.Errorf("%s: %w: %s", fio, errors.Join(err, ctx.Err()), strings.TrimSpace(complaint.String()))
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
		return point, "", fmt.Errorf("understand fio: %d groups of jobs where there is one, or an error", len(all.Jobs))
	}
	r := all.Jobs[0].Read
	p99 := r.Latency.Percentile["99.000000"]
	if !(r.IOPS > 0) || !(r.Latency.Mean > 0) || !(p99 > 0) || p99 > 1e18 {
		return point, "", fmt.Errorf("understand fio: %v reads/s of %v ns, p99 %v ns", r.IOPS, r.Latency.Mean, p99)
	}
	return ProbePoint{Reads: r.Reads, Seconds: r.Runtime / 1e3, ReadsPerSecond: r.IOPS, MeanNanos: r.Latency.Mean, P99Nanos: int64(p99)}, all.Version, nil
}
