// Package watched explains what a running process read (statelab watch): as text, as a page and as
// JSON.
//
// Non-goals: watching (ask/watch).
package watched

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Watched is a folder that statelab watch wrote, or what it prints.
type Watched struct {
	*result.Watch
	Series []result.Tick `json:"-"`
}

// Read reads a folder that holds watch.json.
func Read(dir string) (Watched, error) {
	w, err := result.ReadWatch(dir)
	if err != nil {
		return Watched{}, err
	}

	series, err := result.ReadSeries(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}

	return Watched{w, series}, err
}

// Answer is what was asked: what the process reads, and what another cache would bring.
func (w Watched) Answer() string {
	p := w.Process
	program := cmp.Or(p.Name, p.Program)
	if strings.HasPrefix(p.Version, "v") && !strings.Contains(p.Version, "-") {
		program += " " + strings.TrimPrefix(p.Version, "v")
	}

	if w.mapped() {
		return w.mappedAnswer(program)
	}

	if m := w.MultiGets; m != nil && w.Gets == 0 {
		return fmt.Sprintf("%s (pid %d) looked up %s keys a second by MultiGet, %s keys at a "+
			"time, and made no single Get. The block reads of these keys are not known, so what "+
			"limits the process is not known either.", program, p.PID,
			doc.ShortCount(float64(m.Keys)/max(w.Watched, 1e-9)),
			unit.Significant(float64(m.Keys)/float64(m.Calls), 2))
	}

	if w.Gets == 0 || !w.Has(figure.BlockReadsPerGet) {
		return fmt.Sprintf("%s (pid %d) made no Get in %s s.", program, p.PID,
			unit.Significant(w.Watched, 2))
	}

	text := fmt.Sprintf("%s (pid %d) made %s Gets a second%s: %s block reads per Get", program,
		p.PID, doc.ShortCount(w.OrZero(figure.GetsPerSecond)), w.inBatches(),
		doc.PerGet(w.OrZero(figure.BlockReadsPerGet)))
	if hit := doc.At(w.HitRate, "all"); hit != nil {
		text += fmt.Sprintf(", %s of the block accesses from its cache", doc.Percent(100**hit))
		if w.Cache.Bytes > 0 {
			text += " of " + doc.ShortBytes(w.Cache.Bytes)
		}
	}

	verdict := w.Verdict()

	return strings.Join(doc.Without([]string{verdict.Sentence, text + ".", w.others(verdict),
		w.iterators(), w.consult(verdict), w.raise(verdict), w.change(verdict)}), " ")
}

// manyReads are a part of the reads for lookups that the answer tells of.
const manyReads = 0.1

// iterators says how much is read by what is neither a Get nor simulated, if it is much.
func (w Watched) iterators() string {
	if w.IteratorShare < manyReads {
		return ""
	}

	text := doc.Percent(100*w.IteratorShare) + " of the reads for lookups are for iterators, " +
		"which are not simulated"
	if s := w.Seeks; s != nil {
		text += fmt.Sprintf(": %s Seeks a second, each with %s reads and then %s where its "+
			"iterator went on", doc.ShortCount(float64(s.Calls)/max(w.Watched, 1e-9)),
			doc.PerGet(s.ReadsPerCall), doc.PerGet(float64(s.ReadsBeyond)/float64(s.Calls)))
	}

	return text + "."
}

// inBatches says how many of the Gets are keys of MultiGets.
func (w Watched) inBatches() string {
	m := w.MultiGets
	if m == nil || m.Gets == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of them as keys of MultiGets (%s keys each)",
		doc.Percent(100*float64(m.Gets)/float64(w.Gets)),
		unit.Significant(float64(m.Keys)/float64(m.Calls), 2))
}

