package probe

import (
	"bytes"
	"context"
	"debug/gosym"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"debug/elf"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

// Probe watches a process. It is for one goroutine.
type Probe struct {
	device
	target   *Target
	programs *programs
	program  *link.Executable
	multi    bool
	// to tracepoints: once, since each costs a grace period of the kernel's to detach from
	traced   []link.Link
	begins   []link.Link // to where Gets begin, in a window
	ends     []link.Link
	open     bool // a window
	reader   *ringbuf.Reader
	cost     Cost
	attached time.Duration
}

// Open loads what runs in the kernel, and measures what it costs. Nothing is attached to the
// process yet.
func Open(t *Target) (*Probe, error) {
	cost, calibrated := calibrate(t.Engine)
	p, err := open(t)
	if err != nil {
		return nil, err
	}

	p.cost = Cost{assumedGet, assumedRead}
	if calibrated == nil {
		p.cost = cost
	}

	return p, nil
}

func open(t *Target) (p *Probe, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, refused(err)
	}

	namespace, err := t.namespace()
	if err != nil {
		return nil, err
	}

	p = &Probe{target: t, multi: features.HaveBPFLinkUprobeMulti() == nil}
	if p.programs, err = load(t, namespace, p.multi); err != nil {
		return nil, err
	}

	p.program, err = link.OpenExecutable(t.code.file)
	if err == nil && p.multi && !p.allThreads() {
		p.multi = false
		if err := p.programs.close(); err != nil {
			return nil, err
		}

		if p.programs, err = load(t, namespace, false); err != nil {
			return nil, err
		}
	}

	if err == nil {
		p.device = device{p.programs.of.DeviceNumber, p.programs.of.Device}
		p.reader, err = ringbuf.NewReader(p.programs.of.Events)
	}

	if err != nil {
		return nil, errors.Join(refused(err), p.programs.close())
	}

	return p, nil
}

// Cost is what an event takes of the process.
func (p *Probe) Cost() Cost { return p.cost }

// Lost are the events that were lost so far.
func (p *Probe) Lost() (Lost, error) { return p.programs.counted() }

// Batches are the lookups of many keys at once that began in windows so far.
func (p *Probe) Batches() (Batches, error) { return p.programs.looked() }

// OnDevice counts the reads of the block device that holds a file, from now on.
func (p *Probe) OnDevice(path string) error { return p.on(path) }

// Close detaches from the process, and removes everything from the kernel.
func (p *Probe) Close() error {
	return errors.Join(p.detach(), closeAll(p.traced), p.reader.Close(), p.programs.close())
}

// Attach begins to watch; what is seen waits for Watch.
func (p *Probe) Attach() error {
	err := p.attach()
	p.attached = Now()
	return err
}

// attach begins a window. The ends of Gets come first, so that none that began is missed.
func (p *Probe) attach() (err error) {
	if err := p.programs.forget(); err != nil {
		return err
	}

	defer func() {
		if err != nil {
			err = errors.Join(refused(err), p.detach())
		}
	}()

	if err := p.tracepoints(); err != nil {
		return err
	}

	for i, at := range p.target.code.places {
		if err := p.uprobes(&p.ends, p.programs.gets[i].Ends, at.returns); err != nil {
			return err
		}
	}

	for i, at := range p.target.code.together {
		if err := p.uprobes(&p.ends, p.programs.together[i].Ends, at.returns); err != nil {
			return err
		}
	}

	seeks, seekEnds := p.target.code.seekOffsets()
	if err := p.uprobes(&p.ends, p.programs.seeks.Ends, seekEnds); err != nil {
		return err
	}

	if err := p.setWindow(true); err != nil {
		return err
	}

	if err := p.uprobes(&p.begins, p.programs.seeks.Begins, seeks); err != nil {
		return err
	}

	for i, at := range p.target.code.places {
		entry := []uint64{at.entry}
		if err := p.uprobes(&p.begins, p.programs.gets[i].Begins, entry); err != nil {
			return err
		}
	}

	for i, at := range p.target.code.together {
		entry := []uint64{at.entry}
		if err := p.uprobes(&p.begins, p.programs.together[i].Begins, entry); err != nil {
			return err
		}
	}

	for i, at := range p.target.code.batches {
		entry := []uint64{at.entry}
		if err := p.uprobes(&p.begins, p.programs.batches[i].Begins, entry); err != nil {
			return err
		}
	}

	return nil
}

