package probe

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// FaultProbe watches the page faults of a process. It is for one goroutine.
//
// The kernel counts a fault when it has ended, in the process's figures and as a software event; a
// program on that event sees exactly what is counted. Tracepoints tell when the fault began, and
// what was read from a block device meanwhile.
type FaultProbe struct {
	device
	target       *Target
	major, minor *ebpf.Program
	begins       *ebpf.Program
	faulting     *ebpf.Map // by thread: time, device reads, bytes
	// of the addresses whose minor faults are reported; this process alone writes them
	bounds     *ebpf.Map
	unreported *ebpf.Map // counters; the programs alone write them
	ring       *ebpf.Map
	reader     *ringbuf.Reader
	attached   inKernel
	// Attached is when it began to watch.
	Attached time.Time
	// Untimed is why faults have no beginning and no device reads, NoDevice why the reads of the
	// device that holds the database are not counted; nil: they have, and are.
	Untimed, NoDevice error
}

// A fault as it is reported.
const (
	faultThread  = 0
	faultStart   = 8
	faultReads   = 16
	faultDevice  = 24
	faultEnd     = 32
	faultAddress = 40
	faultMajor   = 48
	faultBytes   = 56

	faultingBytes = 24 // of the map: start, reads, bytes
)

// Words of the maps bounds and unreported.
const (
	boundLow = iota
	boundHigh
	boundWords
)
const (
	outsideMinor = iota
	lostFaults
	unreportedWords
)

// OpenFaults loads what runs in the kernel, for a database in a file.
func OpenFaults(t *Target, path string) (_ *FaultProbe, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, refused(err)
	}

	of, err := t.namespace()
	if err != nil {
		return nil, err
	}

	p := &FaultProbe{target: t}
	defer func() {
		if err != nil {
			err = refused(err)
			_ = p.Close() // err tells why
		}
	}()

	event := ebpf.ProgramSpec{Type: ebpf.PerfEvent}
	err = cmp.Or(
		p.newMap(&p.faulting, ebpf.MapSpec{
			Name:       "faulting",
			Type:       ebpf.LRUHash,
			KeySize:    8,
			ValueSize:  faultingBytes,
			MaxEntries: maxActive,
		}),
		p.newMap(&p.bounds, counters("bounds", boundWords)),
		p.newMap(&p.unreported, counters("unreported", unreportedWords)),
		p.newMap(&p.ring, ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: ringBytes}))
	if err != nil {
		return nil, err
	}

	err = cmp.Or(
		p.newProgram(&p.major, "major_fault", event, p.faultEnds(of, true)),
		p.newProgram(&p.minor, "minor_fault", event, p.faultEnds(of, false)),
		p.newProgram(&p.begins, "fault_begins", ebpf.ProgramSpec{Type: ebpf.TracePoint},
			p.faultBegins(of)))
	if err != nil {
		return nil, err
	}

	if err := p.load(of, nil, marked{p.faulting, faultReads - faultStart}); err != nil {
		return nil, err
	}

	p.NoDevice = p.on(path)
	p.reader, err = ringbuf.NewReader(p.ring)
	return p, err
}

// Close detaches, and removes everything from the kernel.
func (p *FaultProbe) Close() error {
	err := p.attached.close()
	if p.reader != nil {
		err = errors.Join(err, p.reader.Close())
	}
	return errors.Join(err, p.inKernel.close())
}

// Attach begins to watch; what is seen waits for Watch.
func (p *FaultProbe) Attach() error {
	// The kernel measures what the programs take, where it can.
	if stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)); err == nil {
		p.attached = append(p.attached, stats)
	}

	p.Attached = time.Now()
	for _, t := range []struct {
		group, name string
		program     *ebpf.Program
	}{
		{"block", "block_bio_queue", p.program},
		{"exceptions", "page_fault_user", p.begins},
		{"exceptions", "page_fault_kernel", p.begins},
	} {
		l, err := link.Tracepoint(t.group, t.name, t.program, nil)
		if errors.Is(err, fs.ErrNotExist) && tracing() {
			p.Untimed = fmt.Errorf("the kernel has no tracepoint %s:%s", t.group, t.name)
			continue
		}

		if err != nil {
			return noTracepoint(t.group+":"+t.name, err)
		}

		p.attached = append(p.attached, l)
	}

	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}

	for processor := range processors {
		for event, program := range map[uint64]*ebpf.Program{
			unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ: p.major,
			unix.PERF_COUNT_SW_PAGE_FAULTS_MIN: p.minor,
		} {
			l, err := onEvent(event, processor, program)
			if errors.Is(err, unix.ENODEV) {
				continue // it is not there now
			}

			if err != nil {
				return refused(fmt.Errorf("attach to the page faults on processor %d: %w",
					processor, err))
			}

			p.attached = append(p.attached, l)
		}
	}

	return nil
}

// onEvent runs a program at each software event of a kind on a processor.
func onEvent(event uint64, processor int, program *ebpf.Program) (io.Closer, error) {
	attributes := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: event, Sample: 1}
	attributes.Size = uint32(unsafe.Sizeof(attributes))
	fd, err := unix.PerfEventOpen(&attributes, -1, processor, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}

	file := os.NewFile(uintptr(fd), "event")
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, program.FD()); err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// Report says of which addresses minor faults are reported, too.
func (p *FaultProbe) Report(low, high uint64) error {
	return p.bounds.Put(uint32(0), []uint64{boundLow: low, boundHigh: high})
}

