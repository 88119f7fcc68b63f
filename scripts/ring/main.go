// Command ring runs the rings of tests that the Makefile has (test, ci, slow) and says at their
// end what ran, what was skipped and why, and which tests took longest.
//
//	ring run NAME MAKE TARGET...   make's targets, then the summary
//	ring gotest ARG...             go test with these arguments
//	ring e2e [PATTERN]             the tests of cmd/statelab, each in a process of its own
//	ring skip REASON PACKAGE...    records what a ring leaves out as a whole
//	ring step NAME COMMAND ARG...  any other command, timed
//	ring check                     tests of what depends on the files that git says are changed
//
// A failing test is printed whole, and the exit code is 1. Non-goals: running a test again, and
// judging how long one takes.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "ring:", err)
		}
		os.Exit(1)
	}
}

// errReported is a failure that has been printed where it happened.
var errReported = errors.New("tests failed")

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want run, gotest, e2e, skip, step or check")
	}

	verb, rest := args[0], args[1:]
	switch {
	case verb == "run" && len(rest) > 2:
		return runRing(rest[0], rest[1], rest[2:])
	case verb == "gotest":
		return goTest(rest)
	case verb == "e2e" && len(rest) < 2:
		pattern := "."
		if len(rest) == 1 && rest[0] != "" {
			pattern = rest[0]
		}
		return endToEnd(pattern)
	case verb == "step" && len(rest) > 1:
		return step(rest[0], rest[1:])
	case verb == "skip" && len(rest) > 1:
		return skip(rest[0], rest[1:])
	case verb == "check" && len(rest) == 0:
		return check()
	}

	return fmt.Errorf("%q is no command of it, or has other arguments", verb)
}

// goCommand is the go command that the Makefile was asked to use.
func goCommand() string {
	if name := os.Getenv("GO"); name != "" {
		return name
	}
	return "go"
}

// goOutput is what the go command prints.
func goOutput(args ...string) (string, error) {
	command := exec.Command(goCommand(), args...)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w", goCommand(), args, err)
	}
	return string(text), nil
}
