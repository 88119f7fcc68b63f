package layouttest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/layout"
)

// childDir is set where the process is the writer that gets killed.
const childDir = "STATELAB_STATETEST_DIR"

func (s suite) killed() Workload {
	return Workload{Seed: 5, Accounts: 900, Slots: 60, Changes: 60, KeepContracts: s.e.KeepsContracts}
}

// child commits block after block, and says so, until it is killed.
func (s suite) child(dir string) {
	fmt.Fprintln(os.Stderr, s.write(context.Background(), dir))
	os.Exit(1)
}

func (s suite) write(ctx context.Context, dir string) error {
	o, err := s.layout.Open(ctx, s.options(dir))
	if err != nil {
		return err
	}
	for {
		for _, c := range s.killed().Block(o.Block() + 1) {
			if err := o.Change(c); err != nil {
				return err
			}
		}
		root, err := o.Commit(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("%d %x\n", o.Block(), root); err != nil {
			return err
		}
	}
}

// testSurvivesKills kills a writer at random moments, as kill -9 does. What it said
// it had committed is there, with its root; one block more may be.
func (s suite) testSurvivesKills(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 6
	}
	w, dir := s.killed(), newDir(t)
	o := s.create(t, dir)
	reference, at := o.reference, uint64(1)
	must(t, w.Play(t.Context(), o, reference, s.info.Root))
	must(t, o.close())
	rng := rand.New(rand.NewPCG(6, 6))
	for range kills {
		said, root := kill(t, dir, time.Duration(rng.IntN(100_000))*time.Microsecond)
		o := s.reopen(t, dir)
		if o.Block() != said && o.Block() != said+1 {
			t.Fatalf("at block %d after a kill, the last that was committed is %d", o.Block(), said)
		}
		if o.Block() == said && o.Root() != root {
			t.Fatalf("block %d: root %x after a kill, %x before", said, o.Root(), root)
		}
		for ; at < o.Block(); at++ {
			for _, c := range w.Block(at + 1) {
				must(t, reference.Change(c))
			}
		}
		must(t, expectRoot(o.Root(), reference, s.info.Root))
		o.reference = reference
		s.compare(t, o, w)
		must(t, s.turn(t, o, dir).close())
	}
	t.Logf("%d kills, %d blocks", kills, at)
}

// kill starts a writer and kills it some time after its first block. It returns the
// last block that the writer said it had committed.
func kill(t *testing.T, dir string, after time.Duration) (said uint64, root layout.Hash) {
	t.Helper()
	caller, _, _ := strings.Cut(t.Name(), "/SurvivesKills")
	var pattern []string
	for _, name := range strings.Split(caller, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(name)+"$")
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(pattern, "/"))
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	out := bufio.NewReader(pipe)
	if _, err := out.Peek(1); err != nil {
		t.Fatalf("the writer said nothing: %v, %v", err, cmd.Wait())
	}
	time.Sleep(after)
	must(t, cmd.Process.Kill())
	said, root = lastBlock(out)
	if err := cmd.Wait(); said == 0 || cmd.ProcessState.Exited() {
		t.Fatalf("the writer ended by itself: %v, at block %d", err, said)
	}
	return said, root
}

// lastBlock reads to the end; the last line may be torn.
func lastBlock(from io.Reader) (block uint64, root layout.Hash) {
	for {
		var b uint64
		var hash []byte
		if _, err := fmt.Fscanf(from, "%d %x\n", &b, &hash); err != nil || len(hash) != len(root) {
			return block, root
		}
		block, root = b, layout.Hash(hash)
	}
}
