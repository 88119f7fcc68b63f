// Package runners is the planner's side of runners: it finds their binaries, asks
// what they hold and what they think of options, and has them carry out runs.
//
// An engine, tree or layout has a binary of its own where it is a library in C, C++
// or Rust, or a module that cannot be linked with the others. A crash, a hang or a
// kill of a runner is an outcome of what it measures, with its phase and operation,
// and the next run goes on.
// Non-goals: choosing runs (plan and its subjects), serving (runner).
//
// Read in this order: table.go, runners.go.
package runners

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// Known is an engine, tree or layout that has a runner binary, whether it is here
// or not.
type Known struct {
	Name string
	subject.Program
}

// NotInstalledError is the error for a runner that was not found.
type NotInstalledError struct{ Known }

// Error says which runner is missing, and how to get it.
func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("%s is neither next to statelab nor on PATH: %s", e.Runner, e.Fix)
}

// FailureCode is CodeNotHere.
func (*NotInstalledError) FailureCode() engine.Code { return engine.CodeNotHere }

// Found is an engine, tree or layout in a runner that was found.
type Found[Info protocol.Info] struct {
	Runner
	Info    Info
	Missing string // what keeps it from running here, and the way to get it; "" if it runs
}

// Find finds the runner of k and asks it for what k names. env is added to the environment of its
// processes, now and whenever the runner is started.
func Find[Info protocol.Info](k Known, env ...string) (*Found[Info], error) {
	path, err := k.Path()
	if err != nil {
		return nil, err
	}

	found := &Found[Info]{Runner: Runner{Path: path, Env: env}}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	text, err := found.ask(ctx, protocol.Describe, nil)
	if err != nil {
		return nil, err
	}

	var d protocol.Description
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != schema.Runner {
		return nil, engine.Fail(engine.CodeUnsupported, "%s is of another version (it says %q): %s",
			path, clip(string(text)), k.Fix)
	}

	var here bool
	if found.Info, found.Missing, here = protocol.Pick[Info](&d, k.Name); !here {
		word, _, _ := protocol.Common(found.Info)
		return nil, engine.Fail(engine.CodeUnsupported, "%s holds no %s %s: %s", path, word, k.Name,
			k.Fix)
	}

	return found, nil
}

// Path is the runner beside this program, else on PATH.
func (k Known) Path() (string, error) {
	if self, err := os.Executable(); err == nil {
		name := k.Runner
		if runtime.GOOS == "windows" {
			name += ".exe"
		}

		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil &&
			(runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return beside, nil
		}
	}

	path, err := exec.LookPath(k.Runner)
	if err != nil {
		return "", &NotInstalledError{k}
	}

	return path, nil
}

// answerWithin is how long a runner may take to describe itself or to check
// options; it opens no database for it.
const answerWithin = 20 * time.Second

// Check asks the runner what is wrong with the options in q.
func (r Runner) Check(q protocol.Question) (errs []error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	var mistakes []string
	if err := r.Ask(ctx, protocol.Check, q, &mistakes); err != nil {
		return []error{err}
	}

	for _, text := range mistakes {
		errs = append(errs, errors.New(text))
	}

	return errs
}

// Ask puts a question to the runner, with what it is about on standard input, and
// decodes the answer. Both are JSON.
func (r Runner) Ask(ctx context.Context, question string, about, answer any) error {
	text, err := r.ask(ctx, question, about)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s answered %q: %w", r.Path, question, clip(string(text)), err)
	}
	return nil
}

func (r Runner) ask(ctx context.Context, question string, about any) ([]byte, error) {
	text, err := json.Marshal(about)
	if err != nil {
		return nil, fmt.Errorf("encode the question %s: %w", question, err)
	}

	command := exec.CommandContext(ctx, r.Path, append(slices.Clip(r.Args), question)...)
	command.Env = append(os.Environ(), r.Env...)
	words := new(tail)
	command.Stdin, command.Stderr = bytes.NewReader(text), words
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}

	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the runner %s: %w", r.Path, err)
	}

	answer, err := io.ReadAll(protocol.Bounded(out))
	out.Close() // ends a runner that would say more
	if err = errors.Join(err, command.Wait()); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = engine.Fail(engine.CodeHung, "no answer in time")
		}

		return nil, fmt.Errorf("%s %s: %w: %s", r.Path, strings.Join(append(slices.Clip(r.Args),
			question), " "), err, clip(words.text()))
	}

	return answer, nil
}

// clip keeps a runner's words short.
func clip(text string) string {
	text = strings.TrimSpace(text)
	const maximum = 400
	if len(text) > maximum {
		text = text[:maximum] + "..."
	}
	return text
}

