package watched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// mapped reports whether the process maps its database, so that page faults are what is seen of it.
func (w Watched) mapped() bool { return w.Faults != nil }

// faults sums up the page faults on the database.
func (w Watched) faults() (sum result.WatchedFaults) {
	for _, f := range w.Faults {
		sum.Major, sum.Minor = sum.Major+f.Major, sum.Minor+f.Minor
		sum.MajorRate, sum.MinorRate, sum.DeviceBytes = sum.MajorRate+f.MajorRate,
			sum.MinorRate+f.MinorRate, sum.DeviceBytes+f.DeviceBytes
	}
	return sum
}

func (w Watched) mappedAnswer(program string) string {
	all := w.faults()
	text := fmt.Sprintf("%s (pid %d) read %s pages a second of its database that were not in the "+
		"page cache (major page faults)", program, w.Process.PID,
		doc.ShortCount(all.MajorRate))
	if all.Major == 0 {
		text = fmt.Sprintf("%s (pid %d) found every page of its database in the page cache: it "+
			"had no major page fault in %s s", program, w.Process.PID,
			unit.Significant(w.Watched, 2))
	} else if w.FaultNanos != nil {
		text += fmt.Sprintf("; half of these took less than %s, 1%% more than %s",
			doc.ShortNanos(w.FaultNanos.P50),
			doc.ShortNanos(w.FaultNanos.P99))
	}

	verdict := w.memoryVerdict()

	return strings.Join(doc.Without([]string{verdict.Sentence, text + ".", w.mappedGets(),
		w.memories(verdict), w.memoryLimit()}), " ")
}

// mappedGets sums up the Gets, if they are seen.
func (w Watched) mappedGets() string {
	if !w.Has(figure.GetsPerSecond) {
		return ""
	}

	if w.Gets == 0 || w.ServiceNanos == nil {
		return fmt.Sprintf("It made no Get in the %s s in which they were watched.",
			unit.Significant(w.GetsSeconds, 2))
	}

	most := ""
	if len(w.TableGets) > 1 {
		t := w.TableGets[0]
		most = fmt.Sprintf(", %s of them of %s", doc.Percent(100*float64(t.Gets)/
			float64(w.Found+w.Missing+w.Failed)), t.Table)
	}

	text := fmt.Sprintf("It made %s Gets a second%s; %s found nothing; half took less than %s, "+
		"1%% more than %s.", doc.ShortCount(w.OrZero(figure.GetsPerSecond)), most,
		doc.Percent(100*w.Absent), doc.ShortNanos(w.ServiceNanos.P50),
		doc.ShortNanos(w.ServiceNanos.P99))
	if pages, known := w.Value(figure.BlockAccessesPerGet).Number(); known {
		text += fmt.Sprintf(" A Get goes through %s pages of its tables.", doc.PerGet(pages))
	}

	return text
}

// getTable is what is asked of each table.
func (w Watched) getTable() doc.Table {
	return doc.TableOf(w.TableGets, nil,
		doc.Words("table", func(g result.WatchedTableGets) string { return g.Table }),
		doc.Figure("Gets", "per s", doc.ShortCount, func(g result.WatchedTableGets) float64 {
			return float64(g.Gets) / w.GetsSeconds
		}),
		doc.Figure("absent", "%", nil, func(g result.WatchedTableGets) float64 {
			return 100 * g.Absent
		}),
		doc.Optional("pages", "/Get", nil, func(g result.WatchedTableGets) *float64 {
			return g.PagesPerGet
		}),
		doc.Figure("p50", "", nil, func(g result.WatchedTableGets) float64 {
			return float64(g.P50)
		}).In(doc.Micros),
		doc.Figure("p99", "", nil, func(g result.WatchedTableGets) float64 {
			return float64(g.P99)
		}).In(doc.Micros))
}

// memoryVerdict judges the page faults that were seen.
func (w Watched) memoryVerdict() advice.Verdict {
	e := advice.MemoryEvidence{
		Program:  cmp.Or(w.Process.Name, w.Process.Program),
		Waiting:  figure.Unavailable("the kernel does not tell when a page fault began"),
		DiskBusy: w.Value(figure.DeviceBusy),
		OwnReads: w.ownReads(),
	}

	if all := w.faults(); all.Major == 0 {
		e.Waiting = figure.Known(0)
	} else if w.FaultNanos != nil {
		e.Waiting = figure.Known(w.FaultNanos.Mean * all.MajorRate / 1e9)
	}

	if o := w.OtherMemory; o != nil {
		e.Present = advice.MemoryReads{MemoryBytes: o.Bytes, PerSecond: o.PagesPerSecond,
			Least: o.PagesPerSecond, Most: o.PagesPerSecond}
		for _, s := range o.Sizes {
			e.Others = append(e.Others, advice.MemoryReads{MemoryBytes: s.Bytes,
				PerSecond: s.PagesPerSecond, Least: s.Low, Most: s.High})
		}
	}

	return advice.JudgeMemory(e)
}

