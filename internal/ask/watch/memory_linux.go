package watch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/pagecache"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/result"
)

// otherMemory watches the page cache, to tell what a process would read with another amount of
// memory.
type otherMemory struct {
	probe *probe.PageCacheProbe
	own   pagecache.Page

	mutex   sync.Mutex // of the next two
	history *pagecache.History
	share   float64

	memory result.WatchedMemory // when the watch began
	now    result.WatchedMemory // when the process was last seen
	random *bool                // readsAtRandom; nil: not known yet
	core   float64              // share of a processor that this took
	ended  chan error
	stop   context.CancelFunc
}

const (
	// fullGroup is the share of its limit that a control group uses at least when the limit makes
	// pages leave: the kernel drops some more than it needs.
	fullGroup = 0.8
	// mostPages have a history; where there are more, it is that of a share of them.
	mostPages = 1 << 20
	// sameLimit is how much a limit may move that is still the same: some programs set their own
	// again and again.
	sameLimit = 0.02
)

// systemPage is a page of the page cache, in bytes.
var systemPage = int64(os.Getpagesize())

// watchMemory begins to watch the page cache. The error says why that cannot tell anything.
func watchMemory(ctx context.Context, t *probe.Target, path string) (_ *otherMemory, err error) {
	m := &otherMemory{memory: host.MemoryOf(t.PID), ended: make(chan error, 1)}
	if m.memory.Above {
		return nil, fmt.Errorf("the control group %s, which limits its memory, has other groups "+
			"in it, whose pages were not followed", m.memory.Group)
	}

	m.share = 1
	for m.share*float64(m.limit()/systemPage) > mostPages/2 {
		m.share /= 2
	}

	if m.probe, err = probe.OpenPageCache(t, path, m.memory.LimitBytes == 0, m.share); err != nil {
		return nil, err
	}

	defer func() {
		if err != nil {
			err = errors.Join(err, m.probe.Close())
		}
	}()

	if err := m.probe.Attach(); err != nil {
		return nil, err
	}

	m.own.Device, m.own.Inode = m.probe.Own()
	m.history = pagecache.NewHistory(m.own)
	ctx, m.stop = context.WithCancel(ctx)
	go func() { m.ended <- m.probe.Watch(ctx, m.event) }()
	return m, nil
}

// close ends the watch.
func (m *otherMemory) close() error {
	m.stop()
	return errors.Join(<-m.ended, m.probe.Close())
}

// limit is the memory that the process may use, in bytes.
func (m *otherMemory) limit() int64 {
	if m.memory.LimitBytes > 0 {
		return m.memory.LimitBytes
	}
	return m.memory.MachineBytes
}

func (m *otherMemory) event(e probe.PageEvent) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if !probe.PageChosen(e.Inode, e.Index, m.share) {
		return
	}

	page := pagecache.Page{Device: e.Device, Inode: e.Inode, Index: e.Index}
	switch e.Kind {
	case probe.PageAdded:
		m.history.Added(page, e.Clock)
	case probe.PageEvicted:
		m.history.Evicted(page, e.Clock)
	case probe.PageRemoved:
		m.history.Removed(page)
	}

	if m.history.Pages() > mostPages {
		m.share /= 2
		m.history.Keep(func(p pagecache.Page) bool {
			return probe.PageChosen(p.Inode, p.Index, m.share)
		})
	}
}

// look reads what only a living process tells. Its mapping of the database is looked at once: the
// kernel counts all its pages for that.
func (m *otherMemory) look(t *probe.Target, inode uint64, mapped bool) {
	now := host.MemoryOf(t.PID)
	if !t.Alive() {
		return
	}

	m.now = now
	if m.random == nil && mapped {
		// What cannot be read now may be in the next second; if it never can, end says so.
		if random, err := readsAtRandom(t.PID, inode); err == nil {
			m.random = &random
		}
	}
}

// memorySizes are the sizes that are predicted, as multiples of the present one.
var memorySizes = []float64{0.5, 0.75, 1.5, 2, 3}

// end ends the watch, and predicts.
func (m *otherMemory) end(
	path string, pagesPerSecond float64,
) (*result.WatchedOtherMemory, error) {
	m.core = m.probe.Core()
	counts, err := m.probe.Counts()
	if err = errors.Join(err, m.close()); err != nil {
		return nil, err
	}

	return m.predict(path, counts, pagesPerSecond)
}

