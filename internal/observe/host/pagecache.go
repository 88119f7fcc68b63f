//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/base/livedir"
)

// Evict takes the files below dir out of the page cache and says how. It needs
// no root. Pages that another process has mapped stay: Resident tells what is left.
func Evict(ctx context.Context, dir string) (method string, err error) {
	defer wrap(&err, "evict %s from the page cache", dir)
	if err := releaseMapped(dir); err != nil {
		return "", err
	}

	err = eachFile(ctx, dir, func(f *os.File, bytes int64) error {
		// Dirty pages are not dropped.
		if err := f.Sync(); err != nil {
			return err
		}

		// Nor are those that the kernel itself holds at that moment, as it does to reclaim or
		// move memory: it is asked again for what is left.
		for range 5 {
			if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
				return &os.PathError{Op: "fadvise", Path: f.Name(), Err: err}
			}

			if left, err := residentPages(f, bytes); err != nil || left == 0 {
				return nil // where nobody can look, once has to do
			}
		}

		return nil
	})

	return "fsync and fadvise(DONTNEED) of each file", err
}

// releaseMapped gives back the pages of files below dir that this process has touched through
// mappings of its own, as sampling keys of LMDB, MDBX and bbolt does. fadvise leaves such pages in
// the cache. The mappings stay valid: the next access is a page fault. MADV_PAGEOUT does no harm if
// another thread has mapped something else there meanwhile, as MADV_DONTNEED would.
func releaseMapped(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}

	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}

	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}

	for line := range strings.Lines(string(maps)) {
		// from-to permissions offset device inode path
		_, path, found := strings.Cut(line, "/")
		fields := strings.Fields(line)
		if path = "/" + strings.TrimSpace(path); !found || len(fields) < 6 ||
			!strings.HasSuffix(fields[1], "s") || !strings.HasPrefix(path, dir+"/") {
			continue
		}

		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("read /proc/self/maps: %w", err)
		}

		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from,
			unix.MADV_PAGEOUT); errno != 0 {
			return fmt.Errorf("give back the pages of %s: %w", path, errno)
		}
	}

	return nil
}

// SyncFilesystem returns when all that was written to the filesystem of dir is on its
// device.
func SyncFilesystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return errors.Join(fmt.Errorf("sync the filesystem of %s: %w", dir, err), f.Close())
	}
	return f.Close()
}

// Warm reads every file below dir, so that the page cache holds what fits into
// it. progress may be nil.
func Warm(ctx context.Context, dir string, progress func(done, total int64)) (err error) {
	defer wrap(&err, "read %s into the page cache", dir)
	var done, total int64
	err = eachFile(ctx, dir, func(_ *os.File, bytes int64) error { total += bytes; return nil })
	if err != nil {
		return err
	}

	buffer := make([]byte, 1<<20)
	return eachFile(ctx, dir, func(f *os.File, _ int64) error {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}

			n, err := f.Read(buffer)
			done += int64(n)
			if progress != nil && n > 0 {
				progress(done, total)
			}

			if errors.Is(err, io.EOF) {
				return nil
			}

			if err != nil {
				return err
			}
		}
	})
}

// Resident counts the bytes of the files below dir and those of them that the
// page cache holds: the proof of cold or warm. The kernel tells owners of a file
// and root only.
func Resident(dir string) (resident, total int64, err error) {
	defer wrap(&err, "ask what the page cache holds of %s", dir)
	err = eachFile(context.Background(), dir, func(f *os.File, bytes int64) error {
		pages, err := residentPages(f, bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}

		total += bytes
		resident += min(bytes, pages*int64(os.Getpagesize())) // the last page is not full
		return nil
	})

	return resident, total, err
}

// residentPages are those of the first bytes of a file that the page cache holds.
func residentPages(f *os.File, bytes int64) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}

	const zfs = 0x2fc12fc1
	switch fs.Type {
	case zfs:
		return 0, errors.New("zfs caches blocks outside the page cache, where nobody can look")
	case unix.OVERLAYFS_SUPER_MAGIC:
		// its own files have no pages; a mapping is one of the file below
		return mincorePages(f, bytes)
	}

	pages, err := cachestatPages(f, bytes)
	if errors.Is(err, unix.ENOSYS) { // before Linux 6.5
		return mincorePages(f, bytes)
	}

	return pages, err
}

func cachestatPages(f *os.File, bytes int64) (int64, error) {
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: uint64(bytes)}, &stat,
		0); err != nil {
		return 0, os.NewSyscallError("cachestat", err)
	}
	return int64(stat.Cache), nil
}

// mincorePages maps the file, without touching it, a window at a time.
func mincorePages(f *os.File, bytes int64) (int64, error) {
	if err := mayAsk(f); err != nil {
		return 0, err
	}

	const window = 1 << 30
	pageBytes := int64(os.Getpagesize())
	var resident int64
	for at := int64(0); at < bytes; at += window {
		length := min(window, bytes-at)
		memory, err := unix.Mmap(int(f.Fd()), at, int(length), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return 0, os.NewSyscallError("mmap", err)
		}

		pages := make([]byte, (length+pageBytes-1)/pageBytes)
		err = mincore(memory, pages)
		if err := errors.Join(err, unix.Munmap(memory)); err != nil {
			return 0, err
		}

		for _, state := range pages {
			resident += int64(state & 1)
		}
	}

	return resident, nil
}

