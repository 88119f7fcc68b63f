package watched

import (
	"slices"
	"time"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
)

const (
	hour = 3600.0 // seconds
	// maxDrawn is how many points of a series a chart draws: about one for each pixel.
	maxDrawn = 600
)

// span is a stretch of a series: what its seconds have in common.
type span struct {
	from, to float64 // seconds since the watch began
	ops      uint64
	seconds  float64 // that have a tick
	gets     float64 // a second
	reads    *float64
	faults   float64
	// worst and best are the largest and the smallest block reads per Get of any second with Gets.
	best, worst *float64
	p99         int64 // of the worst second, in nanoseconds; 0: none has one
}

// spans cut a series into stretches of equal length, in seconds. Stretches without ticks are left
// out.
func spans(series []result.Tick, length float64) (all []span) {
	previous := 0.0
	for _, t := range series {
		from := float64(int(max(0, t.Seconds-1e-9)/length)) * length
		if len(all) == 0 || all[len(all)-1].from != from {
			all = append(all, span{from: from, to: from + length})
		}

		all[len(all)-1].add(t, max(0, t.Seconds-previous))
		previous = t.Seconds
	}
	return all
}

// add takes a tick that covers so many seconds into the span.
func (s *span) add(t result.Tick, seconds float64) {
	if whole := s.seconds + seconds; whole > 0 {
		s.gets = (s.gets*s.seconds + t.OpsPerSecond*seconds) / whole
		s.faults = (s.faults*s.seconds + t.PageFaults*seconds) / whole
	}

	s.seconds += seconds
	s.p99 = max(s.p99, t.P99)
	if t.BlockReadsPerOp == nil || t.Ops == 0 {
		return
	}

	reads := *t.BlockReadsPerOp
	if s.reads == nil {
		s.reads, s.best, s.worst = doc.Some(0.0), doc.Some(reads), doc.Some(reads)
	}

	*s.reads = (*s.reads*float64(s.ops) + reads*float64(t.Ops)) / float64(s.ops+t.Ops)
	*s.best, *s.worst = min(*s.best, reads), max(*s.worst, reads)
	s.ops += t.Ops
}

// drawn are the stretches that charts draw: of a short watch, its seconds.
func (w Watched) drawn() []span {
	if len(w.Series) == 0 {
		return nil
	}

	length := 1.0
	if last := w.Series[len(w.Series)-1].Seconds; last > maxDrawn {
		length = last / maxDrawn
	}
	return spans(w.Series, length)
}

// hours is a table of a watch of two hours or more, by the hour; empty of a shorter one.
func (w Watched) hours() doc.Block {
	if len(w.Series) == 0 || w.Series[len(w.Series)-1].Seconds < 2*hour {
		return doc.Block{}
	}

	rows := spans(w.Series, hour)
	begins := func(s span) string {
		at := w.Started.UTC().Add(time.Duration(s.from * float64(time.Second)))
		return at.Format("2006-01-02 15:04")
	}

	columns := []doc.Column[span]{doc.Words("from (UTC)", begins)}
	if w.mapped() {
		columns = append(columns, doc.Figure("major page faults", "per s", nil,
			func(s span) float64 { return s.faults }))
	} else {
		columns = append(columns,
			doc.Figure("Gets", "per s", nil, func(s span) float64 { return s.gets }),
			doc.Optional("block reads", "/Get", doc.PerGet,
				func(s span) *float64 { return s.reads }),
			doc.Optional("best second", "/Get", doc.PerGet,
				func(s span) *float64 { return s.best }),
			doc.Optional("worst second", "/Get", doc.PerGet,
				func(s span) *float64 { return s.worst }))
	}

	p99 := doc.Optional("p99, worst second", "", nil,
		func(s span) *float64 { return doc.When(s.p99 > 0, float64(s.p99)) })
	columns = append(columns, p99.In(doc.Micros).Named("p99, worst second", doc.Micros.Name))
	return doc.Block{Title: "By the hour", Table: doc.TableOf(rows, nil, columns...)}
}

// overTime is a line of what value has at the end of each drawn stretch.
func (w Watched) overTime(value func(span) *float64) doc.XYs {
	drawn := slices.DeleteFunc(w.drawn(), func(s span) bool { return value(s) == nil })
	return doc.Each(drawn, func(s span) doc.XY { return doc.XY{X: s.to, Y: *value(s)} })
}