// seekOffsets are where Seeks begin, and where they return.
func (c *code) seekOffsets() (begin, end []uint64) {
	for _, at := range c.seeks {
		begin, end = append(begin, at.entry), append(end, at.returns...)
	}
	return begin, end
}

// setWindow begins or ends what the tracepoints report.
func (p *Probe) setWindow(open bool) error {
	p.open = open
	return p.programs.of.Window.Set(map[bool]uint64{true: 1}[open])
}

// noTracepoint says why a tracepoint cannot be attached to.
func noTracepoint(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || !tracing() {
		return &engine.Failure{
			Code: engine.CodeUnsupported,
			Err:  fmt.Errorf("the kernel's tracepoint of %s is not there: %w", name, err),
			Remedy: "mount -t tracefs none /sys/kernel/tracing; if that fails, the kernel was " +
				"built without CONFIG_FTRACE_SYSCALLS",
		}
	}

	return fmt.Errorf("attach to the tracepoint %s: %w", name, err)
}

// tracing reports whether the kernel's tracepoints can be looked up.
func tracing() bool {
	return slices.ContainsFunc(
		[]string{"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"},
		func(path string) bool {
			_, err := os.Stat(path)
			return err == nil
		},
	)
}

// allThreads reports whether a link of many probes sees all threads of a process. Before Linux
// 6.10, unless mended later, it sees the one thread of that number alone. A mended kernel refuses a
// negative number at once; others look for its process.
func (p *Probe) allThreads() bool {
	l, err := p.program.UprobeMulti(nil, p.programs.gets[0].Begins,
		&link.UprobeMultiOptions{
			Addresses: []uint64{p.target.code.places[0].entry},
			PID:       math.MaxUint32,
		})
	if err == nil {
		_ = l.Close() // it was a question
	}

	return errors.Is(err, unix.EINVAL)
}

// uprobes attaches a program to places in the process's binary.
func (p *Probe) uprobes(links *[]link.Link, program *ebpf.Program, offsets []uint64) error {
	if len(offsets) == 0 {
		return nil
	}

	if p.multi {
		l, err := p.program.UprobeMulti(nil, program,
			&link.UprobeMultiOptions{Addresses: offsets, PID: uint32(p.target.PID)})
		if err != nil {
			return fmt.Errorf("attach to %s: %w", p.target, err)
		}

		*links = append(*links, l)
		return nil
	}

	for _, offset := range offsets {
		l, err := p.program.Uprobe("", program,
			&link.UprobeOptions{Address: offset, PID: p.target.PID})
		if err != nil {
			return fmt.Errorf("attach to %s: %w", p.target, err)
		}

		*links = append(*links, l)
	}

	return nil
}

// detach ends a window: the beginnings of Gets first, so that those under way and their reads are
// seen to their end.
func (p *Probe) detach() error {
	errs := []error{closeAll(p.begins), p.setWindow(false), closeAll(p.ends)}
	p.begins, p.ends = nil, nil
	return errors.Join(errs...)
}

// closeAll detaches from several places at once: each waits until no processor runs a program
// there.
func closeAll(links []link.Link) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// Windows of a part of the time.
const (
	cycle     = time.Second
	minShare  = 0.001
	firstLook = 10 * time.Millisecond // before the rate is known
)

