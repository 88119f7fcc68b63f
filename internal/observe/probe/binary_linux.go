package probe

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

// The versions of Go whose calling convention and function table are as this package reads them.
const (
	firstGo, lastGo = 18, 26
)

// image is a binary as it runs in a process.
type image struct {
	file   *elf.File
	bias   uint64          // of addresses in memory over those in the file
	table  *gosym.Table    // of functions in Go; nil: it is in C++
	others map[uint64]bool // where functions in C++ begin
}

// inspect finds the engines in a process and where the Gets of the first one begin and end.
func (t *Target) inspect(known []subject.Watched) (err error) {
	info, err := buildinfo.ReadFile(t.proc("exe"))
	if errors.Is(err, os.ErrPermission) {
		return refused(err)
	}

	var others []string
	if err == nil {
		t.Go, t.Main, t.Version, t.Cores = info.GoVersion, info.Main.Path, info.Main.Version,
			t.cores(info)
		others = t.findEngines(info, known)
	}

	without, err := t.findLibraries(known)
	switch {
	case err != nil:
		return err
	case len(t.candidates) > 0:
		return t.Choose(t.candidates[0].engine.Engine)
	case len(others) > 0:
		return engine.Fail(engine.CodeUnsupported, "%s holds %s, a version that is not known "+
			"here: use a newer statelab", t, strings.Join(others, " and "))
	case without != "":
		return engine.Fail(engine.CodeUnsupported, "%s uses %s, which exports none of the "+
			"functions that are known here: another version, "+
			"or one without its symbols", t, without)
	}

	return engine.Fail(engine.CodeUnsupported, "%s contains no engine that can be watched: "+
		"statelab engines lists those that can", t)
}

// locate finds where the Gets of an engine in Go begin and end.
func (t *Target) locate() error {
	var minor int
	if _, err := fmt.Sscanf(t.Go, "go1.%d",
		&minor); err != nil || minor < firstGo || minor > lastGo {
		return engine.Fail(engine.CodeUnsupported, "%s was built with %s: Go 1.%d to 1.%d are "+
			"known, so use a newer statelab, or build it with one of these", t,
			t.Go, firstGo, lastGo)
	}

	file, err := elf.Open(t.code.file)
	if err != nil {
		return fmt.Errorf("read the binary of %s: %w", t, err)
	}

	defer file.Close() // read only
	if file.Machine != elf.EM_X86_64 {
		return engine.Fail(engine.CodeUnsupported, "%s was built for %v: Gets can be watched in "+
			"programs for amd64 alone", t, file.Machine)
	}

	i := image{file: file}
	if err := i.readFunctions(t); err != nil {
		return fmt.Errorf("find the functions of %s: %w", t, err)
	}

	t.code.functions = functions{i.bias, i.table.Funcs}
	for number, f := range t.Engine.Gets {
		at := slices.IndexFunc(i.table.Funcs, func(has gosym.Func) bool {
			return has.Name == f.Name
		})
		if at < 0 {
			continue
		}

		p, err := i.probes(i.table.Funcs[at])
		if err != nil {
			return fmt.Errorf("find the returns of %s in %s: %w", f.Name, t, err)
		}

		p.function = number
		t.code.places = append(t.code.places, p)
	}

	i.locateSeeks(t)
	if len(t.code.places) == 0 {
		return engine.Fail(engine.CodeUnsupported, "%s holds %s %s, but not its function %s: "+
			"this build cannot be watched", t, t.Engine.Module, t.Module,
			t.Engine.Gets[0].Name)
	}

	return nil
}

// locateSeeks finds where the Seeks of an engine in Go begin and end. Reads of those that are not
// found are of iterators all the same, by the stack of who reads.
func (i *image) locateSeeks(t *Target) {
	for at := range i.table.Funcs {
		f := i.table.Funcs[at]
		switch {
		case slices.Contains(t.Engine.Seeks, f.Name):
			if p, err := i.probes(f); err == nil {
				t.code.seeks = append(t.code.seeks, p)
			}
		case slices.Contains(t.Engine.CalledSeeks, f.Name):
			t.code.seeks = append(t.code.seeks, i.callers(f, func(by string) bool {
				return !slices.ContainsFunc(t.Engine.Gets, func(get subject.Function) bool {
					return get.Name == by
				})
			})...)
		}
	}
}

// callers are the places where functions that are wanted call f: the call, and what follows it.
func (i *image) callers(f gosym.Func, wanted func(name string) bool) (places []place) {
	const call, callBytes = 0xe8, 5 // CALL, relative to what follows it
	for _, program := range i.file.Progs {
		if program.Type != elf.PT_LOAD || program.Flags&elf.PF_X == 0 {
			continue
		}

		code := make([]byte, program.Filesz)
		if _, err := program.ReadAt(code, 0); err != nil {
			continue
		}

		for at := 0; at+callBytes <= len(code); at++ {
			found := bytes.IndexByte(code[at:len(code)-callBytes+1], call)
			if found < 0 {
				break
			}

			at += found
			to := int64(int32(binary.LittleEndian.Uint32(code[at+1:])))
			from := program.Vaddr + uint64(at)
			if from+callBytes+uint64(to) != f.Entry {
				continue
			}

			by := i.table.PCToFunc(from)
			if by != nil && wanted(by.Name) && wholeInstructions(code[by.Entry-program.Vaddr:at]) {
				offset := program.Off + uint64(at)
				places = append(places, place{
					entry:   offset,
					returns: []uint64{offset + callBytes},
				})
			}
		}
	}

	return places
}

