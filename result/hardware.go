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
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result/figure"
)

// Hardware is a class of machines, by what its disk gives to random reads of 4 KiB.
type Hardware struct {
	Schema string      `json:"schema"`
	Name   string      `json:"name"`
	Source string      `json:"source,omitempty"` // what measured it
	Points []DiskPoint `json:"points"`           // by reads in flight, 1 first
	// NotChecked are sentences on what the output of another program cannot show of its
	// completeness.
	NotChecked []string `json:"not_checked,omitempty"`
}

// Warnings are what could not be checked of a profile.
func (h *Hardware) Warnings() (warnings []engine.Warning) {
	for _, sentence := range h.NotChecked {
		warnings = append(warnings, engine.Warning{Code: "not_checked",
			Text: fmt.Sprintf("not checked of the disk %s: %s", h.Name, sentence)})
	}
	return warnings
}

// maxHardwareBytes bounds a profile; fio's output of hundreds of jobs is below it.
const maxHardwareBytes = 16 << 20

// ReadHardware reads a profile: a folder or a disk.json of statelab disk, a file of
// schema.Hardware, or fio's JSON output of random reads, one job for each depth.
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
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no profile of a disk", path,
			maxHardwareBytes)
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

		BlockBytes int `json:"block_bytes"`
	}

	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}

	const blockBytes = 4096 // of the reads that predictions and prices are made of
	if form.BlockBytes != 0 && form.BlockBytes != blockBytes {
		return nil, fmt.Errorf("its reads are of %d bytes, not of 4 KiB", form.BlockBytes)
	}

	h := new(Hardware)
	switch {
	case form.Schema == schema.Hardware ||
		form.Schema == schema.Disk: // their points have the same form
		if err := json.Unmarshal(text, h); err != nil {
			return nil, fmt.Errorf("not a profile: %w", err)
		}
		if form.Schema == schema.Disk {
			h.Source = "statelab disk"
		}
	case form.Fio != "":
		points, notChecked, err := fioPoints(text)
		if err != nil {
			return nil, err
		}
		h.Points, h.Source, h.NotChecked = points, form.Fio, notChecked
	default:
		return nil, fmt.Errorf("schema is %q: give disk.json of statelab disk, %s, or the output "+
			"of fio --output-format=json", form.Schema, schema.Hardware)
	}

	h.Schema = schema.Hardware
	slices.SortStableFunc(h.Points, func(a, b DiskPoint) int {
		return cmp.Compare(a.InFlight, b.InFlight)
	})
	return h, h.check()
}

// Reads per second and nanoseconds of any disk: from a day for a read to a read in a
// thousandth of a nanosecond. What is computed from them stays a number.
const minOfDisk, maxOfDisk = 1e-5, 1e15

// check names what is wrong with h.
func (h *Hardware) check() error {
	if len(h.Points) == 0 || h.Points[0].InFlight != 1 {
		return errors.New("the profile has no reading with one read in flight: add one (fio: " +
			"iodepth=1)")
	}

	for i := range h.Points {
		p := &h.Points[i]
		sane := func(v float64) bool { return v >= minOfDisk && v <= maxOfDisk }
		if i > 0 && p.InFlight <= h.Points[i-1].InFlight {
			return fmt.Errorf("%d reads in flight stand twice in the profile: keep one of them",
				p.InFlight)
		}

		if !sane(p.ReadsPerSecond) || !sane(p.MeanNanos) {
			return fmt.Errorf("with %d in flight the profile has %v reads/s of %v ns: both must "+
				"be from %g to %g",
				p.InFlight, p.ReadsPerSecond, p.MeanNanos, minOfDisk, maxOfDisk)
		}

		if !(p.Spread.High >= p.Spread.Low) || !sane(p.Spread.Low) || !sane(p.Spread.High) {
			p.Spread = Range{Low: p.ReadsPerSecond, High: p.ReadsPerSecond}
		}
	}

	return nil
}

