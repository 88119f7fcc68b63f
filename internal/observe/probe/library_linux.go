package probe

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

// findLibraries looks for engines in C++ among the files whose code the process has mapped. without
// is a library of one that has none of the functions that are known.
func (t *Target) findLibraries(known []subject.Watched) (without string, err error) {
	files, err := t.codeFiles()
	if err != nil {
		return "", err
	}

	for _, path := range slices.Sorted(maps.Keys(files)) {
		functions := symbols(files[path])
		for _, e := range known {
			switch {
			case e.Module != "" || slices.Contains(t.Engines(), e.Engine):
			case slices.ContainsFunc(e.Gets, func(f subject.Function) bool {
				return functions[f.Name] != nil
			}):
				t.candidates = append(t.candidates, candidate{e, "", files[path]})
			case strings.Contains(filepath.Base(path), e.Engine) && path != t.Program:
				without = path
			}
		}
	}

	return without, nil
}

// codeFiles are the files whose code the process has mapped: by the path that it knows, where this
// process can open them.
func (t *Target) codeFiles() (map[string]string, error) {
	mappings, err := t.process().ProcMaps()
	if err != nil {
		return nil, refused(err)
	}

	files := map[string]string{t.Program: t.proc("exe")}
	for _, m := range mappings {
		path := m.Pathname
		if !m.Perms.Execute || !strings.HasPrefix(path, "/") || files[path] != "" {
			continue
		}

		// A library may have no name any more: Java unpacks its own and deletes them. Its mapping
		// can be opened with more rights.
		files[path] = t.proc(fmt.Sprintf("map_files/%x-%x", m.StartAddr, m.EndAddr))
		if opened, err := os.Open(files[path]); err != nil {
			files[path] = t.Path(path)
		} else if err := opened.Close(); err != nil {
			return nil, err
		}
	}

	return files, nil
}

// symbols are the functions that a file names: those that it exports, and where it has not been
// stripped, all. A library in which RocksDB is linked, such as a module of Python, exports few.
func symbols(path string) map[string]*elf.Symbol {
	file, err := elf.Open(path)
	if err != nil {
		return nil // not a program, as the caches of Java are not
	}

	defer file.Close() // read only
	named := map[string]*elf.Symbol{}
	exported, _ := file.DynamicSymbols() // a static program has none
	if all, err := file.Symbols(); err == nil {
		exported = append(exported, all...)
	}

	for i, s := range exported {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			named[s.Name] = &exported[i]
		}
	}

	return named
}

// locateNative finds where the Gets of an engine in C++ begin and end.
func (t *Target) locateNative() error {
	file, err := elf.Open(t.code.file)
	if err != nil {
		return fmt.Errorf("read %s: %w", t.code.file, refused(err))
	}

	defer file.Close() // read only
	if err := builtForHere(t, file); err != nil {
		return err
	}

	functions := symbols(t.code.file)
	i := image{file: file, others: map[uint64]bool{}}
	for _, s := range functions {
		i.others[s.Value] = true
	}

	for number, f := range t.Engine.Gets {
		s := functions[f.Name]
		if s == nil {
			continue
		}

		p, err := i.probes(gosym.Func{Entry: s.Value, End: s.Value + s.Size})
		if err != nil {
			return engine.Fail(engine.CodeUnsupported, "%s: the returns of %s are not found, so "+
				"this build of %s cannot be watched: %w", t, f.Name, t.Engine.Engine, err)
		}

		p.function = number
		t.code.places = append(t.code.places, p)
	}

	for number, f := range t.Engine.Together {
		s := functions[f.Name]
		if s == nil {
			continue
		}

		p, err := i.probes(gosym.Func{Entry: s.Value, End: s.Value + s.Size})
		if err != nil {
			continue // its keys are counted all the same
		}

		p.function = number
		t.code.together = append(t.code.together, p)
	}

	for _, name := range t.Engine.Seeks {
		if s := functions[name]; s != nil {
			p, err := i.probes(gosym.Func{Entry: s.Value, End: s.Value + s.Size})
			if err != nil {
				continue // reads are then of iterators if their thread made another Seek
			}
			t.code.seeks = append(t.code.seeks, p)
		}
	}

	t.code.sharedStrings = functions[t.Engine.SharedStrings] != nil
	for _, b := range t.Engine.Batches {
		if s := functions[b.Name]; s != nil {
			if p := i.segment(s.Value, s.Value+s.Size); p != nil {
				t.code.batches = append(t.code.batches, batch{b, s.Value - p.Vaddr + p.Off})
			}
		}
	}

	return nil
}

// maxName is how long a name of a table or of a column family is taken to be at most.
const maxName = 1 << 10

// memory is that of the process.
func (t *Target) memory() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/%d/mem", t.PID))
}

// Table is the name of the table of a record in the memory of the process; "": it has none. The
// caller has to compare it with the database.
func (t *Target) Table(record uint64) (name string, err error) {
	memory, err := t.memory()
	if err != nil {
		return "", refused(err)
	}

	defer memory.Close() // read only
	var slice [16]byte
	if _, err := memory.ReadAt(slice[:], int64(record)+int64(t.Engine.NameAt)); err != nil {
		return "", err
	}

	length := binary.LittleEndian.Uint64(slice[8:])
	if length > maxName {
		return "", errors.New("not a table")
	}

	text := make([]byte, length)
	if length > 0 {
		_, err = memory.ReadAt(text, int64(binary.LittleEndian.Uint64(slice[:])))
	}

	return string(text), err
}

// Refers reports whether a word near an address in the memory of the process is a value.
func (t *Target) Refers(address, value uint64) bool {
	const near = 128
	memory, err := t.memory()
	if err != nil {
		return false
	}

	defer memory.Close() // read only
	var words [near]byte
	if _, err := memory.ReadAt(words[:], int64(address)); err != nil {
		return false
	}

	for at := 0; at < near; at += 8 {
		if binary.LittleEndian.Uint64(words[at:]) == value {
			return true
		}
	}

	return false
}

// Family is the number and the name of the column family of a handle, as the memory of the process
// says: the handle holds, behind the address of its methods, that of the family, which begins with
// both. The caller has to compare them with the database: other versions may differ.
//
// A string is its address and its length; one that is shared is its address, and the length lies
// three words before it.
func (t *Target) Family(handle uint64) (number uint32, name string, err error) {
	memory, err := t.memory()
	if err != nil {
		return 0, "", refused(err)
	}

	defer memory.Close() // read only
	read := func(address uint64, bytes int) []byte {
		content := make([]byte, bytes)
		if err == nil {
			_, err = memory.ReadAt(content, int64(address))
		}
		return content
	}

	family := read(binary.LittleEndian.Uint64(read(handle+8, 8)), 24)
	at, length := binary.LittleEndian.Uint64(family[8:]), binary.LittleEndian.Uint64(family[16:])
	if t.code.sharedStrings {
		length = binary.LittleEndian.Uint64(read(at-24, 8))
	}

	if length > maxName {
		return 0, "", errors.New("not a column family")
	}

	text := read(at, int(length))
	return binary.LittleEndian.Uint32(family), string(text), err
}
