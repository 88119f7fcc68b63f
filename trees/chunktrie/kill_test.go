package chunktrie

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
)

// childDir is set where the test binary is the writer that gets killed.
const childDir = "STATELAB_CHUNKTRIE_DIR"

// numbered is block n, whoever makes it.
func numbered(n uint64) (changes []state.Change) {
	rng := rand.New(rand.NewPCG(n, 9))
	key := func(n int) (h state.Hash) {
		source := rand.New(rand.NewPCG(uint64(rng.IntN(n)), 10))
		for i := range h {
			h[i] = byte(source.Uint32())
		}
		return h
	}
	seen := map[state.Hash]bool{}
	for range 60 {
		c := state.Change{Account: key(400)}
		if seen[c.Account] {
			continue
		}
		seen[c.Account] = true
		if rng.IntN(8) > 0 {
			c.New = &state.Account{Nonce: n, CodeHash: state.EmptyCode}
			for range rng.IntN(6) {
				slot := state.Slot{Key: key(50)}
				if rng.IntN(3) > 0 {
					slot.Value = []byte{1 + byte(rng.IntN(255))}
				}
				c.Slots = append(c.Slots, slot)
			}
		}
		changes = append(changes, c)
	}
	return changes
}

// writeUntilKilled says which blocks are committed.
func writeUntilKilled(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, state.Options{Dir: dir, Overrides: small})
	if err != nil {
		return err
	}
	for n := s.Block() + 1; ; n++ {
		for _, c := range numbered(n) {
			if err := s.Change(c); err != nil {
				return err
			}
		}
		if _, err := s.Commit(ctx); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// TestKill kills a writer again and again: what it said it committed is there,
// the root is that of a whole block, and the file is sound.
func TestKill(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir)) // never returns but for an error
		os.Exit(1)
	}
	o := state.Options{Dir: newDir(t), Create: true, Overrides: small}
	must(t, open(t, o).Close())
	reference, block := mpt.NewReference(), uint64(0)
	rng := rand.New(rand.NewPCG(6, 6))
	for range blocks(6, 50) {
		said := killWriter(t, o.Dir, time.Duration(rng.IntN(150))*time.Millisecond)
		report, err := Check(o.Dir)
		must(t, err)
		if report.Block < said || report.Block > said+1 {
			t.Fatalf("block %d after a kill, the writer had said %d", report.Block, said)
		}
		for ; block < report.Block; block++ {
			for _, c := range numbered(block + 1) {
				must(t, reference.Change(c))
			}
		}
		if want := reference.Root(); report.Root != want {
			t.Fatalf("block %d: root %x, want %x", block, report.Root, want)
		}
	}
	t.Logf("%d blocks", block)
}

// killWriter starts a writer, kills it some time after its first block, as kill -9
// does, and returns the last block it said it had committed.
func killWriter(t *testing.T, dir string, after time.Duration) (said uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewReader(out)
	for first := true; ; first = false {
		line, err := lines.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
			break
		}
		if said, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
			t.Errorf("the writer said %q", line)
		}
		if first {
			time.AfterFunc(after, func() {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := cmd.Wait(); err == nil || said == 0 {
		t.Fatalf("the writer ended by itself: %v, at block %d", err, said)
	}
	return said
}