// fioJob is an entry of fio's JSON output: a process, or the group of processes of a job.
type fioJob struct {
	Name    string            `json:"jobname"`
	Group   *int              `json:"groupid"` // jobs of one run at the same time
	Error   int               `json:"error"`
	Options map[string]string `json:"job options"`
	Read    struct {
		IOPS  float64    `json:"iops"`
		Total uint64     `json:"total_ios"`
		Clat  fioLatency `json:"clat_ns"`
		Lat   fioLatency `json:"lat_ns"`
		// fio 2 gives microseconds.
		MicroClat fioLatency `json:"clat"`
		MicroLat  fioLatency `json:"lat"`
	} `json:"read"`
}

type fioLatency struct {
	Mean        float64            `json:"mean"`
	Percentiles map[string]float64 `json:"percentile"`
}

// fioPoints are the jobs of fio's JSON output: reads in flight are iodepth x numjobs, of all jobs
// that ran at the same time. What is no random read of 4 KiB at full speed is refused.
func fioPoints(text []byte) (points []DiskPoint, notChecked []string, err error) {
	var out struct {
		Global map[string]string `json:"global options"`
		Jobs   []fioJob          `json:"jobs"`
	}

	if err := json.Unmarshal(text, &out); err != nil {
		return nil, nil, fmt.Errorf("not fio's JSON output: %w", err)
	}

	if notChecked, err = checkGroups(out.Jobs); err != nil {
		return nil, nil, err
	}

	entries, readers := map[string]int{}, map[string]int{} // of a job, of a group
	for _, job := range out.Jobs {
		entries[job.group()+job.Name]++
		if job.Read.Total > 0 {
			readers[job.group()]++
		}
	}

	groups := map[string]int{} // index in points
	for _, job := range out.Jobs {
		if job.Read.Total == 0 && readers[job.group()] == 0 {
			continue // it wrote, while nothing was read
		}

		option := func(fallback string, names ...string) string {
			for _, from := range []map[string]string{job.Options, out.Global} {
				for _, name := range names {
					if value, given := from[name]; given {
						return value
					}
				}
			}

			return fallback
		}

		p, processes, err := job.point(option)
		if err != nil {
			return nil, nil, fmt.Errorf("fio job %q: %w", job.Name, err)
		}

		switch n := entries[job.group()+job.Name]; {
		case n == processes: // an entry for each
		case n == 1: // the entry is of all of them
			p.InFlight *= processes
			if option("no", "group_reporting") == "no" {
				notChecked = append(notChecked, fmt.Sprintf("job %q has one entry for numjobs=%d, "+
					"which is taken to be of all of them, though group_reporting is not among its "+
					"options: entries that are missing cannot be seen", job.Name, processes))
			}
		default:
			return nil, nil, fmt.Errorf("fio job %q has %d entries, and numjobs=%d: entries are "+
				"missing, or there twice; take the file as fio wrote it, or run fio again",
				job.Name, n, processes)
		}

		i, together := groups[job.group()]
		if !together {
			groups[job.group()] = len(points)
			points = append(points, p)
			continue
		}

		q := &points[i]
		q.MeanNanos = (q.MeanNanos*float64(q.Reads) + p.MeanNanos*float64(p.Reads)) / float64(
			q.Reads+p.Reads,
		)
		q.InFlight, q.Reads, q.ReadsPerSecond, q.P99Nanos = q.InFlight+p.InFlight, q.Reads+p.Reads,
			q.ReadsPerSecond+p.ReadsPerSecond, max(q.P99Nanos, p.P99Nanos)
	}

	return points, notChecked, nil
}

// checkGroups refuses jobs whose groups are not numbered one after the other, as fio numbers and
// writes them.
func checkGroups(jobs []fioJob) (notChecked []string, err error) {
	next := 0 // group
	for _, job := range jobs {
		if job.Group == nil {
			return []string{"the file was shortened: its jobs have no numbers of groups " +
				"(groupid), so jobs that are missing cannot be seen"}, nil
		}

		switch *job.Group {
		case next - 1: // at the same time
		case next:
			next++
		default:
			return nil, fmt.Errorf("fio job %q is of group %d, where group %d belongs: jobs are "+
				"missing, there twice or have changed places; take the file as fio wrote it, or "+
				"run fio again", job.Name, *job.Group, next)
		}
	}

	return []string{"fio's output does not say how many jobs there were: jobs that are missing " +
		"at its end cannot be seen"}, nil
}

