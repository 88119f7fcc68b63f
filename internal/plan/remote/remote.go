// Package remote stands in for engines that live in a runner binary of their
// own: libraries in C, C++ or Rust, and modules that cannot be linked together.
//
// The planner finds such a binary beside itself or on PATH, asks it what it holds
// and what it thinks of options, and leaves opening databases to it.
// Non-goals: running points (supervise), serving the questions (runner).
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/tree"
)

// Questions a runner answers, as its only argument.
const (
	DescribeArg = "describe" // Description on stdout
	CheckArg    = "check"    // Question on stdin, a list of mistakes on stdout
)

// DescriptionSchema is the version of what a runner says of itself.
const DescriptionSchema = "statelab.runner/1"

// Description is what a runner says of itself.
type Description struct {
	Schema  string        `json:"schema"`
	Engines []Described   `json:"engines"`
	Trees   []tree.Info   `json:"trees,omitempty"`
	Layouts []layout.Info `json:"layouts,omitempty"`
}

// Described is one engine of a runner. Missing says what keeps it from running
// here, and the way to get it.
type Described struct {
	engine.Info
	Missing string `json:"missing,omitempty"`
}

// Question asks what is wrong with options.
type Question struct {
	Engine  string  `json:"engine"`
	Options Options `json:"options"`
}

// Options are the engine options that can be checked before anything is opened.
type Options struct {
	Dir         string            `json:"dir"`
	Profile     string            `json:"profile"`
	ReadOnly    bool              `json:"read_only"`
	Foreign     bool              `json:"foreign"`
	CacheBytes  int64             `json:"cache_bytes"`
	MemoryBytes int64             `json:"memory_bytes"`
	Handles     int               `json:"handles"`
	Direct      bool              `json:"direct"`
	Overrides   map[string]string `json:"overrides,omitempty"`
}

// Options are o as the engine takes them.
func (o Options) Options() engine.Options {
	return engine.Options{Dir: o.Dir, Profile: o.Profile, ReadOnly: o.ReadOnly, Foreign: o.Foreign, CacheBytes: o.CacheBytes,
		MemoryBytes: o.MemoryBytes, Handles: o.Handles, Direct: o.Direct, Overrides: o.Overrides}
}

// patience is how long a runner may take to answer a question; it opens no
// database for it.
const patience = 20 * time.Second

// Known is an engine that has a runner binary, whether it is here or not.
type Known struct {
	Engine  string
	About   string // what it is, in a few words
	Licence string
	Runner  string // name of the binary
	Fix     string // the command that makes it
}

// Engine is an engine in a runner that was found. It implements engine.Engine but
// for Open, which only the runner can do.
type Engine struct {
	Path    string // of the runner
	info    engine.Info
	Missing string // "" if it runs here
}

// Find finds the runner of k and asks it for the engine.
func (k Known) Find() (*Engine, error) {
	path, err := k.path()
	if err != nil {
		return nil, err
	}
	text, err := ask(path, nil, DescribeArg)
	if err != nil {
		return nil, err
	}
	var d Description
	if err := json.Unmarshal(text, &d); err != nil || d.Schema != DescriptionSchema {
		return nil, fmt.Errorf("%s is of another version (it says %q): %s", path, clip(text), k.Fix)
	}
	for _, e := range d.Engines {
		if e.Name == k.Engine {
			return &Engine{Path: path, info: e.Info, Missing: e.Missing}, nil
		}
	}
	return nil, fmt.Errorf("%s holds no engine %s: %s", path, k.Engine, k.Fix)
}

// path is the runner beside this program, else on PATH.
func (k Known) path() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), k.Runner)
		if info, err := os.Stat(beside); err == nil && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	path, err := exec.LookPath(k.Runner)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside statelab nor on PATH: %s", k.Runner, k.Fix)
	}
	return path, nil
}

// Info is what the runner says of the engine.
func (e *Engine) Info() engine.Info { return e.info }

// Check asks the runner what is wrong with o.
func (e *Engine) Check(o engine.Options) []error {
	question, err := json.Marshal(Question{e.info.Name, Options{Dir: o.Dir, Profile: o.Profile, ReadOnly: o.ReadOnly, Foreign: o.Foreign,
		CacheBytes: o.CacheBytes, MemoryBytes: o.MemoryBytes, Handles: o.Handles, Direct: o.Direct, Overrides: o.Overrides}})
	if err != nil {
		return []error{err}
	}
	text, err := ask(e.Path, question, CheckArg)
	if err != nil {
		return []error{err}
	}
	var mistakes []string
	if err := json.Unmarshal(text, &mistakes); err != nil {
		return []error{fmt.Errorf("%s %s answered %q: %w", e.Path, CheckArg, clip(text), err)}
	}
	var errs []error
	for _, text := range mistakes {
		errs = append(errs, errors.New(text))
	}
	return errs
}

// Open is the runner's business.
func (e *Engine) Open(context.Context, engine.Options) (engine.DB, error) {
	return nil, fmt.Errorf("%s opens databases in %s only", e.info.Name, e.Path)
}

// ask puts a question to a runner.
func ask(path string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, path, args...)
	command.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v", patience)
		}
		return nil, fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, clip(stderr.Bytes()))
	}
	return text, nil
}

// clip keeps a runner's words to a line.
func clip(text []byte) string {
	line := strings.TrimSpace(string(text))
	const most = 200
	if len(line) > most {
		line = line[:most] + "..."
	}
	return line
}
