package probe

import (
	"bufio"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/subject"
)

// instruction is one as objdump shows it.
type instruction struct{ name, arguments string }

var instructionLine = regexp.MustCompile(`^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$`)

// disassembled are the instructions of a file's code, by their addresses.
func disassembled(t *testing.T, objdump, path string) map[uint64]instruction {
	t.Helper()
	command := exec.Command(testring.Program(t, objdump), "-d", "--no-show-raw-insn", path)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}

	if err != nil {
		t.Fatal(err)
	}

	all := map[uint64]instruction{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found := instructionLine.FindStringSubmatch(lines.Text()); found != nil {
			address, err := strconv.ParseUint(found[1], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			all[address] = instruction{found[2], strings.TrimSpace(found[3])}
		}
	}

	if err := command.Wait(); err != nil || len(all) == 0 {
		t.Fatalf("%d instructions in %s: %v", len(all), path, err)
	}

	return all
}

// target is the address that a call or a jump leads to.
func (i instruction) target(t *testing.T) uint64 {
	t.Helper()
	text, _, _ := strings.Cut(i.arguments, " ")
	address, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		t.Fatalf("%s %s: %v", i.name, i.arguments, err)
	}
	return address
}

// opened opens a program, and finds its functions in Go, if it has any.
func opened(t *testing.T, path string) *image {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { file.Close() })
	i := &image{file: file}
	section := file.Section(".gopclntab")
	if section == nil {
		return i
	}

	content, err := section.Data()
	if err == nil {
		i.table, err = gosym.NewTable(nil, gosym.NewLineTable(content,
			file.Section(".text").Addr))
	}

	if err != nil {
		t.Fatal(err)
	}

	return i
}

// address is that of a place in the file.
func (i *image) address(offset uint64) uint64 {
	for _, p := range i.file.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr
		}
	}
	return 0
}

// sameReturns compares the returns of a function with those that objdump shows, and reports whether
// it has any.
func sameReturns(
	t *testing.T, i *image, f gosym.Func, name string, shown map[uint64]instruction, step uint64,
) bool {
	t.Helper()
	var want []uint64
	for at := f.Entry; at < f.End; at += step {
		if shown := shown[at]; shown.arguments == "" && slices.Contains(
			[]string{"ret", "retaa", "retab"}, shown.name) {
			want = append(want, at)
		}
	}

	p, err := i.probes(f)
	var got []uint64
	for _, at := range p.returns {
		got = append(got, i.address(at))
	}

	leaves := errors.Is(err, errTailCall)
	if !slices.Equal(got, want) && !leaves {
		t.Errorf("%s at %#x returns at %#x, and objdump shows %#x (%v)", name, f.Entry, got, want,
			err)
	}

	return len(want) > 0
}

// readers is a program with engines in Go, built for arm64.
func readers(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "readers")
	build := exec.Command("go", append(append([]string{"build", "-o", path}, flags...),
		"./testdata/readers")...)
	build.Env = append(build.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return path
}

// The returns of all functions of a program in Go for arm64 are those that objdump shows. Each
// function that can ask for a larger stack begins to work behind the branch that does so, and no
// other one begins behind its first instruction.
func TestGoFunctionsOfARM64AsObjdumpShowsThem(t *testing.T) {
	testring.Outer(t, "it builds Pebble and goleveldb for arm64")
	path := readers(t)
	i, shown := opened(t, path), disassembled(t, "aarch64-linux-gnu-objdump", path)
	larger := map[uint64]bool{} // functions that ask for a larger stack
	for _, f := range i.table.Funcs {
		if strings.HasPrefix(f.Name, "runtime.morestack") {
			larger[f.Entry] = true
		}
	}

	returning, checked := 0, 0
	for _, f := range i.table.Funcs {
		if sameReturns(t, i, f, f.Name, shown, armBytes) {
			returning++
		}

		checks := false
		for at := f.Entry; at < f.End; at += armBytes {
			if one := shown[at]; one.name == "bl" && larger[one.target(t)] {
				checks = true
			}
		}

		p, err := i.probes(f)
		if err != nil {
			continue // it does not return
		}

		entry := i.address(p.entry)
		if checks != (entry != f.Entry) {
			t.Errorf("%s at %#x begins at %#x, and asks for a larger stack: %v", f.Name, f.Entry,
				entry, checks)
		}

		if !checks {
			continue
		}

		checked++
		if branch := shown[entry-armBytes]; branch.name != "b.ls" ||
			!asks(t, shown, branch.target(t), f, larger) {
			t.Errorf("%s at %#x begins at %#x, behind %v", f.Name, f.Entry, entry, branch)
		}
	}

	t.Logf("%d functions that return, %d that check their stack", returning, checked)
	if returning < 5000 || checked < 5000 {
		t.Error("too few functions to tell")
	}
}

