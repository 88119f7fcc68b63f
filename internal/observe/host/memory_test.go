//go:build linux

package host

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
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
	dir := t.TempDir()
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
// not killed, and its pages stay few.
func TestFollowKeepsThePageCacheSmall(t *testing.T) {
	const pages, own = 24 << 20, 64 << 20
	resident := residentAfter(t, func(h *MemoryLimit, path string) {
		if err := h.Follow(pages); err != nil {
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
		if calls, chars := h.Reads(); calls < 10 || chars < 100*calls {
			t.Errorf("%d read calls of %d bytes", calls, chars)
		}
	})
	if resident > pages {
		t.Errorf("%d bytes resident, want at most %d", resident, pages)
	}
}