// soFar predicts while the watch goes on; nil: there is no prediction (yet).
func (m *otherMemory) soFar(path string, pagesPerSecond float64) *result.WatchedOtherMemory {
	counts, err := m.probe.Counts()
	if err != nil {
		return nil
	}

	m.mutex.Lock()
	defer m.mutex.Unlock()
	predicted, _ := m.predict(path, counts, pagesPerSecond) // end says why there is none

	return predicted
}

// predict tells what a process that reads so many pages of its database a second would read with
// other amounts of memory. The error says why there is no prediction.
func (m *otherMemory) predict(
	path string, counts probe.PageCacheCounts, pagesPerSecond float64,
) (*result.WatchedOtherMemory, error) {
	now := m.now
	switch {
	case m.random == nil:
		return nil, errors.New("the process did not tell how it maps its database: watch longer")
	case math.Abs(float64(now.LimitBytes-m.memory.LimitBytes)) >
		sameLimit*float64(m.memory.LimitBytes):
		return nil, fmt.Errorf("the limit of its memory changed from %s to %s while it was watched",
			unit.Bytes(m.memory.LimitBytes), unit.Bytes(now.LimitBytes))
	case !counts.Found:
		return nil, errors.New("every page of the database that the process needed was in memory")
	case now.LimitBytes > 0 && float64(now.UsedBytes) < fullGroup*float64(now.LimitBytes):
		return nil, fmt.Errorf("the control group %s uses %s of %s, so that its limit is not what "+
			"makes pages leave memory", now.Group, unit.Bytes(now.UsedBytes),
			unit.Bytes(now.LimitBytes))
	case counts.Evicted == 0:
		return nil, errors.New("no page left memory to make room for another: with more memory, " +
			"the same pages would have been read")
	case counts.Lost > 0:
		return nil, fmt.Errorf("%s of the pages that entered or left memory were not seen: watch "+
			"when the machine is less busy", unit.Count(counts.Lost))
	}

	fileBytes, cached, err := cachedPages(path)
	if err != nil {
		return nil, err
	}

	w := pagecache.Window{
		Evictions:  float64(counts.Evicted),
		OwnReads:   float64(counts.OwnAdded),
		Share:      m.share,
		CachePages: float64(now.PageCacheBytes / systemPage),
		OwnPages:   float64(cached),
		FilePages:  float64(fileBytes / systemPage),
		EntryOrder: *m.random,
	}

	model, err := m.history.Fit(w)
	if err != nil {
		return nil, err
	}

	o := &result.WatchedOtherMemory{
		Bytes:          m.limit(),
		Group:          m.memory.Group,
		CacheBytes:     now.PageCacheBytes,
		Evicted:        counts.Evicted,
		Replaced:       w.Replaced(),
		PagesPerSecond: pagesPerSecond,
	}

	for _, times := range memorySizes {
		bytes := int64(times * float64(o.Bytes))
		if more := bytes - o.Bytes; o.CacheBytes+more > 0 { // the rest is not the page cache's
			p := model.With(float64(more / systemPage))
			o.Sizes = append(o.Sizes, result.WatchedMemoryReads{Bytes: bytes,
				PagesPerSecond: pagesPerSecond * p.Times, Low: pagesPerSecond * p.Low,
				High: pagesPerSecond * p.High})
		}
	}

	return o, nil
}

// cachedPages are the size of a file, and its pages in the page cache.
func cachedPages(path string) (bytes int64, pages uint64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}

	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}

	var counted unix.Cachestat_t
	err = unix.Cachestat(uint(file.Fd()), new(unix.CachestatRange), &counted, 0)
	if errors.Is(err, unix.ENOSYS) {
		err = errors.New("the kernel does not tell how much of a file is in the page cache " +
			"(cachestat, since Linux 6.5)")
	}

	return info.Size(), counted.Cache, err
}

// readsAtRandom reports whether a process told the kernel that it reads its mapping of a file in no
// order (MADV_RANDOM).
func readsAtRandom(pid int, inode uint64) (bool, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return false, err
	}

	defer file.Close() // only read
	ours, of := false, fmt.Sprint(inode)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		const inodeAt = 4
		switch {
		case len(fields) == 0:
		case strings.Contains(fields[0], "-") && len(fields) > inodeAt:
			ours = fields[inodeAt] == of
		case ours && fields[0] == "VmFlags:":
			for _, flag := range fields[1:] {
				if flag == "rr" {
					return true, nil
				}
			}
		}
	}

	return false, lines.Err()
}
