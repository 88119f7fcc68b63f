//go:build linux

package chunktrie

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/layout"
)

// TestCheckWalksOlderVersions damages the root of a version that is kept but not the
// newest.
func TestCheckWalksOlderVersions(t *testing.T) {
	o := layout.Options{Dir: newDir(t), Create: true, Overrides: small}
	s, keys := evenly(t, o, 300)
	for range 8 {
		must(t, s.Change(layout.Change{Account: keys[0]}))
		must(t, s.Change(layout.Change{Account: keys[1], New: &layout.Account{Nonce: s.Block()}}))
		if _, err := s.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	old := s.versions[1].root.at
	at := int64(old.chunk())*s.chunks.chunkBytes + old.offset()
	newest, root := s.Block(), s.Root()
	must(t, s.Close())
	report := check(t, o.Dir, newest, root)
	if report.Versions != 5 || report.OlderNodes == 0 || report.Accounts != 299 {
		t.Errorf("%+v: want 5 versions, older nodes and 299 accounts", report)
	}

	file, err := os.OpenFile(filepath.Join(o.Dir, fileName), os.O_RDWR, 0)
	must(t, err)
	_, err = file.WriteAt([]byte{0xff}, at+int64(headerBytes))
	must(t, err)
	must(t, file.Close())
	if _, err := Check(o.Dir); err == nil || !strings.Contains(err.Error(), "check block 6") {
		t.Errorf("damage to block 6: %v", err)
	}
}
