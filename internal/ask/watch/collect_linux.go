package watch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/blockio"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Limits of what is kept of single Gets and reads; what comes later is counted.
const (
	maxGets  = 2_000_000
	maxReads = 4_000_000
)

// get is a Get as it is kept; its key is in the collector's.
type get struct {
	start, end time.Duration
	keyEnd     uint64
	keyCut     bool
	outcome    outcome
	together   together
	database   uint64 // its handle
	family     int16  // of the collector's; -1: not known
	reads      []read // of tables; sorted out at the end
}

type outcome uint8

const (
	found outcome = iota
	missing
	failed
)

// read is a Get's read of a table.
type read struct {
	table  *table
	offset int64
	bytes  int32
	device bool // the kernel asked the block device
}

// of reports whether it was of a block.
func (r read) of(b *cachesim.Block) bool {
	return r.table.number == b.File && uint64(r.offset) == b.Offset
}

// table is a file of the database that was read.
type table struct {
	number  uint64
	of      probe.File
	level   int
	file    *os.File // stays readable when the engine deletes it
	anatomy *blockio.TableLayout
	err     error
	gone    bool // before anybody could say what file it was
}

func (t *table) typeAt(offset int64) (engine.BlockType, bool) {
	if t.anatomy == nil {
		return engine.Meta, false
	}
	return t.anatomy.Map.TypeAt(offset), true
}

// collector keeps what a probe reports. Its methods are called by one goroutine; tables are learnt
// by another.
type collector struct {
	target *probe.Target
	dir    string
	layout Layout

	keys     []byte
	gets     []get
	errors   map[uint64]int   // of values of errors, to tell failures from absent keys
	errorOf  []uint64         // by Get
	families []string         // column families that were asked
	handles  map[uint64]int16 // to which of them a handle goes
	pending  map[probe.GetID][]read
	batches  map[probe.GetID]*batch // of which keys came, but not all
	spare    []*batch
	calls    uint32 // that looked keys of batches up
	// keysTogether are those of them that are among the Gets.
	keysTogether uint64
	ours         map[uint64]bool // handles whose Gets read tables of dir
	others       map[string]sum  // reads that belong to no Get, by purpose
	seeks        result.WatchedSeeks
	seekTime     time.Duration
	passed       []passed
	moreGets     uint64 // beyond maxGets
	moreReads    uint64 // of Gets, beyond maxReads
	readsGone    uint64 // of Gets, of files that were closed and deleted before they were looked at
	reads        uint64 // of tables
	readsKept    int
	histogram    *measure.Histogram
	second       seconds
	secondGets   int
	secondRead   int

	opened  time.Duration // the open window
	since   time.Time     // when it was opened; zero: none is open
	watched time.Duration // in closed ones
	told    time.Duration // of all, what was in the seconds that are over
	windows []window
	live    *live

	files   map[probe.File]*table // nil: not a table
	follow  *followed
	learn   chan *table
	learnt  sync.WaitGroup
	layouts *tableLayouts
}

// tableLayouts read what lies where in tables, once in each. They are shared by collectors.
type tableLayouts struct {
	mutex sync.Mutex
	of    map[probe.File]func() (*blockio.TableLayout, error)
}

func newTableLayouts() *tableLayouts {
	return &tableLayouts{of: map[probe.File]func() (*blockio.TableLayout, error){}}
}

// learn is what read tells of a file, which is read once.
func (l *tableLayouts) learn(
	of probe.File, read func() (*blockio.TableLayout, error),
) (*blockio.TableLayout, error) {
	l.mutex.Lock()
	once := l.of[of]
	if once == nil {
		once = sync.OnceValues(read)
		l.of[of] = once
	}

	l.mutex.Unlock()

	return once()
}

// window is a stretch of time in which every Get was seen.
type window struct{ from, to time.Duration }

func newCollector(
	t *probe.Target, dir string, layout Layout, layouts *tableLayouts, seen *Seen, o Options,
) *collector {
	c := &collector{
		target:    t,
		dir:       dir,
		layout:    layout,
		errors:    map[uint64]int{},
		pending:   map[probe.GetID][]read{},
		batches:   map[probe.GetID]*batch{},
		handles:   map[uint64]int16{},
		ours:      map[uint64]bool{},
		others:    map[string]sum{},
		histogram: seen.Latency,
		files:     map[probe.File]*table{},
		learn:     make(chan *table, 1<<16),
		follow:    followDatabase(layout),
		layouts:   layouts,
	}

	c.second = seen.seconds(time.Now(), o) // opening the tables of a large database takes a while
	c.learnt.Go(func() {
		for t := range c.learn {
			t.anatomy, t.err = layouts.learn(t.of, func() (*blockio.TableLayout, error) {
				return layout.Learn(fmt.Sprintf("/proc/self/fd/%d", t.file.Fd()))
			})
			t.err = errors.Join(t.err, t.file.Close())
		}
	})

	return c
}

