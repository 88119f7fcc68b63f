package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
)

// Find is the process of a number, with the engine in it.
func Find(pid int, known []subject.Watched) (*Target, error) {
	t, err := Process(pid)
	if err != nil {
		return nil, err
	}
	if err := t.inspect(known); err != nil {
		return nil, err
	}
	return t, nil
}

// Process is the process of a number, whatever runs in it.
func Process(pid int) (*Target, error) {
	t := &Target{PID: pid}
	process, err := procfs.NewProc(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, engine.Fail(engine.CodeNotFound, "no process has the number %d", pid).
			WithRemedy("pgrep -a geth lists the processes of geth")
	}

	if err == nil {
		t.Name, err = process.Comm()
	}

	if err == nil {
		t.Args, err = process.CmdLine()
	}

	if err != nil {
		return nil, refused(err)
	}

	if t.Program, err = os.Readlink(t.proc("exe")); errors.Is(err, fs.ErrPermission) {
		return nil, refused(err)
	} else if err != nil {
		return nil, engine.Fail(engine.CodeUnsupported, "%s has no program of its own: it "+
			"belongs to the kernel, or has ended", t)
	}

	t.Cores = t.cores(nil)
	return t, nil
}

func (t *Target) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", t.PID, name) }

// process is what reads the kernel's files about the process; they are not there if it has ended.
func (t *Target) process() procfs.Proc {
	p, _ := procfs.NewProc(t.PID)
	return p
}

// Choose makes one of the binary's engines the one that is watched; Find takes the first.
func (t *Target) Choose(name string) error {
	for _, c := range t.candidates {
		if c.engine.Engine == name {
			t.Engine, t.Module, t.code = c.engine, c.version, code{file: c.file}
			if c.engine.Module == "" {
				return t.locateNative()
			}
			return t.locate()
		}
	}

	return engine.Fail(engine.CodeUnsupported, "%s contains no engine that reads a database of "+
		"%s and can be watched", t, name)
}

// Named is the one other process of a name: that of its command or of its program's file.
func Named(name string) (pid int, err error) {
	none := engine.Fail(engine.CodeNotFound, "no process has the name %s", name)
	if named := inCommandLines(name); named != "" {
		none = none.WithRemedy("its command line has it: %s. Name it with --pid", named)
	} else {
		none = none.WithRemedy("ps -e lists all names")
	}

	return one(func(p procfs.Proc) bool {
		comm, err := p.Comm()
		if err != nil {
			return false // it has ended
		}

		program, err := p.Executable()
		if program == "" && !errors.Is(err, fs.ErrPermission) {
			return false // of the kernel, or it has ended
		}

		return comm == name || filepath.Base(strings.TrimSuffix(program, deleted)) == name
	}, "the name "+name, none)
}

// inCommandLines lists the processes that have a text in their arguments: Besu's process is named
// java.
func inCommandLines(text string) string {
	all, err := procfs.AllProcs()
	if err != nil {
		return "" // the error that one finds is told
	}

	var found []string
	for _, p := range all {
		args, err := p.CmdLine()
		if err != nil || p.PID == os.Getpid() || len(args) == 0 {
			continue
		}

		if strings.Contains(strings.ToLower(strings.Join(args[1:], " ")), strings.ToLower(text)) {
			found = append(found, fmt.Sprintf("%d (%s)", p.PID, filepath.Base(args[0])))
		}
	}

	const few = 3
	if len(found) > few {
		return ""
	}
	return strings.Join(found, ", ")
}

// FindOwner is the process that has files of the database in dir open.
func FindOwner(dir string) (pid int, err error) {
	if _, err := os.Stat(dir); err != nil {
		return 0, engine.Fail(engine.CodeNotFound, "the database %s is not there", dir)
	}

	none := error(engine.Fail(engine.CodeNotFound, "no process has the database %s open", dir).
		WithRemedy("start its node, or name the process with --pid"))
	if os.Geteuid() != 0 {
		none = refused(fmt.Errorf("the files that other processes have open are hidden: %w",
			fs.ErrPermission))
	}

	return one(func(p procfs.Proc) bool { return (&Target{PID: p.PID}).Opened(dir) != "" },
		fmt.Sprintf("the database %s open", dir), none)
}

// one is the one other process that is meant. What several have is told, and none is the error
// where there is no such process.
func one(is func(procfs.Proc) bool, have string, none error) (pid int, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, err
	}

	var pids []string
	for _, p := range all {
		if p.PID != os.Getpid() && is(p) {
			pid, pids = p.PID, append(pids, strconv.Itoa(p.PID))
		}
	}

	switch len(pids) {
	case 0:
		return 0, none
	case 1:
		return pid, nil
	}

	return 0, engine.Fail(engine.CodeUsage, "%d processes have %s: name one with --pid (%s)",
		len(pids), have, strings.Join(pids, ", "))
}