func mincore(memory, pages []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&memory[0])),
		uintptr(len(memory)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		return os.NewSyscallError("mincore", errno)
	}
	return nil
}

// mayAsk guards mincore, which tells strangers that every page is resident.
func mayAsk(f *os.File) error {
	var info unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &info); err != nil {
		return os.NewSyscallError("fstat", err)
	}

	if int(info.Uid) == os.Geteuid() {
		return nil
	}

	if err := unix.Access(f.Name(), unix.W_OK); err != nil {
		return fmt.Errorf("the kernel tells only owners and writers of a file: %w", err)
	}

	return nil
}

// wrap is deferred: it says, in a format, what failed where *err is an error.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}

// eachFile opens every regular file below dir, and those that links there lead to, for reading and
// hands it over. A file that a running database deletes before it is open is left out.
func eachFile(ctx context.Context, dir string, visit func(f *os.File, bytes int64) error) error {
	root, err := filepath.EvalSymlinks(dir) // WalkDir does not follow dir itself
	if err != nil {
		return err
	}

	return livedir.Walk(root, func(path string, entry fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}

		if !entry.Type().IsRegular() && entry.Type() != fs.ModeSymlink {
			return nil
		}

		if entry.Type() == fs.ModeSymlink {
			if target, err := os.Stat(path); err != nil || !target.Mode().IsRegular() {
				return nil
			}
		}

		f, err := os.Open(path)
		if err != nil {
			return err
		}

		info, err := f.Stat()
		if err == nil {
			err = visit(f, info.Size())
		}

		if closed := f.Close(); closed != nil {
			return errors.Join(err, closed)
		}

		return err // fs.SkipAll as it is
	})
}

// directBytes is the size and the alignment of direct reads: what every device
// accepts.
const directBytes = 4096

// DirectSupported reads once with O_DIRECT in dir, from a file that is there or
// else from one it makes and deletes. nil means that such reads reach the device.
func DirectSupported(dir string) (err error) {
	defer wrap(&err, "O_DIRECT in %s", dir)
	return tryDirect(dir)
}

// InMemory tells whether dir is on a filesystem that keeps its files in memory, whose pages nothing
// drops.
func InMemory(dir string) (bool, error) {
	m, err := mountOf(dir)
	return m.inMemory(), err
}

func (m mount) inMemory() bool { return m.filesystem == "tmpfs" || m.filesystem == "ramfs" }

func tryDirect(dir string) error {
	m, err := mountOf(dir)
	if err != nil {
		return err
	}

	// From Linux 6.6 on tmpfs accepts the flag and ignores it.
	if m.inMemory() {
		return fmt.Errorf("%s keeps its files in memory: there is no device to read from",
			m.filesystem)
	}

	found, err := eachUntil(dir, func(f *os.File, bytes int64) (enough bool, err error) {
		if bytes == 0 {
			return false, nil
		}
		return true, readDirect(f, m.filesystem)
	})

	if found || err != nil {
		return err
	}

	f, err := fileToRead(dir)
	if err != nil {
		return err
	}

	return errors.Join(readDirect(f, m.filesystem), f.Close(), os.Remove(f.Name()))
}

// readDirect reads from the file of a descriptor, which is there whether or not it still has a
// name. It also watches the page cache: a filesystem that fills it serves such reads from memory.
// Only the pages that are read count: whoever writes the file adds others.
func readDirect(of *os.File, filesystem string) (err error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", of.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%s does not support it", filesystem)
	}

	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, f.Close()) }()
	before, err := residentPages(f, directBytes)
	if err != nil {
		return err
	}

	if _, err := unix.Pread(int(f.Fd()), alignedBlock(), 0); err != nil {
		return fmt.Errorf("%s refuses the read: %w", filesystem, err)
	}

	after, err := residentPages(f, directBytes)
	if err != nil {
		return err
	}

	if after > before {
		return fmt.Errorf("%s accepts it but reads through the page cache", filesystem)
	}

	return nil
}

// fileToRead makes a small file outside the page cache. Only a directory without files gets one:
// another program's is left alone.
func fileToRead(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".statelab-direct-*")
	if err != nil {
		return nil, err
	}

	_, err = f.Write(make([]byte, directBytes))
	if err == nil {
		err = f.Sync()
	}

	if err == nil {
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}

	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}

	return f, nil
}

// eachUntil is eachFile until one is enough, or an error. It reports whether one was.
func eachUntil(
	dir string, visit func(f *os.File, bytes int64) (enough bool, err error),
) (found bool, err error) {
	var failed error
	err = eachFile(context.Background(), dir, func(f *os.File, bytes int64) error {
		if found, failed = visit(f, bytes); found || failed != nil {
			return fs.SkipAll
		}
		return nil
	})
	return found, errors.Join(failed, err)
}

// alignedBlock returns directBytes of memory at a multiple of directBytes.
func alignedBlock() []byte {
	b := make([]byte, 2*directBytes)
	from := -uintptr(unsafe.Pointer(&b[0])) % directBytes
	return b[from : from+directBytes : from+directBytes]
}