// Watch reports events until ctx ends or the process does. share is the part of the time that is
// watched, all Gets of it; 0: as much as MaxOfCore allows.
func (p *Probe) Watch(ctx context.Context, share float64, on Events) error {
	w := watching{
		Probe:      p,
		on:         on,
		share:      share,
		fixed:      share > 0,
		nextSecond: time.Now().Add(time.Second),
		iterating:  map[uint64]bool{},
	}

	if !w.fixed {
		w.share = firstLook.Seconds() / cycle.Seconds()
	}

	for ctx.Err() == nil && p.target.Alive() {
		if err := w.window(ctx); err != nil {
			return err
		}
	}

	return nil
}

type watching struct {
	*Probe
	on         Events
	share      float64
	fixed      bool
	nextSecond time.Time

	gets, reads int // of this window
	record      ringbuf.Record
	read        Read
	get         Get
	together    Together
	iterating   map[uint64]bool // threads that made a Seek, whose other reads go on from there
	closed      time.Duration   // the end of the window
}

// inside reports whether what began at a time is of the window. Probes come and go one after the
// other: what begins while some are missing is not whole.
func (w *watching) inside(start time.Duration) bool {
	return start >= w.attached && start <= w.closed
}

// window watches for a part of a cycle, and leaves the process alone for the rest of it. With a
// share of 1, it stays attached until ctx ends.
func (w *watching) window(ctx context.Context) error {
	if !w.open {
		if err := w.Attach(); err != nil && w.target.Alive() {
			return err
		} else if err != nil {
			return nil // it ended meanwhile
		}
	}

	began := time.Now()
	w.closed = math.MaxInt64
	w.on.Window(true, w.attached)
	for w.gets, w.reads = 0, 0; ; {
		length := time.Duration(w.share * float64(cycle))
		end := began.Add(length)
		if err := w.drain(ctx, minTime(end, w.nextSecond)); err != nil {
			return errors.Join(err, w.detach())
		}

		over := ctx.Err() != nil || !w.target.Alive()
		if at := time.Now(); !over && at.Before(end) {
			continue
		}

		w.adapt(time.Since(began))
		if !over && w.share >= 1 {
			began, w.gets, w.reads = time.Now(), 0, 0
			continue
		}

		break
	}

	w.closed = Now()
	if err := w.detach(); err != nil {
		return err
	}

	if err := w.drain(context.WithoutCancel(ctx), time.Time{}); err != nil {
		return err
	}

	w.on.Window(false, w.closed)
	rest := time.Duration(float64(w.closed-w.attached)/w.share) - (Now() - w.attached)
	if !w.fixed {
		rest = time.Duration(float64(w.took())/MaxOfCore) - time.Since(began)
	}

	for rest = min(rest, 100*cycle); rest > 0 && ctx.Err() == nil && w.target.Alive(); {
		pause := min(rest, time.Until(w.nextSecond), cycle/10)
		rest -= pause
		time.Sleep(max(0, pause))
		if err := w.second(); err != nil {
			return err
		}
	}

	return nil
}

// took is what the events of the window cost the process, those at its ends included.
func (w *watching) took() time.Duration {
	return time.Duration(w.gets)*w.cost.Get + time.Duration(w.reads)*w.cost.Read
}

// adapt chooses the share of time by what the events of a window took.
func (w *watching) adapt(window time.Duration) {
	if w.fixed {
		return
	}
	w.share = 1
	if took := w.took(); took > 0 {
		w.share = max(minShare, min(1, MaxOfCore*window.Seconds()/took.Seconds()))
	}
}

func (w *watching) second() error {
	if time.Now().Before(w.nextSecond) {
		return nil
	}
	w.nextSecond = time.Now().Add(time.Second)
	return w.on.Second()
}

