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
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

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
	if err := builtForHere(t, file); err != nil {
		return err
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

// builtForHere is an error for a program of another processor than the one here, which may run it
// all the same.
func builtForHere(t *Target, file *elf.File) error {
	if registers.elf != elf.EM_NONE && file.Machine == registers.elf {
		return nil
	}
	return engine.Fail(engine.CodeUnsupported, "%s was built for %v: on %s, only programs that "+
		"were built for it can be watched, and only on amd64 and arm64", t, file.Machine,
		runtime.GOARCH)
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
	processor := i.processor()
	for _, program := range i.file.Progs {
		if program.Type != elf.PT_LOAD || program.Flags&elf.PF_X == 0 {
			continue
		}

		code := make([]byte, program.Filesz)
		if _, err := program.ReadAt(code, 0); err != nil {
			continue
		}

		for _, at := range processor.calls(code, program.Vaddr, f.Entry) {
			by := i.table.PCToFunc(program.Vaddr + uint64(at))
			if by != nil && wanted(by.Name) &&
				processor.endsWhole(code[by.Entry-program.Vaddr:at]) {
				offset := program.Off + uint64(at)
				places = append(places, place{
					entry:   offset,
					returns: []uint64{offset + uint64(processor.registers().callBytes)},
				})
			}
		}
	}

	return places
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

	memory, err := t.memory()
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

// errTailCall is that of a function that ends by jumping to another one, which then returns.
var errTailCall = errors.New("another function returns for it")

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

	flow, err := i.processor().decode(code, f.Entry)
	switch {
	case err != nil:
		return p, err
	case slices.ContainsFunc(flow.jumps, func(to uint64) bool { return i.others[to] }):
		return p, errTailCall
	case len(flow.returns) == 0:
		return p, errors.New("it never returns")
	}

	start := f.Entry - program.Vaddr + program.Off
	p.entry = start
	if i.table != nil {
		p.entry += uint64(flow.checked)
	}

	for _, at := range flow.returns {
		p.returns = append(p.returns, start+uint64(at))
	}

	return p, nil
}

// processor is that for which the program was built.
func (i *image) processor() processor { return processors[i.file.Machine] }

// segment holds the code from an address to another; nil: it is not in the file.
func (i *image) segment(from, to uint64) *elf.Prog {
	for _, p := range i.file.Progs {
		if p.Type == elf.PT_LOAD && from >= p.Vaddr && to <= p.Vaddr+p.Filesz {
			return p
		}
	}
	return nil
}