// asks reports whether the code at an address does nothing but to save registers and to ask for a
// larger stack, after which it begins anew.
func asks(
	t *testing.T, shown map[uint64]instruction, at uint64, f gosym.Func, larger map[uint64]bool,
) bool {
	asked := false
	for ; at < f.End; at += armBytes {
		switch one := shown[at]; one.name {
		case "mov", "str", "stp", "strb", "strh", "stur", "ldr", "ldp", "ldrb", "ldrh", "ldrsb",
			"ldrsh", "ldrsw", "ldur", "add", "sub":
		case "bl":
			asked = larger[one.target(t)]
		case "b":
			return asked && one.target(t) == f.Entry
		default:
			return false
		}
	}
	return false
}

// Gets and Seeks of each engine in Go are found in the code for arm64, with the calls of those that
// are watched where others call them.
func TestEnginesInGoAreFoundInCodeOfARM64(t *testing.T) {
	testring.Outer(t, "it builds Pebble and goleveldb for arm64")
	path := readers(t, "-ldflags=-s -w")
	i := opened(t, path)
	shown := disassembled(t, "aarch64-linux-gnu-objdump", path)
	entries := map[string]gosym.Func{}
	for _, f := range i.table.Funcs {
		entries[f.Name] = f
	}

	for _, e := range subject.AllWatched() {
		if e.Module == "" {
			continue
		}

		for _, get := range e.Gets {
			f, found := entries[get.Name]
			if !found {
				t.Errorf("%s is not in the program", get.Name)
			} else if p, err := i.probes(f); err != nil {
				t.Errorf("%s: %v", get.Name, err)
			} else if i.address(p.entry) == f.Entry {
				t.Errorf("%s is probed before the check of its stack", get.Name)
			}
		}

		own := &Target{Engine: e}
		i.locateSeeks(own)
		if len(own.code.seeks) < len(e.Seeks) {
			t.Errorf("%s: %d places of Seeks", e.Engine, len(own.code.seeks))
		}

		for _, name := range e.CalledSeeks {
			calledAsShown(t, i, entries[name], own, shown)
		}
	}
}

