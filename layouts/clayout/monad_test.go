//go:build cgo

package clayout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
)

// monadLibrary is what native/monad builds where an installation of Monad DB is.
const monadLibrary = "../../bin/lib/libstatelab_monad.so"

// TestMonadNeedsAnInstallation: without one, the adapter's Makefile says in a sentence what is
// missing.
func TestMonadNeedsAnInstallation(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}

	source := t.TempDir()
	header := filepath.Join(source, "category", "mpt", "db.hpp")
	must(t, os.MkdirAll(filepath.Dir(header), 0o755))
	must(t, os.WriteFile(header, nil, 0o644))
	for want, given := range map[string][]string{
		"MONAD_SOURCE is not set: write the folder of the source": nil,
		"MONAD_SOURCE=/dev has no category/mpt/db.hpp":            {"MONAD_SOURCE=/dev"},
		"at commit unknown, and the adapter is for c67c9f2":       {"MONAD_SOURCE=" + source},
		"MONAD_BUILD is not set: write the folder in which CMake": {"MONAD_SOURCE=" + source,
			"FOUND=c67c9f2"},
		"MONAD_BUILD=/dev has no category/core/CMakeFiles/monad_c": {"MONAD_SOURCE=" + source,
			"FOUND=c67c9f2", "MONAD_BUILD=/dev"},
	} {
		command := exec.Command("make",
			append([]string{"-C", "../../native/monad", "BIN=" + t.TempDir()}, given...)...)
		command.Env = []string{"PATH=" + os.Getenv("PATH"),
			"GIT_CEILING_DIRECTORIES=" + filepath.Dir(source)}
		out, err := command.CombinedOutput()
		if err == nil || strings.Count(string(out), "***") != 1 ||
			!strings.Contains(string(out), want) {
			t.Errorf("%v: %v\n%s", given, err, out)
		}
	}
}

// TestMonad: of 3,000 accounts that Monad DB stores, each lookup of one is one read a node, of
// which the process makes as many calls as are counted; and a pool that it would abort on is
// refused.
func TestMonad(t *testing.T) {
	if _, err := os.Stat(monadLibrary); err != nil {
		t.Skip("Monad DB is not installed: native/monad/README.md")
	}

	l, dir := Layout{Library: monadLibrary}, t.TempDir()
	s := open(t, l, dir)
	const accounts = 3000
	name := func(i uint64) (h layout.Hash) {
		binary.BigEndian.PutUint64(h[:], i*0x9e3779b97f4a7c15)
		return h
	}

	for i := range uint64(accounts) {
		must(t,
			s.Change(layout.Change{
				Account: name(i),
				New:     &layout.Account{Nonce: i, CodeHash: layout.EmptyCode},
			}))
	}

	_, err := s.Commit(t.Context())
	must(t, errors.Join(err, s.Close()))
	for _, profile := range []string{"default", "pinned"} {
		s, err := l.Open(t.Context(), layout.Options{
			Dir:      dir,
			ReadOnly: profile == "default",
			Profile:  profile,
		})

		must(t, err)
		r, err := s.Reader()
		must(t, err)
		looking := readCalls(t)
		before, asked := *s.Counters().Reads, readCalls(t)
		for i := range uint64(accounts) {
			if a, found, err := r.Account(name(i)); err != nil || !found || a.Nonce != i {
				t.Fatalf("account %d: %+v, %v, %v", i, a, found, err)
			}
		}

		called := readCalls(t) - asked - (asked - looking)
		reads, nodes := *s.Counters().Reads-before, *r.Touched().Nodes
		if called != reads || (profile == "default") != (reads == nodes) ||
			profile == "pinned" && reads > accounts/10 {
			t.Errorf("%s: %d reads, %d calls, %d nodes", profile, reads, called, nodes)
		}

		must(t, errors.Join(r.Close(), s.Close()))
	}

	for file, spoiled := range map[string]string{"pool": "MONAD007", "inode": "1\n"} {
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR, 0)
		must(t, err)
		sound := make([]byte, len(spoiled))
		n, _ := f.ReadAt(sound, 0)
		_, err = f.WriteAt([]byte(spoiled), 0)
		must(t, err)
		if _, err := l.Open(t.Context(), layout.Options{Dir: dir}); err == nil {
			t.Errorf("a pool of another version, or one that was copied, opens (%s)", file)
		}

		_, err = f.WriteAt(sound[:n], 0)
		must(t, errors.Join(err, f.Close()))
	}

	s, err = l.Open(t.Context(), layout.Options{Dir: dir})
	must(t, err)
	must(t, errors.Join(s.Close(), os.Truncate(filepath.Join(dir, "pool"), 1<<20)))
	var none *engine.NotADatabaseError
	if _, err := l.Open(t.Context(), layout.Options{Dir: dir}); !errors.As(err, &none) {
		t.Errorf("a part of a pool: %v", err)
	}
}

// readCalls are the calls of read and pread that this process has made.
func readCalls(t *testing.T) (calls int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	_, after, _ := strings.Cut(string(text), "syscr: ")
	_, err = fmt.Sscan(after, &calls)
	must(t, err)
	return calls
}

// withoutEnv names what a child process of TestMonadWithoutItsMachine is refused.
const withoutEnv = "STATELAB_TEST_MONAD_WITHOUT"

// TestMonadWithoutItsMachine: what the kernel refuses is one sentence, where Monad DB would abort
// the process.
func TestMonadWithoutItsMachine(t *testing.T) {
	if _, err := os.Stat(monadLibrary); err != nil {
		t.Skip("Monad DB is not installed: native/monad/README.md")
	}

	if what := os.Getenv(withoutEnv); what != "" {
		refuse(t, what)
		_, err := Layout{Library: monadLibrary}.Open(t.Context(), layout.Options{
			Dir:    os.Getenv("TMPDIR"),
			Create: true,
		})

		fmt.Println(err)
		os.Exit(0)
	}

	for what, want := range map[string]string{
		"io_uring":   "Monad DB needs io_uring",
		"huge pages": "free huge pages of 2 MiB: sysctl vm.nr_hugepages",
		"locks":      "raise ulimit -l, or grant CAP_IPC_LOCK",
	} {
		child, dir := exec.Command(os.Args[0], "-test.run=^TestMonadWithoutItsMachine$"),
			t.TempDir()
		child.Env = append(os.Environ(), withoutEnv+"="+what, "TMPDIR="+dir)
		out, err := child.CombinedOutput()
		left, _ := os.ReadDir(dir)
		if err != nil || strings.Count(string(out), "\n") != 1 ||
			!strings.Contains(string(out), want) || len(left) > 0 {
			t.Errorf("without %s: %v, %d files\n%s", what, err, len(left), out)
		}
	}
}

// refuse has the kernel refuse this process io_uring, huge pages, or locks in memory, by a filter
// of calls.
func refuse(t *testing.T, what string) {
	t.Helper()
	number := map[string]uint32{
		"io_uring":   unix.SYS_IO_URING_SETUP,
		"huge pages": unix.SYS_MMAP,
		"locks":      unix.SYS_MLOCK,
	}[what]

	const flags = 16 + 3*8 // the fourth argument; the call's number is at 0
	var bits uint32 = math.MaxUint32
	load := uint32(0)
	if what == "huge pages" {
		load, bits = flags, unix.MAP_HUGETLB
	}

	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: load},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: bits, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}

	runtime.LockOSThread()
	must(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter))); errno != 0 {
		t.Fatal(errno)
	}
}
