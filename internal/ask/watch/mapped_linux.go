package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/pagefile"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// MappedFile is a database that a process maps into its memory.
type MappedFile struct {
	Layout subject.PageFile
	Path   string // under which it is opened here
	Dir    string // of the file, as the process sees it
	Inode  uint64
}

// MappedBy is the one database that a process maps into its memory; dir names one of several. nil:
// there is none.
func MappedBy(t *probe.Target, dir string) (*MappedFile, error) {
	var names []string
	for _, layout := range subject.PageFiles() {
		names = append(names, layout.Names...)
	}

	mappings, err := t.Mappings(names)
	if err != nil {
		return nil, err
	}

	var found []*MappedFile
	var dirs []string
	for _, m := range mappings {
		path, err := t.Mapped(m)
		if err != nil {
			return nil, err
		}

		file, err := FileMapped(path)
		if err != nil {
			return nil, err
		}

		if file == nil || dir != "" && !sameFile(path, filepath.Join(dir, filepath.Base(m.Path))) {
			continue
		}

		file.Dir = filepath.Dir(m.Path)
		found, dirs = append(found, file), append(dirs, file.Dir)
	}

	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}

	return nil, engine.Fail(engine.CodeUsage, "%s has %d databases open: name one of them "+
		"instead of the process (%s)", t, len(found), strings.Join(dirs, ", "))
}

// FileMapped is a file that processes may map as their database; nil: it is no such database.
func FileMapped(path string) (*MappedFile, error) {
	name, err := dbformat.EngineOfFile(path)
	if err != nil {
		return nil, err
	}

	inode, err := probe.Inode(path)
	if err != nil {
		return nil, err
	}

	for _, layout := range subject.PageFiles() {
		if layout.Engine == name {
			return &MappedFile{layout, path, filepath.Dir(path), inode}, nil
		}
	}

	return nil, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// faults collects the page faults of a process. Its methods are called by one goroutine.
type faults struct {
	target  *probe.Target
	probe   *probe.FaultProbe
	of      *MappedFile
	file    *pagefile.File
	mapping probe.Mapping // High is 0: not there yet
	located time.Time     // when it was looked for last
	took    time.Duration // that this took

	pages   map[uint64]*seenPage
	pending []*seenPage // whose tables are not known yet
	kept    []fault
	more    uint64 // major ones beyond maxReads
	major   uint64
	minor   uint64
	outside uint64 // major ones, elsewhere in the process
	bytes   uint64
	latency *measure.Histogram

	second   seconds
	inSecond uint64
	live     *live
	memory   *otherMemory // nil: other amounts of memory are not predicted
	predicts time.Time    // next, for the metrics
}

type seenPage struct {
	kind   pagefile.Kind
	begins uint64
	table  string
	looked bool
}

type fault struct {
	page         *seenPage
	took         time.Duration // negative: not known
	reads, bytes uint64
	major        bool
}

// Limits of the time that looking for tables takes.
const (
	locateEach     = 20 // times what it takes
	lookEachSecond = 100 * time.Millisecond
	lookAtTheEnd   = 10 * time.Second
)

// Faults watches the page faults of a process on a database that it maps, and explains them.
func Faults(
	ctx context.Context, t *probe.Target, p *probe.FaultProbe, of *MappedFile, o Options,
) (_ *Seen, err error) {
	file, err := pagefile.Open(of.Path, of.Layout)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, file.Close()) }()
	seen := &Seen{Latency: measure.NewHistogram()}
	c := &faults{
		target:  t,
		probe:   p,
		of:      of,
		file:    file,
		pages:   map[uint64]*seenPage{},
		latency: seen.Latency,
		second:  seen.seconds(p.Attached, o),
		live:    newLive(t, of.Dir, of.Layout.Engine, o.Counts),
	}

	if err := c.locate(); err != nil {
		return nil, err
	}

	busy := busyOf(of.Path)
	limited, stop := o.limited(ctx)
	memory, noMemory := watchMemory(limited, t, of.Path)
	c.memory = memory
	getsEnd := func() error { return nil }
	if o.mapped != nil {
		getsEnd = o.mapped.begin(limited, o.Share)
	}

	err = p.Watch(limited, c)
	stop()
	err = errors.Join(err, getsEnd())
	if err != nil {
		if memory != nil {
			err = errors.Join(err, memory.close())
		}
		return nil, err
	}

	var other *result.WatchedOtherMemory
	if memory != nil {
		memory.look(t, of.Inode, c.mapping.High > 0)
		other, noMemory = memory.end(of.Path,
			float64(c.major)/time.Since(p.Attached).Seconds())
	}

	w := &seen.Watch
	program := filepath.Base(t.Program)
	if strings.HasPrefix(program, t.Name) { // the kernel cuts the name of a process
		t.Name = program
	}

	*w = result.Watch{
		Started: p.Attached.UTC(),
		Seconds: time.Since(p.Attached).Seconds(),
		Why:     map[string]string{},
		Process: result.WatchedProcess{
			PID:      t.PID,
			Name:     t.Name,
			Program:  cmp.Or(t.Main, program),
			Version:  t.Version,
			Args:     t.Args,
			Engine:   of.Layout.Engine,
			Database: of.Dir,
			Cores:    t.Cores,
			Ended:    !t.Alive(),
		},
	}

	w.Watched, w.Cost.Core = w.Seconds, p.Core()
	if memory != nil {
		w.Cost.Core += memory.core
	}

	w.Process.Memory = new(host.MemoryOf(t.PID))
	w.RecordIf(figure.DeviceBusy, busy.share(w.Seconds))
	elsewhere, err := p.UnreportedFaults()
	if err != nil {
		return nil, err
	}

	w.Lost.Reads, w.Elsewhere = elsewhere.Lost,
		&result.WatchElsewhere{Major: c.outside, Minor: elsewhere.Minor}
	device, err := p.Device()
	if err != nil {
		return nil, err
	}

	if p.NoDevice != nil {
		w.Why["device"] = p.NoDevice.Error()
	} else {
		w.Device = deviceRates(device, w.Seconds)
	}

	o.Tell(result.Event{Phase: "looking for the tables of the pages"})
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(c.pending), func(i, j int) {
		c.pending[i], c.pending[j] = c.pending[j], c.pending[i]
	})
	if err := c.look(lookAtTheEnd); err != nil {
		return nil, err
	}

	w.Process.Client = dbformat.Client(filepath.Dir(t.Path(filepath.Join(of.Dir, "x"))),
		dbformat.Found{Engine: of.Layout.Engine}, c.file.Tables()).Name()
	if w.OtherMemory = other; noMemory != nil {
		w.Why["other_memory"] = noMemory.Error()
	}

	c.explain(w)
	return seen, c.explainGets(w, seen, o)
}

