package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

// Fault is a page fault of the process: it touched a page of its memory that was not there.
type Fault struct {
	Thread      uint64
	Start, End  time.Duration // no Start: the kernel does not tell
	Address     uint64
	Major       bool   // the page had to be read; else it was in the page cache
	DeviceReads uint64 // that it asked the block device for, with what the kernel read ahead
	DeviceBytes uint64
}

// Faults are events of a process that maps its database.
type Faults interface {
	Fault(*Fault)
	// Second comes about once a second.
	Second() error
}

// UnreportedFaults counts faults that were not reported: minor ones outside the range, and what was
// lost.
type UnreportedFaults struct{ Minor, Lost uint64 }

// Mapping is a file in a process's memory.
type Mapping struct {
	Path      string // as the process sees it; where it was last, if it has been deleted
	Inode     uint64
	Low, High uint64 // addresses
	Offset    uint64 // in the file, at Low
}

// DeviceCounts are reads of a block device, by the process and by all others.
type DeviceCounts struct{ Reads, Bytes, OtherReads, OtherBytes uint64 }

// Mappings are the files of some names that the process maps, in the order of their addresses. One
// that is mapped in several neighbouring parts is one.
func (t *Target) Mappings(names []string) (all []Mapping, err error) {
	mappings, err := t.process().ProcMaps()
	if err != nil {
		return nil, refused(err)
	}

	for _, of := range mappings {
		m := Mapping{strings.TrimSuffix(of.Pathname, deleted), of.Inode, uint64(of.StartAddr),
			uint64(of.EndAddr), uint64(of.Offset)}
		if !slices.Contains(names, filepath.Base(m.Path)) {
			continue
		}

		if i := slices.IndexFunc(all, func(o Mapping) bool { return o.Inode == m.Inode }); i >= 0 {
			all[i].High = m.High
		} else {
			all = append(all, m)
		}
	}

	return all, nil
}

// Inode is the number of a file, by which a Mapping tells it.
func Inode(path string) (uint64, error) {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return stat.Ino, err
}

// Mapped is a path under which the file of a mapping can be opened here: a descriptor of the
// process, which leads to it even if it was moved or deleted, or lives in another mount namespace;
// else its name.
func (t *Target) Mapped(m Mapping) (string, error) {
	var stat unix.Stat_t
	entries, err := os.ReadDir(t.proc("fd"))
	if err != nil {
		return "", refused(err)
	}

	paths := []string{t.Path(m.Path)}
	for _, e := range entries {
		paths = append(paths, t.proc("fd/"+e.Name()))
	}

	for _, path := range paths {
		if unix.Stat(path, &stat) == nil && stat.Ino == m.Inode {
			return path, nil
		}
	}

	return "", engine.Fail(engine.CodeNotFound, "%s maps %s, which has been deleted or moved "+
		"since, and has no descriptor of it open: restart the node", t, m.Path)
}
