package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// amd64 is the processor of that name.
type amd64 struct{}

func (amd64) registers() machine {
	return machine{
		elf:           elf.EM_X86_64,
		callBytes:     5,
		integer:       []uint32{10, 5, 11, 14, 13, 9, 8, 7, 6}, // rax, rbx, rcx, rdi, ...
		goroutine:     1,                                       // r14
		native:        []uint32{14, 13, 12, 11, 9, 8},          // rdi, rsi, rdx, ...
		withoutResult: []uint32{0, 14, 13, 12, 11, 9, 8},
		faultAddress:  22,
	}
}

// branchTarget is the instruction endbr64, which the decoder does not know.
var branchTarget = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// decode takes the first PUSH of the frame pointer for the end of the check of the stack's size.
func (amd64) decode(code []byte, address uint64) (f flow, err error) {
	const prologueBytes = 40
	framed := false
	for at := 0; at < len(code); {
		instruction, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			if len(bytes.Trim(code[at:], "\xcc")) == 0 {
				break // padding
			}

			if bytes.HasPrefix(code[at:], branchTarget) {
				at += len(branchTarget)
				continue
			}

			return f, fmt.Errorf("at %#x: %w", address+uint64(at), err)
		}

		to, relative := instruction.Args[0].(x86asm.Rel)
		switch {
		case instruction.Op == x86asm.RET:
			f.returns = append(f.returns, at)
		case instruction.Op == x86asm.PUSH && instruction.Args[0] == x86asm.RBP &&
			at < prologueBytes && !framed:
			f.checked, framed = at, true
		case instruction.Op == x86asm.JMP && relative:
			f.jumps = append(f.jumps, address+uint64(at+instruction.Len)+uint64(int64(to)))
		}

		at += instruction.Len
	}

	return f, nil
}

// calls looks for CALL, relative to what follows it. Its byte may be a part of another instruction.
func (p amd64) calls(code []byte, address, to uint64) (places []int) {
	const call = 0xe8
	length := p.registers().callBytes
	for at := 0; at+length <= len(code); at++ {
		found := bytes.IndexByte(code[at:len(code)-length+1], call)
		if found < 0 {
			break
		}

		at += found
		distance := int64(int32(binary.LittleEndian.Uint32(code[at+1:])))
		if address+uint64(at+length)+uint64(distance) == to {
			places = append(places, at)
		}
	}

	return places
}

func (amd64) endsWhole(code []byte) bool {
	for len(code) > 0 {
		instruction, err := x86asm.Decode(code, 64)
		if err != nil || instruction.Len > len(code) {
			return false
		}
		code = code[instruction.Len:]
	}
	return true
}