// UnreportedFaults are the faults that were not reported so far.
func (p *FaultProbe) UnreportedFaults() (UnreportedFaults, error) {
	words := make([]uint64, unreportedWords)
	err := p.unreported.Lookup(uint32(0), words)
	return UnreportedFaults{words[outsideMinor], words[lostFaults]}, err
}

// Core is the share of a processor that the programs took since Attach; 0 where the kernel does not
// measure it.
func (p *FaultProbe) Core() float64 {
	return shareOfCore(p.Attached, p.major, p.minor, p.begins, p.program)
}

// shareOfCore is the share of a processor that programs took since they were attached; 0 where the
// kernel does not measure it.
func shareOfCore(since time.Time, programs ...*ebpf.Program) float64 {
	var took time.Duration
	for _, program := range programs {
		stats, err := program.Stats()
		if err != nil {
			return 0
		}
		took += stats.Runtime
	}

	return took.Seconds() / time.Since(since).Seconds()
}

// Watch reports faults until ctx ends or the process does.
func (p *FaultProbe) Watch(ctx context.Context, on Faults) error {
	var record ringbuf.Record
	const look = 50 * time.Millisecond // how often it looks for the end
	nextSecond := time.Now().Add(time.Second)
	for ending := false; ; {
		ended := ctx.Err() != nil || !p.target.Alive()
		p.reader.SetDeadline(time.Now().Add(look))
		for {
			err := p.reader.ReadInto(&record)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}

			if err != nil {
				return fmt.Errorf("read events: %w", err)
			}

			word := func(at int) uint64 { return binary.NativeEndian.Uint64(record.RawSample[at:]) }
			on.Fault(&Fault{
				Thread:      word(faultThread),
				Start:       time.Duration(word(faultStart)),
				End:         time.Duration(word(faultEnd)),
				Address:     word(faultAddress),
				Major:       word(faultMajor) != 0,
				DeviceReads: word(faultReads),
				DeviceBytes: word(faultDevice),
			})

			if time.Now().After(nextSecond) {
				break
			}
		}

		if now := time.Now(); now.After(nextSecond) {
			nextSecond = now.Add(time.Second)
			if err := on.Second(); err != nil {
				return err
			}
		}

		if ended && ending {
			return nil
		}

		ending = ended // what came before the end is read once more
	}
}

// faultBegins notes when a fault of the process began, by its thread.
func (p *FaultProbe) faultBegins(of namespace) asm.Instructions {
	const value = scratch - faultingBytes
	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		isProcess(of, exitLabel),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.R10, thread, asm.R0, asm.DWord),
		zeroed(value, faultingBytes),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R10, value, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, p.faulting.FD()),
		address(asm.R2, thread),
		address(asm.R3, value),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	)
}

// faultEnds reports a fault that the kernel has just counted.
func (p *FaultProbe) faultEnds(of namespace, major bool) asm.Instructions {
	const value = scratch - faultBytes
	flag, bounded := int64(1), asm.Instructions{}
	if !major {
		flag, bounded = 0, asm.Instructions{
			asm.LoadMapValue(asm.R7, p.bounds.FD(), 0),
			asm.LoadMem(asm.R1, asm.R7, 8*boundLow, asm.DWord),
			asm.JLT.Reg(asm.R8, asm.R1, "outside"),
			asm.LoadMem(asm.R1, asm.R7, 8*boundHigh, asm.DWord),
			asm.JLT.Reg(asm.R8, asm.R1, "inside"),
			asm.LoadMapValue(asm.R1, p.unreported.FD(), 8*outsideMinor).WithSymbol("outside"),
			asm.Mov.Imm(asm.R2, 1),
			asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
			asm.Ja.Label(exitLabel),
		}
	}

	copied := asm.Instructions{}
	for at := int16(0); at < faultingBytes; at += 8 {
		copied = append(copied, asm.LoadMem(asm.R1, asm.R0, at, asm.DWord),
			asm.StoreMem(asm.R10, value+faultStart+at, asm.R1, asm.DWord))
	}

	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		isProcess(of, exitLabel),
		asm.LoadMem(asm.R8, asm.R6, registers.faultAddress, asm.DWord),
		bounded,
		labelled("inside", zeroed(value, faultBytes)),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.R10, thread, asm.R0, asm.DWord),
		asm.StoreMem(asm.R10, value+faultThread, asm.R0, asm.DWord),
		asm.StoreMem(asm.R10, value+faultAddress, asm.R8, asm.DWord),
		asm.StoreImm(asm.R10, value+faultMajor, flag, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R10, value+faultEnd, asm.R0, asm.DWord),
		lookUp(p.faulting, thread),
		asm.JEq.Imm(asm.R0, 0, "report"),
		copied,
		remove(p.faulting, thread),
		labelled("report", address(asm.R2, value)),
		asm.Mov.Imm(asm.R3, faultBytes),
		asm.LoadMapPtr(asm.R1, p.ring.FD()),
		asm.Mov.Imm(asm.R4, unix.BPF_RB_NO_WAKEUP), // waking the reader takes longer than all else
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		asm.LoadMapValue(asm.R1, p.unreported.FD(), 8*lostFaults),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
	)
}
