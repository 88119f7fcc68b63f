package engines

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// The study's two questions, in block reads per Get.
const (
	nearTwo = 2.0
	nearOne = 1.1
)

// gained is the share of block reads that a larger cache must save to count.
const gained = 0.01

// sentence is what the user came for.
func (c curve) sentence() string {
	ok := c.measured()
	if len(ok) == 0 {
		return "Nothing was measured: " + c.noDataReason() + "."
	}

	read := c.withReads()
	if len(read) == 0 {
		return withoutReads(ok[len(ok)-1])
	}

	answers := result.Answers(plain(read), nearTwo, nearOne)
	at := slices.IndexFunc(read,
		func(p Point) bool { return p.CacheBytes == answers[1].CacheBytes })
	if at < 0 {
		at = len(read) - 1
	}

	text := readsAt(read[at])
	if len(read) > 1 {
		text += "; " + reached(answers, read)
	}

	return text + "." + c.failedPoints()
}

// failedPoints tells how many points have no figures: an answer from fewer points than
// were asked for may be another one.
func (c curve) failedPoints() string {
	failed := len(c.pts) - len(c.measured())
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf(" %d of %d points failed.", failed, len(c.pts))
}

// Page faults of a mapped file say what was read if each brings one page.
const (
	pageBytes      = 4096
	readAheadTimes = 2
)

// readsAt is "1.04 block reads per Get at a 210 MiB cache (0.933% of the database)".
func readsAt(p Point) string {
	f := p.Figures
	if !f.Has(figure.BlockReadsPerGet) {
		return "block reads: " + p.absent(figure.BlockReadsPerGet)
	}

	text := doc.PerGet(f.OrZero(figure.BlockReadsPerGet)) + " block reads per Get"
	switch bytes := f.Pointer(figure.DeviceReadBytesPerGet); {
	case f.BlockReadSource == "":
	case p.readAhead():
		text = doc.Number(*bytes) + " bytes per Get from the device (" +
			doc.PerGet(f.OrZero(figure.BlockReadsPerGet)) +
			" page faults: read-ahead hides the rest from that count)"
	default:
		text = doc.PerGet(f.OrZero(figure.BlockReadsPerGet)) + " page faults per Get"
	}

	if d := f.Pointer(figure.DeviceReadsPerGet); d != nil {
		derived, _ := p.derivedDeviceReads()
		text += " (" + doc.PerGet(*d) + " device reads" + derived + ")"
	} else if bytes := f.Pointer(figure.DeviceReadBytesPerGet); bytes != nil &&
		f.BlockReadSource == "" {
		text += " (" + doc.Number(*bytes) + " bytes from the device)" // whose reads are not known
	}

	return text + p.inMemory()
}

// readAhead reports whether the kernel read more than the pages that were asked for.
func (p Point) readAhead() bool {
	bytes := p.Figures.Pointer(figure.DeviceReadBytesPerGet)
	faulted := pageBytes * p.Figures.OrZero(figure.BlockReadsPerGet)
	return p.Figures.BlockReadSource != "" && bytes != nil && *bytes >= 1 &&
		*bytes > readAheadTimes*faulted
}

// inMemory is " at a 210 MiB cache (0.933% of the database)".
func (p Point) inMemory() (text string) {
	switch {
	case p.CacheBytes > 0:
		text = " at a " + doc.ShortBytes(p.CacheBytes) + " cache"
	case p.budget() > 0:
		text = " in a budget of " + doc.ShortBytes(p.budget())
	}

	if p.CachePercent > 0 {
		text += " (" + doc.Percent(p.CachePercent) + " of the database)"
	}

	return text
}

// fewStops are listed one by one; of more, the first and the last.
const fewStops = 4

