package runners

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// The runners of these tests are this test binary again, told by fateOf what to
// die of.
const fateOf = "RUNNERS_TEST_FATE"

func TestMain(m *testing.M) {
	if fate := os.Getenv(fateOf); fate != "" {
		os.Exit(meet(fate))
	}
	os.Exit(m.Run())
}

// meet is a runner that measures up to 81,204 Gets and then meets its fate.
func meet(fate string) int {
	var spec bench.Spec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}

	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	events := json.NewEncoder(os.Stdout)
	for _, e := range []result.Event{
		{Phase: "prepare"},
		{Phase: "measure"},
		{Phase: "measure", Done: 81_204, Total: 100_000, Unit: "Gets"},
	} {
		if err := events.Encode(e); err != nil {
			return 2
		}
	}

	run := bench.Blank(&spec, "1")
	run.Status = result.OK
	switch fate {
	case "finish":
	case "fail":
		run.Status, run.Error, run.Code = result.Failed, "get key ab: wrong answer",
			engine.CodeDamaged
	case "panic":
		panic("index out of range in the engine")
	case "exit":
		fmt.Fprintln(os.Stderr, "engine: cannot go on")
		return 7
	case "vanish":
		return 0
	case "kill":
		return die(syscall.SIGKILL)
	case "fill":
		fmt.Fprintln(os.Stderr, "engine: write 000007.log: no space left on device")
		return die(syscall.SIGKILL)
	case "refuse": // its last words are of no use
		last := result.Event{Failed: &engine.Failure{
			Code:   engine.CodeNoDirect,
			Remedy: "use another",
			Err:    errors.New("store the run: not here"),
		}}

		if err := events.Encode(last); err != nil {
			return 3
		}

		fmt.Fprintln(os.Stderr, "goodbye")
		return 2
	case "hang":
		time.Sleep(time.Hour)
	case "repeat": // what a runner's ticker does while its engine hangs
		for {
			if err := events.Encode(result.Event{
				Phase: "measure",
				Done:  81_204,
				Total: 100_000,
				Unit:  "Gets",
				Tick:  &result.Tick{},
			}); err != nil {
				return 2
			}

			time.Sleep(50 * time.Millisecond)
		}
	case "crash":
		fmt.Fprintln(os.Stderr, "fatal error: unexpected signal during runtime "+
			"execution\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 "+
			"pc=0x7f]\n\nruntime stack:")
		return 2
	case "abort":
		fmt.Fprintln(os.Stderr, "assertion failed\nSIGABRT: abort\nPC=0x7f m=5 "+
			"sigcode=18446744073709551610\nsignal arrived during cgo execution")
		return 2
	case "unanswering": // until it is killed
		<-interrupts
		return die(syscall.SIGKILL)
	case "interrupted":
		<-interrupts
		run.Status, run.Error = result.Interrupted, "interrupted"
	case "babble":
		fmt.Println("I am no runner")
		if err := events.Encode(result.Event{
			Phase: "measure",
			Done:  81_204,
			Total: 100_000,
			Note:  "after the words",
		}); err != nil {
			return 2
		}
	}

	if err := result.WriteRun(spec.Out, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}

	if run.Status != result.OK {
		return 1
	}

	return 0
}

func die(of syscall.Signal) int {
	if err := syscall.Kill(os.Getpid(), of); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	time.Sleep(time.Minute)
	return 0
}

func runnerFor(fate string) Runner {
	return Runner{Path: os.Args[0], Env: []string{fateOf + "=" + fate}, Patience: 20 * time.Second}
}

func jobIn(dir string) Job {
	spec := &bench.Spec{Schema: schema.EngineSpec, Verb: bench.Read, Out: dir, Engine: "pebble1",
		Dir: filepath.Join(dir, "db")}
	return Job{Spec: spec, Blank: func() *result.Run { return bench.Blank(spec, "") }}
}

