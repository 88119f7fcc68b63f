package probe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

// The programs are written with an assembler, so that nobody needs a compiler. The kernel lets only
// programs that are offered under its own licence read the memory of a process, so these few may
// also be used under GPL-2.0.
const licence = "Dual BSD/GPL"

// register is the offset of an integer register of a function's arguments or results.
func register(e subject.Watched, number int) int16 {
	if e.Module == "" {
		return registers.native[number]
	}
	return registers.integer[number]
}

// A Get, while it runs in the map of active ones, and then as it is reported.
const (
	getKind      = 0 // uint32: kindGet, and the number of the function in the next byte
	getKeyBytes  = 4 // uint32
	getStart     = 8
	getEnd       = 16
	getGoroutine = 24
	getError     = 32
	getFound     = 40 // uint64: the register
	getReads     = 48 // uint64
	getDatabase  = 56
	getFamily    = 64
	getKey       = 72
	getBytes     = getKey + MaxKeyBytes
)

// A read, likewise.
const (
	readKind       = 0 // uint32: kindRead, and the kind of the call that it is in in the next byte
	readDescriptor = 4 // uint32
	readStart      = 8
	readEnd        = 16
	readGoroutine  = 24
	readGetStart   = 32 // 0: of no Get
	readOffset     = 40
	readResult     = 48
	readDevice     = 56
	readInode      = 64
	readGeneration = 72 // uint32
	readFrames     = 76 // int32: bytes of the stack, or an error
	readAsked      = 80 // of the block device: reads, bytes
	readHead       = 96
	readStack      = readHead // in C++ the name of the thread
	readBytes      = readStack + stackFrames*8
	stackFrames    = 40
)

const (
	kindGet      = 1
	kindRead     = 2
	kindKey      = 3 // of a batch, as a Get
	kindTogether = 4
	kindSeek     = 5
	kindBits     = 8
	threadName   = 16 // bytes
)

// Limits of the maps.
const (
	maxActive = 1 << 14  // Gets, or reads, at one time
	ringBytes = 16 << 20 // of events that wait for the reader
)

// programs are what runs in the kernel, and the maps between.
type programs struct {
	inKernel
	entry, exit                 []*ebpf.Program // of each place
	batch                       []*ebpf.Program // of each function that looks many keys up at once
	togetherEntry, togetherExit []*ebpf.Program // of each that looks keys of a batch up
	seekEntry, seekExit         *ebpf.Program
	readEntry, readNext         *ebpf.Program
	readExit, uring             *ebpf.Program
	active, reading, lost, ring *ebpf.Map
	window                      *ebpf.Map // one number, not 0 while a window is open
	batched                     *ebpf.Map // lookups of many keys at once, and their keys
}