// group tells jobs that ran at the same time from others.
func (j *fioJob) group() string {
	if j.Group == nil { // the file was shortened
		return j.Name
	}
	return fmt.Sprint(*j.Group, " ")
}

// point is what a job measured with its own reads in flight, and how many processes its options ask
// for.
func (j *fioJob) point(
	option func(fallback string, names ...string) string,
) (p DiskPoint, processes int, err error) {
	number := func(name string) (n int) {
		text := option("1", name)
		if _, scanErr := fmt.Sscanf(text, "%d", &n); scanErr != nil || n < 1 || n > 1<<20 {
			err = fmt.Errorf("%s=%s: %q is not a number of reads in flight", name, text, text)
		}
		return n
	}

	depth := number("iodepth")
	if processes = number("numjobs"); err != nil {
		return p, 0, err
	}

	const again = "; run it again with --rw=randread --bs=4k --direct=1"
	switch {
	case j.Error != 0:
		return p, 0, fmt.Errorf("it failed with error %d", j.Error)
	case option("read", "rw", "readwrite") != "randread":
		return p, 0, fmt.Errorf("rw=%s: not random reads%s", option("read", "rw", "readwrite"),
			again)
	case !fourKiB(option("4k", "bs", "blocksize")):
		return p, 0, fmt.Errorf("bs=%s: not reads of 4 KiB%s", option("4k", "bs", "blocksize"),
			again)
	case j.Read.Total == 0:
		return p, 0, errors.New("it read nothing, while others of its group did: run them one " +
			"after the other (--stonewall)")
	}

	for _, limit := range []string{"rate", "rate_iops", "thinktime"} {
		if value := option("", limit); value != "" {
			return p, 0, fmt.Errorf("%s=%s: the disk was not read at full speed%s, without %s",
				limit, value, again, limit)
		}
	}

	r := j.Read
	p = DiskPoint{InFlight: depth, Reads: r.Total, ReadsPerSecond: r.IOPS,
		MeanNanos: cmp.Or(r.Lat.Mean, r.Clat.Mean, 1e3*r.MicroLat.Mean, 1e3*r.MicroClat.Mean)}
	p.P99Nanos = cmp.Or(r.Clat.Percentiles["99.000000"], 1e3*r.MicroClat.Percentiles["99.000000"])
	return p, processes, nil
}

// fourKiB reports whether a block size of fio's is 4096 bytes; the first of several is that of
// reads.
func fourKiB(size string) bool {
	size, _, _ = strings.Cut(strings.ToLower(size), ",")
	return slices.Contains([]string{"4k", "4kb", "4ki", "4kib", "4096", "4096b"}, size)
}

// PriceFile is in the folder of a price table.
const PriceFile = "price.json"

