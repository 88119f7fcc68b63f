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
	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/state"
	"golang.org/x/sys/unix"
)

// What a child process does instead of the tests.
const (
	childJob  = "STATELAB_PAGETRIE_JOB"
	childDir  = "STATELAB_PAGETRIE_DIR"
	childSeed = 77

	jobCommit = "commit" // commit blocks of the churn, saying so, until killed
	jobFill   = "fill"   // the same on a disk that ends, then say what happened
	jobHold   = "hold"   // open, say so, stay until killed

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

// childMain goes on with the churn where the state is: block n of a seed is the same
// in every process.
func childMain(job, dir string) error {
	if job == jobFill {
		limit := unix.Rlimit{Cur: diskBytes, Max: diskBytes}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
	}
	_, missing := os.Stat(dir)
	s, err := Layout{}.Open(context.Background(), state.Options{Dir: dir, Create: missing != nil})
	if err != nil {
		return err
	}
	if job == jobHold {
		fmt.Println("held")
		time.Sleep(time.Minute) // killed long before
		return errors.New("nobody killed the holder")
	}
	for {
		for _, c := range blockOf(s.Block() + 1) {
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

func blockOf(block uint64) []state.Change { return newChurn(childSeed+block, 2000, 60, false).block() }

// lastGasp is what a state must still do once its disk is full.
func lastGasp(s state.State, full error) error {
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
	reference := replayed(s.Block())
	c := newChurn(0, 2000, 0, false)
	for n := range c.accounts {
		a, found, err := r.Account(c.key(n))
		if want, there := reference.Account(c.key(n)); err != nil || found != there || a != want {
			return fmt.Errorf("account %d on a full disk: %+v, %v, %w", n, a, found, err)
		}
	}
	return s.Close()
}

func replayed(blocks uint64) *mpt.Reference {
	reference := mpt.NewReference()
	for b := uint64(1); b <= blocks; b++ {
		for _, c := range blockOf(b) {
			if err := reference.Change(c); err != nil {
				panic(err) // the churn made it
			}
		}
	}
	return reference
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
func lastLine(t *testing.T, from io.Reader) (block uint64, root state.Hash) {
	t.Helper()
	for {
		var b uint64
		var hex []byte
		n, err := fmt.Fscanf(from, "%d %x\n", &b, &hex)
		if err != nil || n < 2 || len(hex) != 32 {
			return block, root
		}
		block, root = b, state.Hash(hex)
	}
}

// TestSurvivesKills kills a writer at random moments. What it said it had
// committed is there; one block more may be.
func TestSurvivesKills(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 6
	}
	dir := filepath.Join(t.TempDir(), "state")
	rng := rand.New(rand.NewPCG(5, 5))
	reference, at := mpt.NewReference(), uint64(0)
	for range kills {
		cmd, out := startChild(t, jobCommit, dir)
		if _, err := out.Peek(1); err != nil {
			t.Fatalf("the child said nothing: %v", err)
		}
		time.Sleep(time.Duration(rng.IntN(60_000)) * time.Microsecond)
		must(t, cmd.Process.Kill())
		said, saidRoot := lastLine(t, out)
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		checked := check(t, dir)
		if checked.Block != said && checked.Block != said+1 {
			t.Fatalf("at block %d after a kill, the last committed was %d", checked.Block, said)
		}
		for ; at < checked.Block; at++ {
			for _, c := range blockOf(at + 1) {
				must(t, reference.Change(c))
			}
			if at+1 == said && reference.Root() != saidRoot {
				t.Fatalf("block %d: the child's root %x, want %x", said, saidRoot, reference.Root())
			}
		}
		if root := reference.Root(); checked.Root != root {
			t.Fatalf("block %d: root %x after a kill, want %x", at, checked.Root, root)
		}
	}
	t.Logf("%d kills, %d blocks", kills, at)
}

// TestFullDisk lets the file grow to a limit and no further.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	cmd, out := startChild(t, jobFill, dir)
	said, root := lastLine(t, out)
	must(t, cmd.Wait())
	checked := check(t, dir)
	if checked.Block != said || checked.Root != root || said < 10 {
		t.Errorf("block %d with root %x on the disk, %d and %x when it was full", checked.Block, checked.Root, said, root)
	}
	s := mustOpen(t, state.Options{Dir: dir}) // there is room again
	reference := replayed(said)
	for b := said + 1; b < said+20; b++ {
		commit(t, s, reference, blockOf(b))
	}
	must(t, s.Close())
	check(t, dir)
}

func TestOneWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	must(t, grow(t, state.Options{Dir: dir}, 10, 10).Close())
	cmd, out := startChild(t, jobHold, dir)
	if line, err := out.ReadString('\n'); line != "held\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	var locked *engine.LockedError
	if _, err := (Layout{}).Open(t.Context(), state.Options{Dir: dir}); !errors.As(err, &locked) {
		t.Errorf("error %v beside a writer, want a LockedError", err)
	}
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	a, b := mustOpen(t, state.Options{Dir: dir, ReadOnly: true}), mustOpen(t, state.Options{Dir: dir, ReadOnly: true})
	if a.Root() != b.Root() || a.Change(state.Change{}) == nil {
		t.Error("two readers differ, or write")
	}
}

// TestPowerCuts drops the writes of the newest block that were not synced: any
// part of its pages, and its slot torn. The block before must be whole.
func TestPowerCuts(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, state.Options{Dir: dir, Create: true})
	reference := mpt.NewReference()
	for b := range uint64(120) {
		commit(t, s, reference, blockOf(b+1))
	}
	must(t, s.Close())
	path := filepath.Join(dir, fileName)
	before, err := os.ReadFile(path)
	must(t, err)
	root := reference.Root()
	s = mustOpen(t, state.Options{Dir: dir})
	commit(t, s, reference, blockOf(121))
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