// Opened is the folder dir as Path tells it, if the process has files in it open: a container can
// see it elsewhere. "": it has none.
func (t *Target) Opened(dir string) string {
	here, err := os.Stat(dir)
	if err != nil {
		return ""
	}

	looked := map[string]bool{}
	for _, path := range t.openFiles() {
		// Other folders, which can be slow to look at, seldom have files of the same name.
		if _, err := os.Lstat(filepath.Join(dir, filepath.Base(path))); err != nil ||
			looked[filepath.Dir(path)] {
			continue
		}

		looked[filepath.Dir(path)] = true
		seen := t.Path(filepath.Dir(path))
		if info, err := os.Stat(seen); err == nil && os.SameFile(info, here) {
			return seen
		}
	}

	return ""
}

// deleted is what the kernel adds to the path of a file that has no name any more.
const deleted = " (deleted)"

// openFiles are the paths of a process's open files, as it sees them; none if it has ended, or is
// somebody else's.
func (t *Target) openFiles() (paths []string) {
	targets, _ := t.process().FileDescriptorTargets()
	for _, path := range targets {
		if strings.HasPrefix(path, "/") {
			paths = append(paths, strings.TrimSuffix(path, deleted))
		}
	}
	return paths
}

// Databases are the folders whose files of keys and values, locks or logs the process has open, as
// it sees them.
func (t *Target) Databases() (dirs []string) {
	for _, path := range t.openFiles() {
		base, dir := filepath.Base(path), filepath.Dir(path)
		if (base == "LOCK" && t.hasManifest(dir) ||
			slices.Contains(t.Engine.TableSuffixes, filepath.Ext(base))) &&
			!slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}

	slices.Sort(dirs)
	return dirs
}

// hasManifest tells a database's folder from one that a node locks for itself, as geth does its
// data directory.
func (t *Target) hasManifest(dir string) bool {
	found, err := filepath.Glob(filepath.Join(t.Path(dir), "MANIFEST-*"))
	return err == nil && len(found) > 0
}

// Path is where this process finds a path of the target's, which may live in another mount
// namespace or below another root.
func (t *Target) Path(path string) string {
	own, err := os.Readlink("/proc/self/ns/mnt")
	others, err2 := os.Readlink(t.proc("ns/mnt"))
	root, err3 := os.Stat("/proc/self/root")
	othersRoot, err4 := os.Stat(t.proc("root"))
	if errors.Join(err, err2, err3, err4) == nil && own == others && os.SameFile(root, othersRoot) {
		return path
	}
	return filepath.Join(t.proc("root"), path)
}

// OpenTable opens the file of a read, if it is one of the engine's files of keys and values in dir:
// through the process's own descriptor, since the name may be gone, or by its name, since the
// descriptor may be that of another file by now. gone says that neither is there any more.
func (t *Target) OpenTable(r *Read, dir string) (file *os.File, path string, gone bool) {
	// At every moment the process may close the descriptor and open another table with it, so the
	// opened file is asked what it is.
	file = openFile(t.proc("fd/"+strconv.Itoa(r.Descriptor)), r.File)
	if file != nil {
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
		if err != nil {
			file.Close()
			return nil, "", true
		}
		path = t.Path(strings.TrimSuffix(name, deleted))
	} else if path = pathIn(dir, r.File); path == "" {
		return nil, "", true
	}

	if filepath.Dir(path) != dir || !slices.Contains(t.Engine.TableSuffixes, filepath.Ext(path)) {
		if file != nil {
			file.Close()
		}
		return nil, "", false
	}

	if file == nil {
		file = openFile(path, r.File)
	}

	return file, path, file == nil
}

// openFile opens a regular file for reading if it is this one; else it is nil.
func openFile(path string, of File) *os.File {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // to open a device can have effects
	}

	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}

	if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Ino != of.Inode {
		file.Close()
		return nil
	}

	return file
}

// pathIn is the path of a file in a folder by its identity; "" if it is not there.
func pathIn(dir string, f File) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}

	for _, e := range entries {
		var stat unix.Stat_t
		path := filepath.Join(dir, e.Name())
		if unix.Stat(path, &stat) == nil && stat.Dev == f.Device && stat.Ino == f.Inode {
			return path
		}
	}

	return ""
}

// Started is when the process began.
func (t *Target) Started() (time.Time, error) {
	status, err := t.process().Stat()
	if err != nil {
		return time.Time{}, err
	}

	const perSecond = 100 // the kernel tells it in hundredths of a second since it booted
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, err
	}

	return time.Now().Add(time.Duration(status.Starttime)*(time.Second/perSecond) -
		time.Duration(up.Nano())), nil
}

// HasRead are the bytes that the process has read from files so far; 0 if the kernel does not tell.
func (t *Target) HasRead() (bytes int64) {
	counters, _ := t.process().IO()
	return int64(counters.RChar)
}