// Engine makes an engine in a runner an engine.Engine, but for Open, which only the
// runner can do.
type Engine struct{ *Found[engine.Info] }

// Info is what the runner says of the engine.
func (e Engine) Info() engine.Info { return e.Found.Info }

// Check asks the runner what is wrong with o.
func (e Engine) Check(o engine.Options) []error {
	return e.Found.Check(protocol.EngineQuestion{Engine: e.Found.Info.Name, Options: o})
}

// Open is the runner's business.
func (e Engine) Open(context.Context, engine.Options) (engine.DB, error) {
	return nil, fmt.Errorf("%s opens databases in %s only", e.Found.Info.Name, e.Path)
}

// Runner is how to start a runner.
type Runner struct {
	Path string
	Args []string
	Env  []string // added to this process's
	// Patience is how long a runner may say nothing new before it counts as hung;
	// 0 is DefaultPatience.
	Patience time.Duration
}

// DefaultPatience is long, since an engine may be silent while it opens a large
// database.
const DefaultPatience = 20 * time.Minute

// grace is how long an interrupted runner may take to write down what it has.
const grace = 30 * time.Second

// longestEvent bounds what is read of an event.
const longestEvent = 1 << 20

// lastWords is how long the pipe of a runner that has ended is read on.
const lastWords = time.Second

// Job is what a runner is started for.
type Job struct {
	Spec  protocol.Spec
	Blank func() *result.Run // what is known of a run whose runner died
}

// Do runs a job in a process of its own. The run folder is written in every
// case, by the runner or, where that died, here. The error is for what kept the
// runner from being started or its result from being stored: an engine's failure
// is in the result.
func (r Runner) Do(ctx context.Context, job Job, tell result.EventFunc) (*result.Run, error) {
	out := job.Spec.Head().Out
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("make the run folder: %w", err)
	}

	if err := os.Remove(filepath.Join(out, result.RunFile)); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("clear the run folder: %w", err)
	}

	p, err := r.start(job.Spec)
	if err != nil {
		return nil, err
	}

	p.follow(ctx, tell)
	if run, err := result.ReadRun(out); err == nil {
		return run, nil
	} else if !errors.Is(err, os.ErrNotExist) && p.exit == nil {
		return nil, err
	}

	run := job.Blank()
	failed := p.obituary()
	if failed.Remedy == "" { // the runner could not say it
		failed = session.OnDisk(failed, run.Database.Dir, job.Spec.WhenDiskIsFull())
	}

	run.Status, run.Error, run.FailureInfo = result.Failed, failed.Error(),
		result.NewFailureInfo(failed)
	if ctx.Err() != nil {
		run.Status = result.Interrupted
		if failed.Code == engine.CodeKilled { // for it did not end in time
			run.Error, run.FailureInfo = "interrupted: "+run.Error,
				result.FailureInfo{Code: engine.CodeInterrupted}
		}
	}

	if err := result.WriteRun(out, run); err != nil {
		// what ended the runner as well
		if disk := session.OnDisk(err, out, job.Spec.WhenDiskIsFull()); failed.Remedy == "" {
			failed.Code, failed.Remedy = disk.Code, disk.Remedy
		}

		failed.Err = fmt.Errorf("%w (and the run folder could not be written: %w)", failed.Err, err)
		return run, failed
	}

	return run, nil
}

// process is a running runner.
type process struct {
	command  *exec.Cmd
	events   io.Reader
	words    *tail
	done     chan struct{} // closed once exit is set
	exit     error
	last     result.Event
	failed   *engine.Failure // what it said of its end
	hung     bool
	patience time.Duration
}

func (r Runner) start(spec protocol.Spec) (*process, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the spec: %w", err)
	}

	command := exec.Command(r.Path, r.Args...)
	command.Env = append(os.Environ(), r.Env...)
	command.Stdin = bytes.NewReader(text)
	// A process group of its own: Ctrl-C at the terminal reaches statelab alone,
	// which passes it on. If statelab is killed the kernel kills the runner.
	KillWithParent(command)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	words := new(tail)
	command.Stdout, command.Stderr = write, words
	p := &process{
		command:  command,
		events:   read,
		words:    words,
		done:     make(chan struct{}),
		patience: cmp.Or(r.Patience, DefaultPatience),
	}

	started := make(chan error)
	go func() {
		// The parent-death signal is tied to the thread that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			p.exit = command.Wait()
			close(p.done)
		}
	}()

	err = <-started
	if closeErr := write.Close(); err == nil && closeErr != nil {
		err = closeErr
	}

	if err != nil {
		return nil, fmt.Errorf("start the runner %s: %w", r.Path, errors.Join(err, read.Close()))
	}

	return p, nil
}