// wholeInstructions reports whether code ends with an instruction, so that one begins behind it.
func wholeInstructions(code []byte) bool {
	for len(code) > 0 {
		instruction, err := x86asm.Decode(code, 64)
		if err != nil || instruction.Len > len(code) {
			return false
		}
		code = code[instruction.Len:]
	}
	return true
}

// findEngines looks for engines among the modules of a binary; others are of versions that are not
// known.
func (t *Target) findEngines(info *debug.BuildInfo, known []subject.Watched) (others []string) {
	for _, module := range info.Deps {
		version := module.Version
		if module.Replace != nil {
			version = module.Replace.Version
		}

		for _, e := range known {
			if module.Path != e.Module {
				continue
			}

			if !slices.ContainsFunc(e.Versions, func(v string) bool {
				return strings.HasPrefix(version, v)
			}) {
				others = append(others, module.Path+" "+version)
				continue
			}

			t.candidates = append(t.candidates, candidate{e, version, t.proc("exe")})
		}
	}

	return others
}

// readFunctions reads the table of functions, which stripped binaries have, too.
func (i *image) readFunctions(t *Target) error {
	section := i.file.Section(".gopclntab")
	if section == nil {
		section = i.file.Section(".data.rel.ro.gopclntab")
	}

	if section == nil {
		return engine.Fail(engine.CodeUnsupported, "it has no table of functions (.gopclntab)")
	}

	content, err := section.Data()
	if err != nil {
		return err
	}

	text, err := i.locate(t, section.Addr)
	if err != nil {
		return err
	}

	i.table, err = gosym.NewTable(nil, gosym.NewLineTable(content, text))
	return err
}

// locate finds where the binary lies in memory, and the address in the file of its first Go
// function. Go's runtime keeps it in its description of the module, which begins with the address
// of the function table.
func (i *image) locate(t *Target, functionTable uint64) (text uint64, err error) {
	regions, err := t.process().ProcMaps()
	if err != nil {
		return 0, refused(err)
	}

	if i.bias, err = bias(t.PID, i.file); err != nil {
		return 0, err
	}

	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.PID))
	if err != nil {
		return 0, refused(err)
	}

	defer memory.Close() // read only
	var wanted [8]byte
	binary.LittleEndian.PutUint64(wanted[:], functionTable+i.bias)
	const minAt, textAt = 20, 22 // words of runtime.moduledata
	for _, r := range regions {
		// The description is in data that a position-independent binary makes read-only once it is
		// relocated.
		if r.Pathname != t.Program || r.Perms.Execute {
			continue
		}

		content := make([]byte, r.EndAddr-r.StartAddr)
		if n, err := memory.ReadAt(content, int64(r.StartAddr)); err != nil && err != io.EOF {
			content = content[:n] // a part of it may not be readable
		}

		for from := 0; ; {
			at := bytes.Index(content[from:], wanted[:])
			if at < 0 {
				break
			}

			at += from
			from = at + 8
			if at%8 != 0 || at+(textAt+1)*8 > len(content) {
				continue
			}

			word := func(i int) uint64 { return binary.LittleEndian.Uint64(content[at+8*i:]) }
			if text := word(textAt) - i.bias; word(minAt) >= word(textAt) && i.executable(text) {
				return text, nil
			}
		}
	}

	return 0, engine.Fail(engine.CodeUnsupported, "Go's description of the module is not in its "+
		"memory: this version of Go is not known")
}

func (i *image) executable(address uint64) bool {
	return slices.ContainsFunc(i.file.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && address >= p.Vaddr &&
			address < p.Vaddr+p.Filesz
	})
}

// probes are the offsets in the file of the first instruction behind the check of the stack's size,
// and of all returns. A function that needs a larger stack begins anew, so a probe in front of the
// check would count it twice. The arguments are still in their registers there.
//
// In C++, no stack is checked, and the first instruction is probed.
func (i *image) probes(f gosym.Func) (p place, err error) {
	program := i.segment(f.Entry, f.End)
	if program == nil {
		return p, errors.New("the function is not in the file")
	}

	code := make([]byte, f.End-f.Entry)
	if _, err := program.ReadAt(code, int64(f.Entry-program.Vaddr)); err != nil {
		return p, err
	}

	start := f.Entry - program.Vaddr + program.Off
	p.entry = start
	const prologueBytes = 40
	framed := i.table == nil
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

			return p, fmt.Errorf("at %#x: %w", f.Entry+uint64(at), err)
		}

		to, jumps := instruction.Args[0].(x86asm.Rel)
		switch {
		case instruction.Op == x86asm.RET:
			p.returns = append(p.returns, start+uint64(at))
		case instruction.Op == x86asm.PUSH && instruction.Args[0] == x86asm.RBP &&
			at < prologueBytes && !framed:
			p.entry, framed = start+uint64(at), true
		case instruction.Op == x86asm.JMP && jumps &&
			i.others[f.Entry+uint64(at+instruction.Len)+uint64(int64(to))]:
			return p, errors.New("another function returns for it")
		}

		at += instruction.Len
	}

	if len(p.returns) == 0 {
		return p, errors.New("it never returns")
	}

	return p, nil
}

// segment holds the code from an address to another; nil: it is not in the file.
func (i *image) segment(from, to uint64) *elf.Prog {
	for _, p := range i.file.Progs {
		if p.Type == elf.PT_LOAD && from >= p.Vaddr && to <= p.Vaddr+p.Filesz {
			return p
		}
	}
	return nil
}

// branchTarget is the instruction endbr64, which the decoder does not know.
var branchTarget = []byte{0xf3, 0x0f, 0x1e, 0xfa}