// readsAtEach is what Gets read at each of some points: "1.04 block reads per Get with missing 0%,
// 0.579 with missing 100%, at a 2 MiB cache". "" where points count different things, or all read
// the same.
func readsAtEach(pts []Point, with func(Point) string) string {
	type counted struct {
		of   figure.Figure
		unit string
	}
	kind := func(p Point) counted {
		switch {
		case !p.Figures.Has(figure.BlockReadsPerGet):
			return counted{}
		case p.Figures.BlockReadSource == "":
			return counted{figure.BlockReadsPerGet, "block reads per Get"}
		case p.readAhead():
			return counted{figure.DeviceReadBytesPerGet, "bytes per Get from the device"}
		}
		return counted{figure.BlockReadsPerGet, "page faults per Get"}
	}

	first := kind(pts[0])
	for _, p := range pts {
		if k := kind(p); k != first || k.unit == "" {
			return ""
		}
	}

	if len(pts) > fewStops {
		pts = []Point{pts[0], pts[len(pts)-1]}
	}

	if !strings.Contains(fromTo(pts, first.of, doc.PerGet), " ") {
		return ""
	}

	number := doc.PerGet
	if first.of == figure.DeviceReadBytesPerGet {
		number = doc.Number
	}

	text, unit := "", " "+first.unit // once
	for i, p := range pts {
		if i > 0 {
			text += ", "
		}

		text += number(p.Figures.OrZero(first.of)) + p.rangeOf(first.of, number) + unit + with(p)
		unit = ""
	}

	switch {
	case first.of == figure.DeviceReadBytesPerGet:
	case have(pts, figure.DeviceReadsPerGet):
		derived, _ := pts[len(pts)-1].derivedDeviceReads()
		text += " (" + fromTo(pts, figure.DeviceReadsPerGet, doc.PerGet) + " device reads" +
			derived + ")"
	case have(pts, figure.DeviceReadBytesPerGet):
		text += " (" + fromTo(pts, figure.DeviceReadBytesPerGet, doc.Number) +
			" bytes from the device)"
	}

	memory := doc.Distinct(pts, Point.inMemory)
	if len(memory) == 1 && memory[0] != "" {
		text += "," + memory[0]
	}

	return text
}

// have reports whether all points have a figure.
func have(pts []Point, f figure.Figure) bool {
	return !slices.ContainsFunc(pts, func(p Point) bool { return !p.Figures.Has(f) })
}

// fromTo is the least and the most of a figure over some points.
func fromTo(pts []Point, of figure.Figure, number func(float64) string) string {
	value := func(p Point) float64 { return p.Figures.OrZero(of) }
	compare := func(a, b Point) int { return cmp.Compare(value(a), value(b)) }
	low, high := number(value(slices.MinFunc(pts, compare))),
		number(value(slices.MaxFunc(pts, compare)))
	if low == high {
		return low
	}
	return low + " to " + high
}

// rangeOf is the range of a figure over runs, in brackets.
func (p Point) rangeOf(of figure.Figure, number func(float64) string) string {
	if r := p.Spread[of.Key]; r.Low < r.High && number(r.Low) != number(r.High) {
		return " (" + number(r.Low) + " to " + number(r.High) + ")"
	}
	return ""
}

// reached is "fewer than 2 block reads per Get with a cache of 45 MiB or more, fewer than
// 1.1 with 210 MiB or more": for each limit, the largest first, the cache that it needs.
// Below a limit that no cache reached there is nothing to say.
func reached(answers []result.Answer, measured []Point) string {
	var parts []string
	of, in := " block reads per Get", "a cache of " // once
	for _, a := range answers {
		limit := fmt.Sprintf("%g", a.Limit) + of
		switch size := doc.ShortBytes(a.CacheBytes); {
		case a.CacheBytes == 0:
			return strings.Join(append(parts,
				fmt.Sprintf("no measured cache (largest: %s) gets below %s",
					doc.ShortBytes(measured[len(measured)-1].CacheBytes), limit)), "; ")
		case a.NotAtCacheBytes == 0:
			parts = append(parts, "fewer than "+limit+" even with the smallest cache measured ("+
				size+")")
		default:
			parts = append(parts, "fewer than "+limit+" with "+in+size+" or more")
		}

		of, in = "", ""
	}

	return strings.Join(parts, ", ")
}

// withoutReads is the answer of a run whose engine counts no blocks, or that
// wrote.
func withoutReads(p Point) string {
	f := p.Figures
	switch {
	case f.Gets > 0:
		text := doc.Number(f.OrZero(figure.GetsPerSecond)) + " Gets/s"
		if p.CacheBytes > 0 {
			text += " at a " + doc.ShortBytes(p.CacheBytes) + " cache"
		}
		if l := f.ServiceNanos; l != nil {
			text += fmt.Sprintf(", p50 %s, p99 %s", doc.Nanos(l.P50), doc.Nanos(l.P99))
		}
		return text + "; " + readsAt(p) + "."
	case f.Puts > 0:
		text := fmt.Sprintf("%s Puts at %s Puts/s", unit.Count(f.Puts),
			doc.Number(f.OrZero(figure.PutsPerSecond)))
		if f.Has(figure.WriteAmplification) {
			text += fmt.Sprintf("; write amplification %s",
				doc.Number(f.OrZero(figure.WriteAmplification)))
		}
		return text + "."
	}

	return "Nothing was looked up in this run."
}

// absent is why a figure is not there.
func (p Point) absent(f figure.Figure) string {
	if p.Run == nil {
		return figure.NotRecorded
	}

	return p.Run.Figures.Reason(f)
}

