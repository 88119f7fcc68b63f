package iavl0

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/tree"
)

// TestWriteDatabase makes the database that iavl1 tests its Harvest with, from
// the changes beside it.
func TestWriteDatabase(t *testing.T) {
	dir := os.Getenv("STATELAB_IAVL0_WRITE")
	if dir == "" {
		t.Skip("writes only when asked to")
	}

	stores := []string{"bank", "staking"}
	made := filepath.Join(t.TempDir(), "forest")
	f, err := Tree{}.Open(t.Context(), tree.Options{Dir: made, Create: true, Stores: stores})
	if err != nil {
		t.Fatal(err)
	}

	commitUpTo := func(version int64) {
		for f.Version() < version {
			if _, err := f.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}

	file, err := os.Open(filepath.Join(dir, "changes.txt"))
	if err != nil {
		t.Fatal(err)
	}

	last := int64(0)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var store, what, key, value string
		if n, err := fmt.Sscan(lines.Text(), &last, &store, &what, &key, &value); n < 4 {
			t.Fatalf("%q: %v", lines.Text(), err)
		}

		commitUpTo(last - 1)
		number := map[string]int{"bank": 0, "staking": 1}[store]
		if what == "delete" {
			err = f.Remove(number, []byte(key))
		} else {
			err = f.Set(number, []byte(key), []byte(value))
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	commitUpTo(last)
	for _, err := range []error{
		lines.Err(), file.Close(), f.Close(),
		os.RemoveAll(filepath.Join(dir, "application.db")),
		os.CopyFS(filepath.Join(dir, "application.db"),
			os.DirFS(filepath.Join(made, "application.db"))),
		os.Remove(filepath.Join(dir, "application.db", "LOG")), // says when it was made
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