// batches tells what MultiGets read.
func (w Watched) batches() string {
	m := w.MultiGets
	if m == nil || m.BlockReadsPerCall == 0 && m.Gets == 0 {
		return ""
	}

	text := fmt.Sprintf("A MultiGet made %s block reads, %s for each of its %s keys",
		doc.PerGet(m.BlockReadsPerCall), doc.PerGet(m.BlockReadsPerKey),
		unit.Significant(float64(m.Keys)/float64(m.Calls), 2))
	if accesses, known := m.BlockAccessesPerCall.Number(); known {
		text += fmt.Sprintf(", and %s block accesses, %s for each; a block that its keys share "+
			"counts once", doc.PerGet(accesses), doc.PerGet(m.BlockAccessesPerKey.OrZero()))
	}

	return text + "."
}

// counted are the keys of MultiGets of which no more is known.
func (w Watched) counted() uint64 {
	if w.MultiGets == nil {
		return 0
	}
	return w.MultiGets.Keys - min(w.MultiGets.Keys, w.MultiGets.Gets)
}

// consult says which filters no Get consults, if they are worth it.
func (w Watched) consult(v advice.Verdict) string {
	if v.Filters == nil {
		return ""
	}
	return v.Filters.Sentence(clients.Named(w.Process.Client))
}

// raise says which limit of open files keeps all tables open, if that is worth it.
func (w Watched) raise(v advice.Verdict) string {
	if v.OpenFiles == nil {
		return ""
	}
	return v.OpenFiles.Raise(w.OpenFiles.Option)
}

// Verdict judges what was seen. Simulated figures and the one of the present cache that stands
// beside them are of the second half of the Gets.
func (w Watched) Verdict() advice.Verdict {
	if w.mapped() {
		return w.memoryVerdict()
	}

	e := advice.Evidence{
		Program:  cmp.Or(w.Process.Name, w.Process.Program),
		Gets:     w.Gets,
		InBatch:  w.counted(),
		Seconds:  w.Watched,
		InFlight: w.Value(figure.InFlight),
		Reading:  w.Value(figure.ReadingShare),
		DiskBusy: w.Value(figure.DeviceBusy),
		ReadWait: w.readWait(),
		OwnReads: w.ownReads(),
		Waiting:  w.Value(figure.ProcessorWait),

		WorkingSet: int64(w.OrZero(figure.WorkingSet)),
	}

	if w.Simulated != nil {
		e.Present = advice.CacheReads{CacheBytes: w.Cache.Bytes, PerGet: w.Simulated.Seen,
			Least: w.Simulated.Seen, Most: w.Simulated.Seen}
		for _, s := range w.WhatIf {
			e.Others = append(e.Others, advice.CacheReads{CacheBytes: s.CacheBytes,
				PerGet: s.BlockReadsPerGet, Least: s.Low, Most: s.High})
		}
	}

	toOpen := w.Value(figure.TableOpenReadsPerGet)
	if o := w.OpenFiles; o != nil && o.AllOpen != nil {
		e.OpenFiles = &advice.OpenFileLimit{Limit: o.Limit, Tables: o.Tables, Enough: o.Enough,
			CacheBytes: w.Cache.Bytes, Reads: o.AllOpen.Seen,
			ReadsOpen: o.AllOpen.BlockReadsPerGet}
	} else if reads, known := toOpen.Number(); o != nil && known {
		// The cache is not known, but what opening tables read is.
		all := w.OrZero(figure.BlockReadsPerGet)
		e.OpenFiles = &advice.OpenFileLimit{Limit: o.Limit, Tables: o.Tables, Enough: o.Enough,
			CacheBytes: w.Cache.Bytes, Reads: all, ReadsOpen: all - reads}
	}

	if f := w.Filters; f != nil {
		e.Filters = &advice.FilterUse{Families: f.Families, Policy: f.Policy, Tables: f.Tables,
			Filtered: f.Filtered, Lacking: f.Lacking, BitsPerKey: f.BitsPerKey}
		if s := f.Consulted; s != nil {
			e.Filters.Reads = s.Seen
			e.Filters.Consulted = &advice.CacheReads{CacheBytes: s.CacheBytes,
				PerGet: s.BlockReadsPerGet, Least: s.Low, Most: s.High}
		}
	}

	return advice.Judge(e)
}