// drain reports events until a time, or, without one, those that are there.
func (w *watching) drain(ctx context.Context, until time.Time) error {
	rest := until.IsZero()
	if rest {
		until = time.Unix(1, 0)
	}

	const look = 50 * time.Millisecond // how often it looks for the end
	for ctx.Err() == nil {
		deadline := until
		if soon := time.Now().Add(look); soon.Before(until) {
			deadline = soon
		}

		w.reader.SetDeadline(deadline)
		err := w.reader.ReadInto(&w.record)
		switch {
		case err == nil:
			w.report(w.record.RawSample)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("read events: %w", err)
		case deadline.Equal(until) || !w.target.Alive():
			return w.second()
		}

		if !time.Now().After(w.nextSecond) {
			continue
		}

		if err := w.second(); err != nil || !rest {
			return err
		}
	}

	return nil
}

// report hands an event on.
func (w *watching) report(event []byte) {
	call, rest := as[bpfCall](event)
	kind := bpfEventKind(call.Kind)
	switch id := (GetID{call.Goroutine, call.Start}); kind {
	case bpfEventKindTOGETHER:
		w.gets += 2 // its functions are probed thrice or more
		of, _ := as[bpfTogether](event)
		w.together = Together{
			ID:       id,
			Keys:     int(of.Count),
			OneByOne: w.target.Engine.Together[call.Function].OneByOne(),
		}

		if w.inside(time.Duration(id.Start)) {
			w.on.Together(&w.together)
		}
	case bpfEventKindSEEK:
		w.gets++
		w.iterating[id.Goroutine] = true
		seek := Seek{time.Duration(call.Start), time.Duration(call.End)}
		if w.inside(seek.Start) {
			w.on.Seek(&seek)
		}
	case bpfEventKindGET, bpfEventKindKEY:
		w.reportGet(kind, call, rest)
	case bpfEventKindREAD:
		w.reportRead(event)
	}
}

func (w *watching) native() bool { return w.target.Engine.Module == "" }

func (w *watching) reportGet(kind bpfEventKind, call *bpfCall, key []byte) {
	var f subject.Function
	if kind == bpfEventKindKEY {
		w.reads++ // a key costs as much
	} else {
		w.gets++
		f = w.target.Engine.Gets[call.Function]
	}

	found := call.Found
	if f.Bool {
		found &= math.MaxUint8
	}

	w.get = Get{
		ID:         GetID{call.Goroutine, call.Start},
		Start:      time.Duration(call.Start),
		End:        time.Duration(call.End),
		Key:        key[:min(int(call.KeyBytes+call.SecondBytes), MaxKeyBytes)],
		KeyBytes:   int(call.KeyBytes + call.SecondBytes),
		FirstBytes: int(call.KeyBytes),
		Found:      (found != 0) != (f.Inverted || w.native()),
		Reads:      uint32(call.Reads),
		Database:   call.Database,
		Family:     call.Family,
		InBatch:    kind == bpfEventKindKEY,
	}

	const absent = 1 // rocksdb::Status::kNotFound
	if !w.get.Found && (!w.native() || found != absent) {
		w.get.ErrorData = call.Error
		if len(f.ErrorVia) > 0 {
			w.get.ErrorData = uint64(uint32(call.Error))
		}
	}

	w.get.Found = w.get.Found && call.Passed == 0

	if w.inside(w.get.Start) {
		w.on.Get(&w.get)
	}
}

func (w *watching) reportRead(event []byte) {
	r, _ := as[bpfRead](event)
	w.reads++
	w.read = Read{
		Start:       time.Duration(r.Start),
		End:         time.Duration(r.End),
		Descriptor:  int(uint32(r.Descriptor)),
		Offset:      r.Offset,
		Bytes:       int(r.Result),
		File:        File{userDevice(r.Device), r.Inode, r.Generation},
		DeviceReads: r.DeviceReads,
		DeviceBytes: r.DeviceBytes,
	}

	began := w.read.Start
	switch {
	case bpfEventKind(r.In) == bpfEventKindSEEK:
		began, w.read.InSeek = time.Duration(r.CallStart), true
		w.read.Purpose = subject.ForIterators
	case r.CallStart != 0:
		w.read.Get = GetID{r.Goroutine, r.CallStart}
		began = time.Duration(r.CallStart)
	default:
		w.read.Purpose = w.purpose(event)
	}

	if w.inside(began) {
		w.on.Read(&w.read)
	}
}

