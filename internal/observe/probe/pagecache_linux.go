package probe

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

// PageCacheProbe watches which pages enter and leave the page cache: of the control group that the
// pages of a process's database are charged to, or of the whole machine. It is for one goroutine.
type PageCacheProbe struct {
	inKernel
	added, deleted *ebpf.Program
	words          *ebpf.Map
	ring           *ebpf.Map
	reader         *ringbuf.Reader
	attached       inKernel
	share          float64
	own            File
	began          time.Time
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

// Kinds of events.
const (
	PageAdded   PageEventKind = iota // it was read, or written for the first time
	PageEvicted                      // it left to make room
	PageRemoved                      // its file was cut, or it was dropped on demand
)

// PageCacheCounts are counted whatever the share of the pages that is reported.
type PageCacheCounts struct {
	Evicted  uint64 // pages of the control group, or of the machine
	OwnAdded uint64 // pages of the database
	Lost     uint64 // events
	Found    bool   // the process read a page of the database, or the whole machine is watched
}

// Words of the map.
const (
	cacheGroup     = iota // 0: not known yet
	cacheWhole            // not 0: of the whole machine
	cacheInode            // of the database
	cacheDevice           // likewise
	cacheThreshold        // pages whose hash is below it are reported
	cacheEvicted
	cacheOwnAdded
	cacheLost
	cacheWords
)

// A page as it is reported.
const (
	pageKind   = 0 // uint32
	pageDevice = 4 // uint32, as the kernel writes it
	pageInode  = 8
	pageIndex  = 16
	pageClock  = 24
	pageOrder  = 32
	pageBytes  = 40
)

// Multipliers of the hash that chooses pages.
const (
	hashPage  = 0x9E3779B97F4A7C15
	hashInode = 0xC2B2AE3D27D4EB4F
	hashBits  = 32
)

// cacheOffsets are places in structures of the kernel.
type cacheOffsets struct {
	group, mapping, index, flags, order, host, number, superBlock, device, reclaim uint32
	compound                                                                       uint32 // bit
}

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

	at, err := findCacheOffsets()
	if err != nil {
		return nil, err
	}

	p := &PageCacheProbe{share: share, own: File{Device: stat.Dev, Inode: stat.Ino}}
	defer func() {
		if err != nil {
			err = refused(err)
			_ = p.Close() // err tells why
		}
	}()

	err = cmp.Or(
		p.newMap(&p.words, counters("page_cache", cacheWords)),
		p.newMap(&p.ring, ebpf.MapSpec{Name: "pages", Type: ebpf.RingBuf, MaxEntries: ringBytes}))
	if err != nil {
		return nil, err
	}

	words := make([]uint64, cacheWords)
	if whole {
		words[cacheWhole] = 1
	}

	words[cacheInode] = stat.Ino
	words[cacheDevice] = uint64(unix.Major(stat.Dev))<<minorBits | uint64(unix.Minor(stat.Dev))
	words[cacheThreshold] = uint64(math.Round(share * (1 << hashBits)))
	if err := p.words.Put(uint32(0), words); err != nil {
		return nil, err
	}

	raw := ebpf.ProgramSpec{Type: ebpf.RawTracepoint}
	err = cmp.Or(
		p.newProgram(&p.added, "page_added", raw, p.report(at, process, true)),
		p.newProgram(&p.deleted, "page_deleted", raw, p.report(at, process, false)))
	if err != nil {
		return nil, err
	}

	p.reader, err = ringbuf.NewReader(p.ring)
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
		"mm_filemap_add_to_page_cache":      p.added,
		"mm_filemap_delete_from_page_cache": p.deleted,
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
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(sample[at:]) }
	half := func(at int) uint32 { return binary.NativeEndian.Uint32(sample[at:]) }
	device := half(pageDevice)
	e := PageEvent{
		Kind:   PageEventKind(half(pageKind)),
		Device: uint32(unix.Mkdev(device>>minorBits, device&(1<<minorBits-1))),
		Inode:  word(pageInode),
		Clock:  word(pageClock),
	}

	first, pages := word(pageIndex), uint64(1)<<word(pageOrder)
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
	return shareOfCore(p.began, p.added, p.deleted)
}