// load loads the programs for one process. multi: one link will attach all probes of a program.
func load(t *Target, namespace namespace, multi bool) (_ *programs, err error) {
	e, places := t.Engine, t.code.places
	p := &programs{
		entry: make([]*ebpf.Program, len(places)),
		exit:  make([]*ebpf.Program, len(places)),
		batch: make([]*ebpf.Program, len(t.code.batches)),

		togetherEntry: make([]*ebpf.Program, len(t.code.together)),
		togetherExit:  make([]*ebpf.Program, len(t.code.together)),
	}

	defer func() {
		if err != nil {
			_ = p.close() // err tells why
		}
	}()

	err = cmp.Or(
		p.newMap(&p.active, ebpf.MapSpec{
			Name:       "gets",
			Type:       ebpf.Hash,
			KeySize:    8,
			ValueSize:  getBytes,
			MaxEntries: maxActive,
		}),
		p.newMap(&p.reading, ebpf.MapSpec{
			Name:       "reads",
			Type:       ebpf.Hash,
			KeySize:    8,
			ValueSize:  readHead,
			MaxEntries: maxActive,
		}),
		p.newMap(&p.lost, counters("lost", lostKinds)),
		p.newMap(&p.ring, ebpf.MapSpec{Name: "events", Type: ebpf.RingBuf, MaxEntries: ringBytes}),
		p.newMap(&p.window, counters("window", 1)),
		p.newMap(&p.batched, counters("batched", 2)))
	if err != nil {
		return nil, err
	}

	where, err := kernelOffsets()
	if err != nil {
		return nil, err
	}

	probe, trace := ebpf.ProgramSpec{Type: ebpf.Kprobe}, ebpf.ProgramSpec{Type: ebpf.TracePoint}
	if multi {
		probe.AttachType = ebpf.AttachTraceUprobeMulti
	}

	err = cmp.Or(
		p.newProgram(&p.readEntry, "read_begins", trace, p.readBegins(e, namespace, where, false)),
		p.newProgram(&p.readNext, "read_next", trace, p.readBegins(e, namespace, where, true)),
		p.newProgram(&p.readExit, "read_ends", trace, p.readEnds(e)),
		p.newProgram(&p.uring, "uring_ends", trace, p.uringEnds(e, namespace, where)))

	for i, at := range places {
		err = cmp.Or(err,
			p.newProgram(&p.entry[i], "get_begins", probe, p.getBegins(e, at.function)),
			p.newProgram(&p.exit[i], "get_ends", probe, p.getEnds(e, at.function)))
	}

	if len(t.code.seeks) > 0 {
		err = cmp.Or(err,
			p.newProgram(&p.seekEntry, "seek_begins", probe,
				join(begins(e, kindSeek, 0), p.activate())),
			p.newProgram(&p.seekExit, "seek_ends", probe, p.seekEnds(e)))
	}

	for i, at := range t.code.together {
		err = cmp.Or(err,
			p.newProgram(&p.togetherEntry[i], "keys_begin", probe,
				p.togetherBegins(e, at.function)),
			p.newProgram(&p.togetherExit[i], "keys_end", probe, p.togetherEnds(e, at.function)))
	}

	for i, b := range t.code.batches {
		err = cmp.Or(err,
			p.newProgram(&p.batch[i], "batch_begins", probe, p.batchBegins(e, b.Batch)))
	}

	return p, err
}

// forget drops what was under way when the probes were last attached.
func (p *programs) forget() error {
	for _, m := range []*ebpf.Map{p.active, p.reading} {
		var keys []uint64
		var key uint64
		value := make([]byte, m.ValueSize())
		all := m.Iterate()
		for all.Next(&key, &value) {
			keys = append(keys, key)
		}

		for _, key := range keys {
			if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return err
			}
		}
	}

	return nil
}

// In the programs below, R6 is the context. Every program ends at the label exit.

// inWindow goes on while a window is open.
func (p *programs) inWindow() asm.Instructions {
	return asm.Instructions{asm.LoadMapValue(asm.R1, p.window.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord), asm.JEq.Imm(asm.R1, 0, exitLabel)}
}

// Places on the stack: what lies at the least address comes last.
const (
	thread    = -8
	goroutine = -16
	scratch   = -24
	getAt     = goroutine - getBytes
	sliceAt   = getAt - 16 // an address and a length
	readAt    = scratch - readHead - threadName
)

// caller puts on the stack who makes the call that the context R6 is of: the goroutine, or in C++
// the thread.
func caller(e subject.Watched) asm.Instructions {
	if e.Module == "" {
		return asm.Instructions{asm.FnGetCurrentPidTgid.Call(),
			asm.StoreMem(asm.R10, goroutine, asm.R0, asm.DWord)}
	}
	return asm.Instructions{asm.LoadMem(asm.R1, asm.R6, registers.goroutine, asm.DWord),
		asm.StoreMem(asm.R10, goroutine, asm.R1, asm.DWord)}
}

// keyOf puts the address of a Get's key and its length on the stack.
func keyOf(e subject.Watched, f subject.Function) asm.Instructions {
	load := func(number int) asm.Instruction {
		return asm.LoadMem(asm.R3, asm.R6, register(e, number), asm.DWord)
	}
	if e.Module != "" {
		return asm.Instructions{load(f.KeyAt), asm.StoreMem(asm.R10, sliceAt, asm.R3, asm.DWord),
			load(f.KeyAt + 1),
			asm.StoreMem(asm.R10, sliceAt+8, asm.R3, asm.DWord)}
	}

	code := append(asm.Instructions{load(f.KeyAt)}, user(sliceAt, 16)...)
	if code = append(code, load(f.FamilyAt)); f.FamilyIn {
		return append(code, user(getAt+getFamily, 8)...)
	}

	return append(code, asm.StoreMem(asm.R10, getAt+getFamily, asm.R3, asm.DWord))
}