// Estimate is a figure with the range that it may be in.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Price is price.json: what accesses to state cost in gas, by a formula from the
// figures that stand in the same row.
type Price struct {
	Schema string `json:"schema"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	FailureInfo
	Started      time.Time        `json:"started"`
	Command      []string         `json:"command"`
	Host         Host             `json:"host"`
	GasPerSecond float64          `json:"gas_per_second"`
	Formula      []string         `json:"formula"`
	Parameters   []PriceParameter `json:"parameters"`
	Hardware     []Hardware       `json:"hardware"`
	Rows         []PriceRow       `json:"rows"`
	// Layouts are the folders of the comparisons that were priced, Seeds those of their builds.
	Layouts  []string         `json:"layouts"`
	Seeds    []uint64         `json:"seeds,omitempty"`
	Warnings []engine.Warning `json:"warnings"`
}

// PriceParameter is a gas price of the protocol.
type PriceParameter struct {
	Name     string  `json:"name"`
	Today    float64 `json:"today_gas"`
	Proposed float64 `json:"proposed_gas"`
	About    string  `json:"about"`
}

// PriceRow is what one access costs: of a layout at a size, on a class of hardware, with
// caches in one condition.
type PriceRow struct {
	Parameter     string `json:"parameter"`
	Absent        bool   `json:"absent,omitempty"` // what is accessed does not exist
	Layout        string `json:"layout"`
	Accounts      uint64 `json:"accounts"`
	ContractSlots uint64 `json:"contract_slots"`
	// of all contracts together, whose sizes are divided as on the main network; then there is
	// no large one
	SpreadSlots uint64 `json:"spread_slots,omitempty"`
	Condition   string `json:"condition"` // of Lookups; of writes: held
	// of a prediction with memory held
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Hardware    string `json:"hardware"`

	Predicted bool   `json:"predicted,omitempty"` // a size that was not built
	Basis     string `json:"basis"`
	// of a measured row: how many builds it is the mean of; 0: an older version did not tell
	Builds int `json:"builds,omitempty"`
	// relative, of a prediction of a size that was built
	TestedError figure.Value `json:"tested_error,omitzero"`

	Accesses figure.Value `json:"accesses,omitzero"` // nodes, else pages
	Reads    Estimate     `json:"reads"`
	ReadUnit string       `json:"read_unit"`
	Bytes    figure.Value `json:"device_bytes,omitzero"`
	// of what the blocks of an access list touch, or write, of an account or a slot
	Share      figure.Value `json:"share,omitzero"`
	CPUNanos   figure.Value `json:"cpu_ns,omitzero"`
	CPUError   figure.Value `json:"cpu_error,omitzero"` // relative, of a prediction
	QueueDepth int          `json:"queue_depth"`

	// Times and prices have CPUNanos in them: without it, they are not there.
	AloneNanos  Estimate `json:"alone_ns,omitzero"`
	QueuedNanos Estimate `json:"queued_ns,omitzero"`
	AloneGas    Estimate `json:"alone_gas,omitzero"`
	QueuedGas   Estimate `json:"queued_gas,omitzero"`
	// the larger part of the time at the queue depth
	Binds string `json:"binds,omitempty"`
}

// IsPriced tells whether the row has times and prices.
func (r PriceRow) IsPriced() bool { return r.CPUNanos.IsKnown() }

// derivedPrice begins the basis of a row that follows from others, which may take no CPU time more
// than they do.
const derivedPrice = "= "

// DerivedBasis is the basis of a row that follows from others.
func DerivedBasis(how string) string { return derivedPrice + how }

// storedPrice is a row in price.json: the reason why it has no CPU time is beside it.
type storedPrice struct {
	*plainPrice
	Unavailable map[string]string `json:"unavailable,omitempty"`
}

type plainPrice PriceRow

// cpuMember is the name of CPUNanos.
const cpuMember = "cpu_ns"

// MarshalJSON writes the row, and the reason of a CPU time that is not there.
func (r PriceRow) MarshalJSON() ([]byte, error) {
	s := storedPrice{plainPrice: (*plainPrice)(&r)}
	if !r.IsPriced() {
		s.Unavailable = map[string]string{cpuMember: r.CPUNanos.Reason()}
	}

	return json.Marshal(s)
}

// UnmarshalJSON reads a row of any version. Versions before 0.3 stored a CPU time of 0 where the
// layouts that were priced had none, and prices without it.
func (r *PriceRow) UnmarshalJSON(text []byte) error {
	s := storedPrice{plainPrice: (*plainPrice)(r)}
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}

	cpu, known := r.CPUNanos.Number()
	if known && (cpu != 0 || strings.HasPrefix(r.Basis, derivedPrice)) {
		return nil
	}

	r.CPUNanos = figure.Unavailable(s.Unavailable[cpuMember])
	r.AloneNanos, r.QueuedNanos, r.AloneGas, r.QueuedGas, r.Binds = Estimate{}, Estimate{},
		Estimate{}, Estimate{}, ""

	return nil
}

// WritePrice writes price.json into dir, whole or not at all.
func WritePrice(dir string, p *Price) error {
	return write(filepath.Join(dir, PriceFile), p, &p.Schema, schema.Price, &p.Warnings)
}

// ReadPrice reads dir/price.json.
func ReadPrice(dir string) (*Price, error) {
	return output.ReadJSON(filepath.Join(dir, PriceFile), schema.Price,
		func(v *Price) string { return v.Schema })
}