// busyTime is how long a device has been busy when a watch begins.
type busyTime struct {
	device host.Device
	before result.DeviceIO
	err    error // it does not tell
}

func busyOf(path string) (b busyTime) {
	if b.device, b.err = host.DeviceOf(path); b.err == nil {
		b.before, b.err = b.device.Now()
	}
	return b
}

// share is the part of the seconds since in which the device had requests.
func (b busyTime) share(seconds float64) figure.Value {
	now, err := b.before, b.err
	if err == nil {
		now, err = b.device.Now()
	}

	if err != nil || seconds <= 0 {
		return figure.Unavailable(fmt.Sprintf("the disk does not tell: %v", err))
	}

	busy := time.Duration(now.BusyMillis-b.before.BusyMillis) * time.Millisecond

	return figure.Known(min(1, busy.Seconds()/seconds))
}

// deviceRates are the reads of a device in some time.
func deviceRates(c probe.DeviceCounts, seconds float64) *result.WatchedDevice {
	seconds = max(seconds, 1e-9)
	return &result.WatchedDevice{
		Reads:       c.Reads,
		ReadBytes:   c.Bytes,
		Rate:        float64(c.Reads) / seconds,
		Bytes:       float64(c.Bytes) / seconds,
		OthersRate:  float64(c.OtherReads) / seconds,
		OthersBytes: float64(c.OtherBytes) / seconds,
	}
}

// locate finds the database in the memory of the process, where it can move when it grows.
func (c *faults) locate() error {
	began := time.Now()
	all, err := c.target.Mappings(c.of.Layout.Names)
	c.located = time.Now()
	c.took = c.located.Sub(began)
	if err != nil && c.target.Alive() {
		return err
	}

	for _, m := range all {
		if m.Inode == c.of.Inode && m != c.mapping {
			c.mapping = m
			return c.probe.Report(m.Low, m.High)
		}
	}

	return nil
}