// readWait is how many seconds of Gets that read blocks there are for each block read.
func (w Watched) readWait() figure.Value {
	inFlight, known := w.Value(figure.InFlight).Number()
	reading, knownToo := w.Value(figure.ReadingShare).Number()
	reads := w.OrZero(figure.BlockReadsPerGet) * w.OrZero(figure.GetsPerSecond)
	if !known || !knownToo || reads == 0 {
		return figure.Value{}
	}
	return figure.Known(inFlight * reading / reads)
}

// change says how the process gets the cache that is worth having.
func (w Watched) change(v advice.Verdict) string {
	switch {
	case v.Larger == nil, v.Bottleneck == advice.Processor, v.Bottleneck == advice.NotGets:
		return "" // it is not worth a restart
	}

	p, client := w.Process, clients.Named(w.Process.Client)
	config := p.Config
	if config == nil { // a watch of an older version
		config = new(advice.FlagsAlone(client, p.Args))
	}

	return advice.SetCache(client, *config, w.Cache.Bytes, v.Larger.CacheBytes,
		advice.MemoryOf(p.Memory))
}

// sameGets is how far the present cache's reads of the second half of the Gets may lie from those
// of all, as a share, for one figure to stand for both.
const sameGets = 0.02

// others are a larger cache that was simulated, the one that the verdict names or else the next,
// and the next smaller one, beside what the present one read of the same Gets.
func (w Watched) others(v advice.Verdict) string {
	if w.Simulated == nil || len(w.WhatIf) == 0 || v.Bottleneck == advice.TooFewGets {
		return ""
	}

	seen := w.Simulated.Seen
	var larger, smaller string
	for _, s := range w.WhatIf {
		words := doc.ShortBytes(s.CacheBytes) + " " + within(s)
		switch {
		case s.CacheBytes < w.Cache.Bytes && s.High >= seen:
			smaller = words
		case s.CacheBytes > w.Cache.Bytes &&
			(larger == "" || v.Larger != nil && s.CacheBytes == v.Larger.CacheBytes):
			larger = words
		}
	}

	sizes := strings.Join(doc.Without([]string{larger, smaller}), ", with ")
	if sizes == "" {
		return ""
	}

	all := w.OrZero(figure.BlockReadsPerGet)
	if math.Abs(all-seen) <= max(sameGets*all, figure.BlockReadsPerGet.Least) {
		return "With " + sizes + "."
	}

	text := fmt.Sprintf("In the second half of the Gets it was %s", doc.PerGet(seen))
	if w.Simulated.SeenBefore > seen {
		text += ", as the cache was fuller or other keys were asked for"
	}

	return text + "; with " + sizes + "."
}

// within is a simulated figure, with its range where that is wider than what is printed.
func within(s result.WatchSimulated) string {
	low, high := doc.PerGet(s.Low), doc.PerGet(s.High)
	if low == high {
		return high
	}
	return fmt.Sprintf("%s (%s to %s)", doc.PerGet(s.BlockReadsPerGet), low, high)
}

// proof compares the simulated reads at the present size with those that were seen.
func (w Watched) proof() string {
	if w.Simulated == nil || !w.Has(figure.BlockReadsPerGet) {
		return "No other cache was simulated: " + cmp.Or(w.Why["simulated"],
			w.Set.Absent()[figure.BlockAccessesPerGet.Key], "no Get was seen") + "."
	}

	s := *w.Simulated
	reserved := ""
	if float64(s.Reserved) >= aFew*float64(s.CacheBytes) {
		reserved = fmt.Sprintf(", %s of which memtables take", doc.ShortBytes(s.Reserved))
	}

	text := fmt.Sprintf("Simulated at the present size%s, for the second half of the Gets: %s "+
		"block reads per Get; observed: %s. %s", reserved, within(s), doc.PerGet(s.Seen), trust(s))
	if off := misfit(s); off > aFew*s.Seen && w.Seconds < allTheTime*w.Watched {
		text += " The Gets of the rest of the time change what the cache holds, too: " +
			"--sample 100% watches all of them."
	}
	text += " The first half fills the simulated cache."
	if strange := float64(w.UnexplainedReads) / max(1,
		w.OrZero(figure.BlockReadsPerGet)*float64(w.Gets)); strange >= aFew {
		text += fmt.Sprintf(" %s of the reads were of blocks that the trace resolver did not "+
			"predict.", doc.Percent(100*strange))
	}

	return text
}