// memories are the next smaller amount of memory that was predicted, and the larger one that is
// worth having, with where to set it, or else the next one.
func (w Watched) memories(v advice.Verdict) string {
	o := w.OtherMemory
	if o == nil {
		return ""
	}

	var larger, smaller string
	for _, s := range o.Sizes {
		words := fmt.Sprintf("%s pages a second with %s", pagesWithin(s),
			doc.ShortBytes(s.Bytes))
		switch {
		case s.Bytes < o.Bytes:
			smaller = words
		case larger == "" && (v.Memory == nil || v.Memory.MemoryBytes == s.Bytes):
			larger = words
		}
	}

	limit := "The limit of its memory is " + doc.ShortBytes(o.Bytes)
	if o.Group == "" {
		limit = "The machine has " + doc.ShortBytes(o.Bytes) + " of memory"
	}

	text := fmt.Sprintf("%s; for the same accesses it would read %s.", limit,
		strings.Join(doc.Without([]string{larger, smaller}), ", and "))
	if v.Memory != nil {
		text += " " + advice.SetMemory(o.Group, v.Memory.MemoryBytes)
	}

	return text
}

// pagesWithin is a predicted number of pages a second, with its range.
func pagesWithin(s result.WatchedMemoryReads) string {
	if doc.ShortCount(s.Low) == doc.ShortCount(s.High) {
		return doc.ShortCount(s.PagesPerSecond)
	}
	return fmt.Sprintf("%s (%s to %s)", doc.ShortCount(s.PagesPerSecond), doc.ShortCount(s.Low),
		doc.ShortCount(s.High))
}

// nearLimit is the share of a memory limit above which the kernel takes pages away again.
const nearLimit = 0.95

// memoryLimit says that the process is at the limit of its memory, where what more of it would
// bring is not known; "" if it is not known to be.
func (w Watched) memoryLimit() string {
	m := w.Process.Memory
	if w.OtherMemory != nil || m == nil || m.LimitBytes == 0 ||
		float64(m.UsedBytes) < nearLimit*float64(m.LimitBytes) || w.faults().Major == 0 {
		return ""
	}

	return fmt.Sprintf("The process is at the limit of its control group %s: %s. What another "+
		"limit would bring is not known: %s.", m.Group, doc.ShortBytes(m.LimitBytes),
		cmp.Or(w.Why["other_memory"], "it was not looked for"))
}

// unseen tells what page faults leave open.
func (w Watched) unseen() string {
	text := "An access to a page that is in memory is not seen. So neither the Gets nor their " +
		"hit rate are known."
	if w.Has(figure.GetsPerSecond) {
		text = "An access to a page that is in memory is not seen, so the hit rate of the Gets " +
			"is not known."
	}

	unknown := 0.0
	for _, f := range w.Faults {
		if f.Unknown {
			unknown += f.MajorRate + f.MinorRate
		}
	}

	if all := w.faults(); unknown > 0 {
		text += fmt.Sprintf(" The table is not known of %s of the page faults: no table leads to "+
			"the page by its keys now, or there was no time to look.",
			doc.Percent(100*unknown/(all.MajorRate+all.MinorRate)))
	}

	return text
}

// ownReads are the share of the disk's reads that the process makes; 0 where there are none.
func (w Watched) ownReads() figure.Value {
	d := w.Device
	if d == nil {
		return figure.Unavailable(cmp.Or(w.Why["device"], "they were not counted"))
	}

	all := d.Rate + d.OthersRate
	if all == 0 {
		return figure.Known(0)
	}
	return figure.Known(d.Rate / all)
}

// device tells what is read from the disk, and by whom.
func (w Watched) device() string {
	d := w.Device
	if d == nil {
		return "Reads of the disk are not known: " +
			cmp.Or(w.Why["device"], "they were not counted") + "."
	}

	text := ""
	if d.BlockReadsPerGet.IsKnown() && w.Has(figure.BlockReadsPerGet) {
		text = fmt.Sprintf("Of %s block reads per Get, %s went to the disk; the page cache had "+
			"the others. ",
			doc.PerGet(w.OrZero(figure.BlockReadsPerGet)),
			doc.PerGet(d.BlockReadsPerGet.OrZero()))
	}

	return text + fmt.Sprintf("From the disk: %s reads and %s a second for the process, %s and "+
		"%s for all others.", doc.ShortCount(d.Rate),
		doc.ShortBytes(int64(d.Bytes)), doc.ShortCount(d.OthersRate),
		doc.ShortBytes(int64(d.OthersBytes)))
}

func (w Watched) mappedMethod() string {
	all := w.faults()
	text := fmt.Sprintf("Observed: %s major and %s minor page faults of the database in %s s, %s "+
		"and %s of other memory; %s events lost.", unit.Count(all.Major),
		unit.Count(all.Minor), unit.Significant(w.Seconds, 3), unit.Count(w.Elsewhere.Major),
		unit.Count(w.Elsewhere.Minor), unit.Count(w.Lost.Reads))

	if w.Has(figure.GetsPerSecond) {
		text += fmt.Sprintf(" Gets: %s in %s s of this time; %s events lost.", unit.Count(w.Gets),
			unit.Significant(w.GetsSeconds, 3), unit.Count(w.Lost.Gets))
	}

	if w.Cost.Core > 0 {
		text += fmt.Sprintf(" Watching took %s of one processor.", doc.Percent(100*w.Cost.Core))
	}

	return text
}

