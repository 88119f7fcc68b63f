package engines

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Disk is a folder that holds a disk's own limit.
type Disk struct {
	*result.Disk
	// Verdict says what of the node that reads this disk is not known; "": no node is known.
	Verdict string `json:"verdict,omitempty"`
}

// ReadDisk reads a folder that holds disk.json.
func ReadDisk(dir string) (Disk, error) {
	d, err := result.ReadDisk(dir)
	return Disk{Disk: d}, err
}

// answer is what the disk gives at its best.
func (d Disk) answer() string {
	if len(d.Points) == 0 {
		return "Nothing was measured."
	}

	best := slices.MaxFunc(d.Points, func(a, b result.DiskPoint) int {
		return cmp.Compare(a.ReadsPerSecond, b.ReadsPerSecond)
	})
	text := fmt.Sprintf("%s reads/s of 4 KiB with %d in flight (%s to %s over its repeats), mean "+
		"%s. One read at a time takes %s.",
		doc.ShortCount(best.ReadsPerSecond), best.InFlight, doc.ShortCount(best.Spread.Low),
		doc.ShortCount(best.Spread.High),
		doc.Nanos(best.MeanNanos), doc.Nanos(d.Points[0].MeanNanos))

	if d.Contradicted != "" {
		text += " The readings differ too much to call that the disk's limit."
	}

	return text
}

// allocation says what a buffer for a read costs; "" if that was not measured.
func (d Disk) allocation() string {
	a := d.Allocation
	if a == nil {
		return ""
	}

	return fmt.Sprintf("An engine also needs a buffer for what it reads. To get one of %s takes "+
		"%s if it is reused, %s from Go's heap, and %s if it is mapped, as C's malloc maps it (%s "+
		"with all its pages touched).",
		doc.ShortBytes(int64(a.Bytes)), doc.Nanos(a.ReusedNanos), doc.Nanos(a.HeapNanos),
		doc.Nanos(a.MappedNanos), doc.Nanos(a.TouchedNanos))
}

// besideFio tells whether fio's readings differ by more than each of the two differs from itself.
func (d Disk) besideFio() string {
	if d.Fio == nil {
		return "Not compared with fio: " + d.FioAbsent + "."
	}

	apart, maximum := 0, 0.0
	for i, p := range d.Points {
		if p.Spread.High < d.Fio[i].Spread.Low || d.Fio[i].Spread.High < p.Spread.Low {
			apart++
		}
		maximum = max(maximum, math.Abs(p.ReadsPerSecond/d.Fio[i].ReadsPerSecond-1))
	}

	text := fmt.Sprintf("%s: medians at most %s apart; ", d.FioVersion, doc.Percent(100*maximum))
	switch {
	case d.Repeats < 2:
		return text + "one reading each cannot tell whether that is noise: --repeats 3"
	case apart == 0:
		return text + "agrees with ours within the noise of both at all points"
	}

	return text + fmt.Sprintf("the ranges of both are apart at %d of %d points", apart,
		len(d.Points))
}

// ceilingTable is the disk's own account, with fio's where it was measured.
func ceilingTable(d *result.Disk) doc.Table {
	type row = result.DiskPoint
	inFlight := doc.Figure("in flight", "", doc.Digits, func(r row) float64 {
		return float64(r.InFlight)
	})
	inFlight.Key = true
	return doc.TableOf(d.Points, nil, inFlight,
		doc.Figure("reads", "per s", nil, func(r row) float64 { return r.ReadsPerSecond }),
		doc.Figure("lowest repeat", "per s", nil, func(r row) float64 { return r.Spread.Low }),
		doc.Figure("highest repeat", "per s", nil, func(r row) float64 { return r.Spread.High }),
		doc.Figure("mean", "", nil, func(r row) float64 { return r.MeanNanos }).In(doc.Micros),
		doc.Figure("p99", "", nil, func(r row) float64 { return r.P99Nanos }).In(doc.Micros),
		// a column without values is left out
		doc.Optional("fio", "per s", nil, func(r row) *float64 {
			at := slices.IndexFunc(d.Fio, func(f row) bool { return f.InFlight == r.InFlight })
			if at < 0 {
				return nil
			}
			return &d.Fio[at].ReadsPerSecond
		}))
}

