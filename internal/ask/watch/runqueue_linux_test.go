package watch

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWaitForProcessor: the wait of all threads counts as a share of the time in which they could
// run, from the beginning of a thread that began later.
func TestWaitForProcessor(t *testing.T) {
	dir := t.TempDir()
	thread := func(name, schedstat string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}

		file := filepath.Join(dir, name, "schedstat")
		if err := os.WriteFile(file, []byte(schedstat), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if share := waitingForProcessor(dir)(); share.IsKnown() {
		t.Errorf("%v without any thread", share)
	}

	thread("7", "5000000000 1000000000 12\n")
	share := waitingForProcessor(dir)
	if now := share(); now.IsKnown() {
		t.Errorf("%v of a process that did not run", now)
	}

	thread("7", "7000000000 2000000000 99\n")
	thread("8", "1000000000 0 1\n")
	if now, known := share().Number(); !known || now != 0.25 {
		t.Errorf("%v, not 0.25", now)
	}
}