func (w Watched) faultTable() doc.Table {
	return doc.TableOf(w.Faults, nil,
		doc.Words("table", func(f result.WatchedFaults) string { return f.Table }),
		doc.Words("pages", func(f result.WatchedFaults) string { return f.Type }),
		doc.Figure("major", "per s", doc.PerGet, func(f result.WatchedFaults) float64 {
			return f.MajorRate
		}),
		doc.Figure("minor", "per s", doc.PerGet, func(f result.WatchedFaults) float64 {
			return f.MinorRate
		}),
		doc.Figure("read", "KiB/s", nil, func(f result.WatchedFaults) float64 {
			return float64(f.DeviceBytes) / w.Watched / (1 << 10)
		}),
		doc.Figure("p50", "", nil, func(f result.WatchedFaults) float64 { return float64(f.P50) }).
			In(doc.Micros),
		doc.Figure("p99", "", nil, func(f result.WatchedFaults) float64 { return float64(f.P99) }).
			In(doc.Micros))
}

// memoryTable is what other amounts of memory would read, and the present one.
func (w Watched) memoryTable() doc.Table {
	var rows []result.WatchedMemoryReads
	if o := w.OtherMemory; o != nil {
		rows = append(slices.Clone(o.Sizes), result.WatchedMemoryReads{Bytes: o.Bytes,
			PagesPerSecond: o.PagesPerSecond, Low: o.PagesPerSecond, High: o.PagesPerSecond})
		slices.SortFunc(rows, func(a, b result.WatchedMemoryReads) int {
			return cmp.Compare(a.Bytes, b.Bytes)
		})
	}

	return doc.TableOf(rows, nil,
		doc.Words("memory", func(r result.WatchedMemoryReads) string {
			text := doc.ShortBytes(r.Bytes)
			if r.Bytes == w.OtherMemory.Bytes {
				text += " (now)"
			}
			return text
		}),
		doc.Figure("page reads", "per s", doc.PerGet, func(r result.WatchedMemoryReads) float64 {
			return r.PagesPerSecond
		}),
		doc.Figure("low", "per s", doc.PerGet, func(r result.WatchedMemoryReads) float64 {
			return r.Low
		}),
		doc.Figure("high", "per s", doc.PerGet, func(r result.WatchedMemoryReads) float64 {
			return r.High
		}))
}

// memoryMethod says on what the prediction rests, or why there is none.
func (w Watched) memoryMethod() string {
	o := w.OtherMemory
	if o == nil {
		return "What another amount of memory would read is not known: " +
			cmp.Or(w.Why["other_memory"], "it was not looked for") + "."
	}

	whose := "of its control group"
	if o.Group == "" {
		whose = "of the machine"
	}

	return fmt.Sprintf("Predicted from the pages that entered and left the page cache %s (%s): "+
		"%s left to make room for others, which replaced all of them %s times. The accesses are "+
		"taken to stay the same; a node that waits less makes more of them.", whose,
		doc.ShortBytes(o.CacheBytes), unit.Count(o.Evicted), unit.Significant(o.Replaced, 2))
}

// addMapped adds what is seen of a process that maps its database.
func (w Watched) addMapped(d *doc.Document, method string) {
	if len(w.TableGets) > 0 {
		d.Add("Who asks", doc.Block{Title: "Gets by table", Method: method, Table: w.getTable(),
			Texts: doc.Without([]string{w.skew()})})
	}

	d.Add("What is read", doc.Block{
		Title:  "Page faults by table",
		Method: method,
		Table:  w.faultTable(),
		Texts:  []string{w.unseen(), w.device()},
	})

	d.Add("What another amount of memory would read", doc.Block{
		Title:  "Page reads by memory",
		Method: method,
		Table:  w.memoryTable(),
		Texts:  []string{w.memoryMethod()},
	})

	chart, panel := doc.OnePanel("Major page faults a second over time",
		doc.Linear("seconds", doc.AsCount),
		doc.Linear("page faults a second", doc.AsCount))
	faults := w.overTime(func(s span) *float64 { return &s.faults })
	panel.Line("major page faults", faults, doc.CurveStyle(0))
	d.Add("Over time",
		doc.Block{Texts: []string{w.mappedMethod()}},
		w.hours(),
		doc.Block{Title: "Major page faults", Detail: true, Method: method, Chart: chart.OrNil()})
}

// FaultSecond is a line about one second of a process that maps its database, while it is watched.
func FaultSecond(t result.Tick) string {
	text := fmt.Sprintf("%4.0f s  %s major page faults/s", t.Seconds, doc.ShortCount(t.PageFaults))
	if t.P99 > 0 {
		text += fmt.Sprintf(", p50 %s, p99 %s", doc.ShortNanos(t.P50), doc.ShortNanos(t.P99))
	}
	return text
}