// Get implements probe.Events.
func (c *collector) Get(g *probe.Get) {
	if g.InBatch {
		c.batches[g.ID] = c.batchOf(g.ID).add(g)
		return
	}

	reads := c.pending[g.ID]
	delete(c.pending, g.ID)
	if len(reads) > 0 {
		c.ours[g.Database] = true
	}

	if c.isOurs(g) {
		c.second.latency.Add(int64(g.End - g.Start))
	}

	c.keep(g, reads, together{})
}

func (c *collector) isOurs(g *probe.Get) bool { return len(c.ours) == 0 || c.ours[g.Database] }

// keep keeps a Get.
func (c *collector) keep(g *probe.Get, reads []read, of together) {
	family, ours := c.familyOf(g.Family), c.isOurs(g)
	if ours {
		c.secondGets++
		c.live.get(g, c.familyName(family), of.timed())
	}

	if len(c.gets) == maxGets {
		if ours && of.call == 0 {
			c.histogram.Add(int64(g.End - g.Start))
		}
		if ours {
			c.moreGets++
		}
		return
	}

	kept := get{
		start:    g.Start,
		end:      g.End,
		keyCut:   g.KeyBytes > len(g.Key),
		database: g.Database,
		family:   family,
		together: of,
		reads:    reads,
	}

	c.keys = append(c.keys, g.Key...)
	kept.keyEnd = uint64(len(c.keys))
	if !g.Found {
		kept.outcome = missing
		c.errors[g.ErrorData]++
	}

	c.gets, c.errorOf = append(c.gets, kept), append(c.errorOf, g.ErrorData)
}

// familyOf finds the column family of a handle in the memory of the process, and believes it if the
// database has it.
func (c *collector) familyOf(handle uint64) int16 {
	if c.layout.Families == nil {
		return 0
	}

	if family, known := c.handles[handle]; known {
		return family
	}

	family := int16(-1)
	number, name, err := c.target.Family(handle)
	if err == nil {
		var names map[uint32]string
		if names, err = c.layout.Families(); err == nil && names[number] == name &&
			len(c.families) < blockbased.MaxMembers {
			if family = int16(slices.Index(c.families, name)); family < 0 {
				c.families, family = append(c.families, name), int16(len(c.families))
			}
		}
	}

	c.handles[handle] = family
	return family
}

// familyName is that of a column family; "": it is not known, or the engine has none.
func (c *collector) familyName(family int16) string {
	if family < 0 || int(family) >= len(c.families) {
		return ""
	}
	return c.families[family]
}

// Read implements probe.Events.
func (c *collector) Read(r *probe.Read) {
	t := c.tableOf(r)
	if t == nil || r.Bytes < 0 {
		return // of another file; or it failed, and the Get, too
	}

	if t.gone {
		if r.Get != (probe.GetID{}) {
			c.readsGone++
		}
		return
	}

	c.reads++
	if r.Get != (probe.GetID{}) || r.Purpose == subject.ForGets {
		c.secondRead++
		c.live.read(subject.ForGets)
	} else {
		c.live.read(r.Purpose)
	}

	if r.Get == (probe.GetID{}) {
		c.other(r.Purpose, int64(r.Bytes))
		if r.InSeek {
			c.seeks.Reads++
		}

		if r.Purpose == subject.ForCompaction && len(c.passed) < maxReads {
			c.passed = append(c.passed, passed{t, r.Offset, r.Start})
		}
		return
	}

	if c.readsKept == maxReads {
		c.moreReads++
		return
	}

	c.readsKept++
	c.pending[r.Get] = append(c.pending[r.Get], read{
		table:  t,
		offset: r.Offset,
		bytes:  int32(r.Bytes),
		device: r.DeviceReads > 0,
	})
}

// Seek implements probe.Events.
func (c *collector) Seek(s *probe.Seek) {
	c.seeks.Calls++
	c.seekTime += s.End - s.Start
	c.live.seek()
}

