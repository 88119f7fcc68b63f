package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// modulePath is the beginning of all names of our packages.
const modulePath = "github.com/statelab/statelab"

// short is a package's name within the repository.
func short(pkg string) string {
	if pkg == modulePath {
		return "."
	}
	return strings.TrimPrefix(pkg, modulePath+"/")
}

// goTest runs go test and records how its tests ended. With -v it prints what tests print when
// they do.
func goTest(args []string) error {
	line := append([]string{"test"}, args...)
	if len(args) > 1 && args[0] == "-C" { // which go wants first
		line = append([]string{"-C", args[1], "test"}, args[2:]...)
	}

	command := exec.Command(goCommand(), append(line, "-json")...)
	command.Stderr = os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}

	if err := command.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}

	records, err := read(events, os.Stdout, short, slices.Contains(args, "-v"))
	if err != nil {
		return errors.Join(err, command.Process.Kill(), command.Wait())
	}

	ended := command.Wait()
	if err := keep(records...); err != nil {
		return errors.Join(err, ended)
	}

	var exit *exec.ExitError
	if errors.As(ended, &exit) && exit.ExitCode() == 1 {
		return errReported
	}

	if ended != nil {
		return fmt.Errorf("go test %s: %w", strings.Join(args, " "), ended)
	}

	if containsFailure(records) { // go test says so itself; an exit code of 0 must not hide one
		return errReported
	}

	return nil
}
