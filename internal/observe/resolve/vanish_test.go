//go:build unix

package resolve

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/observe/dbformat"
)

// TestLogVanishesWhileTheManifestIsRead: what it holds is in no table of that manifest, so the
// database is to be read again.
func TestLogVanishesWhileTheManifestIsRead(t *testing.T) {
	for _, f := range flavours() {
		t.Run(f.name, func(t *testing.T) {
			olderFormatsInCI(t, f)
			f.inLog = true
			dir := t.TempDir()
			s := openStore(t, f, dir, false)
			b := s.batch()
			must(t, b.set([]byte("key"), nil))
			must(t, b.commit())
			must(t, s.close())

			name, err := dbformat.PebbleManifest(dir)
			must(t, err)
			path := filepath.Join(dir, name)
			content, err := os.ReadFile(path)
			must(t, err)
			logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
			must(t, err)

			// Whoever opens a pipe waits for the other end.
			must(t, os.Remove(path))
			must(t, unix.Mkfifo(path, 0o600))
			played := make(chan error, 1)
			go func() {
				pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
				for _, log := range logs { // as after a flush
					err = errors.Join(err, os.Remove(log))
				}

				_, wrote := pipe.Write(content)
				played <- errors.Join(err, wrote, pipe.Close())
			}()

			_, err = open(dir, f.version)
			must(t, <-played)
			if len(logs) == 0 || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%d logs are missing, and the error is %v", len(logs), err)
			}
		})
	}
}