// purpose is that of a read of no call.
func (w *watching) purpose(event []byte) string {
	other, whose := as[bpfOtherRead](event)
	of := w.target.Engine.Purposes
	if !w.native() {
		whose = whose[:max(0, other.StackBytes)]
		stack := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(whose))), len(whose)/8)
		return w.target.code.functions.purpose(stack, of)
	}

	name, _, _ := bytes.Cut(whose, []byte{0})
	purpose := purposeOf(string(name), of)
	if purpose == subject.ForOther && w.iterating[other.Read.Goroutine] {
		return subject.ForIterators
	}

	return purpose
}

// Calibration.
const (
	calls       = 50
	rounds      = 20                   // of which the fastest counts: others were interrupted
	assumedGet  = 3 * time.Microsecond // where it cannot be measured
	assumedRead = time.Microsecond
)

// calibrate measures what an event costs: a function and a read of this very process, with the
// probes and without them.
func calibrate(e subject.Watched) (cost Cost, err error) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return cost, err
	}

	defer file.Close() // read only
	function := runtime.FuncForPC(reflect.ValueOf(calibrated).Pointer())
	own := &Target{PID: os.Getpid(), Engine: e}
	program, err := elf.NewFile(file)
	if err != nil {
		return cost, err
	}

	moved, err := bias(own.PID, program)
	if err != nil {
		return cost, err
	}

	length := uint64(1)
	for runtime.FuncForPC(function.Entry()+uintptr(length)) == function {
		length++
	}

	i, entry := image{file: program}, uint64(function.Entry())-moved
	at, err := i.probes(gosym.Func{Sym: &gosym.Sym{}, Entry: entry, End: entry + length})
	if err != nil {
		return cost, err
	}

	at.returns = at.returns[:1]
	own.code = code{file: own.proc("exe"), places: []place{at}}
	p, err := open(own)
	if err != nil {
		return cost, err
	}

	defer p.Close() // nothing is left to do
	key, block := make([]byte, 32), make([]byte, 16)
	call := func() { calibrated(unsafe.Pointer(p), key) }
	read := func() { _, _ = file.ReadAt(block, 0) }
	get, reading := fastest(call), fastest(read)
	if err := p.attach(); err != nil {
		return cost, err
	}

	cost = Cost{fastest(call) - get, max(0, fastest(read)-reading)}
	if cost.Get <= 0 {
		err = errors.New("the probes of a function take no time")
	}

	return cost, err
}

// fastest is the CPU time of a call in the fastest round.
func fastest(call func()) (each time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for round := range rounds {
		began := threadTime()
		for range calls {
			call()
		}

		if took := (threadTime() - began) / calls; round == 0 || took < each {
			each = took
		}
	}

	return each
}

// threadTime is the CPU time of this thread so far.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // the cost is assumed then
	}
	return time.Duration(t.Nano())
}

// calibrated has the arguments of a Get.
//
//go:noinline
func calibrated(_ unsafe.Pointer, key []byte) int { return len(key) }

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Possible is nil where processes can be watched, and else says what is missing.
func Possible() error {
	if registers.elf == elf.EM_NONE {
		return engine.Fail(engine.CodeUnsupported, "processes can be watched on amd64 and arm64 "+
			"alone, and this is %s", runtime.GOARCH)
	}

	if err := rlimit.RemoveMemlock(); err != nil {
		return refused(err)
	}

	own := &Target{
		PID:    os.Getpid(),
		Engine: subject.AllWatched()[0],
		code:   code{places: []place{{}}},
	}

	own.code.file = own.proc("exe")
	p, err := open(own)
	if err != nil {
		return err
	}

	// The tracepoints; there is nothing to probe in this process.
	return errors.Join(refused(p.tracepoints()), p.Close())
}
