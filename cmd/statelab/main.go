// Command statelab measures what it really costs to look up a piece of
// blockchain state. Each verb has a file; this one holds the table of engines
// and the single exit.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/explain/promexport"
	"github.com/statelab/statelab/internal/observe/host"
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
			os.Exit(pack(os.Args[1], os.Args[2:], os.Stdout, os.Stderr))
		case stateRunnerVerb:
			os.Exit(runner.ServeStates(question, os.Stdin, os.Stdout, os.Stderr, embeddedLayouts()))
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
		fmt.Fprintln(os.Stderr, "\ninterrupted: keeping what is measured (press Ctrl-C again to stop at once)")
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
		return slurm.Element(ctx, args[1], host.Facts(args[1]).Kind(), os.Stdin, os.Stderr, func(args []string, stdout io.Writer) int {
			defer host.SweepGroups()
			return (&app{ctx: ctx, args: args, stdout: stdout, stderr: os.Stderr, events: os.Stdout, quiet: true}).run()
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
	events         io.Writer // of a node's part of a job: what progress shows, as JSON; nil elsewhere
	quiet          bool      // --quiet, which every verb has
	tables         tables
	live           *promexport.Live // --metrics; nil: not asked for
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&app{ctx: ctx, args: args, stdout: stdout, stderr: stderr}).run()
}

func (a *app) run() int {
	a.stdout, a.stderr, a.tables = plain{a.stdout}, plain{a.stderr}, newTables()
	stderr, args := a.stderr, a.args
	if err := notUTF8(args); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(a.ctx)
	if err == nil || errors.As(err, new(dryRun)) {
		return exitDone
	}
	return a.tell(failure.Of(err))
}

// tell says what failed and what to do, and returns the exit code.
func (a *app) tell(f *engine.Failure) int {
	if f.Code == engine.CodeMissing && namesNothing(f, a.args) {
		f.Code = engine.CodeNotFound
	}
	text := f.Error()
	switch {
	case errors.Is(f, errInterrupted):
		text = errInterrupted.Error()
	case !errors.As(f, new(*usageError)):
		text = asTyped(text, a.args)
	}
	fmt.Fprintln(a.stderr, "statelab:", text)
	if f.Remedy != "" {
		here, err := os.Getwd()
		if failure.Relative(f.Code) && err == nil {
			f.Remedy += "; relative names start at " + here
		}
		fmt.Fprintln(a.stderr, "statelab:", f.Remedy)
	}
	return failure.Exit(f.Code)
}

// namesNothing reports whether err is that an argument names a path that does not exist.
func namesNothing(err error, args []string) bool {
	at, is := errors.AsType[*fs.PathError](err)
	return is && slices.ContainsFunc(args, func(arg string) bool {
		_, value, _ := strings.Cut(arg, "=")
		return absolute(at.Path) == absolute(arg) || value != "" && absolute(at.Path) == absolute(value)
	})
}

// notUTF8 refuses paths that plans and result folders, which are JSON, cannot name: a
// runner would be sent to another path.
func notUTF8(args []string) error {
	here, err := os.Getwd()
	if err != nil {
		return usage("find the current directory: %v", err)
	}
	for _, path := range append([]string{here}, args...) {
		if !utf8.ValidString(path) {
			return usage("%q is not valid UTF-8: rename the file or folder, or name it through a link", path)
		}
	}
	return nil
}

// asTyped is a message with paths as the arguments name them: runners know full
// paths only.
func asTyped(message string, args []string) string {
	for _, arg := range args {
		if _, value, is := strings.Cut(arg, "="); is {
			arg = value
		}
		if arg != "" {
			message = strings.ReplaceAll(message, absolute(arg), arg)
		}
	}
	return message
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "statelab",
		Short: "What does it really cost to look up a piece of blockchain state?",
		Long: `Statelab measures a lookup down to the device, explains it by block type and
level, and says how large a cache must be.

  statelab advise CHAINDATA                         the right cache size for your node (read-only)
  statelab load  --db D --keys 5M                   make a database
  statelab sweep --db D --cache 0.1%,1%,3% --out S  measure it at several cache sizes
  statelab sweep --db CHAINDATA --use-existing ...  measure your node's database (read-only)

Results go to stdout, progress and warnings to stderr. Exit codes: 0 done;
1 failed: the command was understood, but a file is damaged, the disk is full, a
run failed, or a check did not pass; 2 a mistake on the command line: an unknown
flag, an invalid value, a path that does not exist; 3 done, but --strict made a
warning fatal.`,
		SilenceUsage: true, SilenceErrors: true, Version: versionLine(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			m := new(mistakes)
			m.unknownFlags(cmd, a.args)
			return m.err()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	groupFlags(root)
	root.FParseErrWhitelist.UnknownFlags = true // they are told with all other mistakes
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().BoolVar(&a.quiet, "quiet", false, "show no progress; warnings are shown all the same")
	root.SetHelpCommand(&cobra.Command{Use: "help [command]", Short: "Help about any command", RunE: func(cmd *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err != nil {
			return usage("%v", err)
		}
		if len(rest) > 0 {
			return unknownCommand(found, rest[0])
		}
		found.InitDefaultHelpFlag()
		return found.Help()
	}})
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(dashed(name))
	})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddCommand(a.loadVerb(), a.readVerb(), a.sweepVerb(), a.replayVerb(), a.layoutsVerb(), a.priceVerb(),
		a.runVerb(), a.changesetVerb(), a.accessesVerb(), a.inspectVerb(), a.fidelityVerb(), a.traceVerb(),
		a.simulateVerb(), a.predictVerb(), a.adviseVerb(), a.reportVerb(), a.compareVerb(), a.bisectVerb(), a.serveVerb(), a.publishVerb(), a.verifyVerb(),
		a.siteVerb(), a.importVerb(),
		a.enginesVerb(), a.workloadsVerb(), a.diskVerb(), a.volumeVerb(), a.clusterVerb(), a.doctorVerb(), a.versionVerb())
	completeValues(root, newTables())
	if runtime.GOOS != "linux" {
		a.needLinux(runtime.GOOS, root.Commands())
	}
	return root
}

// madeFatal is the failure of so many warnings that --strict made fatal.
func madeFatal(warnings int) error {
	return engine.Fail(engine.CodeStrict, "--strict: %s", plural(warnings, "warning"))
}