func TestWhateverBecomesOfARunnerIsAResult(t *testing.T) {
	for _, c := range []struct {
		fate, status, says string
		code               engine.Code
	}{
		{"finish", result.OK, "", ""},
		{"babble", result.OK, "", ""}, // judged by what it stored
		{"fail", result.Failed, "get key ab: wrong answer", engine.CodeDamaged},
		{"panic", result.Failed, "the runner died with exit code 2 in phase measure at op " +
			"81,204: panic: index out of range in the engine", engine.CodeCrashed},
		{"exit", result.Failed, "the runner died with exit code 7 in phase measure at op 81,204: " +
			"engine: cannot go on", engine.CodeCrashed},
		{"vanish", result.Failed,
			"the runner ended without a result in phase measure at op 81,204", ""},
		{"kill", result.Failed, "killed by signal 9 (killed) in phase measure at op 81,204",
			engine.CodeKilled},
		{"hang", result.Failed, "hung: silent for 2s, killed in phase measure at op 81,204",
			engine.CodeHung},
		{"repeat", result.Failed, "hung: silent for 2s, killed in phase measure at op 81,204",
			engine.CodeHung},
		{"crash", result.Failed, "killed by signal 11 (segmentation fault) in phase measure at " +
			"op 81,204: signal SIGSEGV: segmentation violation code=0x1 " +
			"addr=0x0 pc=0x7f", engine.CodeCrashed},
		{"abort", result.Failed, "killed by signal 6 (aborted) in phase measure at op 81,204: " +
			"SIGABRT: abort", engine.CodeCrashed},
		{"fill", result.Failed, "the disk is full: killed by signal 9 (killed) in phase measure " +
			"at op 81,204: engine: write 000007.log: no space left on device", engine.CodeDiskFull},
		{"refuse", result.Failed, "the runner died with exit code 2 in phase measure at op " +
			"81,204: store the run: not here", engine.CodeNoDirect},
	} {
		t.Run(c.fate, func(t *testing.T) {
			r := runnerFor(c.fate)
			if c.fate == "hang" || c.fate == "repeat" {
				r.Patience = 2 * time.Second // starting takes its time on a busy machine
			}

			out := filepath.Join(t.TempDir(), "new", "run") // is made
			var last result.Event
			run, err := r.Do(context.Background(), jobIn(out), func(e result.Event) { last = e })
			if err != nil {
				t.Fatal(err)
			}

			if run.Status != c.status || run.Error != c.says || run.Code != c.code ||
				(c.code == engine.CodeDiskFull) !=
					(run.Remedy == "free some space and do it again") ||
				(c.fate == "refuse") != (run.Remedy == "use another") {
				t.Errorf("%s: %q, %q\nwant %s: %q", run.Status, run.Error, run.FailureInfo,
					c.status, c.says)
			}

			if stored, err := result.ReadRun(out); err != nil || stored.Status != c.status ||
				stored.Error != c.says ||
				stored.FailureInfo != run.FailureInfo || stored.Engine.Name != "pebble1" {
				t.Errorf("stored %+v, %v", stored, err)
			}

			if last.Done != 81_204 || last.Total != 100_000 ||
				(last.Note != "") != (c.fate == "babble") {
				t.Errorf("the last event was %+v", last)
			}
		})
	}
}

// TestAnOldResultIsNotMistakenForANewOne: the folder of a point that is measured
// again still holds the earlier run.
func TestAnOldResultIsNotMistakenForANewOne(t *testing.T) {
	out := t.TempDir()
	if _, err := runnerFor("finish").Do(context.Background(), jobIn(out),
		func(result.Event) {}); err != nil {
		t.Fatal(err)
	}

	run, err := runnerFor("kill").Do(context.Background(), jobIn(out), func(result.Event) {})
	if err != nil || run.Status != result.Failed {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestCancelInterruptsTheRunner: it gets the chance to store what it has.
func TestCancelInterruptsTheRunner(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	run, err := runnerFor("interrupted").Do(ctx, jobIn(t.TempDir()), func(e result.Event) {
		if e.Done > 0 {
			cancel()
		}
	})

	if err != nil || run.Status != result.Interrupted || run.Error != "interrupted" {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestAnInterruptedRunnerThatIsKilledIsInterrupted: memory did not run out.
func TestAnInterruptedRunnerThatIsKilledIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	run, err := runnerFor("unanswering").Do(ctx, jobIn(t.TempDir()), func(e result.Event) {
		if e.Done > 0 {
			cancel()
		}
	})

	if err != nil || run.Status != result.Interrupted || run.Code != engine.CodeInterrupted ||
		run.Remedy != "" || run.Error != "interrupted: killed by signal 9 (killed) in phase "+
		"measure at op 81,204" {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestARunnerThatCannotBeStarted(t *testing.T) {
	_, err := Runner{Path: filepath.Join(t.TempDir(), "statelab-run-nothing")}.Do(
		context.Background(),
		jobIn(t.TempDir()),
		func(result.Event) {},
	)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start the runner") {
		t.Error(err)
	}
}

func TestWordsKeepTheFirstAndTheLast(t *testing.T) {
	w := new(tail)
	write := func(text string) {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}

	write("engine: opening\npanic: at the top\n")
	for range 10_000 {
		write("goroutine 1 [running]: many lines of it\n")
	}

	write("exit status 2\n")
	if got := failure.LastWord(w.text()); got != "panic: at the top" {
		t.Errorf("%q", got)
	}

	if kept := len(w.head) + len(w.rest); kept > 3*keptBytes+100 {
		t.Errorf("%d bytes kept", kept)
	}

	w = new(tail)
	write("engine: one\nengine: two\n\n")
	if got := failure.LastWord(w.text()); got != "engine: two" {
		t.Errorf("%q", got)
	}
}
