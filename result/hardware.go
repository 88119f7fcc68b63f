package result

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HardwareSchema is the version of a profile of a disk.
const HardwareSchema = "statelab.hardware/1"

// Hardware is a class of machines, by what its disk gives to random reads of 4 KiB.
type Hardware struct {
	Schema string      `json:"schema"`
	Name   string      `json:"name"`
	Source string      `json:"source,omitempty"` // what measured it
	Points []DiskPoint `json:"points"`           // by reads in flight, 1 first
}

// maxHardwareBytes bounds a profile; fio's output of hundreds of jobs is below it.
const maxHardwareBytes = 16 << 20

// ReadHardware reads a profile: a folder or a disk.json of statelab disk, a file of
// HardwareSchema, or fio's JSON output of random reads, one job for each depth.
func ReadHardware(path string) (*Hardware, error) {
	name := strings.TrimSuffix(filepath.Base(path), ".json")
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, DiskFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxHardwareBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxHardwareBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no profile of a disk", path, maxHardwareBytes)
	}
	h, err := ParseHardware(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	h.Name = cmp.Or(h.Name, name)
	return h, nil
}

// ParseHardware reads the text of a profile; see ReadHardware.
func ParseHardware(text []byte) (*Hardware, error) {
	var form struct {
		Schema string `json:"schema"`
		Fio    string `json:"fio version"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	h := new(Hardware)
	switch {
	case form.Schema == HardwareSchema || form.Schema == DiskSchema: // their points have the same form
		if err := json.Unmarshal(text, h); err != nil {
			return nil, fmt.Errorf("not a profile: %w", err)
		}
		if form.Schema == DiskSchema {
			h.Source = "statelab disk"
		}
	case form.Fio != "":
		points, err := fioPoints(text)
		if err != nil {
			return nil, err
		}
		h.Points, h.Source = points, form.Fio
	default:
		return nil, fmt.Errorf("schema is %q: give disk.json of statelab disk, %s, or the output of fio --output-format=json", form.Schema, HardwareSchema)
	}
	h.Schema = HardwareSchema
	slices.SortStableFunc(h.Points, func(a, b DiskPoint) int { return cmp.Compare(a.InFlight, b.InFlight) })
	return h, h.check()
}

// Reads per second and nanoseconds of any disk: from a day for a read to a read in a
// thousandth of a nanosecond. What is computed from them stays a number.
const leastOfDisk, mostOfDisk = 1e-5, 1e15

// check names what is wrong with h.
func (h *Hardware) check() error {
	if len(h.Points) == 0 || h.Points[0].InFlight != 1 {
		return errors.New("the profile has no reading with one read in flight: add one (fio: iodepth=1)")
	}
	for i := range h.Points {
		p := &h.Points[i]
		sane := func(v float64) bool { return v >= leastOfDisk && v <= mostOfDisk }
		if i > 0 && p.InFlight <= h.Points[i-1].InFlight {
			return fmt.Errorf("%d reads in flight stand twice in the profile: keep one of them", p.InFlight)
		}
		if !sane(p.ReadsPerSecond) || !sane(p.MeanNanos) {
			return fmt.Errorf("with %d in flight the profile has %v reads/s of %v ns: both must be from %g to %g",
				p.InFlight, p.ReadsPerSecond, p.MeanNanos, leastOfDisk, mostOfDisk)
		}
		if !(p.Spread.High >= p.Spread.Low) || !sane(p.Spread.Low) || !sane(p.Spread.High) {
			p.Spread = Range{Low: p.ReadsPerSecond, High: p.ReadsPerSecond}
		}
	}
	return nil
}

// fioPoints are the jobs of fio's JSON output: reads in flight are iodepth x numjobs.
func fioPoints(text []byte) (points []DiskPoint, err error) {
	type options struct {
		Depth string `json:"iodepth"`
		Jobs  string `json:"numjobs"`
	}
	var out struct {
		Global options `json:"global options"`
		Jobs   []struct {
			Name    string  `json:"jobname"`
			Options options `json:"job options"`
			Read    struct {
				IOPS    float64 `json:"iops"`
				Low     float64 `json:"iops_min"`
				High    float64 `json:"iops_max"`
				Total   uint64  `json:"total_ios"`
				Latency struct {
					Mean        float64            `json:"mean"`
					Percentiles map[string]float64 `json:"percentile"`
				} `json:"clat_ns"`
				Whole struct {
					Mean float64 `json:"mean"`
				} `json:"lat_ns"`
			} `json:"read"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("not fio's JSON output: %w", err)
	}
	for _, job := range out.Jobs {
		if job.Read.Total == 0 {
			continue
		}
		number := func(own, global string) (n int, err error) {
			if _, err := fmt.Sscanf(cmp.Or(own, global, "1"), "%d", &n); err != nil || n < 1 || n > 1<<20 {
				return 0, fmt.Errorf("fio job %q: %q is not a number of reads in flight", job.Name, cmp.Or(own, global))
			}
			return n, nil
		}
		depth, err := number(job.Options.Depth, out.Global.Depth)
		if err != nil {
			return nil, err
		}
		jobs, err := number(job.Options.Jobs, out.Global.Jobs)
		if err != nil {
			return nil, err
		}
		p := DiskPoint{InFlight: depth * jobs, Reads: job.Read.Total, ReadsPerSecond: job.Read.IOPS,
			MeanNanos: cmp.Or(job.Read.Whole.Mean, job.Read.Latency.Mean), P99Nanos: job.Read.Latency.Percentiles["99.000000"]}
		// Processes of one job that are not reported as a group each have their own entry.
		if i := slices.IndexFunc(points, func(q DiskPoint) bool { return q.InFlight == p.InFlight }); i >= 0 && jobs > 1 {
			points[i].ReadsPerSecond, points[i].Reads = points[i].ReadsPerSecond+p.ReadsPerSecond, points[i].Reads+p.Reads
			continue
		}
		points = append(points, p)
	}
	return points, nil
}