// Own is the file of the database.
func (p *PageCacheProbe) Own() (device uint32, inode uint64) {
	return uint32(p.own.Device), p.own.Inode
}

// Counts are those so far.
func (p *PageCacheProbe) Counts() (PageCacheCounts, error) {
	words := make([]uint64, cacheWords)
	err := p.words.Lookup(uint32(0), words)
	return PageCacheCounts{words[cacheEvicted], words[cacheOwnAdded], words[cacheLost],
		words[cacheWhole] != 0 || words[cacheGroup] != 0}, err
}

// report is the program of either tracepoint. R6 is the folio, R7 the map's words, R8 the inode.
func (p *PageCacheProbe) report(
	at cacheOffsets, process namespace, added bool,
) asm.Instructions {
	const value = scratch - pageBytes
	const noReclaim, sampled = "no_reclaim", "sampled"
	count := func(word int16) asm.Instruction {
		add := asm.StoreXAdd(asm.R7, asm.R2, asm.DWord)
		add.Offset = 8 * word
		return add
	}

	// The control group of a page is a pointer whose lowest bits are flags.
	const groupFlags = 7
	code := list(
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
		asm.LoadMapValue(asm.R7, p.words.FD(), 0),
		zeroed(value, pageBytes),

		asm.Mov.Reg(asm.R8, asm.R6),
		follow(asm.R8, at.mapping),
		follow(asm.R8, at.host),
		kernel(value+pageInode, 8, asm.R8, at.number),
		follow(asm.R8, at.superBlock),
		kernel(value+pageDevice, 4, asm.R8, at.device),
		kernel(value+pageIndex, 8, asm.R6, at.index),

		kernel(scratch, 8, asm.R6, at.flags),
		asm.LoadMem(asm.R1, asm.R10, scratch, asm.DWord),
		asm.RSh.Imm(asm.R1, int32(at.compound)),
		asm.And.Imm(asm.R1, 1),
		asm.JEq.Imm(asm.R1, 0, "single"),
		kernel(value+pageOrder, 1, asm.R6, at.order),

		labelled("single", asm.Instructions{asm.LoadMem(asm.R1, asm.R7, 8*cacheWhole, asm.DWord)}),
		asm.JNE.Imm(asm.R1, 0, "ours"),
		kernel(scratch, 8, asm.R6, at.group),
		asm.LoadMem(asm.R8, asm.R10, scratch, asm.DWord),
		asm.And.Imm(asm.R8, ^groupFlags),
		asm.JEq.Imm(asm.R8, 0, exitLabel),
		asm.LoadMem(asm.R1, asm.R7, 8*cacheGroup, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R8, "ours"),
		asm.JNE.Imm(asm.R1, 0, exitLabel),
	)

	if added {
		// The group of the first page of the database that the process reads is the one.
		code = list(code,
			p.ifOwn(value, exitLabel),
			isProcess(process, exitLabel),
			asm.StoreMem(asm.R7, 8*cacheGroup, asm.R8, asm.DWord),
			labelled("ours", p.ifOwn(value, "others")),
			asm.LoadMem(asm.R1, asm.R10, value+pageOrder, asm.DWord),
			asm.Mov.Imm(asm.R2, 1),
			asm.LSh.Reg(asm.R2, asm.R1),
			count(cacheOwnAdded),
			labelled("others", asm.Instructions{asm.Mov.Imm(asm.R1, int32(PageAdded))}),
			asm.StoreMem(asm.R10, value+pageKind, asm.R1, asm.Word),
		)
	} else {
		code = list(code,
			asm.Ja.Label(exitLabel),
			labelled("ours", asm.Instructions{asm.FnGetCurrentTask.Call()}),
			asm.Mov.Reg(asm.R8, asm.R0),
			kernel(scratch, 8, asm.R8, at.reclaim),
			asm.Mov.Imm(asm.R1, int32(PageRemoved)),
			asm.StoreMem(asm.R10, value+pageKind, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.R10, scratch, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, noReclaim),
			asm.Mov.Imm(asm.R1, int32(PageEvicted)),
			asm.StoreMem(asm.R10, value+pageKind, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.R10, value+pageOrder, asm.DWord),
			asm.Mov.Imm(asm.R2, 1),
			asm.LSh.Reg(asm.R2, asm.R1),
			count(cacheEvicted),
			labelled(noReclaim, asm.Instructions{asm.Mov.Imm(asm.R1, 0)}),
		)
	}

	return join(code,
		asm.LoadMem(asm.R1, asm.R7, 8*cacheEvicted, asm.DWord),
		asm.StoreMem(asm.R10, value+pageClock, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R10, value+pageOrder, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, sampled), // its pages are chosen one by one

		asm.LoadMem(asm.R1, asm.R10, value+pageInode, asm.DWord),
		asm.LoadImm(asm.R2, hashInodeWord, asm.DWord),
		asm.Mul.Reg(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.R10, value+pageIndex, asm.DWord),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.LoadImm(asm.R2, hashPageWord, asm.DWord),
		asm.Mul.Reg(asm.R1, asm.R2),
		asm.RSh.Imm(asm.R1, 64-hashBits),
		asm.LoadMem(asm.R2, asm.R7, 8*cacheThreshold, asm.DWord),
		asm.JGE.Reg(asm.R1, asm.R2, exitLabel),

		labelled(sampled, address(asm.R2, value)),
		asm.Mov.Imm(asm.R3, pageBytes),
		asm.LoadMapPtr(asm.R1, p.ring.FD()),
		asm.Mov.Imm(asm.R4, unix.BPF_RB_NO_WAKEUP), // waking the reader takes longer than all else
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		asm.Mov.Imm(asm.R2, 1),
		count(cacheLost),
	)
}

