// Command statelab measures what it really costs to look up a piece of
// blockchain state. Each verb has a file; this one holds the single exit.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/commandline"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/base/sbom"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/explain/promexport"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/slurm"
	"github.com/statelab/statelab/runner"
)

// Exit codes.
const (
	exitDone   = failure.Done
	exitFailed = failure.Failed
	exitUsage  = failure.Usage
	exitStrict = failure.Strict
)

// runnerVerb starts this binary as its own runner.
const runnerVerb = "__runner"

func main() {
	if len(os.Args) >= 2 {
		question := strings.Join(os.Args[2:], " ")
		switch os.Args[1] {
		case runnerVerb:
			os.Exit(runner.Serve(question, os.Stdin, os.Stdout, os.Stderr, embedded()))
		case treeRunnerVerb:
			os.Exit(runner.ServeTrees(question, os.Stdin, os.Stdout, os.Stderr, embeddedTrees()))
		case manVerb, materialsVerb:
			os.Exit(distribute(os.Args[1], os.Args[2:], os.Stdout, os.Stderr))
		case stateRunnerVerb:
			os.Exit(
				runner.ServeLayouts(question, os.Stdin, os.Stdout, os.Stderr, embeddedLayouts()),
			)
		}
	}

	ctx, cancel := context.WithCancelCause(context.Background())
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(interrupts, syscall.SIGHUP)
	}

	go func() {
		<-interrupts
		fmt.Fprintln(os.Stderr, "\ninterrupted: keeping what is measured (press Ctrl-C again to "+
			"stop at once)")
		cancel(errInterrupted)
		<-interrupts
		os.Exit(exitFailed) // the kernel takes the runner along
	}()

	code := begin(ctx, os.Args[1:])
	cancel(nil)
	os.Exit(code)
}

// begin runs the program, as a node's part of a job if it is that.
func begin(ctx context.Context, args []string) int {
	if len(args) == 2 && args[0] == slurm.ElementVerb {
		return slurm.Element(ctx, args[1], host.Describe(args[1]).Kind(), os.Stdin, os.Stderr,
			func(args []string, stdout io.Writer) int {
				defer host.SweepGroups()
				return (&app{
					ctx:    ctx,
					args:   args,
					stdout: stdout,
					stderr: os.Stderr,
					events: os.Stdout,
					quiet:  true,
				}).run()
			})
	}

	return run(ctx, args, os.Stdout, os.Stderr)
}

var errInterrupted = engine.Fail(engine.CodeInterrupted, "interrupted")

// app is the program: a function of arguments and writers.
type app struct {
	ctx            context.Context
	args           []string
	stdout, stderr io.Writer
	// of a node's part of a job: what progress shows, as JSON; nil elsewhere
	events  io.Writer
	quiet   bool // --quiet, which every verb has
	helpAll bool // --help-all, which every verb has
	tables  runners.Tables
	live    *promexport.Live // --metrics; nil: not asked for
	ends    []func() error   // what comes last: folders of results are tidied and released
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&app{ctx: ctx, args: args, stdout: stdout, stderr: stderr}).run()
}

func (a *app) run() int {
	a.stdout, a.stderr, a.tables = console.Plain{Writer: a.stdout},
		console.Plain{Writer: a.stderr}, newTables()
	stderr := a.stderr
	if err := commandline.NotUTF8(a.args); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}

	if was := names.RemovedNote(a.args); was != "" {
		fmt.Fprintln(stderr, "statelab:", was)
		return exitUsage
	}

	args, notes := names.Current(a.args)
	for _, note := range notes {
		fmt.Fprintln(stderr, "note:", note)
	}

	a.args = args
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(a.ctx)
	for _, end := range a.ends {
		err = errors.Join(err, end())
	}

	if err == nil || errors.As(err, new(dryRun)) {
		return exitDone
	}

	return a.tell(failure.From(err))
}

// tell says what failed and what to do, and returns the exit code.
func (a *app) tell(f *engine.Failure) int {
	if f.Code == engine.CodeMissing && commandline.NamesNothing(f, a.args) {
		f.Code = engine.CodeNotFound
	}

	text := f.Error()
	switch {
	case errors.Is(f, errInterrupted):
		text = errInterrupted.Error()
	case !errors.As(f, new(setting.UsageError)):
		text = commandline.AsTyped(text, a.args)
	}

	fmt.Fprintln(a.stderr, "statelab:", text)
	if f.Remedy != "" {
		here, err := os.Getwd()
		if failure.Relative(f) && err == nil {
			f.Remedy += "; relative names start at " + here
		}
		fmt.Fprintln(a.stderr, "statelab:", f.Remedy)
	}

	return failure.Exit(f.Code)
}

// warn prints warnings, which strict makes fatal.
func (a *app) warn(strict bool, warnings ...engine.Warning) error {
	if a.progress().Warn(warnings...); strict && len(warnings) > 0 {
		return madeFatal(len(warnings))
	}
	return nil
}

// madeFatal is the failure of so many warnings that --strict made fatal.
func madeFatal(warnings int) error {
	return engine.Fail(engine.CodeStrict, "--strict: %s", plural(warnings, "warning"))
}

// What scripts/dist asks for: manual pages, and a bill of materials.
const (
	manVerb       = "__man"
	materialsVerb = "__sbom"
)

// distribute answers scripts/dist.
func distribute(verb string, args []string, stdout, stderr io.Writer) int {
	a := &app{ctx: context.Background(), stdout: stdout, stderr: stderr, tables: newTables()}
	var err error
	switch {
	case verb == materialsVerb:
		var bill any
		if bill, err = sbom.Generate(args); err == nil {
			err = a.printJSON(bill)
		}
	case len(args) == 1:
		err = a.manual(args[0])
	default:
		err = fmt.Errorf("%s: name one folder", verb)
	}

	if err != nil {
		fmt.Fprintln(stderr, "statelab:", err)
		return exitFailed
	}

	return exitDone
}

// manual writes a page for every verb.
func (a *app) manual(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the manual: %w", err)
	}

	date := time.Unix(0, 0).UTC() // the same pages from the same program
	root := a.root()
	root.DisableAutoGenTag = true
	return doc.GenManTree(root,
		&doc.GenManHeader{
			Section: "1",
			Source:  "statelab " + host.OwnVersion(),
			Manual:  "Statelab",
			Date:    &date,
		}, dir)
}
