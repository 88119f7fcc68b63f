package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// PageCacheProbe watches which pages enter and leave the page cache: of the control group that the
// pages of a process's database are charged to, or of the whole machine. It is for one goroutine.
type PageCacheProbe struct {
	*loading
	of       ofPages
	reader   *ringbuf.Reader
	attached inKernel
	whole    bool
	share    float64
	own      File
	began    time.Time
}

type ofPages struct {
	Added   *ebpf.Program  `ebpf:"page_added"`
	Deleted *ebpf.Program  `ebpf:"page_deleted"`
	Events  *ebpf.Map      `ebpf:"events"`
	Counts  *ebpf.Variable `ebpf:"page_counts"`
}

// PageEvent is a page that entered or left the page cache.
type PageEvent struct {
	Kind   PageEventKind
	Device uint32 // as unix.Makedev has it
	Inode  uint64
	Index  uint64 // in the file, in pages of the system
	// Clock is how many pages had been evicted since Attach, this one included.
	Clock uint64
}

// PageEventKind is what happened to a page.
type PageEventKind int

// Kinds of events, as bpf/pages.c describes them.
const (
	PageAdded   = PageEventKind(bpfPageEventKindADDED)
	PageEvicted = PageEventKind(bpfPageEventKindEVICTED)
	PageRemoved = PageEventKind(bpfPageEventKindREMOVED)
)

// PageCacheCounts are counted whatever the share of the pages that is reported.
type PageCacheCounts struct {
	Evicted  uint64 // pages of the control group, or of the machine
	OwnAdded uint64 // pages of the database
	Lost     uint64 // events
	Found    bool   // the process read a page of the database, or the whole machine is watched
}

// Multipliers of the hash that chooses pages.
const (
	hashPage  = 0x9E3779B97F4A7C15
	hashInode = 0xC2B2AE3D27D4EB4F
	hashBits  = 32
)

// OpenPageCache loads what runs in the kernel, for a process with a database in a file. whole: the
// memory of the machine limits the process, not that of its control group. share of the pages are
// reported.
func OpenPageCache(
	t *Target, path string, whole bool, share float64,
) (_ *PageCacheProbe, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, refused(err)
	}

	process, err := t.namespace()
	if err != nil {
		return nil, err
	}

	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return nil, err
	}

	l, err := newLoading(process, false)
	if err != nil {
		return nil, err
	}

	p := &PageCacheProbe{
		loading: l,
		whole:   whole,
		share:   share,
		own:     File{Device: stat.Dev, Inode: stat.Ino},
	}

	defer func() {
		if err != nil {
			err = refused(err)
			_ = p.Close() // err tells why
		}
	}()

	if err := l.set(bpfVarPages, bpfPages{
		Inode:     stat.Ino,
		Device:    kernelDevice(stat.Dev),
		Whole:     whole,
		Threshold: uint64(math.Round(share * (1 << hashBits))),
	}); err != nil {
		return nil, err
	}

	if err := l.load(&p.of); err != nil {
		return nil, err
	}

	p.reader, err = ringbuf.NewReader(p.of.Events)
	return p, err
}

// Close detaches, and removes everything from the kernel.
func (p *PageCacheProbe) Close() error {
	err := p.attached.close()
	if p.reader != nil {
		err = errors.Join(err, p.reader.Close())
	}
	return errors.Join(err, p.inKernel.close())
}

// Attach begins to watch; what is seen waits for Watch.
func (p *PageCacheProbe) Attach() error {
	p.began = time.Now()
	for name, program := range map[string]*ebpf.Program{
		"mm_filemap_add_to_page_cache":      p.of.Added,
		"mm_filemap_delete_from_page_cache": p.of.Deleted,
	} {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: program})
		if err != nil {
			return refused(fmt.Errorf("attach to the tracepoint %s: %w", name, err))
		}
		p.attached = append(p.attached, l)
	}

	return nil
}

// Watch reports pages until ctx ends. Those of a large folio are reported one by one.
func (p *PageCacheProbe) Watch(ctx context.Context, on func(PageEvent)) error {
	var record ringbuf.Record
	const look = 50 * time.Millisecond // how often it looks for the end
	for ending := false; ; {
		ended := ctx.Err() != nil
		p.reader.SetDeadline(time.Now().Add(look))
		for {
			err := p.reader.ReadInto(&record)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}

			if err != nil {
				return fmt.Errorf("read events of the page cache: %w", err)
			}

			p.each(record.RawSample, on)
		}

		if ended && ending {
			return nil
		}

		ending = ended // what came before the end is read once more
	}
}

// each reports the pages of an event that were chosen.
func (p *PageCacheProbe) each(sample []byte, on func(PageEvent)) {
	of, _ := as[bpfPageEvent](sample)
	e := PageEvent{
		Kind:   PageEventKind(of.Kind),
		Device: uint32(userDevice(of.Device)),
		Inode:  of.Inode,
		Clock:  of.Clock,
	}

	first, pages := of.Index, uint64(1)<<of.Order
	for e.Index = first; e.Index < first+pages; e.Index++ {
		if PageChosen(e.Inode, e.Index, p.share) {
			on(e)
		}
	}
}

// PageChosen reports whether a page is among those of a share, as it is in the kernel. A smaller
// share is a part of a larger one.
func PageChosen(inode, index uint64, share float64) bool {
	hash := (inode*hashInode + index) * hashPage >> (64 - hashBits)
	return float64(hash) < share*(1<<hashBits)
}

// Core is the share of a processor that the programs took since Attach; 0 where the kernel does not
// measure it.
func (p *PageCacheProbe) Core() float64 {
	return shareOfCore(p.began, p.of.Added, p.of.Deleted)
}

// Own is the file of the database.
func (p *PageCacheProbe) Own() (device uint32, inode uint64) {
	return uint32(p.own.Device), p.own.Inode
}

// Counts are those so far.
func (p *PageCacheProbe) Counts() (PageCacheCounts, error) {
	var c bpfPageCounts
	err := p.of.Counts.Get(&c)
	return PageCacheCounts{c.Evicted, c.OwnAdded, c.Lost, p.whole || c.Group != 0}, err
}
