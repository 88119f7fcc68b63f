package probe

import (
	"debug/elf"
	"runtime"
)

// machine is what differs between processors.
type machine struct {
	elf elf.Machine
	// Words of the kernel's pt_regs: the integer registers in the order of Go's calling convention,
	// and the one that holds the goroutine; in that of C++, and the one that holds the address of a
	// result.
	integer   [9]uint32
	goroutine uint32
	native    [6]uint32
	result    uint32
	// faultAddress is the word of a fault's address in what a program on a software event is
	// given: behind all registers, as user space sees them, and a period.
	faultAddress uint32
}

// registers are those of the processor here. Gets are seen on amd64 alone, page faults on arm64,
// too.
var registers = map[string]machine{
	"amd64": {
		elf.EM_X86_64,
		[9]uint32{10, 5, 11, 14, 13, 9, 8, 7, 6},
		1,
		[6]uint32{14, 13, 12, 11, 9, 8},
		10,
		22,
	},
	"arm64": {
		elf.EM_AARCH64,
		[9]uint32{0, 1, 2, 3, 4, 5, 6, 7, 8},
		28,
		[6]uint32{0, 1, 2, 3, 4, 5},
		0,
		35,
	},
}[runtime.GOARCH]
