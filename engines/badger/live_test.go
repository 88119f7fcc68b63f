package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir/churn"
)

// TestBesideItsOwner: Badger cannot read while another process writes, so each attempt is refused.
func TestBesideItsOwner(t *testing.T) {
	d := filled(t, 1000, engine.Options{})
	w, err := d.Writer()
	must(t, err)
	refused := 0

	churn.RunBeside(t, func(number int) error {
		return errors.Join(w.Put(key(uint64(number%1000)), make([]byte, 110)), w.Commit())
	}, churn.Times, func() error {
		opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: d.dir, ReadOnly: true})
		if locked, is := errors.AsType[*engine.LockedError](err); !is || locked.Dir != d.dir {
			return fmt.Errorf("opened %v: %w", opened, err)
		}

		refused++
		return nil
	})

	if must(t, w.Close()); refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestBytesOfFilesThatVanish: logs come and go while they are counted.
func TestBytesOfFilesThatVanish(t *testing.T) {
	const content = 8 << 10
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "99999999.vlog"), make([]byte, content), 0o644))

	churn.Replace(t, dir, "%06d.vlog", "", churn.Times, func() error {
		bytes, files, err := bytesOf(filepath.Join(dir, "*.vlog"))
		if err == nil && (files < 1 || files > 4 || bytes > content) {
			err = fmt.Errorf("%d bytes of %d files", bytes, files)
		}
		return err
	})
}
