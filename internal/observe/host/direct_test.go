//go:build linux

package host

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"
)

func TestDirectIsRefusedInMemory(t *testing.T) {
	const memory = "/dev/shm"
	if m, err := mountOf(memory); err != nil || m.filesystem != "tmpfs" {
		t.Skipf("%s is no tmpfs here", memory)
	}
	if err := DirectSupported(memory); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("error is %v", err)
	}
}

func TestDirectLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	err := DirectSupported(dir)
	m, mountErr := mountOf(dir)
	if mountErr != nil {
		t.Fatal(mountErr)
	}

	if m.filesystem == "ext4" || m.filesystem == "xfs" {
		if err != nil {
			t.Errorf("%s: %v", m.filesystem, err)
		}
	}

	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestDirectReadsWhatIsThere(t *testing.T) {
	seen := ""
	read := func(f *os.File, bytes int64) (bool, error) {
		seen = f.Name()
		return bytes > 0, nil
	}

	if found, err := eachUntil(t.TempDir(), read); found || err != nil {
		t.Errorf("an empty directory holds %q, error %v", seen, err)
	}

	dir := t.TempDir()
	f := randomFile(t, dir, 4096)
	if found, err := eachUntil(dir, read); err != nil || !found || seen != f.Name() {
		t.Errorf("found %q, error %v", seen, err)
	}

	refusal := errors.New("refused")
	if _, err := eachUntil(dir,
		func(*os.File, int64) (bool, error) { return true, refusal }); !errors.Is(
		err,
		refusal,
	) {
		t.Errorf("error %v, want %v", err, refusal)
	}

	block := alignedBlock()
	if at := uintptr(unsafe.Pointer(&block[0])); len(block) != directBytes || at%directBytes != 0 {
		t.Errorf("%d bytes at %#x", len(block), at)
	}
}
