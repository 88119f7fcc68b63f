package mmapdb

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := func(access Access, length int64) bool {
		t.Helper()
		is, err := IsLocked(path, access, length)
		if err != nil {
			t.Fatal(err)
		}

		return is
	}

	if held(ToWrite, 0) {
		t.Error("a file that is not there is held")
	}

	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close()
	lock := func(kind int16, start int64) {
		t.Helper()
		if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK,
			&unix.Flock_t{Type: kind, Start: start, Len: 1}); err != nil {
			t.Fatal(err)
		}
	}

	if held(ToWrite, 0) {
		t.Error("held by nobody")
	}

	lock(unix.F_RDLCK, 7)
	if held(ToRead, 0) || !held(ToWrite, 0) || held(ToWrite, 7) {
		t.Error("a reader of byte 7 stands against writers of it, and nobody else")
	}

	lock(unix.F_WRLCK, 7)
	if !held(ToRead, 0) || held(ToRead, 7) {
		t.Error("a writer of byte 7 stands against readers of it, and nobody else")
	}
}
