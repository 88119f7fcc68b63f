package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// faultyDisk is a FUSE file system over a folder whose reads, writes and syncs go wrong
// in one way until it is repaired.
type faultyDisk struct {
	mu     sync.Mutex
	random *rand.Rand
	kind   string // erringDisk, shortDisk, slowDisk or farDisk; "" once repaired
	after  int64  // erringDisk: so many calls go well
	server *fuse.Server
}

// mountFaulty lays the disk over backing, at the folder at.
func mountFaulty(backing, at, kind string, random *rand.Rand, after int64) (*faultyDisk, error) {
	d := &faultyDisk{random: rand.New(rand.NewPCG(random.Uint64(), 5)), kind: kind, after: after}
	below, err := fs.NewLoopbackRoot(backing)
	if err != nil {
		return nil, err
	}

	d.server, err = fs.Mount(at, &faultyNode{below.(*fs.LoopbackNode), d},
		&fs.Options{
			MountOptions:    fuse.MountOptions{DirectMountStrict: true, FsName: "statelab-faults"},
			NullPermissions: true,
		})

	return d, err
}

// repair ends the faults. The kernel keeps an error of a mapped file for whoever syncs it
// next, as it would not after a restart.
func (d *faultyDisk) repair(at string) error {
	d.mu.Lock()
	d.kind = ""
	d.mu.Unlock()
	return filepath.WalkDir(at, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}

		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}

		_ = file.Sync() // the error that was kept
		return file.Close()
	})
}

// fault is what becomes of a call that moves so many bytes.
func (d *faultyDisk) fault(reads bool, bytes int) (moved int, errno syscall.Errno) {
	d.mu.Lock()
	kind, chance := d.kind, d.random.Float64()
	if d.after--; kind == erringDisk && d.after < 0 && chance < .5 {
		errno = syscall.EIO
	}

	d.mu.Unlock()
	switch {
	case kind == shortDisk && reads && bytes > 1 && chance < .2:
		bytes = 1 + int(5*chance*float64(bytes-1))
	case kind == farDisk && reads:
		time.Sleep(farRead)
	case kind == slowDisk && chance < .02:
		time.Sleep(time.Duration(chance * float64(time.Second))) // up to 20 ms
	}

	return bytes, errno
}

// A farDisk takes so long for each read.
const (
	farDisk = "FUSE with slow reads"
	farRead = 2 * time.Millisecond
)

type faultyNode struct {
	*fs.LoopbackNode
	disk *faultyDisk
}

func (n *faultyNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &faultyNode{child.(*fs.LoopbackNode), n.disk}
}

// flags of an opened file: a short or slow read reaches the reader only past the page cache.
func (d *faultyDisk) flags() uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kind == shortDisk || d.kind == farDisk {
		return fuse.FOPEN_DIRECT_IO
	}
	return 0
}

func (n *faultyNode) Open(
	ctx context.Context, flags uint32,
) (fs.FileHandle, uint32, syscall.Errno) {
	// buffers are not aligned here
	file, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	return &faultyFile{file.(*fs.LoopbackFile), n.disk}, n.disk.flags(), 0
}

func (n *faultyNode) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, file, _, errno := n.LoopbackNode.Create(ctx, name, flags&^syscall.O_DIRECT, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, &faultyFile{file.(*fs.LoopbackFile), n.disk}, n.disk.flags(), 0
}

type faultyFile struct {
	*fs.LoopbackFile
	disk *faultyDisk
}

// PassthroughFd keeps the kernel from reading the file below itself.
func (f *faultyFile) PassthroughFd() (int, bool) { return 0, false }

func (f *faultyFile) Read(
	ctx context.Context, to []byte, at int64,
) (fuse.ReadResult, syscall.Errno) {
	bytes, errno := f.disk.fault(true, len(to))
	if errno != 0 {
		return nil, errno
	}
	return f.LoopbackFile.Read(ctx, to[:bytes], at)
}

func (f *faultyFile) Write(ctx context.Context, from []byte, at int64) (uint32, syscall.Errno) {
	if _, errno := f.disk.fault(false, len(from)); errno != 0 {
		return 0, errno
	}
	return f.LoopbackFile.Write(ctx, from, at)
}

func (f *faultyFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if _, errno := f.disk.fault(false, 0); errno != 0 {
		return errno
	}
	return f.LoopbackFile.Fsync(ctx, flags)
}

// memoryGroup is a control group whose processes have too little memory.
type memoryGroup struct {
	dir   string
	limit string // the file of its limit
}

// newMemoryGroup is nil where groups of memory cannot be made. It lies below this
// process's own.
func newMemoryGroup(t *testing.T, bytes int64) *memoryGroup {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}

	for line := range strings.Lines(string(text)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		g := &memoryGroup{}
		switch {
		case controllers == "memory":
			g.dir, g.limit = filepath.Join("/sys/fs/cgroup/memory", path), "memory.limit_in_bytes"
		case id == "0" && controllers == "":
			g.dir, g.limit = filepath.Join("/sys/fs/cgroup", path), "memory.max"
		default:
			continue
		}

		g.dir = filepath.Join(g.dir, fmt.Sprintf("statelab-test-%d-%d", os.Getpid(),
			memoryGroups.Add(1)))
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}

		t.Cleanup(func() {
			if err := os.Remove(g.dir); err != nil {
				t.Error(err)
			}
		})

		if g.set(strconv.FormatInt(bytes, 10)) == nil {
			return g
		}
	}

	return nil
}

// memoryGroups tells the groups of this process apart.
var memoryGroups atomic.Int64

func (g *memoryGroup) set(limit string) error {
	// Without a memory controller the folder is an ordinary one.
	file, err := os.OpenFile(filepath.Join(g.dir, g.limit), os.O_WRONLY, 0)
	if err != nil {
		return err
	}

	_, err = file.WriteString(limit)

	return errors.Join(err, file.Close())
}

// lift ends the limit, in the words of either version of control groups.
func (g *memoryGroup) lift(t *testing.T) {
	if g.set("-1") != nil {
		if err := g.set("max"); err != nil {
			t.Fatal(err)
		}
	}
}

// enter takes a process that has just started into the group, and with it those that it
// will start.
func (g *memoryGroup) enter(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}
