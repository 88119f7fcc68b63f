package probe

import (
	"debug/elf"
	"runtime"
)

// machine is what differs between processors.
type machine struct {
	elf elf.Machine
	// Offsets into the kernel's pt_regs: of the integer registers in the order of Go's calling
	// convention, and of the one that holds the goroutine; in C++'s, and of the one that holds the
	// address of a result.
	integer   [9]int16
	goroutine int16
	native    [6]int16
	result    int16
	// faultAddress is the place of a fault's address in what a program on a software event is
	// given: behind all registers, as user space sees them, and a period.
	faultAddress int16
}

// registers are those of the processor here. Gets are seen on amd64 alone, page faults on arm64,
// too.
var registers = map[string]machine{
	"amd64": {
		elf.EM_X86_64,
		[9]int16{80, 40, 88, 112, 104, 72, 64, 56, 48},
		8,
		[6]int16{112, 104, 96, 88, 72, 64},
		80,
		176,
	},
	"arm64": {
		elf.EM_AARCH64,
		[9]int16{0, 8, 16, 24, 32, 40, 48, 56, 64},
		224,
		[6]int16{0, 8, 16, 24, 32, 40},
		0,
		280,
	},
}[runtime.GOARCH]
