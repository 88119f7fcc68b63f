package probe

import (
	"debug/elf"
	"runtime"
)

// processor knows the code and the registers of one kind of processor.
type processor interface {
	registers() machine
	// decode finds what is wanted of the code of a function, which begins at an address.
	decode(code []byte, address uint64) (flow, error)
	// calls are where instructions in code, which begins at an address, seem to call another one.
	calls(code []byte, address, to uint64) []int
	// endsWhole reports whether code, which begins with an instruction, ends with one.
	endsWhole(code []byte) bool
}

// flow is how a function is entered and left. Places are bytes from its beginning.
type flow struct {
	// checked is behind the check of the stack's size, with which Go begins; 0: there is none.
	checked int
	returns []int
	jumps   []uint64 // addresses to which it jumps unconditionally
}

// machine is what differs between processors but their code.
type machine struct {
	elf       elf.Machine
	callBytes int // of an instruction that calls a function
	// Words of the kernel's pt_regs: the integer registers in the order of Go's calling convention,
	// and the one that holds the goroutine.
	integer   []uint32
	goroutine uint32
	// In C++'s, the first is that of the address of the result, and the second that of the object.
	// withoutResult are those of a function whose result is in no memory: the second is that of
	// its object, too.
	native, withoutResult []uint32
	// faultAddress is the word of a fault's address in what a program on a software event is
	// given: behind all registers, as user space sees them, and a period.
	faultAddress uint32
}

// processors are those whose programs can be watched.
var processors = map[elf.Machine]processor{elf.EM_X86_64: amd64{}, elf.EM_AARCH64: arm64{}}

// registers are those of the processor here; without any, it is not known.
var registers = registersOf(runtime.GOARCH)

func registersOf(architecture string) machine {
	switch architecture {
	case "amd64":
		return amd64{}.registers()
	case "arm64":
		return arm64{}.registers()
	}
	return machine{}
}