// Fault implements probe.Faults.
func (c *faults) Fault(f *probe.Fault) {
	inside := func() bool { return f.Address >= c.mapping.Low && f.Address < c.mapping.High }
	if !inside() {
		// What cannot be found now is looked for again at a later fault or in the next second.
		// Looking holds up the process a little.
		if c.mapping.High == 0 || time.Since(c.located) > locateEach*c.took {
			if err := c.locate(); err != nil {
				c.located = time.Now() // what has been seen stays worth an answer
			}
		}

		if !inside() {
			if f.Major {
				c.outside++
			}
			return
		}
	}

	at := (f.Address - c.mapping.Low + c.mapping.Offset) / uint64(c.file.PageBytes())
	took := time.Duration(-1)
	if f.Start > 0 {
		took = f.End - f.Start
	}

	c.bytes += f.DeviceBytes
	if f.Major {
		c.major++
		c.inSecond++
		if took >= 0 {
			c.latency.Add(int64(took))
			c.second.latency.Add(int64(took))
		}
	} else {
		c.minor++
	}

	if len(c.kept) == maxReads {
		c.more++
		return
	}

	p := c.pages[at]
	if p == nil {
		// The page is read now, while it surely is what the process has found there.
		p = new(seenPage)
		p.kind, p.begins = c.file.KindAt(at)
		c.file.Refer(at)
		c.pages[at], c.pending = p, append(c.pending, p)
	}

	c.kept = append(c.kept, fault{p, took, f.DeviceReads, f.DeviceBytes, f.Major})
}

// Second implements probe.Faults.
func (c *faults) Second() error {
	tick, took := c.second.end(c.inSecond)
	tick.PageFaults, c.inSecond = float64(c.inSecond)/took, 0
	c.second.tick(tick)
	if c.live != nil {
		c.live.MajorFaults = uint64(c.major)
		c.live.tell(time.Since(c.second.began))
	}

	if err := c.locate(); err != nil {
		return err
	}

	if c.memory != nil {
		c.memory.look(c.target, c.of.Inode, c.mapping.High > 0)
	}

	if now := time.Now(); c.memory != nil && c.live != nil && now.After(c.predicts) {
		perSecond := float64(c.major) / time.Since(c.probe.Attached).Seconds()
		c.live.OtherMemory = c.memory.soFar(c.of.Path, perSecond)
		c.predicts = now.Add(max(firstPeriod, pauseTimes*time.Since(now)))
	}

	// a head that is being written is read again in the next second, and at the end
	_ = c.look(lookEachSecond)
	return nil
}

// look finds the tables of pages for some time, those seen last first: soon, since a node that
// writes moves its pages.
func (c *faults) look(maximum time.Duration) error {
	if err := c.file.Renew(); err != nil {
		return err
	}

	for began := time.Now(); len(c.pending) > 0 && time.Since(began) < maximum; {
		p := c.pending[len(c.pending)-1]
		c.pending = c.pending[:len(c.pending)-1]
		p.table, p.looked = c.file.Table(p.kind, p.begins), true
	}

	return nil
}

// Tables that are none.
const (
	noTable   = "(of no table now)"
	notLooked = "(not looked up)"
)

