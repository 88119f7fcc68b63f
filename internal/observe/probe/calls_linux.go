package probe

import (
	"errors"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/statelab/statelab/internal/subject"
)

// tracepoints attaches to the calls that read files, to the completions of io_uring, and to the
// reads of block devices, if that is not done yet. They report nothing outside of windows.
func (p *Probe) tracepoints() error {
	if len(p.traced) > 0 {
		return nil
	}

	type point struct {
		group, name string
		program     *ebpf.Program
	}

	var all []point
	for name, begins := range map[string]*ebpf.Program{
		"pread64": p.programs.readEntry,
		"preadv":  p.programs.readEntry,
		"preadv2": p.programs.readEntry,
		"read":    p.programs.readNext,
		"readv":   p.programs.readNext,
	} {
		all = append(
			all,
			point{"syscalls", "sys_exit_" + name, p.programs.readExit},
			point{"syscalls", "sys_enter_" + name, begins},
		)
	}

	all = append(
		all,
		point{"io_uring", "io_uring_complete", p.programs.uring},
		point{"block", "block_bio_queue", p.device.program},
	)

	for _, t := range all {
		l, err := link.Tracepoint(t.group, t.name, t.program, nil)
		if errors.Is(err, fs.ErrNotExist) && t.group == "io_uring" && tracing() {
			continue // a kernel without io_uring
		}

		if err != nil {
			return noTracepoint(t.name, err)
		}

		p.traced = append(p.traced, l)
	}

	return nil
}

// The parts below fill in the read that lies at readAt.

// fileOf notes the file that R7 points to. Other files than regular ones, such as sockets, are left
// out.
func fileOf(where offsets) asm.Instructions {
	const kinds, regular = 0xf000, 0x8000 // S_IFMT, S_IFREG
	return list(
		follow(asm.R7, where.fileInode),
		asm.StoreImm(asm.R10, scratch, 0, asm.Word),
		kernel(scratch, 2, asm.R7, where.mode),
		asm.LoadMem(asm.R1, asm.R10, scratch, asm.Half),
		asm.And.Imm(asm.R1, kinds),
		asm.JNE.Imm(asm.R1, regular, exitLabel),
		kernel(readAt+readInode, 8, asm.R7, where.number),
		kernel(readAt+readGeneration, 4, asm.R7, where.generation),
		follow(asm.R7, where.superBlock),
		kernel(readAt+readDevice, 4, asm.R7, where.device),
	)
}

// getOf notes the Get that the reader is in, if any, and counts the read for it.
func (p *programs) getOf(e subject.Watched) asm.Instructions {
	// The goroutine's register is untouched at a system call.
	reader := list(asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R1, asm.R0),
		asm.FnTaskPtRegs.Call(), asm.Mov.Reg(asm.R7, asm.R0),
		kernel(goroutine, 8, asm.R7, uint32(registers.goroutine)))
	if e.Module == "" {
		reader = caller(e)
	}

	return list(
		reader,
		asm.LoadMem(asm.R1, asm.R10, goroutine, asm.DWord),
		asm.StoreMem(asm.R10, readAt+readGoroutine, asm.R1, asm.DWord),
		lookUp(p.active, goroutine),
		asm.JEq.Imm(asm.R0, 0, "begin"),
		asm.LoadMem(asm.R1, asm.R0, getStart, asm.DWord),
		asm.StoreMem(asm.R10, readAt+readGetStart, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, getKind, asm.Byte),
		asm.LSh.Imm(asm.R1, kindBits),
		asm.Or.Imm(asm.R1, kindRead),
		asm.StoreMem(asm.R10, readAt+readKind, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R0, getReads, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, getReads, asm.R1, asm.DWord),
		asm.FnKtimeGetNs.Call().WithSymbol("begin"),
		asm.StoreMem(asm.R10, readAt+readStart, asm.R0, asm.DWord),
	)
}

