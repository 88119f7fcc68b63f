package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/result"
)

// The tests of this package run the real binary on real engines and real files,
// as a user does: only its arguments, its streams, its exit code and the folders
// that it leaves behind are looked at.

// binary is built once; scratch holds it and the databases that tests share.
var binary, scratch string

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 &&
		slices.Contains([]string{runnerVerb, treeRunnerVerb, stateRunnerVerb}, os.Args[1]) {
		main() // started by a command that a test runs in its own process
	}

	if engine, dir, asked := strings.Cut(os.Getenv(holderOf), ":"); asked {
		fmt.Fprintln(os.Stderr, hold(engine, dir))
		os.Exit(1)
	}

	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}

	os.Exit(code)
}

func build(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "statelab-test-"); err != nil {
		return 1, err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	// whatever runners are on PATH
	if err := os.Setenv(runners.CgoVariable, runners.NeverCgo); err != nil {
		return 1, err
	}

	binary = filepath.Join(scratch, "statelab")
	if err := program(scratch, "statelab"); err != nil {
		return 1, err
	}

	return m.Run(), nil
}

// outcome is what became of a command.
type outcome struct {
	args           []string
	exit           int
	stdout, stderr string
	took           time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("statelab %s: exit %d after %v\n--- stdout\n%s--- stderr\n%s",
		strings.Join(o.args, " "), o.exit, o.took, o.stdout, o.stderr)
}

// says reports whether stdout has words, wherever its lines are broken.
func (o outcome) says(words string) bool {
	oneLine := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	return strings.Contains(oneLine(o.stdout), oneLine(words))
}

// statelab runs a command to its end.
func statelab(t *testing.T, args ...string) outcome {
	t.Helper()
	return start(t, args...).wait()
}

// must is statelab for commands that have to succeed.
func must(t *testing.T, args ...string) outcome {
	t.Helper()
	o := statelab(t, args...)
	if o.exit != exitDone {
		t.Fatal(o)
	}
	return o
}

// refused expects an exit code and every one of words on stderr.
func refused(t *testing.T, o outcome, exit int, words ...string) {
	t.Helper()
	if o.exit != exit {
		t.Errorf("exit %d, want %d", o.exit, exit)
	}

	for _, w := range words {
		if !strings.Contains(o.stderr, w) {
			t.Errorf("stderr does not say %q", w)
		}
	}

	if t.Failed() {
		t.Log(o)
	}
}

// session is a command that still runs.
type session struct {
	t              *testing.T
	command        *exec.Cmd
	began          time.Time
	stdout, stderr bytes.Buffer
}

// tooLong is far more than any command of these tests needs.
const tooLong = 6 * time.Minute

func start(t *testing.T, args ...string) *session {
	t.Helper()
	return startIn(t, t.TempDir(), nil, args...) // nothing may depend on it
}

// startIn starts statelab in a directory, with variables added to the environment.
func startIn(t *testing.T, dir string, variables []string, args ...string) *session {
	t.Helper()
	s := &session{t: t, command: exec.Command(binary, args...), began: time.Now()}
	s.command.Env = append(os.Environ(), variables...)
	s.command.Dir = dir
	s.command.Stdout, s.command.Stderr = &s.stdout, &s.stderr
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}

	return s
}

func (s *session) wait() outcome {
	s.t.Helper()
	hung := time.AfterFunc(tooLong, s.abort)
	err := s.command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}

	o := outcome{s.command.Args[1:], s.command.ProcessState.ExitCode(), s.stdout.String(),
		s.stderr.String(), time.Since(s.began).Round(time.Millisecond)}
	if !hung.Stop() {
		s.t.Fatalf("hung: %v", o)
	}

	return o
}

// abort ends a command that hangs. First it and its runner tell what their goroutines wait for.
func (s *session) abort() {
	const told = 10 * time.Second
	if runner := s.runner(); runner != 0 {
		if err := syscall.Kill(runner, syscall.SIGQUIT); err != nil && err != syscall.ESRCH {
			s.t.Error(err)
		}
		time.Sleep(told)
	}

	s.signal(syscall.SIGQUIT)
	time.Sleep(told)
	s.signal(syscall.SIGKILL)
}

func (s *session) signal(signal syscall.Signal) {
	if err := s.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("send %v: %v", signal, err)
	}
}

// database is a settled database of 300,000 keys (about 43 MiB), loaded once for
// each engine and then copied by each process. Tests that change a database load their own.
func database(t *testing.T, engine string) string {
	t.Helper()
	dir := filepath.Join(scratch, engine)
	shared.Lock()
	defer shared.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir
	}

	load := func(dir string) error {
		must(t, "load", "--db", dir, "--engine", engine, "--keys", "300k")
		return nil
	}

	from := ""
	// whose files name no path, so that a copy is the same
	if slices.Contains([]string{"pebble1", "pebble2", "goleveldb"}, engine) {
		var err error
		if from, err = kept(engine, load); err != nil {
			t.Fatal(err)
		}
	}

	if from == "" {
		_ = load(dir) // fails the test itself
	} else if err := copyDatabase(from, dir); err != nil {
		t.Fatal(err)
	}

	return dir
}

// copyDatabase copies a database, onto the device: what is only in memory cannot be dropped from
// there.
func copyDatabase(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}

	return filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		file, err := os.Open(path)
		if err != nil {
			return err
		}

		return errors.Join(file.Sync(), file.Close())
	})
}

var shared sync.Mutex

// small loads a database of a test's own.
func small(t *testing.T, keys string, more ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	must(t, append([]string{"load", "--db", dir, "--keys", keys}, more...)...)
	return dir
}

func readRun(t *testing.T, dir string) *result.Run {
	t.Helper()
	run, err := result.ReadRun(dir)
	if errors.Is(err, os.ErrNotExist) {
		run, err = result.ReadRun(onlyPoint(dir))
	}

	if err != nil {
		t.Fatal(err)
	}

	return run
}

// onlyPoint is the run folder of a read.
func onlyPoint(dir string) string { return filepath.Join(dir, result.PointsDir, "000") }

func readSweep(t *testing.T, dir string) *result.Sweep {
	t.Helper()
	sweep, err := result.ReadSweep(dir)
	if err != nil {
		t.Fatal(err)
	}
	return sweep
}
