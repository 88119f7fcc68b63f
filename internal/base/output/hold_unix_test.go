//go:build unix

package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
)

// TestOneProcessHoldsAFolder: a folder that is held is refused with a code and a remedy, whether it
// was made or there before, and left as it is; it is free when its holder has let it go.
func TestOneProcessHoldsAFolder(t *testing.T) {
	made, there := filepath.Join(t.TempDir(), "made"), t.TempDir()
	put(t, filepath.Join(there, "run.json"), "x")
	tidy, err := MakeFolder(made)
	if err != nil {
		t.Fatal(err)
	}

	held, err := LockDir(there)
	if err != nil {
		t.Fatal(err)
	}

	for _, dir := range []string{made, there} {
		second, err := LockDir(dir)
		if err == nil {
			t.Fatalf("%s is held twice: %v", dir, second.Close())
		}

		if failure.From(err).Code != engine.CodeInUse ||
			!strings.Contains(err.Error(),
				dir+": wait until it has ended, or choose another --out") {
			t.Errorf("%s: %v", dir, err)
		}
	}

	if _, err := MakeFolder(made); err == nil {
		t.Error("a folder that is held was made again")
	}

	if err := held.Close(); err != nil {
		t.Fatal(err)
	}

	if err := tidy(); err != nil {
		t.Fatal(err)
	}

	if again, err := LockDir(there); err != nil {
		t.Error(err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}

	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("an empty folder is left: %v", err)
	}

	if text, err := os.ReadFile(filepath.Join(there,
		"run.json")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}