// explain makes the figures.
func (c *faults) explain(w *result.Watch) {
	type row struct {
		result.WatchedFaults
		latency *measure.Histogram
	}

	rows := map[[2]string]*row{}
	for _, f := range c.kept {
		table, unknown := f.page.table, f.page.table == ""
		switch {
		case !f.page.looked:
			table = notLooked
		case unknown:
			table = noTable
		}

		key := [2]string{table, string(f.page.kind)}
		r := rows[key]
		if r == nil {
			r = &row{result.WatchedFaults{Table: table, Type: key[1], Unknown: unknown},
				measure.NewHistogram()}
			rows[key] = r
		}

		r.DeviceReads, r.DeviceBytes = r.DeviceReads+f.reads, r.DeviceBytes+f.bytes
		if !f.major {
			r.Minor++
			continue
		}

		r.Major++
		if f.took >= 0 {
			r.latency.Add(int64(f.took))
		}
	}

	w.Faults = []result.WatchedFaults{}
	for _, r := range rows {
		r.MajorRate, r.MinorRate = float64(r.Major)/w.Watched, float64(r.Minor)/w.Watched
		r.P50, r.P99 = r.latency.Quantile(0.5), r.latency.Quantile(0.99)
		w.Faults = append(w.Faults, r.WatchedFaults)
	}

	slices.SortFunc(w.Faults, func(x, y result.WatchedFaults) int {
		return cmp.Or(cmp.Compare(y.Major, x.Major), cmp.Compare(y.Minor, x.Minor),
			cmp.Compare(x.Table, y.Table), cmp.Compare(x.Type, y.Type))
	})

	if c.latency.N() > 0 {
		w.FaultNanos = new(c.latency.Summary())
	}

	w.BlockReads = map[string]engine.Tally{engine.Page.String(): {
		Count: int64(c.major),
		Bytes: int64(c.bytes),
	}}

	const noAccesses = "an access to a page that is in memory leaves no trace"
	w.Unavailable(noAccesses, figure.BlockAccessesPerGet, figure.TablesPerGet, figure.HitRate,
		figure.WorkingSet)
	w.Why["simulated"] = noAccesses + "; other_memory predicts other page caches"
	w.Why["block_reads_by_level"] = "pages have no levels"
	if c.probe.Untimed != nil {
		w.Why["p50_ns"] = c.probe.Untimed.Error()
	}

	c.warn(w)
}

// explainGets makes the figures of Gets, or says why there are none.
func (c *faults) explainGets(w *result.Watch, seen *Seen, o Options) error {
	if o.mapped != nil {
		w.Process.Go, w.Process.EngineVersion = o.mapped.target.Go, o.mapped.target.Module
		w.Why["keys"] = "they are told by tables: gets_by_table"
		w.Unavailable("page faults are also those of Seeks and of what is written",
			figure.BlockReadsPerGet)
		w.Why["simulated"] = "--trace-out has the pages of the Gets, of which simulate simulates " +
			"caches; other_memory predicts other page caches"
		seen.Keys = o.mapped.keptKeys()
		latency, err := o.mapped.explain(w)
		if err == nil {
			seen.Latency = latency
			seen.Trace, err = o.mapped.trace(w.Process)
		}
		return err
	}

	noGets := "calls of an engine that maps its database are not seen; only what they did " +
		"not find in memory is, as page faults"
	if o.noGets != nil {
		noGets += ": " + o.noGets.Error()
	}

	for _, name := range []string{"gets", "found", "missing", "absent_share", "keys", "tenths"} {
		w.Why[name] = noGets
	}

	w.Unavailable(noGets, figure.GetsPerSecond, figure.BlockReadsPerGet)
	return nil
}

// generations tells whether the kernel reclaims memory by generations of pages.
const generations = "/sys/kernel/mm/lru_gen/enabled"

func (c *faults) warn(w *result.Watch) {
	say := func(code, remedy, format string, args ...any) {
		w.Warnings = append(w.Warnings, engine.Warning{
			Code:   code,
			Text:   fmt.Sprintf(format, args...),
			Remedy: remedy,
		})
	}

	if w.Lost.Reads > 0 {
		say("events_lost", "watch when the machine is less busy", "%s page faults came faster "+
			"than they were taken and are missing from all figures",
			unit.Count(w.Lost.Reads))
	}

	if c.more > 0 {
		say("not_kept", "watch for a shorter time", "%s page faults beyond the first %s are "+
			"counted, but not explained", unit.Count(c.more), unit.Count(maxReads))
	}

	enabled, err := os.ReadFile(generations)
	if on := strings.TrimSpace(string(enabled)); w.OtherMemory != nil && err == nil &&
		on != "0x0000" {
		say("generations_not_compared", "change the memory a little first, and watch again",
			"this kernel reclaims memory by generations (MGLRU, %s=%s): other amounts of memory "+
				"are predicted as if the least recently used page left, which has not been "+
				"compared with such a kernel", generations, on)
	}

	if c.mapping.High == 0 {
		say("not_mapped", "wait until the node has opened it", "%s did not map the database",
			c.target)
	}

	if w.Process.Ended {
		say("process_ended", "watch it again when it runs", "the process ended after %.0f s; "+
			"what it did until then is shown", w.Seconds)
	}
}