// getBegins notes a Get under its goroutine. A Get that did not end (it panicked) is overwritten by
// the next one.
func (p *programs) getBegins(e subject.Watched, function int) asm.Instructions {
	f := e.Gets[function]
	return join(
		begins(e, kindGet|int64(function)<<kindBits, f.DatabaseAt),
		// The key is read now: it may lie on a stack that moves.
		keyOf(e, f),
		keyOnStack(),
		p.activate(),
	)
}

// begins makes what is noted of a call, at getAt, but for its key.
func begins(e subject.Watched, kind int64, databaseAt int) asm.Instructions {
	return list(
		asm.Mov.Reg(asm.R6, asm.R1),
		zeroed(getAt, getBytes),
		asm.StoreImm(asm.R10, getAt+getKind, kind, asm.Word),
		caller(e),
		asm.LoadMem(asm.R7, asm.R10, goroutine, asm.DWord),
		asm.StoreMem(asm.R10, getAt+getGoroutine, asm.R7, asm.DWord),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R10, getAt+getStart, asm.R0, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, register(e, databaseAt), asm.DWord),
		asm.StoreMem(asm.R10, getAt+getDatabase, asm.R2, asm.DWord),
	)
}

// keyOnStack reads the key whose address and length lie at sliceAt.
func keyOnStack() asm.Instructions {
	return list(
		asm.LoadMem(asm.R2, asm.R10, sliceAt+8, asm.DWord),
		asm.StoreMem(asm.R10, getAt+getKeyBytes, asm.R2, asm.Word),
		asm.JLE.Imm(asm.R2, MaxKeyBytes, "fits"),
		asm.Mov.Imm(asm.R2, MaxKeyBytes),
		asm.LoadMem(asm.R3, asm.R10, sliceAt, asm.DWord).WithSymbol("fits"),
		address(asm.R1, getAt+getKey),
		asm.FnProbeReadUser.Call(),
	)
}

// activate puts what is noted of a call under its goroutine.
func (p *programs) activate() asm.Instructions {
	return list(
		asm.LoadMapPtr(asm.R1, p.active.FD()),
		address(asm.R2, goroutine),
		address(asm.R3, getAt),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		p.countLost(lostGets),
	)
}

// outcome puts what a Get found and its error into the Get that R7 points to.
func outcome(e subject.Watched, f subject.Function) asm.Instructions {
	store := func(to int16) asm.Instruction { return asm.StoreMem(asm.R7, to, asm.R1, asm.DWord) }
	if e.Module == "" {
		code := append(zeroed(scratch, 8), asm.LoadMem(asm.R3, asm.R6, registers.result, asm.DWord))
		return append(append(code, user(scratch, 1)...),
			asm.LoadMem(asm.R1, asm.R10, scratch, asm.DWord), store(getFound), store(getError))
	}

	return asm.Instructions{asm.LoadMem(asm.R1, asm.R6, register(e, f.FoundAt), asm.DWord),
		store(getFound),
		asm.LoadMem(asm.R1, asm.R6, register(e, f.ErrorAt), asm.DWord), store(getError)}
}

// getEnds reports the Get of the goroutine.
func (p *programs) getEnds(e subject.Watched, function int) asm.Instructions {
	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		caller(e),
		lookUp(p.active, goroutine),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, getEnd, asm.R0, asm.DWord),
		outcome(e, e.Gets[function]),
		asm.LoadMem(asm.R3, asm.R7, getKeyBytes, asm.Word),
		asm.JLE.Imm(asm.R3, MaxKeyBytes, "fits"),
		asm.Mov.Imm(asm.R3, MaxKeyBytes),
		asm.Add.Imm(asm.R3, getKey).WithSymbol("fits"),
		asm.Mov.Reg(asm.R2, asm.R7),
		p.output(),
		asm.Mov.Reg(asm.R8, asm.R0),
		remove(p.active, goroutine),
		asm.JEq.Imm(asm.R8, 0, exitLabel),
		p.countLost(lostGets),
	)
}