// noDataReason is why a curve has no figures.
func (c curve) noDataReason() string {
	if len(c.pts) > 0 {
		return failure(c.pts[0])
	}
	return cmp.Or(c.sweep.Error, "the sweep has no points")
}

// limits are the smallest measured caches that read less than each limit.
func (c curve) limits() []string {
	read := c.withReads()
	if c.x != "cache" || len(read) < 2 {
		return nil
	}

	var lines []string
	for _, a := range result.Answers(plain(read), nearTwo, nearOne) {
		if a.CacheBytes == 0 {
			lines = append(lines,
				fmt.Sprintf("fewer than %g block reads per Get need more than %s, the largest "+
					"cache measured",
					a.Limit, doc.ShortBytes(read[len(read)-1].CacheBytes)))
			continue
		}

		line := fmt.Sprintf("fewer than %g block reads per Get: a cache of %s", a.Limit,
			doc.ShortBytes(a.CacheBytes))
		if a.CachePercent > 0 {
			line += fmt.Sprintf(" (%s of the database)", doc.Percent(a.CachePercent))
		}

		line += ", the smallest measured that does it"
		if a.NotAtCacheBytes > 0 {
			line += fmt.Sprintf("; %s does not", doc.ShortBytes(a.NotAtCacheBytes))
		}

		lines = append(lines, line)
	}

	return lines
}

// beyond is where a larger cache stops helping; "" if no measured point shows it.
func (c curve) beyond() string {
	read := c.withReads()
	if c.x != "cache" || len(read) < 2 {
		return ""
	}

	p, ok := plateau(read)
	if !ok {
		return ""
	}

	return fmt.Sprintf("returns diminish beyond %s: up to %s, a larger cache saved less than "+
		"%g%% of the block reads",
		doc.ShortBytes(p.CacheBytes), doc.ShortBytes(read[len(read)-1].CacheBytes), 100*gained)
}

// tooLarge says where shards of the cache are smaller than the filters that Gets consult; ""
// if none is known to be. Such a filter is read each time, and displaces nothing: a larger
// cache can then read more of the other blocks.
func (c curve) tooLarge() string {
	read := c.withReads()
	if c.x != "cache" {
		return ""
	}

	for i := len(read) - 1; i >= 0; i-- {
		p := read[i]
		if p.Run == nil || p.BlockBytes == 0 {
			continue
		}

		shards, err := strconv.ParseInt(p.Run.Engine.Options["cache_shards"], 10, 64)
		if err != nil || shards < 1 {
			continue
		}

		level, bytes := largestFilter(p.Run.Database.Levels)
		if room := p.BlockBytes / shards; bytes > room {
			text := fmt.Sprintf("At %s the cache has %d shards with %s for blocks each. The "+
				"filters of level %d take %s on average: those that are larger "+
				"than a shard are never cached, so each Get that consults one reads it",
				doc.ShortBytes(p.CacheBytes), shards, unit.Bytes(room), level, unit.Bytes(bytes))

			if i+1 < len(read) && p.topIndexReads() < read[i+1].topIndexReads() {
				text += fmt.Sprintf(". They also take no room from other blocks, so fewer top "+
					"indexes are read than at %s, where filters displace them",
					doc.ShortBytes(read[i+1].CacheBytes))
			}

			return text + "."
		}
	}

	return ""
}

func (p Point) topIndexReads() float64 {
	return p.Figures.BlockReadsPerGetByType[engine.TopIndex.String()] +
		p.Figures.BlockReadsPerGetByType[engine.SingleIndex.String()]
}

// largestFilter is the level whose filters that Gets consult are the largest, with their mean
// size in a cache. Filters of the last level are not consulted.
func largestFilter(levels []engine.Level) (level int, bytes int64) {
	levels = doc.Where(levels, func(l engine.Level) bool { return l.Files > 0 })
	for _, l := range levels[:max(0, len(levels)-1)] {
		if l.FilterCacheBytes/int64(l.Files) > bytes {
			level, bytes = l.Level, l.FilterCacheBytes/int64(l.Files)
		}
	}
	return level, bytes
}

// plateau is the smallest cache, with a larger one measured, beyond which block
// reads fall by less than what counts as gained.
func plateau(pts []Point) (Point, bool) {
	last := pts[len(pts)-1]
	for _, p := range pts[:len(pts)-1] {
		if p.CacheBytes >= last.CacheBytes {
			break
		}

		low := p.Figures.OrZero(figure.BlockReadsPerGet) * (1 - gained)
		if !slices.ContainsFunc(pts, func(q Point) bool {
			return q.CacheBytes > p.CacheBytes && q.Figures.OrZero(figure.BlockReadsPerGet) < low
		}) {
			return p, true
		}
	}

	return Point{}, false
}

