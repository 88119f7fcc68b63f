package probe

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/statelab/statelab/internal/subject"
)

// batchBegins counts a lookup of many keys at once, and its keys.
func (p *programs) batchBegins(e subject.Watched, b subject.Batch) asm.Instructions {
	keys := asm.Instructions{asm.LoadMem(asm.R7, asm.R6, register(e, b.KeysAt), asm.DWord)}
	if b.InVector { // which begins with the addresses of its first slice and behind its last
		keys = list(
			zeroed(sliceAt, 16),
			asm.LoadMem(asm.R3, asm.R6, register(e, b.KeysAt), asm.DWord),
			user(sliceAt, 16),
			asm.LoadMem(asm.R7, asm.R10, sliceAt+8, asm.DWord),
			asm.LoadMem(asm.R1, asm.R10, sliceAt, asm.DWord),
			asm.Sub.Reg(asm.R7, asm.R1),
			asm.RSh.Imm(asm.R7, sliceBits),
		)
	}

	return join(
		asm.Mov.Reg(asm.R6, asm.R1),
		p.inWindow(),
		keys,
		asm.LoadMapValue(asm.R1, p.batched.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
		asm.LoadMapValue(asm.R1, p.batched.FD(), 8),
		asm.StoreXAdd(asm.R1, asm.R7, asm.DWord),
	)
}

// batches are the lookups of many keys at once so far, and their keys.
func (p *programs) batches() (b Batches, err error) {
	value := make([]byte, p.batched.ValueSize())
	if err := p.batched.Lookup(uint32(0), &value); err != nil {
		return b, err
	}

	b.Calls, b.Keys = binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])
	return b, nil
}

// What is noted of a call that looks keys of a batch up, in place of a key: its arguments, and what
// follows from them when it ends.
const (
	togetherKeys     = getKey + 8*iota // of the vector of contexts, or of the first slice
	togetherFamilies                   // of the vector
	togetherFrom
	togetherCount
	togetherResult // of the vector of outcomes, or of the first one
	togetherStride // bytes from one outcome to the next
	togetherBytes
)

// sliceBits: 1<<sliceBits bytes are the address of a key and its length.
const sliceBits = 4

// maxTogether are the keys of one call that are read; more are counted.
const maxTogether = 512

// The vector of contexts has room for so many of its own.
const room, roomAt = 32, 8

// Places on the stack, below those of a Get and a slice, and in a context there.
const (
	contextWords  = 10
	contextFamily = 8 * 8
	contextResult = 9 * 8
	contextAt     = sliceAt - contextWords*8
)

// togetherBegins notes a call that looks keys of a batch up under its thread, whose reads are its
// own from now on.
func (p *programs) togetherBegins(e subject.Watched, number int) asm.Instructions {
	t := e.Together[number]
	note := func(to int16, argument int) asm.Instructions {
		return asm.Instructions{
			asm.LoadMem(asm.R2, asm.R6, register(e, argument), asm.DWord),
			asm.StoreMem(asm.R10, getAt+to, asm.R2, asm.DWord),
		}
	}

	arguments := list(note(togetherFrom, t.FromAt), note(togetherCount, t.CountAt))
	if t.OneByOne() {
		arguments = list(note(togetherFamilies, t.FamiliesAt), note(togetherResult, 0))
	}

	return join(
		begins(e, kindTogether|int64(number)<<kindBits, t.DatabaseAt),
		note(togetherKeys, t.KeysAt),
		arguments,
		p.activate(),
	)
}

// togetherEnds reports the keys of the thread's call, each as a Get, and then the call. They are
// read at its end, when their outcomes are known and all of its caller's memory is still there.
//
// R7 is the address of what was noted, R6 how many keys there are, R8 the number of the present
// one, and R9 the first of the families, or of the contexts that have no room in the vector.
func (p *programs) togetherEnds(e subject.Watched, number int) asm.Instructions {
	header := asm.Instructions{}
	for _, at := range []int16{getStart, getEnd, getGoroutine, getDatabase} {
		header = append(header, asm.LoadMem(asm.R1, asm.R7, at, asm.DWord),
			asm.StoreMem(asm.R10, getAt+at, asm.R1, asm.DWord))
	}

	all, one := contextVector(), contextKey()
	if e.Together[number].OneByOne() {
		all, one = sliceVectors(), sliceKey()
	}

	return join(
		caller(e),
		lookUp(p.active, goroutine),
		asm.JEq.Imm(asm.R0, 0, exitLabel),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R1, asm.R7, getKind, asm.Byte),
		asm.JNE.Imm(asm.R1, kindTogether, exitLabel), // a Get that the call made did not end
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, getEnd, asm.R0, asm.DWord),
		zeroed(getAt, getBytes),
		asm.StoreImm(asm.R10, getAt+getKind, kindKey|int64(number)<<kindBits, asm.Word),
		header,
		all,

		asm.Mov.Imm(asm.R8, 0),
		asm.JGE.Imm(asm.R8, maxTogether, "reported").WithSymbol("key"),
		asm.JGE.Reg(asm.R8, asm.R6, "reported"),
		one,
		asm.LoadMem(asm.R1, asm.R10, getAt+getFound, asm.DWord),
		asm.StoreMem(asm.R10, getAt+getError, asm.R1, asm.DWord),
		keyOnStack(),
		asm.LoadMem(asm.R3, asm.R10, getAt+getKeyBytes, asm.Word),
		asm.JLE.Imm(asm.R3, MaxKeyBytes, "whole"),
		asm.Mov.Imm(asm.R3, MaxKeyBytes),
		asm.Add.Imm(asm.R3, getKey).WithSymbol("whole"),
		address(asm.R2, getAt),
		p.output(),
		asm.Add.Imm(asm.R8, 1),
		asm.JEq.Imm(asm.R0, 0, "key"),
		p.countLost(lostGets),
		asm.Ja.Label("key"),

		asm.Mov.Reg(asm.R2, asm.R7).WithSymbol("reported"),
		asm.Mov.Imm(asm.R3, togetherBytes),
		p.output(),
		asm.Mov.Reg(asm.R8, asm.R0),
		remove(p.active, goroutine),
		asm.JEq.Imm(asm.R8, 0, exitLabel),
		p.countLost(lostGets),
	)
}

