package evidence

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/observe/host"
)

// TestTemporaryFilesOfOthersAreNotProbed: a folder with what is not ours to read is not where a
// disk is probed.
func TestTemporaryFilesOfOthersAreNotProbed(t *testing.T) {
	temporary, database := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	if err := os.Symlink("/nowhere", filepath.Join(temporary, "theirs")); err != nil {
		t.Fatal(err)
	}

	if _, err := host.DeviceOf(database); err != nil {
		t.Skip(err) // tmpfs has none
	}

	folder, remove, err := ProbeDir(database, "")
	if err != nil {
		t.Fatal(err)
	}

	if inside, err := os.ReadDir(folder); err != nil || len(inside) > 0 ||
		filepath.Dir(folder) != temporary {
		t.Errorf("%s: %v, %v", folder, inside, err)
	}

	remove()
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is left", folder)
	}

	if folder, remove, err = ProbeDir(database, temporary); err != nil || folder != temporary {
		t.Errorf("%s: %v", folder, err)
	}

	remove()
	if _, err := os.Stat(temporary); err != nil {
		t.Error("a folder of results is removed with the probe's")
	}
}