// passed is a read of a compaction, which goes through a table in order: the blocks before it that
// it did not read were in the cache.
type passed struct {
	table  *table
	offset int64
	at     time.Duration
}

// sum is of reads.
type sum struct{ reads, bytes uint64 }

func (c *collector) other(purpose string, bytes int64) {
	s := c.others[purpose]
	c.others[purpose] = sum{s.reads + 1, s.bytes + uint64(bytes)}
}

// tableOf is the table that a read was of; nil: it was of another file.
func (c *collector) tableOf(r *probe.Read) *table {
	if t, known := c.files[r.File]; known {
		return t
	}

	c.files[r.File] = nil
	file, path, gone := c.target.OpenTable(r, c.dir)
	if path == "" {
		if gone {
			c.files[r.File] = &table{gone: true}
		}
		return c.files[r.File]
	}

	number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)),
		10, 64)
	if err != nil {
		return nil
	}

	t := &table{number: number, of: r.File, level: engine.LevelUnknown, file: file}
	c.files[r.File] = t
	if file != nil {
		c.learn <- t
	}

	return t
}

// Window implements probe.Events.
func (c *collector) Window(open bool, at time.Duration) {
	if open {
		c.opened, c.since = at, time.Now()
		return
	}

	c.since = time.Time{}

	c.watched += at - c.opened
	c.windows = append(c.windows, window{c.opened, at})
	for id, reads := range c.pending { // of Gets that did not end in it
		for _, r := range reads {
			c.other(subject.ForGets, int64(r.bytes))
		}
		delete(c.pending, id)
	}
	clear(c.batches)
}

// Second implements probe.Events.
func (c *collector) Second() error {
	observed := c.watched
	if !c.since.IsZero() {
		observed += time.Since(c.since)
	}

	tick, _ := c.second.end(uint64(c.secondGets))
	tick.Ops = uint64(c.secondGets)
	if seen := (observed - c.told).Seconds(); seen > 0 { // perhaps only a part of the second
		tick.OpsPerSecond = float64(c.secondGets) / seen
	}

	c.told = observed
	if c.secondGets > 0 {
		tick.BlockReadsPerOp = new(float64(c.secondRead) / float64(c.secondGets))
	}
	c.secondGets, c.secondRead = 0, 0
	c.second.tick(tick)
	c.live.tell(observed)
	return nil
}

// finish waits until the tables are learnt, and puts the Gets in the order in which they began.
func (c *collector) finish() error {
	close(c.learn)
	c.learnt.Wait()
	if err := c.follow.end(); err != nil {
		return err
	}

	c.choose()
	for _, t := range c.files {
		if t == nil || c.follow.following == nil {
			continue
		}

		if level, known := c.follow.Level(t.number); known {
			t.level = level
		}
	}

	absent, maximum := uint64(0), 0
	for address, n := range c.errors {
		if n > maximum && c.target.Engine.Module != "" {
			absent, maximum = address, n
		}
	}

	for i := range c.gets {
		if c.gets[i].outcome == missing && c.errorOf[i] != absent && c.errorOf[i] != 0 {
			c.gets[i].outcome = failed
		}
	}

	return nil
}

// choose keeps the Gets of the database in dir alone: of the handles whose Gets read its tables. If
// no table was read, all stay.
func (c *collector) choose() {
	keys, n, from := c.keys[:0], 0, uint64(0)
	for i, g := range c.gets {
		key := c.keys[from:g.keyEnd]
		from = g.keyEnd
		if len(c.ours) > 0 && !c.ours[g.database] {
			continue
		}

		keys = append(keys, key...)
		g.keyEnd = uint64(len(keys))
		c.gets[n], c.errorOf[n] = g, c.errorOf[i]
		if g.together.call == 0 {
			c.histogram.Add(int64(g.end - g.start))
		}
		n++
	}

	c.gets, c.errorOf, c.keys = c.gets[:n], c.errorOf[:n], keys
}

// key is that of a Get.
func (c *collector) key(i int) []byte {
	from := uint64(0)
	if i > 0 {
		from = c.gets[i-1].keyEnd
	}
	return c.keys[from:c.gets[i].keyEnd]
}

// inOrder are the numbers of the Gets in the order in which they began.
func (c *collector) inOrder() []int {
	order := make([]int, len(c.gets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &c.gets[a], &c.gets[b]
		return cmp.Or(cmp.Compare(x.start, y.start),
			cmp.Compare(x.together.call, y.together.call))
	})
	return order
}