// Document says what the disk gives, how that was measured, and what fio says.
func (d Disk) Document() *doc.Document {
	p := &doc.Document{
		Title:    "Statelab: a disk's own limit",
		Answers:  doc.Statements("", d.answer()),
		Warnings: doc.Detailed(doc.WarningsOf(d.Warnings)),
	}

	p.Cards = []doc.Card{{
		Name: "measured",
		Facts: [][2]string{
			{"folder", d.Dir},
			{"area", doc.ShortBytes(d.AreaBytes)},
			{"repeats of a point", unit.Count(d.Repeats)},
			{"seconds of a repeat", fmt.Sprintf("%g", d.Seconds)},
		},
		Brief: fmt.Sprintf("%s, %s read at random, 4 KiB, O_DIRECT; %d x %g s a point", d.Dir,
			doc.ShortBytes(d.AreaBytes), d.Repeats, d.Seconds),
	}}

	chart, panel := doc.OnePanel("random reads per second by reads in flight",
		doc.Decades("reads in flight", doc.AsCount),
		doc.Axis{Label: "reads per second", Kind: doc.Logs, Format: doc.AsCount})
	xys := doc.Each(d.Points, func(at result.DiskPoint) doc.XY {
		return doc.XY{X: float64(at.InFlight), Y: at.ReadsPerSecond}
	})
	panel.Line("", xys, doc.CurveStyle(0))
	p.Add("Measured", doc.Block{
		Title:  "Random reads",
		Note:   "4 KiB with O_DIRECT, without an engine: " + d.Dir + ".",
		Method: "disks.md",
		Chart:  chart.OrNil(),
		Table:  ceilingTable(d.Disk),
		Texts:  doc.Without([]string{d.allocation(), d.besideFio(), d.Verdict}),
	})

	p.Add(
		"Run it again",
		doc.Block{Title: "Command", Pre: doc.Shell(d.Command), Detail: true},
		doc.Block{Title: "Host", Table: hostTable(d.Host), Folded: true},
	)

	return p
}

// fewestReads is the least number of device reads per Get with which the device
// says anything about Gets.
const fewestReads = 0.01

// limit is what the disk leaves to a point.
type limit struct {
	disk           result.DiskPoint
	getsPerSecond  float64 // the disk's reads a second / device reads per Get
	share          float64 // reached of it
	nanosPerGet    float64 // the mean Get is no shorter: in flight / getsPerSecond
	beyondMeasured bool    // more in flight than the disk was measured with
}

// limitOf is known where reads reach the device and were counted there.
func (s *Sweep) limitOf(p Point) (l limit, ok bool) {
	reads := p.Figures.Pointer(figure.DeviceReadsPerGet)
	if s.Disk == nil || s.Disk.Contradicted != "" || reads == nil || *reads < fewestReads ||
		p.Status != result.OK {
		return l, false
	}

	inFlight := p.threads() // each has one Get, and that at most one read, under way
	if l.disk, ok = s.Disk.At(float64(inFlight)); !ok {
		return l, false
	}

	l.beyondMeasured = inFlight > s.Disk.Points[len(s.Disk.Points)-1].InFlight
	l.getsPerSecond = l.disk.ReadsPerSecond / *reads
	l.share = p.Figures.OrZero(figure.GetsPerSecond) / l.getsPerSecond
	l.nanosPerGet = 1e9 * float64(inFlight) / l.getsPerSecond
	return l, !math.IsNaN(l.share) && !math.IsInf(l.share, 0) && l.getsPerSecond < 1e15
}

func (p Point) threads() int {
	if n, err := strconv.Atoi(p.Axes["threads"]); err == nil {
		return n
	}
	if p.Run != nil {
		return p.Run.Workload.Threads
	}
	return 0
}

// ceilingSentence says which part of the disk's limit is reached at the last stop.
func (c curve) ceilingSentence() string {
	stops := c.stops()
	var parts []string
	var at limit
	for _, p := range c.at(stops[len(stops)-1]) {
		l, ok := c.sweep.limitOf(p)
		if !ok {
			continue
		}

		parts, at = append(parts, strings.TrimSpace(c.sweep.entrant(p)+" "+sharePercent(l.share))),
			l
	}

	if len(parts) == 0 {
		return ""
	}

	more := ""
	if at.beyondMeasured {
		more = " or more"
	}

	noise := fmt.Sprintf("%s reads/s, %s to %s over its repeats",
		doc.ShortCount(at.disk.ReadsPerSecond), doc.ShortCount(at.disk.Spread.Low),
		doc.ShortCount(at.disk.Spread.High))
	gives := fmt.Sprintf("of this disk's limit at %d%s in flight (%s)", at.disk.InFlight, more,
		noise)
	if c.comparesEngines() {
		return doc.Upper(gives) + ": " + strings.Join(parts, ", ") + "."
	}

	return "Your engine reaches " + parts[0] + " " + gives + "."
}

// sharePercent prints a share that is known to a few percent.
func sharePercent(share float64) string {
	if share < 0.01 {
		return "< 1%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
