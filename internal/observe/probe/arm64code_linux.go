package probe

import (
	"debug/elf"
	"encoding/binary"
)

// arm64 is the processor of that name. Its instructions have four bytes each; the few that matter
// are told by their bits, so that no decoder has to know all others.
type arm64 struct{}

func (arm64) registers() machine {
	m := machine{
		elf:       elf.EM_AARCH64,
		callBytes: armBytes,
		goroutine: 28,
		// The address of a result is in X8, whatever the arguments are.
		native:       []uint32{8},
		faultAddress: 35,
	}

	for n := range uint32(16) {
		m.integer = append(m.integer, n)
	}

	m.native = append(m.native, m.integer[:8]...)
	m.withoutResult = m.native
	return m
}

// Instructions, and the bits in which others are the same.
const (
	armBytes = 4

	armReturn      = 0xd65f03c0 // RET by X30, as compilers return
	armReturnKeyA  = 0xd65f0bff // RETAA and RETAB: of an address that is signed
	armReturnKeyB  = 0xd65f0fff
	armJump        = 0x14000000 // B
	armCall        = 0x94000000 // BL
	armDistance    = 1<<26 - 1  // of both, in instructions
	armLowerOrSame = 0x54000009 // B.LS
	armCondition   = 0xff00001f
	armStackGuard  = 0xf9400b90 // LDR X16, [X28, #16]
	armSystemGuard = 0xf9400f90 // LDR X16, [X28, #24], of functions on the system's stack
)

// decode takes the branch behind which Go begins with a sufficient stack for the end of the check
// of its size: the first B.LS after the limit was loaded, in the first instructions.
func (arm64) decode(code []byte, address uint64) (f flow, err error) {
	const prologueBytes = 40
	guarded := false
	for at := 0; at+armBytes <= len(code); at += armBytes {
		switch word := binary.LittleEndian.Uint32(code[at:]); {
		case word == armReturn, word == armReturnKeyA, word == armReturnKeyB:
			f.returns = append(f.returns, at)
		case word&^armDistance == armJump:
			f.jumps = append(f.jumps, armTarget(word, address+uint64(at)))
		case at >= prologueBytes:
		case word == armStackGuard, word == armSystemGuard:
			guarded = true
		case guarded && f.checked == 0 && word&armCondition == armLowerOrSame:
			f.checked = at + armBytes
		}
	}

	return f, nil
}

// armTarget is where B or BL at an address leads.
func armTarget(word uint32, address uint64) uint64 {
	const unused = 32 - 26
	return address + uint64(int64(int32(word<<unused)>>unused)*armBytes)
}

// calls looks for BL.
func (arm64) calls(code []byte, address, to uint64) (places []int) {
	for at := 0; at+armBytes <= len(code); at += armBytes {
		word := binary.LittleEndian.Uint32(code[at:])
		if word&^armDistance == armCall && armTarget(word, address+uint64(at)) == to {
			places = append(places, at)
		}
	}
	return places
}

func (arm64) endsWhole(code []byte) bool { return len(code)%armBytes == 0 }
