// Package runners is the planner's side of runners: it finds their binaries, asks
// what they hold and what they think of options, and has them carry out runs.
//
// An engine, tree or layout has a binary of its own where it is a library in C, C++
// or Rust, or a module that cannot be linked with the others. A crash, a hang or a
// kill of a runner is an outcome of what it measures, with its phase and operation,
// and the next run goes on.
// Non-goals: choosing runs (plan and its subjects), serving (runner).
//
// Read in this order: table.go, runners.go, do.go.
package runners

import (
	"bytes"
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
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
)

// Known is an engine, tree or layout that has a runner binary, whether it is here
// or not.
type Known struct {
	Name string
	subject.Program
}

// NotHere is the error for a runner that was not found.
type NotHere struct{ Known }

func (e *NotHere) Error() string {
	return fmt.Sprintf("%s is neither beside statelab nor on PATH: %s", e.Runner, e.Fix)
}

// FailureCode is CodeNotHere.
func (*NotHere) FailureCode() engine.Code { return engine.CodeNotHere }

// Found is an engine, tree or layout in a runner that was found.
type Found[Info protocol.Info] struct {
	Runner
	Info    Info
	Missing string // what keeps it from running here, and the way to get it; "" if it runs
}

// Find finds the runner of k and asks it for what k names.
func Find[Info protocol.Info](k Known) (*Found[Info], error) {
	path, err := k.Path()
	if err != nil {
		return nil, err
	}
	found := &Found[Info]{Runner: Runner{Path: path}}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	text, err := found.ask(ctx, protocol.Describe, nil)
	if err != nil {
		return nil, err
	}
	var d protocol.Description
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != protocol.DescriptionSchema {
		return nil, engine.Fail(engine.CodeUnsupported, "%s is of another version (it says %q): %s", path, clip(string(text)), k.Fix)
	}
	var here bool
	if found.Info, found.Missing, here = protocol.Pick[Info](&d, k.Name); !here {
		word, _, _ := protocol.Common(found.Info)
		return nil, engine.Fail(engine.CodeUnsupported, "%s holds no %s %s: %s", path, word, k.Name, k.Fix)
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
		if info, err := os.Stat(beside); err == nil && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(k.Runner)
	if err != nil {
		return "", &NotHere{k}
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
		return nil, fmt.Errorf("%s %s: %w: %s", r.Path, strings.Join(append(slices.Clip(r.Args), question), " "), err, clip(words.text()))
	}
	return answer, nil
}

// clip keeps a runner's words short.
func clip(text string) string {
	text = strings.TrimSpace(text)
	const most = 400
	if len(text) > most {
		text = text[:most] + "..."
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
	return e.Found.Check(protocol.EngineQuestion{Engine: e.Found.Info.Name, Options: protocol.EngineOptions{Dir: o.Dir, Profile: o.Profile, ReadOnly: o.ReadOnly,
		Foreign: o.Foreign, CacheBytes: o.CacheBytes, MemoryBytes: o.MemoryBytes, Handles: o.Handles, Direct: o.Direct, Overrides: o.Overrides}})
}

// Open is the runner's business.
func (e Engine) Open(context.Context, engine.Options) (engine.DB, error) {
	return nil, fmt.Errorf("%s opens databases in %s only", e.Found.Info.Name, e.Path)
}
