package probe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

//go:generate bpf/generate.sh .

// inKernel are maps and programs of ours in the kernel, and what attaches the programs.
type inKernel []io.Closer

// close removes all, the last one first.
func (k *inKernel) close() error {
	var errs []error
	for _, made := range slices.Backward(*k) {
		errs = append(errs, made.Close())
	}
	*k = nil
	return errors.Join(errs...)
}

// loading loads programs of bpf/programs.c, with what differs between the processes and functions
// that they are for.
type loading struct {
	inKernel
	spec   *ebpf.CollectionSpec
	kernel *btf.Cache
	shared map[string]*ebpf.Map // that the programs have in common
}

// newLoading begins to load programs for a process.
func newLoading(of namespace, native bool) (*loading, error) {
	kernel := btf.NewCache()
	if _, err := kernel.Kernel(); err != nil {
		return nil, engine.Fail(engine.CodeUnsupported, "the kernel does not describe its types "+
			"(BTF), which statelab watch needs: use a kernel with CONFIG_DEBUG_INFO_BTF, as all "+
			"large distributions have since 2020 (%w)", err)
	}

	spec, err := loadBpf()
	if err != nil {
		return nil, err
	}

	l := &loading{spec: spec, kernel: kernel}
	return l, cmp.Or(
		l.set(bpfVarProcess, bpfProcess{
			Device: of.device,
			Inode:  of.inode,
			Id:     uint32(of.process),
			Native: native,
		}),
		l.set(bpfVarMachine, bpfMachine{
			Goroutine:    registers.goroutine,
			FaultAddress: registers.faultAddress,
		}))
}

// set gives a constant of the programs that are loaded from now on.
func (l *loading) set(name string, value any) error {
	return l.spec.Variables[name].Set(value)
}

// load loads the programs and the maps that the fields of a structure name; close removes them.
func (l *loading) load(to any) error {
	err := l.spec.LoadAndAssign(to, &ebpf.CollectionOptions{
		MapReplacements: l.shared,
		Cache:           l.kernel,
	})
	if err != nil {
		return notLoaded(err)
	}

	for _, field := range reflect.ValueOf(to).Elem().Fields() {
		if loaded, is := field.Interface().(io.Closer); is {
			l.inKernel = append(l.inKernel, loaded)
		}
	}

	return nil
}

// wholeLog is the variable of the environment that asks for all that the kernel says of a program
// that it refuses.
const wholeLog = "STATELAB_VERIFIER_LOG"

// notLoaded explains why a program could not be loaded, with the end of the verifier's log.
func notLoaded(err error) error {
	const lines = 20
	verifier, is := errors.AsType[*ebpf.VerifierError](err)
	if !is || len(verifier.Log) == 0 {
		return refused(fmt.Errorf("load programs into the kernel: %w", err))
	}

	log := verifier.Log
	if os.Getenv(wholeLog) == "" {
		log = log[max(0, len(log)-lines):]
	}

	// The kernel answers with a number; what is no number, the loader has found.
	what := "the kernel refuses a program"
	if _, number := errors.AsType[unix.Errno](verifier.Cause); !number {
		what = "the kernel's structures are not as the program expects them: this version of " +
			"Linux is not known"
	}

	return engine.Fail(engine.CodeUnsupported, "%s: %w\n  %s", what, err,
		strings.Join(log, "\n  ")).
		WithRemedy("use another version of Linux, and report this with all that the same "+
			"command says with %s=1 in its environment", wholeLog)
}

// as is the beginning of an event as a program wrote it, and the rest.
func as[T any](event []byte) (*T, []byte) {
	bytes := unsafe.Sizeof(*new(T))
	rest := event[bytes:] // so it is as long
	return (*T)(unsafe.Pointer(unsafe.SliceData(event))), rest
}
