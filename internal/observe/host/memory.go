//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/result"
)

// MemoryLimit is a memory control group with this process in it: what it keeps
// resident and the pages of files it touches, together, stay below a limit.
type MemoryLimit struct {
	How     string // the kernel's name of the limit
	Within  int64  // the lowest limit that held for the process before, and still does; 0: none
	dir     string
	home    string // group the process came from
	limit   string // file of the limit
	anchor  string // directory that groups are made in
	maximum int64  // that home allows, where dir is not inside it; 0: no limit

	Own OwnReads // those of Follow

	follower *follower
}

// hierarchy is where the memory controller may be mounted.
type hierarchy struct {
	root, limit, how string
	leaves           bool // processes are only in groups that have no groups with limits inside
}

func hierarchies() []hierarchy {
	return []hierarchy{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory control group v1", false},
		{"/sys/fs/cgroup", "memory.max", "memory control group v2", true},
	}
}

const groupPrefix = "statelab-"

// LimitMemory moves this process into a memory control group of its own with no
// limit yet. A limit that already holds for the process, such as that of a Slurm job or a
// container, goes on to hold. The error says why that cannot be done here.
func LimitMemory() (*MemoryLimit, error) {
	var errs []error
	for _, c := range hierarchies() {
		if _, err := os.Stat(filepath.Join(c.root, "cgroup.procs")); err != nil {
			continue
		}

		h := &MemoryLimit{How: c.how}
		if err := h.enter(c); err != nil {
			errs = append(errs, err)
			continue
		}

		return h, nil
	}

	if len(errs) == 0 {
		errs = append(errs, errors.New("no memory control group is mounted"))
	}

	return nil, errors.Join(errs...)
}

func (h *MemoryLimit) enter(c hierarchy) error {
	sweepGroups(c.root)
	home, err := memoryGroup()
	if err != nil {
		return err
	}

	h.choose(c, home)
	h.dir = filepath.Join(h.anchor, groupPrefix+strconv.Itoa(os.Getpid()))
	h.limit = filepath.Join(h.dir, c.limit)
	if h.Within > 0 {
		h.How += ", within a limit of " + unit.Bytes(h.Within)
	}

	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return fmt.Errorf("make a memory control group (needs root): %w", err)
	}

	if _, err := os.Stat(h.limit); err != nil {
		return errors.Join(fmt.Errorf("the memory controller is not delegated: %w", err),
			os.Remove(h.dir))
	}

	err = move(h.dir)
	if err == nil && h.maximum > 0 {
		err = h.set(h.maximum)
	}

	if err != nil {
		return errors.Join(err, move(h.home), os.Remove(h.dir))
	}

	return nil
}

// choose chooses where the group is made: at the root of the hierarchy, or where the limits
// of the group home and of those above it hold. In version 1 that is inside home. In version
// 2 a group with processes has no groups with limits inside, so that it is beside home, and
// our limit never exceeds home's own.
func (h *MemoryLimit) choose(c hierarchy, home string) {
	h.home = filepath.Join(c.root, home)
	if _, err := os.Stat(h.home); err != nil { // a container's mount begins with its own group
		home, h.home = "/", c.root
	}

	h.anchor = c.root
	for at := home; ; at = filepath.Dir(at) {
		limit, limited := parseMemoryLimit(firstLine(filepath.Join(c.root, at, c.limit)))
		if limited && (h.Within == 0 || limit < h.Within) {
			h.Within = limit
		}

		if limited && at == home && c.leaves {
			h.maximum = limit
		}

		if at == "/" {
			break
		}
	}

	if h.Within > 0 && c.leaves && home != "/" {
		h.anchor = filepath.Dir(h.home)
	} else if h.Within > 0 {
		h.anchor = h.home
	}
}

// set sets the limit in bytes. Pages of files are given up first to keep to it;
// a process that needs more than it anonymously is killed by the kernel.
func (h *MemoryLimit) set(bytes int64) error {
	if h.maximum > 0 {
		bytes = min(bytes, h.maximum)
	}
	if err := os.WriteFile(h.limit, []byte(strconv.FormatInt(bytes, 10)), 0o644); err != nil {
		return fmt.Errorf("limit memory to %d bytes: %w", bytes, err)
	}
	return nil
}

// followEvery is shorter than a process takes to outgrow a few megabytes.
const followEvery = 5 * time.Millisecond

// followLooks are those of a second.
const followLooks = int(time.Second / followEvery)

