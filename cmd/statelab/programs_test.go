package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// madePrograms names a folder with programs that are built from this source already, as `make
// build` builds them. Where it is not set, tests build what they need.
const madePrograms = "STATELAB_TEST_PROGRAMS"

// keptFolder names a folder in which tests, each in a process of its own (make e2e), keep what
// takes long to make for each other. Where it is not set, each process makes its own.
const keptFolder = "STATELAB_TEST_KEPT"

// making is held while a program is made: tests that run at the same time need the same ones.
var making sync.Mutex

// kept is a file or a folder that is made once for all processes; "" if nothing is kept.
func kept(name string, create func(path string) error) (path string, err error) {
	dir := os.Getenv(keptFolder)
	if dir == "" {
		return "", nil
	}

	lock, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}

	defer lock.Close() // the lock goes with it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}

	path = filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	if err := create(path + ".part"); err != nil {
		return "", err
	}

	return path, os.Rename(path+".part", path)
}

// placed has a program at path: the one that all processes keep, or one of its own.
func placed(path string, create func(path string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	from, err := kept(filepath.Base(path), create)
	if err != nil {
		return err
	}

	if from == "" {
		return create(path)
	}

	return linkOrCopy(from, path)
}

// linkOrCopy has the program from at path, too: a link, or on another file system a copy.
func linkOrCopy(from, path string) error {
	if os.Link(from, path) == nil {
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o755)
}

// program puts a program of this repository into a folder.
func program(dir, name string) error {
	making.Lock()
	defer making.Unlock()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	if made := os.Getenv(madePrograms); made != "" {
		// Not where they are: the programs that lie beside them would be found.
		if err := linkOrCopy(filepath.Join(made, name), path); err == nil || !os.IsNotExist(err) {
			return err
		}
	}

	for _, pattern := range []string{"../../cmd/", "../../*/*/cmd/", "testdata/"} {
		found, err := filepath.Glob(pattern + name)
		if err != nil || len(found) == 0 {
			continue
		}

		cgo := "1"
		if slices.Contains(goAlone, name) {
			cgo = "0"
		}

		return placed(path, func(path string) error {
			build := exec.Command("go", "build", "-C", found[0], "-o", absolute(path), ".")
			build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
			if text, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("build %s (make ci installs a C compiler): %w\n%s", name, err,
					text)
			}

			return nil
		})
	}

	return fmt.Errorf("no source of %s", name)
}

// beside puts runners beside the binary under test, where it finds them first.
func beside(t *testing.T, names ...string) {
	t.Helper()
	put(t, scratch, names)
}

// onPath puts runners into a folder on PATH, until the test has ended.
func onPath(t *testing.T, names ...string) {
	t.Helper()
	// apart: what lies beside the binary is found by its name
	dir := filepath.Join(scratch, "path", strings.Join(names, "+"))
	put(t, dir, names)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// goAlone are the programs that Go builds without a C compiler and without other modules.
var goAlone = []string{"statelab", "statelab-studies", "statelab-run-badger",
	"statelab-run-parquet", "statelab-run-replaytest"}

// put skips the test in the inner ring if a program needs more than Go.
func put(t *testing.T, dir string, names []string) {
	t.Helper()
	for _, name := range names {
		if !slices.Contains(goAlone, name) {
			testring.Outer(t, "it needs "+name)
		}

		if err := program(dir, name); err != nil {
			t.Fatal(err)
		}
	}
}