// seekEnds reports the Seek of the goroutine, or in C++ of the thread.
func (p *programs) seekEnds(e subject.Watched) asm.Instructions {
	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		caller(e),
		lookUp(p.active, goroutine),
		asm.JEq.Imm(asm.R0, 0, exitLabel), // it ended in another one
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R1, asm.R7, getKind, asm.Byte),
		asm.JNE.Imm(asm.R1, kindSeek, exitLabel), // a Get began in it
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, getEnd, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Imm(asm.R3, getKey),
		p.output(),
		asm.Mov.Reg(asm.R8, asm.R0),
		remove(p.active, goroutine),
		asm.JEq.Imm(asm.R8, 0, exitLabel),
		p.countLost(lostGets),
	)
}

// readEnds reports the read of the thread, and the stack of a reader without a Get, or in C++ the
// name of its thread.
func (p *programs) readEnds(e subject.Watched) asm.Instructions {
	const resultAt = 16 // in the tracepoint's record
	const userStack = 1 << 8
	whose := asm.Instructions{asm.Mov.Imm(asm.R3, stackFrames*8), asm.Mov.Imm(asm.R4, userStack),
		asm.FnGetStack.Call()}
	if e.Module == "" {
		whose = asm.Instructions{asm.Mov.Reg(asm.R1, asm.R2), asm.Mov.Imm(asm.R2, threadName),
			asm.FnGetCurrentComm.Call()}
	}

	copied := asm.Instructions{}
	for at := int16(0); at < readHead; at += 8 {
		copied = append(copied, asm.LoadMem(asm.R1, asm.R7, at, asm.DWord),
			asm.StoreMem(asm.R8, at, asm.R1, asm.DWord))
	}

	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.R10, thread, asm.R0, asm.DWord),
		lookUp(p.reading, thread),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, readEnd, asm.R0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, resultAt, asm.DWord),
		asm.StoreMem(asm.R7, readResult, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, readGetStart, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "stack"),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Imm(asm.R3, readHead),
		p.output(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.Ja.Label("done"),

		asm.LoadMapPtr(asm.R1, p.ring.FD()).WithSymbol("stack"),
		asm.Mov.Imm(asm.R2, readBytes),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.JNE.Imm(asm.R8, 0, "room"),
		asm.Mov.Imm(asm.R8, 1),
		asm.Ja.Label("done"),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol("room"),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Add.Imm(asm.R2, readStack),
		whose,
		asm.StoreMem(asm.R7, readFrames, asm.R0, asm.Word), // bytes, or an error
		copied,
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
		asm.Mov.Imm(asm.R8, 0),

		asm.LoadMapPtr(asm.R1, p.reading.FD()).WithSymbol("done"),
		address(asm.R2, thread),
		asm.FnMapDeleteElem.Call(),
		asm.JEq.Imm(asm.R8, 0, exitLabel),
		p.countLost(lostReads),
	)
}

const exitLabel = "exit"

// join makes a program of instructions and lists of them, with its end.
func join(parts ...any) asm.Instructions {
	return append(list(parts...), asm.Mov.Imm(asm.R0, 0).WithSymbol(exitLabel), asm.Return())
}

// list makes one list of instructions and lists of them.
func list(parts ...any) (program asm.Instructions) {
	for _, part := range parts {
		switch part := part.(type) {
		case asm.Instruction:
			program = append(program, part)
		case asm.Instructions:
			program = append(program, part...)
		}
	}

	return program
}

func address(to asm.Register, at int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(to, asm.R10), asm.Add.Imm(to, at)}
}

// zeroed clears a part of the stack; it changes R1.
func zeroed(at, bytes int16) asm.Instructions {
	stores := asm.Instructions{asm.Mov.Imm(asm.R1, 0)}
	for end := at + bytes; at < end; at += 8 {
		stores = append(stores, asm.StoreMem(asm.R10, at, asm.R1, asm.DWord))
	}
	return stores
}

// lookUp leaves in R0 the address of the value whose key is on the stack, or 0.
func lookUp(m *ebpf.Map, key int32) asm.Instructions {
	return append(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())},
		append(address(asm.R2, key), asm.FnMapLookupElem.Call())...)
}

func remove(m *ebpf.Map, key int32) asm.Instructions {
	return append(asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD())},
		append(address(asm.R2, key), asm.FnMapDeleteElem.Call())...)
}

