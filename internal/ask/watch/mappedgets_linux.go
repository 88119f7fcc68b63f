package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/pagefile"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// mappedGets collects the Gets of a process on a database that it maps, beside its page faults. Its
// methods are called by one goroutine, until it has ended.
type mappedGets struct {
	target *probe.Target
	probe  *probe.Probe
	of     *MappedFile
	file   *pagefile.File // whose tables are named
	named  map[string]bool

	ours    map[uint64]bool // environments of the library: whether they are of the database
	records map[uint64]int16
	tables  []string

	keys    []byte
	gets    []mappedGet
	errors  map[uint64]int // of values of errors, to tell failures from absent keys
	more    uint64         // Gets beyond maxGets
	seeks   result.WatchedSeeks
	seekFor time.Duration

	opened, watched time.Duration

	pending []pendingGet
	pages   []uint32 // of all Gets, one after the other
}

// pendingGet is one whose pages are not known yet.
type pendingGet struct {
	get        int
	firstBytes int
}

// mappedGet is a Get as it is kept; its key is in the collector's.
type mappedGet struct {
	took   time.Duration
	keyEnd uint64
	error  uint64 // 0: none, though the key is absent
	table  int16  // -1: not known
	found  bool

	pages     uint8 // 0: not known
	pagesFrom uint64
}

// openMappedGets finds the Gets of a process on a database that it maps; nil: those of its engine
// are not seen. An error says why they are not in this process; its page faults are all the same.
func openMappedGets(pid int, of *MappedFile) (_ *mappedGets, err error) {
	known := slices.DeleteFunc(subject.AllWatchedMapped(), func(w subject.Watched) bool {
		return w.Engine != of.Layout.Engine
	})

	if len(known) == 0 {
		return nil, nil
	}

	t, err := probe.Find(pid, known)
	if err != nil {
		return nil, err
	}

	file, err := pagefile.Open(of.Path, of.Layout)
	if err != nil {
		return nil, err
	}

	p, err := probe.Open(t)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	c := &mappedGets{
		target:  t,
		probe:   p,
		of:      of,
		file:    file,
		ours:    map[uint64]bool{},
		records: map[uint64]int16{},
		errors:  map[uint64]int{},
	}

	c.names()
	return c, nil
}

func (c *mappedGets) close() error { return errors.Join(c.probe.Close(), c.file.Close()) }

// begin watches in the background; what it returns waits until ctx ends.
func (c *mappedGets) begin(ctx context.Context, share float64) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- c.probe.Watch(ctx, share, c) }()
	return func() error { return <-done }
}

// names learns which tables the database has.
func (c *mappedGets) names() {
	c.named = map[string]bool{pagefile.Main: true}
	for _, table := range c.file.Tables() {
		c.named[table.Name] = true
	}
}

// isOurs reports whether an environment of the library is of the database: it refers to the memory
// where that is mapped.
func (c *mappedGets) isOurs(environment uint64) bool {
	if ours, known := c.ours[environment]; known {
		return ours
	}

	mappings, err := c.target.Mappings(c.of.Layout.Names)
	if err != nil {
		return false
	}

	for _, m := range mappings {
		if m.Inode == c.of.Inode {
			ours := c.target.Refers(environment, m.Low)
			c.ours[environment] = ours
			return ours
		}
	}

	return false
}

// tableOf is the table of a record of the library's, if the database has one of that name.
func (c *mappedGets) tableOf(record uint64) int16 {
	if table, known := c.records[record]; known {
		return table
	}

	table := int16(-1)
	name, err := c.target.Table(record)
	if name = cmp.Or(name, pagefile.Main); err == nil && c.named[name] {
		if table = int16(slices.Index(c.tables, name)); table < 0 {
			c.tables, table = append(c.tables, name), int16(len(c.tables))
		}
	}

	c.records[record] = table
	return table
}

// Get implements probe.Events.
func (c *mappedGets) Get(g *probe.Get) {
	if !c.isOurs(g.Database) {
		return
	}

	if len(c.gets) == maxGets {
		c.more++
		return
	}

	c.keys = append(c.keys, g.Key...)
	kept := mappedGet{
		took:   g.End - g.Start,
		keyEnd: uint64(len(c.keys)),
		error:  g.ErrorData,
		table:  c.tableOf(g.Family),
		found:  g.Found,
	}

	if g.ErrorData != 0 {
		c.errors[g.ErrorData]++
	}

	if kept.table >= 0 && g.KeyBytes == len(g.Key) {
		c.pending = append(c.pending, pendingGet{len(c.gets), g.FirstBytes})
	}

	c.gets = append(c.gets, kept)
}

