package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