// output reports R3 bytes from R2 on; R0 is 0 if there was room.
func (p *programs) output() asm.Instructions {
	return asm.Instructions{asm.LoadMapPtr(asm.R1, p.ring.FD()), asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call()}
}

// kernel reads memory of the kernel to a place on the stack.
func kernel(to, bytes int32, base asm.Register, offset uint32) asm.Instructions {
	return append(address(asm.R1, to), asm.Mov.Imm(asm.R2, bytes), asm.Mov.Reg(asm.R3, base),
		asm.Add.Imm(asm.R3, int32(offset)),
		asm.FnProbeReadKernel.Call())
}

// user reads memory of the process, from R3 on, to a place on the stack.
func user(to, bytes int32) asm.Instructions {
	return append(address(asm.R1, to), asm.Mov.Imm(asm.R2, bytes), asm.FnProbeReadUser.Call())
}

// follow replaces an address of the kernel by the pointer that lies so far behind it.
func follow(pointer asm.Register, offset uint32) asm.Instructions {
	return append(kernel(scratch, 8, pointer, offset),
		asm.LoadMem(pointer, asm.R10, scratch, asm.DWord))
}

// What is counted as lost, by its index in the map.
const (
	lostGets  = 0
	lostReads = 1
	lostKinds = 2
)

func (p *programs) countLost(kind uint32) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, p.lost.FD(), 8*kind),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
	}
}

// counted are the losses so far.
func (p *programs) counted() (lost Lost, err error) {
	err = errors.Join(p.lost.Lookup(uint32(0), &losses{&lost}))
	return lost, err
}

// losses is the value of the map of losses.
type losses struct{ to *Lost }

// UnmarshalBinary reads the counters.
func (l *losses) UnmarshalBinary(value []byte) error {
	l.to.Gets, l.to.Reads = binary.NativeEndian.Uint64(value[8*lostGets:]),
		binary.NativeEndian.Uint64(value[8*lostReads:])
	return nil
}

// offsets are places in structures of the kernel that runs here, as its BTF tells them.
type offsets struct {
	files, table, descriptors, fileInode, number, generation, superBlock, device uint32
	mode, position, operation, reached                                           uint32
}

func kernelOffsets() (o offsets, err error) {
	err = structureOffsets([]memberOffset{
		{&o.files, "task_struct", "files"},
		{&o.table, "files_struct", "fdt"},
		{&o.descriptors, "fdtable", "fd"},
		{&o.fileInode, "file", "f_inode"},
		{&o.number, "inode", "i_ino"},
		{&o.generation, "inode", "i_generation"},
		{&o.superBlock, "inode", "i_sb"},
		{&o.device, "super_block", "s_dev"},
		{&o.mode, "inode", "i_mode"},
		{&o.position, "file", "f_pos"},
		{&o.operation, "io_kiocb", "opcode"},
		{&o.reached, "kiocb", "ki_pos"},
	})

	return o, err
}

// memberOffset is where the offset of a member of a structure goes.
type memberOffset struct {
	to       *uint32
	of, name string
}

// structureOffsets reads the kernel's own description of its structures.
func structureOffsets(members []memberOffset) error {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return engine.Fail(engine.CodeUnsupported, "the kernel does not describe its types "+
			"(BTF), which statelab watch needs: use a kernel with CONFIG_DEBUG_INFO_BTF, as all "+
			"large distributions have since 2020 (%w)", err)
	}

	for _, member := range members {
		var structure *btf.Struct
		if err := spec.TypeByName(member.of, &structure); errors.Is(err, btf.ErrNotFound) &&
			member.of == "io_kiocb" {
			continue // a kernel without io_uring
		} else if err != nil {
			return fmt.Errorf("the kernel's BTF: %s: %w", member.of, err)
		}

		at, found := offsetOf(structure.Members, member.name)
		if !found {
			return engine.Fail(engine.CodeUnsupported, "the kernel's structure %s has no "+
				"member %s: this version of Linux is not known", member.of, member.name)
		}

		*member.to = at
	}

	return nil
}

// offsetOf finds a member, also in structures without a name.
func offsetOf(members []btf.Member, name string) (bytes uint32, found bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}

		if m.Name != "" {
			continue
		}

		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}

		if at, found := offsetOf(inner, name); found {
			return m.Offset.Bytes() + at, true
		}
	}

	return 0, false
}