// allTheTime is the share of the time from which on all Gets count as seen.
const allTheTime = 0.95

// misfit is how far what was seen lies outside the range of its simulation.
func misfit(s result.WatchSimulated) float64 { return max(0, s.Low-s.Seen, s.Seen-s.High) }

// trust says what the simulation of the present cache, beside what was seen, means for that of
// others.
func trust(s result.WatchSimulated) string {
	off := misfit(s)
	const fewReads = 0.01 // a Get: shares of less say nothing
	if s.Seen < fewReads {
		return fmt.Sprintf("For these Gets, other sizes are known within %s block reads per Get "+
			"at best; other Gets read more or less.",
			doc.PerGet(max(off, figure.BlockReadsPerGet.Least)))
	}
	return fmt.Sprintf("For these Gets, other sizes are known within %.0f%% at best; other Gets "+
		"read more or less.",
		math.Ceil(max(1, 100*off/s.Seen)))
}

// aFew is a part of the reads that the answer is silent about.
const aFew = 0.02

// sources tells for what tables are read.
func (w Watched) sources() string {
	all := 0.0
	for _, r := range w.Reads {
		all += r.PerSecond
	}

	if all == 0 {
		return "No table was read."
	}

	return fmt.Sprintf("Of %s table reads a second, %s.", doc.ShortCount(all),
		doc.List(w.Reads, func(r result.WatchedReads) string {
			return fmt.Sprintf("%s are for %s", doc.ShortCount(r.PerSecond), r.Purpose)
		}))
}

// opens tells how often Gets open tables, what that costs, and why.
func (w Watched) opens() string {
	opens, known := w.Value(figure.TableOpensPerGet).Number()
	if !known || opens < figure.BlockReadsPerGet.Least {
		return ""
	}

	text := fmt.Sprintf("A Get opened %s tables", doc.PerGet(opens))
	if reads, known := w.Value(figure.TableOpenReadsPerGet).Number(); known {
		text += fmt.Sprintf(", which took %s of its block reads", doc.PerGet(reads))
	}

	o := w.OpenFiles
	if o == nil {
		return text + "."
	}

	if o.Limit > 0 {
		text += fmt.Sprintf(": the limit of open files, %s=%s (%s), does not keep %s open",
			o.Option, unit.Count(int64(o.Limit)), o.Source, unit.Plural(o.Tables, "table"))
	} else {
		text += fmt.Sprintf(": the limit of open files (%s), which is not known, does not keep %s "+
			"open", o.Option, unit.Plural(o.Tables, "table"))
	}

	if o.Enough > 0 {
		text += fmt.Sprintf(", and %s does", unit.Count(int64(o.Enough)))
	}

	text += "."
	if simulated, known := o.OpensSimulated.Number(); known {
		text += fmt.Sprintf(" For the second half of the Gets, a model of the open tables with "+
			"that limit has %s; observed: %s.", doc.PerGet(simulated), doc.PerGet(o.OpensSeen))
	}

	return text
}

// fewAgain is the share of Gets for keys that were asked for before below which how the Gets spread
// over the keys says nothing: the watch is too short for it, or no key is asked for again.
const fewAgain = 0.05

