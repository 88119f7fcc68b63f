// Package closetest is what the admission suites of engines, trees and layouts share to check a
// Close: when it has returned, nothing of what was closed works on. What is left would write into a
// folder that the next run copies, measures or removes.
//
// Non-goals: whether what was written is right.
package closetest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/base/livedir"
)

// Process is what ran in this process at one moment.
type Process struct {
	goroutines map[string]string // stacks by the line that names them
	threads    map[string]int    // by name
}

// Now is what runs in this process. What a library starts once and keeps is to run already: open
// and close something before.
func Now(t testing.TB) Process {
	t.Helper()
	p := Process{goroutines: map[string]string{}, threads: map[string]int{}}

	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		name, _, _ := strings.Cut(string(stack), " [") // goroutine 7 [running]:
		p.goroutines[name] = string(stack)
	}

	self, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	tasks, err := filepath.Glob("/proc/self/task/*/comm")
	must(t, err)
	for _, task := range tasks {
		// Threads that the Go runtime makes, as it needs them, have the name of the process.
		if name, err := os.ReadFile(task); err == nil && !bytes.Equal(name, self) {
			p.threads[strings.TrimSpace(string(name))]++
		}
	}

	return p
}

// left is what runs that did not before.
func (p Process) left(before Process) (all []string) {
	for name, stack := range p.goroutines {
		if _, was := before.goroutines[name]; !was {
			all = append(all, stack)
		}
	}

	for name, n := range p.threads {
		if n > before.threads[name] {
			all = append(all, "thread "+name)
		}
	}

	return all
}

// endsWithin bounds the wait for goroutines and threads that were told to end, and only have to
// return.
const endsWithin = 10 * time.Second

// Closed is called as soon as the Close of what was in dir has returned; before is what ran when it
// was opened. What was started has to end and every file below dir to be closed, and until then
// nothing may be written. A thread that only has to return may hold a file open for a moment.
func Closed(t testing.TB, dir string, before Process) {
	t.Helper()
	state := livedir.State(dir)

	var left []string
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		left = Now(t).left(before)
		for _, path := range opened(t, dir) {
			left = append(left, path+" is open or mapped")
		}

		if len(left) == 0 || time.Since(began) > endsWithin {
			break
		}
	}

	for _, running := range left {
		t.Errorf("%v after Close this is left:\n%s", endsWithin, running)
	}

	if now := livedir.State(dir); now != state {
		t.Errorf("after Close, %s changed from\n%sto\n%s", dir, state, now)
	}
}

// opened are the files below dir that this process has open or mapped.
func opened(t testing.TB, dir string) (paths []string) {
	t.Helper()
	below := func(path string) bool { return strings.HasPrefix(path, dir+string(os.PathSeparator)) }

	descriptors, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, d := range descriptors {
		path, err := os.Readlink(filepath.Join("/proc/self/fd", d.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the listing's own descriptor is closed
			t.Fatal(err)
		}

		if below(path) {
			paths = append(paths, path)
		}
	}

	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		if _, path, found := strings.Cut(line, "/"); found && below("/"+strings.TrimSpace(path)) {
			paths = append(paths, "/"+strings.TrimSpace(path))
		}
	}

	return paths
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