// follow passes events on until the runner has ended, interrupting it when ctx
// is done and killing it when it has said nothing new for too long.
func (p *process) follow(ctx context.Context, tell result.EventFunc) {
	events := make(chan result.Event)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(p.events)
		lines.Buffer(nil, longestEvent)
		for lines.Scan() {
			var e result.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // else a library wrote to stdout
				events <- e
			}
		}
	}()

	silent := time.NewTimer(p.patience)
	defer silent.Stop()
	interrupt := ctx.Done()
	var last, end <-chan time.Time
	var note string
	done := p.done
	for events != nil || done != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}

			if e.Failed != nil {
				p.failed = e.Failed
				continue
			}

			// A runner whose engine hangs goes on telling where it stands.
			if moved := e.Done > 0 && e.Done != p.last.Done; done != nil &&
				(moved || e.Phase != p.last.Phase || e.Note != note) {
				silent.Reset(p.patience)
			}

			if e.Done > 0 || e.Phase != p.last.Phase {
				p.last = e
			}

			note = e.Note
			tell(e)
		case <-interrupt:
			p.signal(syscall.SIGINT)
			interrupt, last = nil, time.After(grace)
		case <-last:
			p.signal(syscall.SIGKILL)
		case <-silent.C:
			p.hung = true
			p.signal(syscall.SIGKILL)
		case <-done:
			// What it said last is still in the pipe, which a child of its own may keep open.
			silent.Stop()
			done, interrupt, last, end = nil, nil, nil, time.After(lastWords)
		case <-end:
			return
		}
	}
}

// signal reaches the runner and whatever it has started.
func (p *process) signal(s syscall.Signal) {
	if err := killGroup(p.command.Process, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.words.Write([]byte(fmt.Sprintf("could not send %v to the runner: %v\n", s, err)))
	}
}

// obituary says what the runner died of, where, and its last words.
func (p *process) obituary() *engine.Failure {
	var b strings.Builder
	said := p.words.text()
	state, caught, words := p.command.ProcessState, signalNamed(failure.Caught(said)),
		failure.LastWord(said)
	code, remedy := failure.Foreign(words), ""
	if p.failed != nil {
		code, remedy, words = p.failed.Code, p.failed.Remedy, p.failed.Error()
	}

	switch status, ok := state.Sys().(syscall.WaitStatus); {
	case p.hung:
		code = engine.CodeHung
		fmt.Fprintf(&b, "hung: silent for %v, killed", p.patience)
	case ok && status.Signaled():
		code = cmp.Or(code, killedBy(status.Signal()))
		fmt.Fprintf(&b, "killed by signal %d (%s)", status.Signal(), status.Signal())
	case caught != 0:
		code = cmp.Or(code, killedBy(caught))
		fmt.Fprintf(&b, "killed by signal %d (%s)", caught, caught)
	case p.exit != nil:
		code = cmp.Or(code, engine.CodeCrashed)
		fmt.Fprintf(&b, "the runner died with exit code %d", state.ExitCode())
	default:
		b.WriteString("the runner ended without a result")
	}

	if p.last.Phase != "" {
		fmt.Fprintf(&b, " in phase %s", p.last.Phase)
	}

	if p.last.Done > 0 {
		fmt.Fprintf(&b, " at op %s", unit.Count(p.last.Done))
	}

	if words != "" {
		b.WriteString(": " + words)
	}

	return &engine.Failure{Code: code, Remedy: remedy, Err: errors.New(b.String())}
}

// killedBy is what a signal says of a process that died of it.
func killedBy(s syscall.Signal) engine.Code {
	switch s {
	case syscall.SIGKILL:
		return engine.CodeKilled
	case syscall.SIGBUS:
		return engine.CodeMappedFile
	}
	return engine.CodeCrashed
}

// tail keeps the first and the last bytes of what is written to it: a Go crash
// says why at the top, most others at the bottom.
type tail struct {
	mutex sync.Mutex
	head  []byte
	rest  []byte
}

const keptBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	room := keptBytes - len(t.head)
	t.head = append(t.head, b[:min(room, len(b))]...)
	t.rest = append(t.rest, b[min(room, len(b)):]...)
	if len(t.rest) > 2*keptBytes {
		t.rest = append(t.rest[:0], t.rest[len(t.rest)-keptBytes:]...)
	}

	return len(b), nil
}

func (t *tail) text() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.head) + string(t.rest)
}