// look works out for some time which pages Gets went through, of those seen last first: soon, since
// a node that writes moves its pages.
func (c *mappedGets) look(maximum time.Duration) error {
	if err := c.file.Renew(); err != nil {
		return err
	}

	c.names()
	for began := time.Now(); len(c.pending) > 0 && time.Since(began) < maximum; {
		last := c.pending[len(c.pending)-1]
		c.pending = c.pending[:len(c.pending)-1]
		g, key := &c.gets[last.get], c.key(last.get)
		pages, _, err := c.file.PagesOf(c.tables[g.table], key[:last.firstBytes],
			key[last.firstBytes:])
		if err != nil || len(pages) == 0 || len(pages) > math.MaxUint8 {
			continue // the tree was written to meanwhile
		}

		g.pages, g.pagesFrom = uint8(len(pages)), uint64(len(c.pages))
		for _, page := range pages {
			c.pages = append(c.pages, uint32(page))
		}
	}

	return nil
}

// key is that of a Get.
func (c *mappedGets) key(i int) []byte {
	from := uint64(0)
	if i > 0 {
		from = c.gets[i-1].keyEnd
	}
	return c.keys[from:c.gets[i].keyEnd]
}

// Seek implements probe.Events.
func (c *mappedGets) Seek(s *probe.Seek) {
	c.seeks.Calls++
	c.seekFor += s.End - s.Start
}

// Together implements probe.Events; no such engine has lookups of many keys.
func (c *mappedGets) Together(*probe.Together) {}

// Read implements probe.Events; what is mapped is not read by calls.
func (c *mappedGets) Read(*probe.Read) {}

// Window implements probe.Events.
func (c *mappedGets) Window(open bool, at time.Duration) {
	if open {
		c.opened = at
	} else {
		c.watched += at - c.opened
	}
}

// Second implements probe.Events: tables that were made meanwhile are looked for again.
func (c *mappedGets) Second() error {
	for record, table := range c.records {
		if table < 0 {
			delete(c.records, record)
		}
	}

	_ = c.look(lookEachSecond) // a head that is being written is read again
	return nil
}

// noTableOfGet stands for a table that the database is not known to have.
const noTableOfGet = "(not known)"

