package probe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
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
	kernel *btf.Spec            // the types of the kernel itself, without those of modules
	shared map[string]*ebpf.Map // that the programs have in common
}

// newLoading begins to load programs for a process.
func newLoading(of namespace, native bool) (*loading, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
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
		Programs:        ebpf.ProgramOptions{KernelTypes: l.kernel},
	})
	if err != nil {
		return l.notLoaded(to, err)
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

// notLoaded explains why a program of a structure could not be loaded, with the end of the
// verifier's log.
func (l *loading) notLoaded(to any, err error) error {
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
		what = l.missing(to, verifier.Log) + ": this version of Linux is not known"
	}

	return engine.Fail(engine.CodeUnsupported, "%s: %w\n  %s", what, err,
		strings.Join(log, "\n  ")).
		WithRemedy("use another version of Linux, and report this with all that the same "+
			"command says with %s=1 in its environment", wholeLog)
}

// accessed finds the structure and the member in what the loader calls an access of a program.
var accessed = regexp.MustCompile(`"(\w+)"\[0:(\d+)`)

// missing says which member of a structure the kernel lacks: that of the last instruction in the
// verifier's log. The program is the first one that is not loaded.
func (l *loading) missing(to any, log []string) string {
	last := -1
	for _, text := range log {
		var at int
		if n, _ := fmt.Sscanf(text, "%d: (", &at); n == 1 {
			last = at
		}
	}

	program := new(ebpf.ProgramSpec)
	for field, loaded := range reflect.ValueOf(to).Elem().Fields() {
		if refused := l.spec.Programs[field.Tag.Get("ebpf")]; refused != nil && loaded.IsNil() {
			program = refused
			break
		}
	}

	for all := program.Instructions.Iterate(); all.Next(); {
		access := btf.CORERelocationMetadata(all.Ins)
		if int(all.Offset) != last || access == nil {
			continue
		}

		var structure *btf.Struct
		found := accessed.FindStringSubmatch(access.String())
		if found == nil || l.spec.Types.TypeByName(found[1], &structure) != nil {
			return access.String()
		}

		if i, _ := strconv.Atoi(found[2]); i < len(structure.Members) {
			return fmt.Sprintf("the kernel's structure %s lacks the member %s, or has another one",
				found[1], structure.Members[i].Name)
		}
	}

	return "the kernel's structures are others"
}

// as is the beginning of an event as a program wrote it, and the rest.
func as[T any](event []byte) (*T, []byte) {
	bytes := unsafe.Sizeof(*new(T))
	rest := event[bytes:] // so it is as long
	return (*T)(unsafe.Pointer(unsafe.SliceData(event))), rest
}