// What the inflection points hold.
const (
	holdsIP1 = "filters that Gets consult, top and single indexes"
	holdsIP2 = "those and all other index blocks"
)

// pointName tells a point from the others of its curve.
func (c curve) pointName(p Point) string {
	if c.x != "cache" && c.x != "" {
		return axisValue(c.x, p.Axes[c.x])
	}
	return cacheText(p)
}

func cacheText(p Point) string {
	if p.CacheBytes > 0 {
		return doc.ShortBytes(p.CacheBytes)
	}
	return cmp.Or(p.Axes["cache"], "run")
}

func plain(pts []Point) []result.Point {
	return doc.Each(pts, func(p Point) result.Point { return p.Point })
}

// ranking is who may be called fastest: everybody who is not certainly slower than the
// fastest, by more than the usual margin. Nothing is ordered by too few runs.
type ranking struct {
	leaders []Point
	repeats int      // the least of any
	of      int      // that are ranked
	needs   int      // repeats that could rank so many
	kinds   []string // of the machines, where times on them cannot be compared; else one or none
}

// rank compares every point with the fastest by the rule of statelab compare. The repeats of a
// sweep take turns, and ask for the same keys. ok is false where they were not repeated enough.
func rank(pts []Point) (r ranking, ok bool) {
	if len(pts) < 2 {
		return r, false
	}

	rule := difference.Rule{Alpha: difference.Alpha / float64(len(pts)-1), Machine: true,
		Interleaved: true, Margin: func(bool) float64 { return difference.Margin }}
	r.of, r.needs, r.kinds = len(pts), difference.Needs(rule.Alpha), mixedKinds(pts)
	r.repeats = len(slices.MinFunc(pts, func(a, b Point) int {
		return cmp.Compare(len(a.speeds.Values), len(b.speeds.Values))
	}).speeds.Values)
	if r.repeats < r.needs || len(r.kinds) > 1 {
		return r, false
	}

	best := slices.MaxFunc(pts, func(a, b Point) int {
		return cmp.Compare(a.Figures.OrZero(figure.GetsPerSecond),
			b.Figures.OrZero(figure.GetsPerSecond))
	})

	for _, p := range pts {
		found := difference.Decide(
			p.speeds,
			best.speeds,
			rule,
		)

		if !found.Matters || found.Change <= 0 {
			r.leaders = append(r.leaders, p)
		}
	}

	return r, true
}

// sentences are the answer of a comparison: who is fastest, and what the disk leaves.
func (c curve) sentences() []string {
	if len(c.measured()) == 0 {
		return []string{"Nothing was measured: " + c.noDataReason() + "."}
	}

	var out []string
	switch {
	case c.x == "rate":
		out = append(out, c.kneeSentences()...)
	case c.comparesEngines():
		out = append(out, c.rankRivals()...)
	default:
		out = append(out, c.rankStops())
	}

	return doc.Without(append(out, c.ceilingSentence(), strings.TrimSpace(c.failedPoints())))
}

// rankRivals is a sentence for each outcome, with the stops at which it came.
func (c curve) rankRivals() []string {
	var outcomes []string
	stops := map[string][]string{}
	for _, stop := range c.stops() {
		pts := measured(c.at(stop))
		if len(pts) < 2 {
			continue
		}

		r, ok := rank(pts)
		outcome := r.unranked()
		if ok && len(r.leaders) == 1 {
			outcome = c.sweep.entrant(r.leaders[0]) + " is fastest"
		} else if ok {
			outcome = "cannot tell who is fastest of " + doc.List(r.leaders, c.sweep.entrant)
		}

		if stops[outcome] == nil {
			outcomes = append(outcomes, outcome)
		}

		stops[outcome] = append(stops[outcome], stop)
	}

	var out []string
	name := func(p Point) string { return " of " + c.sweep.entrant(p) }
	for i, stop := range c.stops() {
		if pts := measured(c.at(stop)); (i == 0 || i == len(c.stops())-1) && len(pts) > 1 {
			if reads := readsAtEach(pts, name); reads != "" {
				out = append(out, reads+c.with(stop)+".")
			}
		}
	}

	for _, outcome := range outcomes {
		at, text := stops[outcome], outcome
		last := at[len(at)-1]
		if c.x != "" && (len(outcomes) > 1 || len(c.stops()) > 1) {
			text = "With " + counted1(c.x, at) + ", " + text
		}

		out = append(out, doc.Upper(text)+": "+c.speeds(measured(c.at(last)), last)+".")
	}

	if len(out) == 0 {
		out = append(out, "Only one was measured: "+c.speeds(c.measured(), "")+".")
	}

	return out
}