// TrackAnonRSS keeps the limit at pages bytes above the most that the process itself has had
// in memory in the last second or two, until Release: the page cache of the group then
// stays below pages, and what the process has just given back. A process that grows by
// more than pages within five milliseconds is killed. Where all of Go's processors are
// busy it takes longer to look: leave one free (GOMAXPROCS), and more pages. Called
// again it changes how many pages there are.
func (h *MemoryLimit) TrackAnonRSS(pages int64) error {
	if h.follower != nil {
		h.follower.pages.Store(pages)
		return nil
	}

	f := &follower{limit: h, done: make(chan struct{}), ended: make(chan error, 1)}
	f.pages.Store(pages)
	var err error
	if f.status, err = os.Open("/proc/self/status"); err != nil {
		return fmt.Errorf("follow the process's memory: %w", err)
	}

	if err := f.look(); err != nil {
		return errors.Join(err, f.status.Close())
	}

	h.follower = f
	go f.run()
	return nil
}

// follower is a running Follow.
type follower struct {
	limit   *MemoryLimit
	set     int64 // the limit that is set
	pages   atomic.Int64
	status  *os.File
	text    [4096]byte
	looks   int
	maximum [2]int64 // own memory, of this second and of the last
	done    chan struct{}
	ended   chan error
}

// run looks from a thread with real-time priority: among many that are busy it would
// come too late.
func (f *follower) run() {
	runtime.LockOSThread() // ends with this goroutine
	firstOfAll := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	err := unix.SchedSetAttr(0, &firstOfAll, 0)
	if errors.Is(err, unix.EPERM) {
		err = nil // then it looks as often as it can
	}

	nap := unix.NsecToTimespec(int64(followEvery))
	for err == nil {
		select {
		case <-f.done:
			f.ended <- f.status.Close()
			return
		default:
		}

		// A sleep of the thread: a timer would wait for a processor that looks at timers.
		if err = unix.Nanosleep(&nap, nil); err == nil || errors.Is(err, unix.EINTR) {
			err = f.look()
		}
	}

	<-f.done
	f.ended <- errors.Join(err, f.status.Close())
}

// look sets the limit anew.
func (f *follower) look() error {
	var n int
	var err error
	f.limit.Own.Call(func() int64 {
		n, err = unix.Pread(int(f.status.Fd()), f.text[:], 0)
		return int64(max(n, 0))
	})
	if err != nil {
		return fmt.Errorf("follow the process's memory: %w", err)
	}

	own, err := sizeIn(f.text[:n], "RssAnon")
	if err != nil {
		return err
	}

	if f.looks++; f.looks%followLooks == 0 {
		f.maximum[1], f.maximum[0] = f.maximum[0], 0
	}

	f.maximum[0] = max(f.maximum[0], own)
	bytes := max(f.maximum[0], f.maximum[1]) + f.pages.Load()
	if bytes == f.set {
		return nil
	}

	err = f.limit.set(bytes)
	if errors.Is(err, unix.EBUSY) { // pages that cannot be given up at once: next time
		return nil
	}

	f.set = bytes
	return err
}

func (f *follower) stop() error {
	close(f.done)
	return <-f.ended
}

// Release moves the process back and removes the group.
func (h *MemoryLimit) Release() error {
	if h.follower != nil {
		err := h.follower.stop()
		h.follower = nil
		if err != nil {
			return errors.Join(err, h.Release())
		}
	}

	if err := move(h.home); err != nil {
		return err
	}

	if err := os.Remove(h.dir); err != nil {
		return fmt.Errorf("remove the memory control group: %w", err)
	}

	return nil
}

func move(group string) error {
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())),
		0o644); err != nil {
		return fmt.Errorf("move into the memory control group %s: %w", group, err)
	}
	return nil
}

// memoryGroup is the group this process is in, below the controller's mount.
func memoryGroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}

	unified := ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}

		if parts[1] == "memory" {
			return parts[2], nil
		}

		if parts[1] == "" {
			unified = parts[2]
		}
	}

	return unified, nil
}

// SweepGroups removes the groups of processes that were killed in theirs: Slurm cannot remove
// a job's group that has one inside.
func SweepGroups() {
	for _, c := range hierarchies() {
		if _, err := os.Stat(filepath.Join(c.root, "cgroup.procs")); err == nil {
			sweepGroups(c.root)
		}
	}
}