// explain makes the figures. It returns the latencies of the Gets.
func (c *mappedGets) explain(w *result.Watch) (*measure.Histogram, error) {
	absent, maximum := uint64(0), 0
	for value, n := range c.errors {
		if n > maximum {
			absent, maximum = value, n
		}
	}

	if err := c.look(lookAtTheEnd); err != nil {
		return nil, err
	}

	type row struct {
		result.WatchedTableGets
		missing uint64
		latency *measure.Histogram

		resolved, pages uint64
	}

	rows, latency := map[int16]*row{}, measure.NewHistogram()
	distinct, from, all := map[string]uint64{}, uint64(0), time.Duration(0)
	for _, g := range c.gets {
		r := rows[g.table]
		if r == nil {
			name := noTableOfGet
			if g.table >= 0 {
				name = c.tables[g.table]
			}
			r = &row{
				WatchedTableGets: result.WatchedTableGets{Table: name},
				latency:          measure.NewHistogram(),
			}
			rows[g.table] = r
		}

		r.Gets++
		switch {
		case g.found:
			w.Found++
		case g.error == absent, g.error == 0:
			w.Missing++
			r.missing++
		default:
			w.Failed++
		}

		if g.pages > 0 {
			r.resolved++
			r.pages += uint64(g.pages)
			w.Resolved++
		}

		latency.Add(int64(g.took))
		r.latency.Add(int64(g.took))
		all += g.took
		distinct[fmt.Sprint(g.table, " ")+string(c.keys[from:g.keyEnd])]++
		from = g.keyEnd
	}

	kept := uint64(len(c.gets))
	w.Gets, w.DistinctKeys, w.Tenths = kept+c.more, uint64(len(distinct)), tenths(distinct)
	w.GetsSeconds = c.watched.Seconds()
	if c.watched > 0 {
		w.Record(figure.GetsPerSecond, float64(w.Gets)/w.GetsSeconds)
	}

	if kept > 0 {
		w.Absent, w.ServiceNanos = float64(w.Missing)/float64(kept), new(latency.Summary())
		more := float64(w.Gets) / float64(kept)
		w.Record(figure.InFlight, all.Seconds()*more/w.GetsSeconds)
	}

	for _, r := range rows {
		r.Absent = float64(r.missing) / float64(r.Gets)
		r.P50, r.P99 = r.latency.Quantile(0.5), r.latency.Quantile(0.99)
		if r.resolved > 0 {
			r.PagesPerGet = new(float64(r.pages) / float64(r.resolved))
		}
		w.TableGets = append(w.TableGets, r.WatchedTableGets)
	}

	slices.SortFunc(w.TableGets, func(x, y result.WatchedTableGets) int {
		return cmp.Or(cmp.Compare(y.Gets, x.Gets), cmp.Compare(x.Table, y.Table))
	})

	if c.more > 0 {
		w.Warnings = append(w.Warnings, engine.Warning{
			Code: "not_kept",
			Text: fmt.Sprintf("%s Gets beyond the first %s are counted, but not told by tables",
				unit.Count(c.more), unit.Count(maxGets)),
			Remedy: "watch for a shorter time",
		})
	}

	if kept > w.Resolved {
		w.Warnings = append(w.Warnings, engine.Warning{
			Code: "not_resolved",
			Text: fmt.Sprintf("the pages of %s of %s Gets are not known: their table is not, it "+
				"was written to meanwhile, or there was no time to look",
				unit.Count(kept-w.Resolved), unit.Count(kept)),
			Remedy: "watch a smaller share of the time (--sample)",
		})
	}

	if w.Resolved > 0 {
		w.Record(figure.BlockAccessesPerGet, float64(len(c.pages))/float64(w.Resolved))
	}

	if c.seeks.Calls > 0 {
		c.seeks.MeanNanos = float64(c.seekFor) / float64(c.seeks.Calls)
		w.Seeks = &c.seeks
	}

	lost, err := c.probe.Lost()
	w.Lost.Gets = lost.Gets
	cost := c.probe.Cost()
	w.Cost.GetNanos = cost.Get.Nanoseconds()
	w.Cost.Core += (float64(w.Gets) + float64(c.seeks.Calls)) * cost.Get.Seconds() /
		max(w.Seconds, 1e-9)
	return latency, err
}

// trace has the pages of those Gets of which they are known; nil: there is none.
func (c *mappedGets) trace(of result.WatchedProcess) ([]byte, error) {
	if len(c.pages) == 0 {
		return nil, nil
	}

	all := &cachesim.Trace{}
	pageBytes := int32(c.file.PageBytes())
	resolved := 0
	for _, g := range c.gets {
		if g.pages > 0 {
			resolved++
		}
	}

	var out bytes.Buffer
	to, err := trace.NewWriter(&out, trace.Header{
		Engine:        of.Engine,
		EngineVersion: of.EngineVersion,
		Keys:          fmt.Sprintf("Gets of %s, seen from outside", of.Name),
		WarmupGets:    resolved / 2,
		Database:      of.Database,
		Cache:         cachesim.LRUPolicy,
	})
	if err != nil {
		return nil, err
	}

	for _, g := range c.gets {
		if g.pages == 0 {
			continue
		}

		var numbers []uint32
		for _, page := range c.pages[g.pagesFrom:][:g.pages] {
			known := len(all.Blocks)
			block := cachesim.Block{
				Offset:    uint64(page) * uint64(pageBytes),
				Bytes:     pageBytes,
				DiskBytes: pageBytes,
				Type:      engine.Page,
				Level:     engine.LevelUnknown,
			}

			number := all.Number(block)
			if int(number) == known {
				number = to.Block(block)
			}
			numbers = append(numbers, number)
		}

		if err := to.Get(g.found, numbers); err != nil {
			return nil, err
		}
	}

	_, err = to.Close(uint64(resolved))
	return out.Bytes(), err
}

// keptKeys are those of the Gets.
func (c *mappedGets) keptKeys() (keys [][]byte) {
	from := uint64(0)
	for _, g := range c.gets {
		keys = append(keys, c.keys[from:g.keyEnd])
		from = g.keyEnd
	}
	return keys
}
