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

// TestMemoryHoldLimitsThePageCache: a child reads a file through a group with a
// limit; of its pages no more than that stay.
func TestMemoryHoldLimitsThePageCache(t *testing.T) {
	const fileBytes, limitBytes = 96 << 20, 48 << 20
	if path := os.Getenv("HOLD_TEST_FILE"); path != "" {
		h, err := HoldMemory()
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Limit(limitBytes); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile("/proc/self/status"); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for buffer := make([]byte, 1<<20); ; {
			if n, _ := f.Read(buffer); n == 0 {
				break
			}
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if h, err := HoldMemory(); err != nil {
		t.Skipf("no memory control group here: %v", err)
	} else if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "pages")
	if err := os.WriteFile(path, make([]byte, fileBytes), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Evict(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestMemoryHoldLimitsThePageCache$")
	child.Env = append(os.Environ(), "HOLD_TEST_FILE="+path)
	if text, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	resident, total, err := Resident(dir)
	if err != nil {
		t.Fatal(err)
	}
	if total < fileBytes || resident > limitBytes {
		t.Errorf("%d of %d bytes resident, limit %d", resident, total, limitBytes)
	}
	t.Logf("%d of %d bytes resident", resident, total)
}

// TestFollowKeepsThePageCacheSmall: a child grows and shrinks by more than its
// pages may be while it reads a file, and is not killed.
func TestFollowKeepsThePageCacheSmall(t *testing.T) {
	const fileBytes, pageBytes, ownBytes = 96 << 20, 24 << 20, 64 << 20
	if path := os.Getenv("FOLLOW_TEST_FILE"); path != "" {
		h, err := HoldMemory()
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Follow(pageBytes); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			own := make([]byte, ownBytes)
			for at := 0; at < len(own); at += 4096 {
				own[at] = 1
				if at%(4<<20) == 0 {
					time.Sleep(followEvery)
				}
			}
			if _, err := io.Copy(io.Discard, must(os.Open(path))); err != nil {
				t.Fatal(err)
			}
			runtime.KeepAlive(own)
			own = nil
			debug.FreeOSMemory()
			time.Sleep(2 * followEvery)
		}
		if h.ReadCalls() < 10 {
			t.Errorf("%d read calls", h.ReadCalls())
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if h, err := HoldMemory(); err != nil {
		t.Skipf("no memory control group here: %v", err)
	} else if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "pages")
	if err := os.WriteFile(path, make([]byte, fileBytes), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Evict(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestFollowKeepsThePageCacheSmall$")
	child.Env = append(os.Environ(), "FOLLOW_TEST_FILE="+path)
	if text, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	resident, _, err := Resident(dir)
	if err != nil {
		t.Fatal(err)
	}
	if resident > pageBytes {
		t.Errorf("%d bytes of the file resident, want at most %d", resident, pageBytes)
	}
	t.Logf("%d of %d bytes resident", resident, fileBytes)
}

func must(f *os.File, err error) *os.File {
	if err != nil {
		panic(err)
	}
	return f
}