// Alive reports whether the process runs.
func (t *Target) Alive() bool {
	status, err := os.ReadFile(t.proc("stat"))
	_, after, found := bytes.Cut(status, []byte(") "))
	return err == nil && found && len(after) > 0 && after[0] != 'Z' && after[0] != 'X'
}

// cores is how many processors Go uses in the process, unless it sets that itself. info tells how
// it was built, if it is in Go.
func (t *Target) cores(info *debug.BuildInfo) int {
	debugging := "" // the last word counts
	if info != nil {
		for _, s := range info.Settings {
			if s.Key == "DefaultGODEBUG" {
				debugging = s.Value
			}
		}
	}

	environment, _ := t.process().Environ()
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		if n, err := strconv.Atoi(value); name == "GOMAXPROCS" && err == nil && n > 0 {
			return n
		}

		if name == "GODEBUG" {
			debugging += "," + value
		}
	}

	var set unix.CPUSet
	if unix.SchedGetaffinity(t.PID, &set) != nil {
		return 1
	}

	n := 0
	for _, word := range set {
		n += bits.OnesCount64(uint64(word))
	}

	// Since Go 1.25, unless the program keeps to the ways of an older one, a limit of its control
	// group counts, too.
	const firstLimited = 25
	var minor int
	if info == nil {
		return max(1, n)
	}

	_, err := fmt.Sscanf(info.GoVersion, "go1.%d", &minor)
	off, on := strings.LastIndex(debugging, "containermaxprocs=0"),
		strings.LastIndex(debugging, "containermaxprocs=1")
	if err == nil && minor >= firstLimited && off <= on {
		n = min(n, t.quota())
	}

	return max(1, n)
}

// quota is how many processors the control group of the process may use, as Go rounds it.
func (t *Target) quota() int {
	const root, minimum = "/sys/fs/cgroup", 2
	groups, err := t.process().Cgroups()
	if err != nil {
		return math.MaxInt
	}

	for _, group := range groups {
		var files []string
		switch {
		case len(group.Controllers) == 0:
			files = []string{filepath.Join(root, group.Path, "cpu.max")}
		case slices.Contains(group.Controllers, "cpu"):
			files = []string{filepath.Join(root, "cpu", group.Path, "cpu.cfs_quota_us"),
				filepath.Join(root, "cpu", group.Path, "cpu.cfs_period_us")}
		}

		text := ""
		for _, file := range files {
			content, _ := os.ReadFile(file) // without it there is no limit
			text += string(content) + " "
		}

		var quota, period float64
		if n, _ := fmt.Sscan(text, &quota, &period); n == 2 && quota > 0 && period > 0 {
			return max(minimum, int(math.Ceil(quota/period)))
		}
	}

	return math.MaxInt
}

// bias is that of addresses in the memory of a process over those in the file of its program.
func bias(pid int, program *elf.File) (uint64, error) {
	const entry = 9 // AT_ENTRY
	words, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, refused(err)
	}

	for ; len(words) >= 16; words = words[16:] {
		if binary.NativeEndian.Uint64(words) == entry {
			return binary.NativeEndian.Uint64(words[8:]) - program.Entry, nil
		}
	}

	return 0, errors.New("the kernel does not tell where its program begins")
}

// namespace is how the kernel tells the process: by its number in its own namespace.
type namespace struct {
	device, inode uint64
	process       int
}

func (t *Target) namespace() (n namespace, err error) {
	var stat unix.Stat_t
	if err := unix.Stat(t.proc("ns/pid"), &stat); err != nil {
		return n, refused(err)
	}

	n.device, n.inode, n.process = stat.Dev, stat.Ino, t.PID
	status, err := os.ReadFile(t.proc("status"))
	if err != nil {
		return n, refused(err)
	}

	for line := range strings.Lines(string(status)) {
		if numbers, is := strings.CutPrefix(line, "NStgid:"); is {
			fields := strings.Fields(numbers)
			n.process, err = strconv.Atoi(fields[len(fields)-1])
		}
	}

	return n, err
}

// refused explains an error of the kernel's where it means that rights are missing.
func refused(err error) error {
	if _, explained := errors.AsType[*engine.Failure](err); explained {
		return err
	}

	switch {
	case errors.Is(err, fs.ErrPermission):
		return &engine.Failure{
			Code: engine.CodeUnsupported,
			Err: fmt.Errorf(
				"watching another process needs rights that this one does not have: %w",
				err,
			),
			Remedy: "run it with sudo, or as a user with CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE " +
				"and CAP_DAC_READ_SEARCH",
		}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return engine.Fail(engine.CodeNotFound, "the process has ended: %w", err).
			WithRemedy("name one that runs: ps -e lists all")
	}

	return err
}
