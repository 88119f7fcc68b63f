package probe

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
)

// Mappings are the files of some names that the process maps, in the order of their addresses. One that is mapped in
// several neighbouring parts is one.
func (t *Target) Mappings(names []string) (all []Mapping, err error) {
	file, err := os.Open(t.proc("maps"))
	if err != nil {
		return nil, refused(err)
	}
	defer file.Close() // read only
	for lines := bufio.NewScanner(file); lines.Scan(); {
		const parts = 6 // addresses, rights, offset, device, inode, path
		fields := strings.Fields(lines.Text())
		if len(fields) < parts {
			continue
		}
		m := Mapping{Path: strings.TrimSuffix(strings.Join(fields[parts-1:], " "), deleted)}
		if !slices.Contains(names, filepath.Base(m.Path)) {
			continue
		}
		if _, err := fmt.Sscanf(fields[0]+" "+fields[2]+" "+fields[4], "%x-%x %x %d", &m.Low, &m.High, &m.Offset, &m.Inode); err != nil {
			return nil, fmt.Errorf("%s: %w", t.proc("maps"), err)
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

// Mapped is a path under which the file of a mapping can be opened here: a descriptor of the process, which leads to it even if it
// was moved or deleted, or lives in another mount namespace; else its name.
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
	return "", engine.Fail(engine.CodeNotFound, "%s maps %s, which has been deleted or moved since, and has no descriptor of it open: restart the node", t, m.Path)
}

// Faulted are the page faults that the kernel counts of the process, major and minor ones, since it began.
func (t *Target) Faulted() (major, minor uint64, err error) {
	status, err := os.ReadFile(t.proc("stat"))
	if err != nil {
		return 0, 0, refused(err)
	}
	const minorAt, majorAt = 7, 9 // behind the name: the 10th and the 12th of all
	fields := strings.Fields(string(status[strings.LastIndexByte(string(status), ')')+1:]))
	if len(fields) > majorAt {
		minor, err = strconv.ParseUint(fields[minorAt], 10, 64)
		if err == nil {
			major, err = strconv.ParseUint(fields[majorAt], 10, 64)
		}
	}
	return major, minor, err
}