// calledAsShown compares the calls of a function that are watched with those that objdump shows.
func calledAsShown(
	t *testing.T, i *image, f gosym.Func, of *Target, shown map[uint64]instruction,
) {
	t.Helper()
	if f.Sym == nil {
		t.Error("a function is not in the program")
		return
	}

	want := map[uint64]bool{}
	for at, one := range shown {
		if one.name == "bl" && one.target(t) == f.Entry && !slices.ContainsFunc(of.Engine.Gets,
			func(get subject.Function) bool {
				return i.table.PCToFunc(at).Name == get.Name
			}) {
			want[at] = true
		}
	}

	got := map[uint64]bool{}
	for _, p := range of.code.seeks {
		if at := i.address(p.entry); shown[at].name == "bl" && shown[at].target(t) == f.Entry {
			got[at] = true
			if len(p.returns) != 1 || i.address(p.returns[0]) != at+armBytes {
				t.Errorf("the call of %s at %#x returns at %#x", f.Name, at, p.returns)
			}
		}
	}

	if !maps.Equal(got, want) || len(want) == 0 {
		t.Errorf("%s is called at %#x, and objdump shows %#x", f.Name,
			slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// The returns of all functions of libraries for arm64 that gcc has built are those that objdump
// shows, and so are the jumps to other functions, with which some end: of LMDB, built here with and
// without signed return addresses, and of the libraries of C and C++ that come with the compiler.
func TestCFunctionsOfARM64AsObjdumpShowsThem(t *testing.T) {
	testring.Outer(t, "it compiles LMDB, and decodes libraries")
	compiler := testring.Program(t, "aarch64-linux-gnu-gcc")
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/PowerDNS/lmdb-go").Output()
	if err != nil {
		t.Fatal(err)
	}

	sources, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "lmdb", "m*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatal("no source of LMDB", err)
	}

	paths := map[string]string{}
	for name, flags := range map[string][]string{
		"lmdb":          {"-O2"},
		"lmdb, sibling": {"-O3", "-fno-plt"},
		"lmdb, signed":  {"-O2", "-march=armv8.3-a", "-mbranch-protection=standard"},
	} {
		paths[name] = filepath.Join(t.TempDir(), "lmdb.so")
		build := exec.Command(compiler, append(append(flags, "-shared", "-fPIC", "-w", "-o",
			paths[name]), sources...)...)
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}

	for _, name := range []string{"libc.so.6", "libstdc++.so.6"} {
		out, err := exec.Command(compiler, "-print-file-name="+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		paths[name] = strings.TrimSpace(string(out))
	}

	for name, path := range paths {
		t.Run(name, func(t *testing.T) { compareNative(t, path) })
	}
}

func compareNative(t *testing.T, path string) {
	i, shown := opened(t, path), disassembled(t, "aarch64-linux-gnu-objdump", path)
	i.others = map[uint64]bool{}
	functions := symbols(path)
	for _, s := range functions {
		i.others[s.Value] = true
	}

	returning, leaving, signed := 0, 0, 0
	for name, s := range functions {
		f := gosym.Func{Entry: s.Value, End: s.Value + s.Size}
		if sameReturns(t, i, f, name, shown, armBytes) {
			returning++
		}

		leaves := false
		for at := f.Entry; at < f.End; at += armBytes {
			one := shown[at]
			leaves = leaves || one.name == "b" && i.others[one.target(t)]
			if one.name == "retaa" || one.name == "retab" {
				signed++
			}
		}

		p, err := i.probes(f)
		if got := errors.Is(err, errTailCall); got != leaves {
			t.Errorf("%s at %#x: another function returns for it: %v, and objdump shows %v", name,
				f.Entry, got, leaves)
		}

		if leaves {
			leaving++
		} else if err == nil && i.address(p.entry) != f.Entry {
			t.Errorf("%s at %#x is probed at %#x", name, f.Entry, i.address(p.entry))
		}
	}

	t.Logf("%d functions that return, %d that another one returns for, %d signed returns",
		returning, leaving, signed)
	if returning == 0 {
		t.Error("no function returns")
	}
}

// What matters of code for arm64, instruction by instruction.
func TestCodeOfARM64(t *testing.T) {
	const at = 0x10000
	for name, test := range map[string]struct {
		words []uint32
		want  flow
	}{
		"a small frame in Go": {
			[]uint32{
				0xf9400b90, // ldr x16, [x28, #16]
				0xeb3063ff, // cmp sp, x16
				0x54000089, // b.ls +16
				0xf81e0ffe, // str x30, [sp, #-32]!
				0xf84207fe, // ldr x30, [sp], #32
				0xd65f03c0, // ret
				0xaa1e03e3, // mov x3, x30
			},
			flow{checked: 12, returns: []int{20}},
		},
		"a large frame on the system's stack": {
			[]uint32{
				0xf9400f90, // ldr x16, [x28, #24]
				0xd10183f1, // sub x17, sp, #96
				0xeb10023f, // cmp x17, x16
				0x54000089, // b.ls +16
				0xd65f03c0, // ret
			},
			flow{checked: 16, returns: []int{16}},
		},
		"a comparison of the function's own": {
			[]uint32{
				0xeb01001f, // cmp x0, x1
				0x54000049, // b.ls +8
				0xd65f03c0, // ret
				0xd65f03c0, // ret
			},
			flow{returns: []int{8, 12}},
		},
		"signed returns, and one to another register": {
			[]uint32{
				0xd503233f, // paciasp
				0xd65f0bff, // retaa
				0xd65f0fff, // retab
				0xd65f0120, // ret x9
				0xd61f0200, // br x16
			},
			flow{returns: []int{4, 8}},
		},
		"jumps": {
			[]uint32{
				0x14000002, // b +8
				0x17ffffff, // b -4
				0x15ffffff, // b, as far as it can
				0x94000002, // bl +8
			},
			flow{jumps: []uint64{at + 8, at, at + 8 + 0x7fffffc}},
		},
	} {
		var code []byte
		for _, word := range test.words {
			code = binary.LittleEndian.AppendUint32(code, word)
		}

		if got, err := (arm64{}).decode(code, at); err != nil || !reflect.DeepEqual(got,
			test.want) {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, test.want)
		}
	}

	var calls []byte
	for _, word := range []uint32{0x94000004, 0x14000003, 0x97ffffff, 0x94000001, 0xd65f03c0} {
		calls = binary.LittleEndian.AppendUint32(calls, word)
	}

	if got := (arm64{}).calls(calls, at, at+16); !slices.Equal(got, []int{0, 12}) {
		t.Errorf("calls at %v", got)
	}
}

// The kernel keeps the registers of arm64 by their numbers. In C++, the address of a result is in
// none of those of the arguments.
func TestRegistersOfARM64(t *testing.T) {
	m := registersOf("arm64")
	if len(m.integer) != 16 || m.integer[15] != 15 || m.goroutine != 28 || m.native[0] != 8 ||
		m.native[1] != 0 || m.native[8] != 7 || m.withoutResult[1] != 0 {
		t.Errorf("%+v", m)
	}

	if registersOf("riscv64").elf != elf.EM_NONE {
		t.Error("riscv64 can be watched")
	}
}
