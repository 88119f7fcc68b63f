// Package runner makes a runner: a program that measures one point.
//
// The planner (statelab) starts a runner per point, writes one spec to its
// standard input and reads events, one JSON object a line, from its standard
// output. The runner writes the run folder itself; its standard error is free
// for the engine's own words. A runner that dies leaves the planner to say so.
//
// An engine that cannot be linked into the main binary gets a runner of its own:
//
//	func main() { runner.Main(myengine.Engine{}) }
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/bench"
	"github.com/statelab/statelab/internal/remote"
)

// Main serves one spec on the standard streams, or answers the question its
// argument asks, and exits.
func Main(engines ...engine.Engine) {
	var err error
	switch question := strings.Join(os.Args[1:], " "); question {
	case remote.DescribeArg:
		err = Describe(os.Stdout, engines)
	case remote.CheckArg:
		err = Check(os.Stdin, os.Stdout, engines)
	default:
		os.Exit(Serve(os.Stdin, os.Stdout, os.Stderr, engines))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

// maxSpecBytes bounds what is read from the planner.
const maxSpecBytes = 16 << 20

var errInterrupted = errors.New("interrupted")

// Serve reads a spec from in, runs it and returns the exit code: 0 done, 1
// failed or interrupted, 2 a spec that cannot be run.
func Serve(in io.Reader, events, words io.Writer, engines []engine.Engine) int {
	var spec bench.Spec
	if err := json.NewDecoder(io.LimitReader(in, maxSpecBytes)).Decode(&spec); err != nil {
		fmt.Fprintf(words, "runner: read the spec: %v (a runner is started by statelab, not by hand)\n", err)
		return 2
	}
	if spec.Schema != bench.SpecSchema {
		fmt.Fprintf(words, "runner: the spec has schema %q, this runner reads %q: use runner and statelab of one version\n", spec.Schema, bench.SpecSchema)
		return 2
	}
	e, err := find(engines, spec.Engine)
	if err != nil {
		fmt.Fprintf(words, "runner: %v\n", err)
		return 2
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	go func() {
		for range interrupts {
			cancel(errInterrupted)
		}
	}()
	if _, err := bench.Run(ctx, e, &spec, teller(events)); err != nil {
		fmt.Fprintln(words, err) // for the case that the run folder could not be written
		return 1
	}
	return 0
}

// teller writes events as JSON lines. A planner that is gone is no reason to
// lose the run.
func teller(w io.Writer) bench.Tell {
	var mutex sync.Mutex
	lines := json.NewEncoder(w)
	gone := false
	return func(e bench.Event) {
		mutex.Lock()
		defer mutex.Unlock()
		if !gone {
			gone = lines.Encode(e) != nil
		}
	}
}

func find(engines []engine.Engine, name string) (engine.Engine, error) {
	var names []string
	for _, e := range engines {
		if e.Info().Name == name {
			return e, nil
		}
		names = append(names, e.Info().Name)
	}
	return nil, fmt.Errorf("no engine %q here, only %s", name, strings.Join(names, ", "))
}
