package enginetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// CopyOpen copies the folder of a database that is open, as a kill would leave it, and returns the copy.
// An engine deletes files that it no longer needs in the background: a copy that misses one of the files
// it has listed is no state of the database, and is made again.
func CopyOpen(t testing.TB, dir string) (killed string) {
	t.Helper()
	for {
		killed = filepath.Join(t.TempDir(), "killed")
		err := os.CopyFS(killed, os.DirFS(dir))
		if err == nil {
			return killed
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
