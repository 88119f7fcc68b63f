package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
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
	*loading
	target   *Target
	of       ofFaults
	reader   *ringbuf.Reader
	attached inKernel
	// Attached is when it began to watch.
	Attached time.Time
	// Untimed is why faults have no beginning and no device reads, NoDevice why the reads of the
	// device that holds the database are not counted; nil: they have, and are.
	Untimed, NoDevice error
}

type ofFaults struct {
	Begins       *ebpf.Program  `ebpf:"fault_begins"`
	Major        *ebpf.Program  `ebpf:"major_fault"`
	Minor        *ebpf.Program  `ebpf:"minor_fault"`
	Asks         *ebpf.Program  `ebpf:"fault_asks"`
	Events       *ebpf.Map      `ebpf:"events"`
	Reported     *ebpf.Variable `ebpf:"reported"`
	Unreported   *ebpf.Variable `ebpf:"unreported"`
	DeviceNumber *ebpf.Variable `ebpf:"device_number"`
	Device       *ebpf.Variable `ebpf:"device"`
}

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
	if p.loading, err = newLoading(of, false); err != nil {
		return nil, err
	}

	defer func() {
		if err != nil {
			err = refused(err)
			_ = p.Close() // err tells why
		}
	}()

	if err := p.load(&p.of); err != nil {
		return nil, err
	}

	p.device = device{p.of.DeviceNumber, p.of.Device}
	p.NoDevice = p.on(path)
	p.reader, err = ringbuf.NewReader(p.of.Events)
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
		{"block", "block_bio_queue", p.of.Asks},
		{"exceptions", "page_fault_user", p.of.Begins},
		{"exceptions", "page_fault_kernel", p.of.Begins},
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
			unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ: p.of.Major,
			unix.PERF_COUNT_SW_PAGE_FAULTS_MIN: p.of.Minor,
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
	return p.of.Reported.Set(bpfRange{Low: low, High: high})
}

// UnreportedFaults are the faults that were not reported so far.
func (p *FaultProbe) UnreportedFaults() (UnreportedFaults, error) {
	var u bpfUnreported
	err := p.of.Unreported.Get(&u)
	return UnreportedFaults{u.Minor, u.Lost}, err
}

// Core is the share of a processor that the programs took since Attach; 0 where the kernel does not
// measure it.
func (p *FaultProbe) Core() float64 {
	return shareOfCore(p.Attached, p.of.Major, p.of.Minor, p.of.Begins, p.of.Asks)
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

			f, _ := as[bpfFault](record.RawSample)
			on.Fault(&Fault{
				Thread:      f.Thread,
				Start:       time.Duration(f.Start),
				End:         time.Duration(f.End),
				Address:     f.Address,
				Major:       f.Major != 0,
				DeviceReads: f.DeviceReads,
				DeviceBytes: f.DeviceBytes,
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