// The multipliers as the assembler takes them.
var hashPageWord, hashInodeWord = signed(hashPage), signed(hashInode)

func signed(word uint64) int64 { return int64(word) }

// ifOwn goes on if the page is one of the database, and else to a label. R7 are the map's words.
func (p *PageCacheProbe) ifOwn(value int16, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, 8*cacheInode, asm.DWord),
		asm.LoadMem(asm.R2, asm.R10, value+pageInode, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, otherwise),
		asm.LoadMem(asm.R1, asm.R7, 8*cacheDevice, asm.DWord),
		asm.LoadMem(asm.R2, asm.R10, value+pageDevice, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R2, otherwise),
	}
}

// findCacheOffsets reads the kernel's own description.
func findCacheOffsets() (o cacheOffsets, err error) {
	if err = structureOffsets([]memberOffset{
		{&o.group, "folio", "memcg_data"},
		{&o.mapping, "folio", "mapping"},
		{&o.index, "folio", "index"},
		{&o.flags, "folio", "flags"},
		{&o.order, "folio", "_flags_1"},
		{&o.host, "address_space", "host"},
		{&o.number, "inode", "i_ino"},
		{&o.superBlock, "inode", "i_sb"},
		{&o.device, "super_block", "s_dev"},
		{&o.reclaim, "task_struct", "reclaim_state"},
	}); err != nil {
		return o, err
	}

	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return o, err
	}

	var flags *btf.Enum
	if err := spec.TypeByName("pageflags", &flags); err != nil {
		return o, fmt.Errorf("the kernel's BTF: pageflags: %w", err)
	}

	for _, v := range flags.Values {
		if v.Name == "PG_head" {
			o.compound = uint32(v.Value)
			return o, nil
		}
	}

	return o, engine.Fail(engine.CodeUnsupported, "the kernel's pages have no flag PG_head: this "+
		"version of Linux is not known")
}