// readBegins notes a read of the process under its thread: the Get that its goroutine is in, and
// the file. next: a call that reads from where the last one ended.
func (p *programs) readBegins(
	e subject.Watched, n namespace, where offsets, next bool,
) asm.Instructions {
	const descriptorAt, positionAt = 16, 40 // in the tracepoint's record
	position := list(asm.LoadMem(asm.R1, asm.R6, positionAt, asm.DWord),
		asm.StoreMem(asm.R10, readAt+readOffset, asm.R1, asm.DWord))
	if next {
		position = kernel(readAt+readOffset, 8, asm.R7, where.position)
	}

	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		p.inWindow(),
		isProcess(n, exitLabel),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.R10, thread, asm.R0, asm.DWord),
		zeroed(readAt, readHead),
		asm.StoreImm(asm.R10, readAt+readKind, kindRead, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, descriptorAt, asm.DWord),
		asm.StoreMem(asm.R10, readAt+readDescriptor, asm.R8, asm.Word),
		// The file: task->files->fdt->fd[descriptor].
		asm.FnGetCurrentTask.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		follow(asm.R7, where.files),
		follow(asm.R7, where.table),
		follow(asm.R7, where.descriptors),
		asm.LSh.Imm(asm.R8, 3),
		asm.Add.Reg(asm.R7, asm.R8),
		follow(asm.R7, 0),
		position,
		fileOf(where),
		p.getOf(e),
		asm.LoadMapPtr(asm.R1, p.reading.FD()),
		address(asm.R2, thread),
		address(asm.R3, readAt),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		p.countLost(lostReads),
	)
}

// uringEnds reports a read that io_uring has completed, in a thread of the process. When it began
// is not known, nor what it asked the device for. Its request begins with the file; behind that
// lies what the kernel has read up to.
func (p *programs) uringEnds(e subject.Watched, n namespace, where offsets) asm.Instructions {
	const requestAt, resultAt = 16, 32 // in the tracepoint's record
	const unknown = -1                 // no descriptor
	which := asm.Instructions{}
	for _, operation := range []int32{1, 4, 22} { // IORING_OP_READV, READ_FIXED, READ
		which = append(which, asm.JEq.Imm(asm.R1, operation, "read"))
	}

	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		p.inWindow(),
		isProcess(n, exitLabel),
		zeroed(readAt, readHead+threadName),
		asm.LoadMem(asm.R7, asm.R6, requestAt, asm.DWord),
		asm.StoreImm(asm.R10, scratch, 0, asm.Word),
		kernel(scratch, 1, asm.R7, where.operation),
		asm.LoadMem(asm.R1, asm.R10, scratch, asm.Byte),
		which,
		asm.Ja.Label(exitLabel),
		asm.LoadMem(asm.R8, asm.R6, resultAt, asm.Word).WithSymbol("read"),
		asm.LSh.Imm(asm.R8, 32),
		asm.ArSh.Imm(asm.R8, 32),
		asm.JSLE.Imm(asm.R8, 0, exitLabel), // failed, or to be tried again
		asm.StoreMem(asm.R10, readAt+readResult, asm.R8, asm.DWord),
		kernel(readAt+readOffset, 8, asm.R7, where.reached),
		asm.LoadMem(asm.R1, asm.R10, readAt+readOffset, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R8),
		asm.StoreMem(asm.R10, readAt+readOffset, asm.R1, asm.DWord),
		asm.StoreImm(asm.R10, readAt+readKind, kindRead, asm.Word),
		asm.StoreImm(asm.R10, readAt+readDescriptor, unknown, asm.Word),
		follow(asm.R7, 0),
		fileOf(where),
		p.getOf(e),
		asm.StoreMem(asm.R10, readAt+readEnd, asm.R0, asm.DWord),
		address(asm.R1, readAt+readHead),
		asm.Mov.Imm(asm.R2, threadName),
		asm.FnGetCurrentComm.Call(),
		address(asm.R2, readAt),
		asm.Mov.Imm(asm.R3, readHead+threadName),
		p.output(),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		p.countLost(lostReads),
	)
}