// skew tells how the Gets spread over the keys.
func (w Watched) skew() string {
	if len(w.Tenths) == 0 {
		return ""
	}

	// Where keys are not asked for again, a tenth of them gets no less than a tenth of the Gets,
	// and that is no skew.
	seen := w.Found + w.Missing + w.Failed
	text := fmt.Sprintf("Access skew: the most requested tenth of the %s keys gets %s of the Gets",
		unit.Count(w.DistinctKeys), doc.Percent(100*w.Tenths[0]))
	switch again := float64(seen-w.DistinctKeys) / float64(seen); {
	case seen == w.DistinctKeys:
		text = fmt.Sprintf("Each of the %s keys was asked for once", unit.Count(w.DistinctKeys))
	case seen > w.DistinctKeys && again < fewAgain:
		text = fmt.Sprintf("Nearly all of the %s keys were asked for once: %s of the Gets are for "+
			"a key that was asked for before", unit.Count(w.DistinctKeys), doc.Percent(100*again))
	}

	if w.Has(figure.WorkingSet) {
		text += fmt.Sprintf("; the working set of all Gets is %s",
			doc.ShortBytes(int64(w.OrZero(figure.WorkingSet))))
	}

	return text + "."
}

// method tells how much was seen and what that took.
func (w Watched) method() string {
	text := fmt.Sprintf("Observed: %s Gets of %s in %s s", unit.Count(w.Gets), w.Process.Database,
		unit.Significant(w.Watched, 3))
	if w.Watched < 0.95*w.Seconds {
		text += fmt.Sprintf(", spread over %s s", unit.Significant(w.Seconds, 3))
		if w.Has(figure.BlockReadsPerGet.Error()) {
			text += fmt.Sprintf(", so that the block reads per Get are known within %s",
				doc.PerGet(w.OrZero(figure.BlockReadsPerGet.Error())))
		}
	}

	return text + fmt.Sprintf("; %s events lost. Watching took about %s of one processor (%s a "+
		"Get).",
		unit.Count(w.Lost.Gets+w.Lost.Reads), doc.Percent(100*w.Cost.Core),
		doc.Nanos(w.Cost.GetNanos))
}

func (w Watched) keys() doc.Table {
	return doc.TableOf(w.Keys, nil,
		doc.Words("keys", func(k result.WatchedKeys) string { return k.Kind }),
		doc.Figure("Gets", "per s", doc.ShortCount, func(k result.WatchedKeys) float64 {
			return k.Rate
		}),
		doc.Figure("absent", "%", nil,
			func(k result.WatchedKeys) float64 { return 100 * k.Absent }),
		doc.Optional("tables", "/Get", nil,
			func(k result.WatchedKeys) *float64 { return k.TablesPerGet.Pointer() }),
		doc.Optional("accesses", "/Get", nil,
			func(k result.WatchedKeys) *float64 { return k.BlockAccessesPerGet.Pointer() }),
		doc.Figure("reads", "/Get", doc.PerGet, func(k result.WatchedKeys) float64 {
			return k.BlockReadsPerGet
		}),
		doc.Figure("p50", "", nil, func(k result.WatchedKeys) float64 { return float64(k.P50) }).
			In(doc.Micros),
		doc.Figure("p99", "", nil, func(k result.WatchedKeys) float64 { return float64(k.P99) }).
			In(doc.Micros))
}

// Document says what the process reads, and for whom.
func (w Watched) Document() *doc.Document {
	d := &doc.Document{
		Title:    "Statelab: what a running process reads",
		Warnings: doc.WarningsOf(w.Warnings),
	}

	d.Answer("", w.Answer())
	p, cache := w.Process, ""
	if w.Cache.Bytes > 0 {
		cache = doc.ShortBytes(w.Cache.Bytes)
	}

	d.Cards = []doc.Card{{
		Name: "process",
		Facts: doc.Known([][2]string{{"program", p.Program + " " + p.Version},
			{"engine", p.Engine + " " + p.EngineVersion}, {"database", p.Database},
			{"cache", cache}, {"Go", p.Go}}),
	}}

	const method = "watching-a-node.md"
	d.Add("Watch it again", doc.Block{
		Title:  "Command",
		Detail: true,
		Method: method,
		Pre:    doc.Shell(w.Command),
	})

	if w.mapped() {
		w.addMapped(d, method)
		return d
	}

	d.Add("Who asks", doc.Block{Title: "Gets by kind of key", Method: method, Table: w.keys(),
		Texts: doc.Without([]string{w.skew()})})
	d.Add("What is read",
		doc.Block{Texts: doc.Without([]string{w.sources(), w.batches(), w.device(), w.opens()})},
		doc.Block{
			Title:  "Reads of tables by purpose",
			Detail: true,
			Method: method,
			Table:  w.purposes(),
		})

	d.Add("What another cache would read",
		doc.Block{
			Title:  "Block reads per Get by cache size",
			Method: method,
			Table:  w.caches(),
			Texts:  []string{w.proof()},
		})

	d.Add("Over time",
		doc.Block{Texts: []string{w.method()}},
		w.hours(),
		doc.Block{Title: "Gets and block reads", Detail: true, Method: method, Chart: w.series()})
	return d
}