// noted loads what was noted of a call.
func noted(to asm.Register, at int16) asm.Instruction {
	return asm.LoadMem(to, asm.R7, at, asm.DWord)
}

// outcomeOf reads the outcome of a key, whose address R3 holds.
func outcomeOf() asm.Instructions {
	return list(
		zeroed(getAt+getFound, 8),
		user(getAt+getFound, 1),
	)
}

// contextVector looks at the vector of the keys' contexts. Without its own address in it, or with
// fewer contexts than the call was said to have, it is another one than is known here.
func contextVector() asm.Instructions {
	return list(
		noted(asm.R3, togetherKeys),
		asm.Add.Imm(asm.R3, roomAt+8*room),
		user(contextAt, 3*8), // the address of the room, and a vector's beginning and end
		noted(asm.R3, togetherKeys),
		user(contextAt+3*8, 8), // how many are in the room

		asm.LoadMem(asm.R1, asm.R10, contextAt, asm.DWord),
		noted(asm.R2, togetherKeys),
		asm.Add.Imm(asm.R2, roomAt),
		asm.JNE.Reg(asm.R1, asm.R2, "reported"),
		asm.LoadMem(asm.R9, asm.R10, contextAt+8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R10, contextAt+2*8, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R9),
		asm.RSh.Imm(asm.R1, 3),
		asm.LoadMem(asm.R2, asm.R10, contextAt+3*8, asm.DWord),
		asm.JGT.Imm(asm.R2, room, "reported"),
		asm.Add.Reg(asm.R1, asm.R2),
		noted(asm.R6, togetherCount),
		noted(asm.R2, togetherFrom),
		asm.Add.Reg(asm.R2, asm.R6),
		asm.JGT.Reg(asm.R2, asm.R1, "reported"),
	)
}

// contextKey finds a key by its context.
func contextKey() asm.Instructions {
	return list(
		noted(asm.R3, togetherFrom),
		asm.Add.Reg(asm.R3, asm.R8),
		asm.JGE.Imm(asm.R3, room, "behind"),
		asm.LSh.Imm(asm.R3, 3),
		noted(asm.R1, togetherKeys),
		asm.Add.Reg(asm.R3, asm.R1),
		asm.Add.Imm(asm.R3, roomAt),
		asm.Ja.Label("context"),
		asm.Sub.Imm(asm.R3, room).WithSymbol("behind"),
		asm.LSh.Imm(asm.R3, 3),
		asm.Add.Reg(asm.R3, asm.R9),

		asm.Mov.Imm(asm.R1, 0).WithSymbol("context"),
		user(contextAt, 8),
		asm.LoadMem(asm.R3, asm.R10, contextAt, asm.DWord),
		user(contextAt, contextWords*8),
		asm.LoadMem(asm.R1, asm.R10, contextAt+contextFamily, asm.DWord),
		asm.StoreMem(asm.R10, getAt+getFamily, asm.R1, asm.DWord),
		asm.LoadMem(asm.R3, asm.R10, contextAt+contextResult, asm.DWord),
		outcomeOf(),
		asm.LoadMem(asm.R3, asm.R10, contextAt, asm.DWord),
		user(sliceAt, 16),
	)
}

// sliceVectors looks at the vectors of the keys, of their families and of their outcomes.
func sliceVectors() asm.Instructions {
	return list(
		noted(asm.R3, togetherFamilies),
		user(contextAt, 8),
		asm.LoadMem(asm.R9, asm.R10, contextAt, asm.DWord),

		noted(asm.R3, togetherKeys),
		user(contextAt, 2*8),
		asm.LoadMem(asm.R1, asm.R10, contextAt, asm.DWord),
		asm.StoreMem(asm.R7, togetherKeys, asm.R1, asm.DWord),
		asm.LoadMem(asm.R6, asm.R10, contextAt+8, asm.DWord),
		asm.Sub.Reg(asm.R6, asm.R1),
		asm.RSh.Imm(asm.R6, sliceBits),
		asm.StoreMem(asm.R7, togetherCount, asm.R6, asm.DWord),

		noted(asm.R3, togetherResult),
		user(contextAt, 2*8),
		asm.LoadMem(asm.R1, asm.R10, contextAt, asm.DWord),
		asm.StoreMem(asm.R7, togetherResult, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R10, contextAt+8, asm.DWord),
		asm.Sub.Reg(asm.R2, asm.R1),
		asm.Div.Reg(asm.R2, asm.R6), // by no key: 0
		asm.StoreMem(asm.R7, togetherStride, asm.R2, asm.DWord),
	)
}

// sliceKey finds a key, its family and its outcome by their vectors.
func sliceKey() asm.Instructions {
	return list(
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.LSh.Imm(asm.R3, 3),
		asm.Add.Reg(asm.R3, asm.R9),
		user(getAt+getFamily, 8),
		noted(asm.R3, togetherStride),
		asm.Mul.Reg(asm.R3, asm.R8),
		noted(asm.R1, togetherResult),
		asm.Add.Reg(asm.R3, asm.R1),
		outcomeOf(),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.LSh.Imm(asm.R3, sliceBits),
		noted(asm.R1, togetherKeys),
		asm.Add.Reg(asm.R3, asm.R1),
		user(sliceAt, 16),
	)
}
