package probe

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/subject"
)

// Everything in the compiled programs is loaded by its name, and all that is loaded is there.
func TestProgramsHaveTheirNames(t *testing.T) {
	spec, err := loadBpf()
	if err != nil {
		t.Fatal(err)
	}

	loaded := map[string]bool{}
	for _, of := range []any{ofReads{}, ofGets{}, ofKeys{}, ofBatches{}, ofSeeks{}, ofFaults{},
		ofPages{}} {
		for field := range reflect.TypeOf(of).Fields() {
			name, found := field.Tag.Get("ebpf"), false
			switch field.Type {
			case reflect.TypeFor[*ebpf.Program]():
				_, found = spec.Programs[name]
			case reflect.TypeFor[*ebpf.Map]():
				_, found = spec.Maps[name]
			case reflect.TypeFor[*ebpf.Variable]():
				_, found = spec.Variables[name]
			}

			if loaded[name] = true; !found {
				t.Errorf("%T: no %v is called %s", of, field.Type, name)
			}
		}
	}

	for name := range spec.Programs {
		if !loaded[name] {
			t.Errorf("the program %s is never loaded", name)
		}
	}

	for name, v := range spec.Variables {
		if !loaded[name] && !v.Constant() && name != bpfVarEventTypes {
			t.Errorf("the variable %s is never read", name)
		}
	}
}

// The compiled programs are those of the sources.
func TestProgramsAreOfTheirSources(t *testing.T) {
	testring.Program(t, "clang-19")
	testring.Program(t, "llvm-strip-19")
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		testring.Lacks(t, "the headers of libbpf")
	}

	const compiler = "clang version 19.1.7"
	if said, err := exec.Command("clang-19", "--version").CombinedOutput(); err != nil ||
		!strings.Contains(string(said), compiler) {
		t.Skipf("the programs are compiled with %s: %v\n%s", compiler, err, said)
	}

	dir := t.TempDir()
	if said, err := exec.Command("bpf/generate.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}

	for _, name := range []string{"bpf_bpfel.go", "bpf_bpfel.o"} {
		made, err := os.ReadFile(filepath.Join(dir, name))
		present, err2 := os.ReadFile(name)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}

		if !bytes.Equal(made, present) {
			t.Errorf("%s is not what its source is compiled to: make bpf", name)
		}
	}
}

// The kernel takes the programs of every function of every engine.
func TestProgramsOfEveryEngineLoad(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skipf("programs cannot be loaded here: %v", err)
	}

	own := &Target{PID: os.Getpid()}
	of, err := own.namespace()
	if err != nil {
		t.Fatal(err)
	}

	for _, own.Engine = range append(subject.AllWatched(), subject.AllWatchedMapped()...) {
		own.code = code{seeks: []place{{}}}
		for i := range own.Engine.Gets {
			own.code.places = append(own.code.places, place{function: i})
		}

		for i := range own.Engine.Together {
			own.code.together = append(own.code.together, place{function: i})
		}

		for _, b := range own.Engine.Batches {
			own.code.batches = append(own.code.batches, batch{Batch: b})
		}

		for _, multi := range []bool{false, true} {
			if multi && features.HaveBPFLinkUprobeMulti() != nil {
				continue // an older kernel
			}

			p, err := load(own, of, multi)
			if err != nil {
				t.Fatalf("%s: %+v", own.Engine.Engine, err)
			}

			if err := p.close(); err != nil {
				t.Error(err)
			}
		}
	}

	faults, err := OpenFaults(own, own.proc("exe"))
	if err == nil {
		err = faults.Close()
	}

	if err != nil {
		t.Errorf("page faults: %+v", err)
	}

	for _, whole := range []bool{false, true} {
		pages, err := OpenPageCache(own, own.proc("exe"), whole, 1)
		if err == nil {
			err = pages.Close()
		}

		if err != nil {
			t.Errorf("page cache, whole machine %v: %+v", whole, err)
		}
	}
}

// What the kernel refuses it explains, and what it does not know is named.
func TestRefusedProgramsSayWhy(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skipf("programs cannot be loaded here: %v", err)
	}

	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}

	of, err := (&Target{PID: os.Getpid()}).namespace()
	if err != nil {
		t.Fatal(err)
	}

	begins := func(change func(*loading)) string {
		t.Helper()
		l, err := newLoading(of, false)
		if err != nil {
			t.Fatal(err)
		}

		change(l)
		err = l.load(&struct {
			Begins *ebpf.Program `ebpf:"read_at_begins"`
		}{})
		if failure, is := errors.AsType[*engine.Failure](err); !is ||
			!strings.Contains(failure.Remedy, wholeLog) {
			t.Fatalf("%+v", err)
		}

		return err.Error()
	}

	said := begins(func(l *loading) { // It returns what was never set.
		l.spec.Programs[bpfProgReadAtBegins].Instructions = asm.Instructions{asm.Return()}
	})
	if !strings.Contains(said, "the kernel refuses a program") ||
		!strings.Contains(said, bpfProgReadAtBegins) || !strings.Contains(said, "\n  0: (95)") {
		t.Error(said)
	}

	said = begins(func(l *loading) { // An inode has no generation.
		types, err := os.ReadFile("/sys/kernel/btf/vmlinux")
		if err == nil {
			l.kernel, err = btf.LoadSpecFromReader(
				bytes.NewReader(without(types, "i_generation")))
		}

		if err != nil {
			t.Fatal(err)
		}
	})
	if !strings.Contains(said, "this version of Linux is not known") ||
		!strings.Contains(said, "structure inode lacks the member i_generation") {
		t.Error(said)
	}
}

// A kernel without io_uring takes the program of its reads.
func TestKernelsWithoutUring(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skipf("programs cannot be loaded here: %v", err)
	}

	of, err := (&Target{PID: os.Getpid()}).namespace()
	if err != nil {
		t.Fatal(err)
	}

	types, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Skip(err)
	}

	for _, name := range []string{"io_kiocb", "trace_event_raw_io_uring_complete"} {
		l, err := newLoading(of, false)
		if err == nil {
			l.kernel, err = btf.LoadSpecFromReader(bytes.NewReader(without(types, name)))
		}

		var of ofReads
		if err == nil {
			err = l.load(&of)
		}

		if err != nil {
			t.Fatalf("without %s: %+v", name, err)
		}

		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}

// without gives a name in the kernel's types another last letter.
func without(types []byte, name string) []byte {
	return bytes.ReplaceAll(types, []byte("\x00"+name+"\x00"),
		[]byte("\x00"+name[:len(name)-1]+"_\x00"))
}