// purposes are what tables are read for.
func (w Watched) purposes() doc.Table {
	return doc.TableOf(w.Reads, nil,
		doc.Words("purpose", func(r result.WatchedReads) string { return r.Purpose }),
		doc.Figure("reads", "per s", nil,
			func(r result.WatchedReads) float64 { return r.PerSecond }),
		doc.Figure("read", "MiB/s", nil, func(r result.WatchedReads) float64 {
			return r.Bytes / (1 << 20)
		}))
}

// simulatedRow is a cache that was simulated, with the limit of open files that it has.
type simulatedRow struct {
	result.WatchSimulated
	openFiles string
}

func (w Watched) caches() doc.Table {
	var rows []simulatedRow
	present, columns := "", []doc.Column[simulatedRow]{
		doc.Words("cache", func(s simulatedRow) string { return doc.ShortBytes(s.CacheBytes) }),
	}

	if o := w.OpenFiles; o != nil && o.AllOpen != nil {
		if present = "as it is"; o.Limit > 0 {
			present = unit.Count(int64(o.Limit))
		}
		columns = append(columns,
			doc.Words(o.Option, func(s simulatedRow) string { return s.openFiles }))
	}

	if w.Simulated != nil {
		rows = append(rows, simulatedRow{*w.Simulated, present})
	}

	if o := w.OpenFiles; o != nil && o.AllOpen != nil {
		rows = append(rows, simulatedRow{*o.AllOpen, unit.Count(int64(o.Enough))})
	}

	for _, s := range w.WhatIf {
		rows = append(rows, simulatedRow{s, present})
	}

	return doc.TableOf(rows, nil, append(columns,
		doc.Figure("block reads", "/Get", doc.PerGet, func(s simulatedRow) float64 {
			return s.BlockReadsPerGet
		}),
		doc.Figure("least", "/Get", doc.PerGet, func(s simulatedRow) float64 { return s.Low }),
		doc.Figure("most", "/Get", doc.PerGet, func(s simulatedRow) float64 { return s.High }),
		doc.Figure("hit rate", "%", nil, func(s simulatedRow) float64 {
			return 100 * s.HitRate
		}))...)
}

func (w Watched) series() *doc.Chart {
	chart := doc.NewChart("Gets a second and block reads per Get over time",
		doc.Linear("seconds", doc.AsCount),
		doc.Linear("Gets a second", doc.AsCount), doc.Linear("block reads per Get", doc.AsCount))
	gets := w.overTime(func(s span) *float64 { return &s.gets })
	reads := w.overTime(func(s span) *float64 { return s.reads })
	chart.Panels[0].Line("Gets", gets, doc.CurveStyle(0))
	chart.Panels[1].Line("block reads", reads, doc.CurveStyle(1))
	return chart.OrNil()
}

// Second is a line about one second, while it is watched.
func Second(t result.Tick) string {
	text := fmt.Sprintf("%4.0f s  %s Gets/s", t.Seconds, doc.ShortCount(t.OpsPerSecond))
	if t.BlockReadsPerOp != nil {
		text += fmt.Sprintf(", %s block reads/Get", doc.PerGet(*t.BlockReadsPerOp))
	}
	if t.P50 > 0 { // not of keys of MultiGets, which have no time of their own
		text += fmt.Sprintf(", p50 %s, p99 %s", doc.ShortNanos(t.P50), doc.ShortNanos(t.P99))
	}
	return text
}