// counted1 is "4 threads", "1, 2, 4 threads", "page-cache cold".
func counted1(along string, stops []string) string {
	if along == "threads" || along == "handles" || along == "keys" {
		if len(stops) == 1 && stops[0] == "1" {
			return "1 " + strings.TrimSuffix(along, "s")
		}
		return strings.Join(stops, ", ") + " " + along
	}
	return along + " " + strings.Join(stops, ", ")
}

// mixedKinds are the kinds of machines that points were measured on. Where the hardware class
// is an axis they are those of one class, if any class has several.
func mixedKinds(pts []Point) (kinds []string) {
	pts = doc.Where(pts, func(p Point) bool { return p.Run != nil })
	known := doc.Without(doc.Distinct(pts, func(p Point) string { return p.Run.Host.Class }))
	byClass := map[string][]string{}
	for _, p := range pts {
		h, class := p.Run.Host, p.Axes["class"]
		kind := h.Kind()
		if class == "" && h.Class != "" && len(known) > 1 {
			kind = "class " + h.Class + ": " + kind
		}

		if !slices.Contains(byClass[class], kind) {
			byClass[class] = append(byClass[class], kind)
		}
	}

	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		if len(byClass[class]) > len(kinds) {
			kinds = byClass[class]
		}
	}

	return kinds
}

// unranked says why nobody is called faster, and what would help.
func (r ranking) unranked() string {
	if len(r.kinds) > 1 {
		return "runs on machines of different kinds cannot be ranked (" +
			strings.Join(r.kinds, "; ") + ")"
	}
	return fmt.Sprintf("too few runs to rank them (%d each; to rank %d, %d are needed: --repeats "+
		"%d)", max(1, r.repeats), r.of, r.needs, r.needs)
}

// speeds lists Gets a second with their ranges, in the order of the axes.
func (c curve) speeds(pts []Point, stop string) string {
	return doc.List(pts, func(p Point) string {
		return c.sweep.entrant(p) + " " + doc.ShortCount(p.Figures.OrZero(figure.GetsPerSecond)) +
			p.getsRange()
	}) + " Gets/s" + c.with(stop)
}

// with is " with 4 threads", where there are several stops to tell apart.
func (c curve) with(stop string) string {
	if stop == "" || c.x == "" || len(c.stops()) < 2 {
		return ""
	}
	return " with " + counted1(c.x, []string{stop})
}

// getsRange is the range of Gets a second over the repeats, in brackets.
func (p Point) getsRange() string { return p.rangeOf(figure.GetsPerSecond, doc.ShortCount) }

// rankStops is the answer where threads, handles or sizes vary alone.
func (c curve) rankStops() string {
	ok := c.measured()
	at := func(p Point) string { return counted1(c.x, []string{p.Axes[c.x]}) }
	speed := func(p Point) string {
		return doc.ShortCount(p.Figures.OrZero(figure.GetsPerSecond)) + " Gets/s" + p.getsRange() +
			" with " + at(p)
	}

	named := "" // once
	reads := readsAtEach(ok, func(p Point) string {
		value := p.Axes[c.x]
		if named == "" {
			value = at(p)
			named = value
		}
		return " with " + value
	})
	r, ranked := rank(ok)
	switch last := ok[len(ok)-1]; {
	case ranked:
	case len(ok) == 1:
		return speed(last) + "; " + readsAt(last) + "."
	case reads == "":
		return speed(ok[0]) + ", " + speed(last) + "; " + r.unranked() + "; " + readsAt(last) + "."
	default: // counts are certain, speeds are not
		return reads + "; " + speed(ok[0]) + ", " + speed(last) + "; " + r.unranked() + "."
	}

	// Of those that cannot be told apart the first: the fewest threads, the least
	// memory.
	best := r.leaders[0]
	text := speed(best)
	if first := ok[0]; first.Figures.OrZero(figure.GetsPerSecond) > 0 &&
		best.Axes[c.x] != first.Axes[c.x] {
		text += fmt.Sprintf(", %s times those with %s",
			doc.Number(best.Figures.OrZero(figure.GetsPerSecond)/first.Figures.OrZero(
				figure.GetsPerSecond,
			)),
			at(first))
	}

	if len(r.leaders) > 1 {
		text += "; not significantly different: " +
			doc.List(r.leaders[1:], func(p Point) string { return p.Axes[c.x] })
	}

	return text + "; " + cmp.Or(reads, readsAt(best)) + "."
}
