//go:build linux

package chunktrie

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
)

// sound is the file of a small state with a few versions and a full slow list.
func sound(f *testing.F) []byte {
	f.Helper()
	o := layout.Options{
		Dir:    newDir(f),
		Create: true,
		Overrides: map[string]string{"ChunkBytes": "64KiB", "Versions": "2",
			"GarbagePercent": "1"},
	}

	s := open(f, o)
	play(f, churned(8), s, mpt.NewReference(), 12)
	must(f, s.Close())
	file, err := os.ReadFile(filepath.Join(o.Dir, fileName))
	must(f, err)
	return file
}

// FuzzOpen opens a file with eight bytes of damage, its seals made good again: no
// panic, no endless walk, whatever is done with it.
func FuzzOpen(f *testing.F) {
	file := sound(f)
	var changes []layout.Change
	for block := range uint64(12) {
		changes = append(changes, churned(8).Block(block+1)...)
	}

	for _, at := range []int{0, 33, 41, 512, 516, 532, 1024 + 20, 1536 + 60, 65536, 65542,
		2 * 65536, len(file) - 9} {
		f.Add(uint32(at), uint64(0xff00ff00ff00ff00), true)
		f.Add(uint32(at), uint64(1), false)
	}

	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, at uint32, damage uint64, reseal bool) {
		damaged := append([]byte{}, file...)
		at %= uint32(len(file) - 8)
		here := damaged[at : at+8]
		binary.LittleEndian.PutUint64(here, binary.LittleEndian.Uint64(here)^damage)
		if sector := int(at) / sectorBytes * sectorBytes; reseal && sector < placeBytes {
			seal(damaged[sector : sector+sectorBytes])
		}

		must(t, os.WriteFile(filepath.Join(dir, fileName), damaged, 0o644))
		use(t, dir, changes)
	})
}

// use does everything that reads what a file says. Errors are answers.
func use(t *testing.T, dir string, changes []layout.Change) {
	_, checked := Check(dir)
	s, err := Open(context.Background(), layout.Options{Dir: dir})
	if err != nil {
		return
	}

	defer func() { must(t, s.Close()) }()
	r := reader(t, s)
	var keys []layout.Hash
	for _, c := range changes {
		keys = append(keys, c.Account)
		_, _, err = r.Account(c.Account)
		for _, slot := range c.Slots {
			if _, _, slotErr := r.Slot(c.Account, slot.Key, nil); err == nil {
				err = slotErr
			}
		}

		if checked == nil && err != nil {
			t.Fatalf("account %x of a state that passes its check: %v", c.Account, err)
		}
	}

	if err := r.Accounts(keys, 2, make([]Found, len(keys))); checked == nil && err != nil {
		t.Fatalf("batch of a state that passes its check: %v", err)
	}

	must(t, r.Close())
	block := map[layout.Hash]bool{}
	for _, c := range changes[:60] {
		if !block[c.Account] {
			block[c.Account] = true
			must(t, s.Change(c))
		}
	}

	if _, err := s.Commit(context.Background()); checked == nil && err != nil {
		t.Fatalf("commit to a state that passes its check: %v", err)
	}
}

// TestCheckNoticesDamage changes the topmost node's bytes one by one and makes its
// checksum good again: hashes and what parents say of children must tell.
func TestCheckNoticesDamage(t *testing.T) {
	o := layout.Options{Dir: newDir(t), Create: true, Overrides: small}
	s, _ := evenly(t, o, 300)
	root := s.newest().root
	read, _, err := s.nodes.read(root.at, newReadBuffer())
	must(t, err)
	top := append(node{}, read...)
	at := int64(root.at.chunk())*s.chunks.chunkBytes + root.at.offset()
	must(t, s.Close())
	check(t, o.Dir, 1, s.Root())
	file, err := os.OpenFile(filepath.Join(o.Dir, fileName), os.O_RDWR, 0)
	must(t, err)
	for i := range top {
		damaged := append(node{}, top...)
		damaged[i] ^= 0x10
		if i != 10 && i != 11 { // the checksum itself
			binary.LittleEndian.PutUint16(damaged[10:], damaged.checksum())
		}

		_, err := file.WriteAt(damaged, at)
		must(t, err)
		if _, err := Check(o.Dir); err == nil {
			t.Errorf("byte %d of %d: damage unnoticed", i, len(top))
		}
	}

	_, err = file.WriteAt(top, at)
	must(t, err)
	must(t, file.Close())
	check(t, o.Dir, 1, s.Root())
}
