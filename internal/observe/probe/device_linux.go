package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// inKernel are maps and programs of ours in the kernel, and what attaches the programs.
type inKernel []io.Closer

// newMap makes a map.
func (k *inKernel) newMap(to **ebpf.Map, spec ebpf.MapSpec) error {
	made, err := ebpf.NewMap(&spec)
	if err != nil {
		return refused(fmt.Errorf("make a map in the kernel: %w", err))
	}
	*to, *k = made, append(*k, made)
	return nil
}

// counters is a map of so many words under one key.
func counters(name string, words uint32) ebpf.MapSpec {
	return ebpf.MapSpec{
		Name:       name,
		Type:       ebpf.Array,
		KeySize:    4,
		ValueSize:  8 * words,
		MaxEntries: 1,
	}
}

// newProgram loads a program.
func (k *inKernel) newProgram(
	to **ebpf.Program, name string, spec ebpf.ProgramSpec, code asm.Instructions,
) error {
	spec.License, spec.Name, spec.Instructions = licence, name, code
	made, err := ebpf.NewProgram(&spec)
	if err != nil {
		return refused(fmt.Errorf("load the program %s into the kernel: %w", name, err))
	}
	*to, *k = made, append(*k, made)
	return nil
}

// close removes all, the last one first.
func (k *inKernel) close() error {
	var errs []error
	for _, made := range slices.Backward(*k) {
		errs = append(errs, made.Close())
	}
	*k = nil
	return errors.Join(errs...)
}

// device counts what is read from the block device of the database, by the process and by all
// others. The kernel tells of a read when a filesystem asks the device for it, in the thread that
// needs it or reads ahead.
type device struct {
	inKernel
	program *ebpf.Program
	counts  *ebpf.Map
}

// Words of the map of counts.
const (
	deviceNumber = iota // as the kernel writes it; 0: all devices
	deviceOwn           // reads, bytes
	_
	deviceOthers
	_
	deviceWords
)

// marked is a map by thread whose values have two words for the device reads of what the thread
// does, and their bytes.
type marked struct {
	by *ebpf.Map
	at int16
}

// load loads the program. It begins with first, which can end it.
func (d *device) load(of namespace, first asm.Instructions, marks ...marked) error {
	if err := d.newMap(&d.counts, counters("device", deviceWords)); err != nil {
		return err
	}

	const deviceAt, sectorsAt, operationAt, sectorShift = 8, 24, 28, 9 // in the tracepoint's record
	counted := func(in asm.Register, at int16) asm.Instructions {
		one, bytes := asm.StoreXAdd(in, asm.R2, asm.DWord), asm.StoreXAdd(in, asm.R8, asm.DWord)
		one.Offset, bytes.Offset = at, at+8
		return asm.Instructions{asm.Mov.Imm(asm.R2, 1), one, bytes}
	}

	parts := []any{
		asm.Mov.Reg(asm.R6, asm.R1),
		first,
		asm.LoadMem(asm.R1, asm.R6, operationAt, asm.Byte),
		asm.JNE.Imm(asm.R1, 'R', exitLabel),
		asm.LoadMem(asm.R8, asm.R6, sectorsAt, asm.Word),
		asm.LSh.Imm(asm.R8, sectorShift),
		asm.LoadMapValue(asm.R7, d.counts.FD(), 0),
		asm.LoadMem(asm.R1, asm.R7, 8*deviceNumber, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "mark"),
		asm.LoadMem(asm.R2, asm.R6, deviceAt, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R2, exitLabel),
		isProcess(of, "other"),
		counted(asm.R7, 8*deviceOwn),
		asm.Ja.Label("mark"),
		labelled("other", counted(asm.R7, 8*deviceOthers)),
		asm.Ja.Label(exitLabel),
		labelled("mark", asm.Instructions{asm.FnGetCurrentPidTgid.Call()}),
		asm.StoreMem(asm.R10, thread, asm.R0, asm.DWord),
	}

	for i, m := range marks {
		next := fmt.Sprint("mark", i)
		parts = append(parts, lookUp(m.by, thread), asm.JEq.Imm(asm.R0, 0, next),
			counted(asm.R0, m.at),
			labelled(next, asm.Instructions{asm.Mov.Imm(asm.R1, 0)}))
	}

	return d.newProgram(&d.program, "device_read", ebpf.ProgramSpec{Type: ebpf.TracePoint},
		join(parts...))
}

// on chooses the device that holds a file. A filesystem on several devices, or in memory, has no
// number of a device.
func (d *device) on(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}

	major, minor := unix.Major(stat.Dev), unix.Minor(stat.Dev)
	if _, err := os.Stat(fmt.Sprintf("/sys/dev/block/%d:%d", major, minor)); err != nil {
		return fmt.Errorf("the filesystem of %s does not tell its block device", path)
	}

	words := make([]uint64, deviceWords)
	if err := d.counts.Lookup(uint32(0), words); err != nil {
		return err
	}

	number := uint64(major)<<minorBits | uint64(minor)
	if words[deviceNumber] == number {
		return nil // writing the counters would set them back
	}

	return d.counts.Put(uint32(0), []uint64{deviceNumber: number, deviceWords - 1: 0})
}

// Device are the reads of that device so far.
func (d *device) Device() (c DeviceCounts, err error) {
	value := make([]byte, 8*deviceWords)
	err = d.counts.Lookup(uint32(0), value)
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(value[8*i:]) }
	return DeviceCounts{word(deviceOwn), word(deviceOwn + 1), word(deviceOthers),
		word(deviceOthers + 1)}, err
}

// isProcess goes on if the thread is one of the process, and else to a label. It leaves R6 to R9
// alone.
func isProcess(n namespace, otherwise string) asm.Instructions {
	return append(append(asm.Instructions{
		asm.LoadImm(asm.R1, int64(n.device), asm.DWord),
		asm.LoadImm(asm.R2, int64(n.inode), asm.DWord),
	}, address(asm.R3, scratch)...),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnGetNsCurrentPidTgid.Call(),
		asm.JNE.Imm(asm.R0, 0, otherwise),
		asm.LoadMem(asm.R1, asm.R10, scratch+4, asm.Word),
		asm.JNE.Imm(asm.R1, int32(n.process), otherwise),
	)
}

// labelled names the first of some instructions.
func labelled(name string, some asm.Instructions) asm.Instructions {
	some[0] = some[0].WithSymbol(name)
	return some
}
