//go:build linux

package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const heldFileBytes = 96 << 20

// residentAfter runs body in a child that is in a group of its own, with a file of
// heldFileBytes, and returns how much of the file is in memory afterwards.
func residentAfter(t *testing.T, body func(h *MemoryLimit, path string)) int64 {
	t.Helper()
	const variable = "HOLD_TEST_FILE"
	if path := os.Getenv(variable); path != "" {
		h, err := LimitMemory()
		if err != nil {
			t.Fatal(err)
		}

		body(h, path)
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}

		t.SkipNow() // the parent judges
	}

	if h, err := LimitMemory(); err != nil {
		t.Skipf("no memory control group here: %v", err)
	} else if err := h.Release(); err != nil {
		t.Fatal(err)
	}

	dir := onDisk(t) // a filesystem in memory has nothing to give back
	path := filepath.Join(dir, "pages")
	if err := os.WriteFile(path, make([]byte, heldFileBytes), 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := Evict(t.Context(), dir); err != nil {
		t.Fatal(err)
	}

	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), variable+"="+path)
	if text, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	resident, total, err := Resident(dir)
	if err != nil || total < heldFileBytes {
		t.Fatalf("%d bytes of files, %v", total, err)
	}

	t.Logf("%d of %d bytes resident", resident, total)
	return resident
}

func readThrough(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	if n, err := io.Copy(io.Discard, f); err != nil || n != heldFileBytes {
		t.Fatalf("%d bytes read, %v", n, err)
	}
}

func TestMemoryLimitBoundsThePageCache(t *testing.T) {
	const limit = 48 << 20
	resident := residentAfter(t, func(h *MemoryLimit, path string) {
		if err := h.set(limit); err != nil {
			t.Fatal(err)
		}
		readThrough(t, path)
	})

	if resident > limit {
		t.Errorf("%d bytes resident, limit %d", resident, limit)
	}
}

// A process that grows and shrinks by more than its pages may be, while it reads, is
// not killed, and its pages stay few. What Go's runtime gave back in the last second or
// two may be pages as well.
func TestFollowKeepsThePageCacheSmall(t *testing.T) {
	const pages, givenBack, own = 24 << 20, 4 << 20, 64 << 20
	resident := residentAfter(t, func(h *MemoryLimit, path string) {
		if err := h.TrackAnonRSS(pages); err != nil {
			t.Fatal(err)
		}

		for range 2 {
			memory := make([]byte, own)
			for at := 0; at < len(memory); at += os.Getpagesize() {
				memory[at] = 1
				if at%(4<<20) == 0 {
					time.Sleep(followEvery)
				}
			}

			readThrough(t, path)
			runtime.KeepAlive(memory)
			memory = nil
			debug.FreeOSMemory()
			time.Sleep(2 * followEvery)
		}

		if calls, chars, _ := h.Own.Now(); calls < 10 || chars < 100*calls {
			t.Errorf("%d read calls of %d bytes", calls, chars)
		}
	})

	if resident > pages+givenBack {
		t.Errorf("%d bytes resident, want at most %d", resident, pages+givenBack)
	}
}

// A process that enters a group of its own is killed if it outgrows the limit that it had before.
func TestLimitsThatWereThereHold(t *testing.T) {
	const variable, limit = "OUTGROW_TEST", 128 << 20
	if dir := os.Getenv(variable); dir != "" {
		if err := move(dir); err != nil {
			t.Fatal(err)
		}

		h, err := LimitMemory()
		if err != nil {
			t.Fatal(err)
		}

		if h.Within != limit || !strings.Contains(h.How, "within a limit of 128 MiB") {
			t.Fatalf("%+v", h)
		}

		fmt.Println("entered")
		grown := make([]byte, 4*limit)
		for i := 0; i < len(grown); i += 4096 {
			grown[i] = 1
		}

		t.Fatal(h.Release(), "outgrew the limit: ", len(grown))
	}

	if h, err := LimitMemory(); err != nil {
		t.Skipf("no memory control group here: %v", err)
	} else if err := h.Release(); err != nil {
		t.Fatal(err)
	}

	if meminfo("SwapTotal") > 0 {
		t.Skip("the process would be swapped out, not killed")
	}

	var dir string
	for _, c := range hierarchies() {
		if _, err := os.Stat(filepath.Join(c.root, "cgroup.procs")); err != nil {
			continue
		}

		dir = filepath.Join(c.root, fmt.Sprint("limit-test-", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(dir, c.limit), []byte(strconv.Itoa(limit)),
			0o644); err != nil {
			t.Fatal(err)
		}

		break
	}

	defer func() {
		SweepGroups()
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()

	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), variable+"="+dir)
	text, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL ||
		!strings.Contains(string(text), "entered") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A group is made where limits that were there go on to hold.
func TestGroupsAreMadeWithinLimits(t *testing.T) {
	const file = "limit"
	for _, c := range []struct {
		about   string
		leaves  bool
		home    string
		limits  map[string]string // by group
		anchor  string
		within  int64
		maximum int64
	}{
		{"no limit", false, "/slurm/job_1",
			map[string]string{"/": "max", "/slurm": "9223372036854771712", "/slurm/job_1": "max"},
			"/", 0, 0},
		{"v1: a job's limit", false, "/slurm/job_1/step",
			map[string]string{"/slurm": "max", "/slurm/job_1": "1000", "/slurm/job_1/step": "2000"},
			"/slurm/job_1/step", 1000, 0},
		{"v2: a job's limit", true, "/slurm/job_1/step/task_0",
			map[string]string{"/slurm/job_1": "1000", "/slurm/job_1/step": "2000",
				"/slurm/job_1/step/task_0": "max"}, "/slurm/job_1/step", 1000, 0},
		{"v2: a limit of its own", true, "/slurm/job_1/task_0",
			map[string]string{"/slurm/job_1": "max", "/slurm/job_1/task_0": "3000"},
			"/slurm/job_1", 3000, 3000},
		{"v2: a container", true, "/", map[string]string{"/": "4000"}, "/", 4000, 4000},
		{"v1: a container's name of its group", false, "/docker/1", map[string]string{"/": "5000"},
			"/", 5000, 0},
	} {
		root := t.TempDir()
		for group, limit := range c.limits {
			if err := os.MkdirAll(filepath.Join(root, group), 0o755); err != nil {
				t.Fatal(err)
			}

			if err := os.WriteFile(filepath.Join(root, group, file), []byte(limit+"\n"),
				0o644); err != nil {
				t.Fatal(err)
			}
		}

		var h MemoryLimit
		h.choose(hierarchy{root: root, limit: file, leaves: c.leaves}, c.home)
		if want := filepath.Join(root, c.anchor); h.anchor != want || h.Within != c.within ||
			h.maximum != c.maximum {
			t.Errorf("%s: made in %s, within %d, at most %d; want %s, %d, %d", c.about, h.anchor,
				h.Within, h.maximum, want, c.within, c.maximum)
		}
	}
}