func sweepGroups(root string) {
	var dead []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // others' groups come and go
		}

		number, ours := strings.CutPrefix(d.Name(), groupPrefix)
		if !ours || !d.IsDir() {
			return nil
		}

		if pid, err := strconv.Atoi(number); err == nil &&
			errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			dead = append(dead, path)
		}

		return nil
	})
	if err != nil {
		return
	}

	for _, dir := range dead {
		_ = os.Remove(dir) // an empty folder of the kernel's: harmless if it stays
	}
}

// AnonymousBytes is this process's resident memory that is not a file's, and how much was
// read to know it, in one call.
func AnonymousBytes() (bytes, chars int64, err error) { return statusBytes("RssAnon") }

// MemoryOf is the memory that a process may use and what its control group uses of it; only the
// memory of the machine where no group limits it, or this process does not see the group.
func MemoryOf(pid int) result.WatchedMemory {
	m := result.WatchedMemory{MachineBytes: memoryBytes()}
	// Where one of these cannot be read, no limit is known.
	membership, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	all, _ := mounts()
	dir, own := "", map[string]bool{}
	for _, file := range memoryLimitFiles(membership, all) {
		// The groups of a hierarchy come from the process's own upwards.
		kind := filepath.Base(file)
		isOwn := !own[kind]
		own[kind] = true
		limit, ok := parseMemoryLimit(firstLine(file))
		if !ok || m.LimitBytes > 0 && limit >= m.LimitBytes {
			continue
		}

		usage := "memory.usage_in_bytes"
		if kind == unifiedLimit {
			usage = "memory.current"
		}

		used, err := strconv.ParseInt(firstLine(filepath.Join(filepath.Dir(file), usage)), 10, 64)
		if err != nil {
			continue
		}

		dir = filepath.Dir(file)
		m.LimitBytes, m.UsedBytes, m.Group, m.Above = limit, used, filepath.Base(dir), !isOwn
	}

	if dir == "" {
		m.PageCacheBytes = meminfo("Cached") + meminfo("Buffers") - meminfo("Shmem")
	} else {
		m.PageCacheBytes = pageCacheOf(dir)
	}

	return m
}

// pageCacheOf is the page cache that a control group is charged with, without shared memory; 0
// where the kernel does not tell.
func pageCacheOf(dir string) (bytes int64) {
	text, _ := os.ReadFile(filepath.Join(dir, "memory.stat"))
	values := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			values[name] = n
		}
	}

	if file, unified := values["file"]; unified {
		return file - values["shmem"]
	}

	return values["total_cache"] - values["total_shmem"]
}

// memoryLimit is the memory this process's control groups allow it, in bytes; 0
// where they set no limit. A group is bound by every group above it.
func memoryLimit() int64 {
	membership, _ := os.ReadFile("/proc/self/cgroup")
	all, _ := mounts() // where one of them cannot be read, no limit is known
	var minimum int64
	for _, file := range memoryLimitFiles(membership, all) {
		limit, ok := parseMemoryLimit(firstLine(file))
		if ok && (minimum == 0 || limit < minimum) {
			minimum = limit
		}
	}

	return minimum
}

// unifiedLimit is the file of a limit in version 2 of control groups.
const unifiedLimit = "memory.max"

// memoryLimitFiles lists the files that can hold a limit: memory.max of a
// version 2 hierarchy, memory.limit_in_bytes of the memory controller's in
// version 1, from the process's group up to the mount.
func memoryLimitFiles(membership []byte, all []mount) []string {
	var files []string
	for line := range bytes.Lines(membership) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}

		controllers, group := fields[1], fields[2]
		for _, m := range all {
			var name string
			switch {
			case m.filesystem == "cgroup2" && controllers == "":
				name = unifiedLimit
			case m.filesystem == "cgroup" &&
				slices.Contains(strings.Split(controllers, ","), "memory") &&
				slices.Contains(m.options, "memory"):
				name = "memory.limit_in_bytes"
			default:
				continue
			}

			// A container sees its own group as the root of the mount.
			below := filepath.Clean("/" + strings.TrimPrefix(group, m.root))
			for ; ; below = filepath.Dir(below) {
				files = append(files, filepath.Join(m.point, below, name))
				if below == "/" {
					break
				}
			}
		}
	}

	return files
}

// parseMemoryLimit refuses "max" and version 1's way of saying it: the largest
// number of whole pages.
func parseMemoryLimit(text string) (int64, bool) {
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 || limit >= 1<<62 {
		return 0, false
	}
	return limit, true
}
