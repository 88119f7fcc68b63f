//go:build linux

package pagetrie

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/mpt"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/layout/layouttest"
	"golang.org/x/sys/unix"
)

// What a child process does instead of the tests.
const (
	childJob = "STATELAB_PAGETRIE_JOB"
	childDir = "STATELAB_PAGETRIE_DIR"

	jobFill = "fill" // commit blocks on a disk that ends, saying so, then say what happened
	jobHold = "hold" // open, say so, stay until killed

	diskBytes = 300 * pageBytes
)

func TestMain(m *testing.M) {
	job := os.Getenv(childJob)
	if job == "" {
		os.Exit(m.Run())
	}

	if err := childMain(job, os.Getenv(childDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(0)
}

var many = layouttest.Workload{Seed: 77, Accounts: 2000, Slots: 60, Changes: 12}

func childMain(job, dir string) error {
	if job == jobFill {
		limit := unix.Rlimit{Cur: diskBytes, Max: diskBytes}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
	}

	_, missing := os.Stat(dir)
	s, err := Layout{}.Open(context.Background(), layout.Options{Dir: dir, Create: missing != nil})
	if err != nil {
		return err
	}

	if job == jobHold {
		fmt.Println("held")
		time.Sleep(time.Minute) // killed long before
		return errors.New("nobody killed the holder")
	}

	for {
		for _, c := range many.Block(s.Block() + 1) {
			if err := s.Change(c); err != nil {
				return err
			}
		}

		root, err := s.Commit(context.Background())
		if err != nil {
			return lastGasp(s, err)
		}

		fmt.Printf("%d %x\n", s.Block(), root)
	}
}

// lastGasp is what a state must still do once its disk is full.
func lastGasp(s layout.State, full error) error {
	if !errors.Is(full, unix.EFBIG) {
		return fmt.Errorf("error %w, want one of a full disk", full)
	}

	if _, err := s.Commit(context.Background()); err == nil {
		return errors.New("a block was committed over a failed one")
	}

	r, err := s.Reader()
	if err != nil {
		return err
	}

	reference, err := many.Replayed(s.Block())
	if err != nil {
		return err
	}

	if err := many.Compare(r, reference); err != nil {
		return fmt.Errorf("on a full disk: %w", err)
	}

	return s.Close()
}

func startChild(t *testing.T, job, dir string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childJob+"="+job, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewReader(out)
}

// lastLine reads what a child says until it ends.
func lastLine(t *testing.T, from io.Reader) (block uint64, root layout.Hash) {
	t.Helper()
	for {
		var b uint64
		var hex []byte
		n, err := fmt.Fscanf(from, "%d %x\n", &b, &hex)
		if err != nil || n < 2 || len(hex) != 32 {
			return block, root
		}

		block, root = b, layout.Hash(hex)
	}
}

// TestFullDisk lets the file grow to a limit and no further.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	cmd, out := startChild(t, jobFill, dir)
	said, root := lastLine(t, out)
	must(t, cmd.Wait())
	checked := check(t, dir)
	if checked.Block != said || checked.Root != root || said < 10 {
		t.Errorf("block %d with root %x on the disk, %d and %x when it was full", checked.Block,
			checked.Root, said, root)
	}

	s := mustOpen(t, layout.Options{Dir: dir}) // there is room again
	reference, err := many.Replayed(said)
	must(t, err)
	play(t, many, s, reference, 20)
	must(t, s.Close())
	check(t, dir)
}

func TestOneWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	must(t, grow(t, layout.Options{Dir: dir}, 10, 10).Close())
	cmd, out := startChild(t, jobHold, dir)
	if line, err := out.ReadString('\n'); line != "held\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}

	var locked *engine.LockedError
	if _, err := (Layout{}).Open(t.Context(), layout.Options{Dir: dir}); !errors.As(err, &locked) {
		t.Errorf("error %v beside a writer, want a LockedError", err)
	}

	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}

	a, b := mustOpen(t, layout.Options{Dir: dir, ReadOnly: true}),
		mustOpen(t, layout.Options{Dir: dir, ReadOnly: true})
	if a.Root() != b.Root() || a.Change(layout.Change{}) == nil {
		t.Error("two readers differ, or write")
	}
}

// TestPowerCuts drops the writes of the newest block that were not synced: any
// part of its pages, and its slot torn. The block before must be whole.
func TestPowerCuts(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, layout.Options{Dir: dir, Create: true})
	reference := mpt.NewReference()
	play(t, many, s, reference, 120)
	must(t, s.Close())
	path := filepath.Join(dir, fileName)
	before, err := os.ReadFile(path)
	must(t, err)
	root := reference.Root()
	s = mustOpen(t, layout.Options{Dir: dir})
	play(t, many, s, reference, 1)
	must(t, s.Close())
	after, err := os.ReadFile(path)
	must(t, err)
	rng := rand.New(rand.NewPCG(6, 6))
	for range 40 {
		torn := append(append([]byte{}, before...), make([]byte, len(after)-len(before))...)
		for at := metaPages * pageBytes; at < len(after); at += pageBytes {
			if rng.IntN(2) == 0 {
				copy(torn[at:at+pageBytes], after[at:])
			}
		}

		slot := 121 % metaPages * pageBytes
		copy(torn[slot:slot+rng.IntN(metaBytes)], after[slot:])
		must(t, os.WriteFile(path, torn, 0o644))
		if c := check(t, dir); c.Block != 120 || c.Root != root {
			t.Fatalf("block %d, root %x after a power cut; want 120 and %x", c.Block, c.Root, root)
		}
	}
}
