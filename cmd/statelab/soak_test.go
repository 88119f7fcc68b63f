package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/base/testring"
)

var soakFor = flag.Duration("soak", 20*time.Second, "how long the soak lasts (make soak: SOAK)")

// footprint is what a command and the processes that it started hold at a moment.
type footprint struct {
	memory     uint64 // RssAnon, in bytes
	files      int
	threads    int
	goroutines int // of the command alone, by its own metrics; 0: it has none
}

// soaker is a command that runs through the soak.
type soaker struct {
	name    string
	session *session
	metrics string // address
	seen    []footprint
}

// TestSoak runs measurements, a database that is written and the page of results for a long
// time: after a third of it, what they hold does not grow any more.
func TestSoak(t *testing.T) {
	testring.Outer(t, "it runs for a long time")
	t.Parallel()
	results := t.TempDir()
	seconds := soakFor.Seconds() + 600 // none ends by itself
	read := func(name, rate string, args ...string) soaker {
		perSecond, err := strconv.Atoi(rate)
		if err != nil {
			t.Fatal(err)
		}

		s := soaker{name: name, metrics: freeAddress(t)}
		s.session = start(t,
			append(args, "--out", filepath.Join(results, name), "--rate", rate, "--gets",
				strconv.Itoa(int(seconds)*perSecond),
				"--warmup", "0", "--access-gets", "0", "--metrics", s.metrics)...)

		return s
	}

	page := freeAddress(t)
	soakers := []soaker{
		read("pebble1", "500", "sweep", "--db", database(t, "pebble1"), "--cache", "2MiB",
			"--threads", "16"),
		read("written", "200", "sweep", "--db", small(t, "50k", "--engine", "pebble2"),
			"--workload", "readwhilewriting", "--write-rate", "500", "--cache", "8MiB"),
		read("goleveldb", "200", "sweep", "--db", database(t, "goleveldb"), "--cache", "2MiB",
			"--page-cache", "asis"),
		{name: "serve", session: start(t, "report", "--serve", results, "--listen", page)},
	}

	const samples = 60
	for range samples {
		until := time.Now().Add(*soakFor / samples)
		for i := range soakers {
			s := &soakers[i]
			if processGone(s.session) {
				t.Fatalf("%s ended: %v", s.name, s.session.wait())
			}
			s.seen = append(s.seen, usageOf(s.session.command.Process.Pid, s.metrics))
		}

		for time.Now().Before(until) {
			content("http://" + page + "/")
			time.Sleep(100 * time.Millisecond)
		}
	}

	for _, s := range soakers {
		s.session.signal(syscall.SIGINT)
		if o := s.session.wait(); o.exit != exitDone && !strings.Contains(o.stderr, "interrupted") {
			t.Errorf("%s: %v", s.name, o)
		}
		s.judge(t)
	}
}

// judge compares the last third with the one before. A third is for growing to size; the
// allowances are for the garbage collector and for threads in system calls.
func (s soaker) judge(t *testing.T) {
	third := len(s.seen) / 3
	before, after := s.seen[third:2*third], s.seen[2*third:]
	most := func(all []footprint, of func(footprint) int) int {
		values := make([]int, len(all))
		for i, u := range all {
			values[i] = of(u)
		}
		return slices.Max(values)
	}

	for _, held := range []struct {
		what   string
		of     func(footprint) int
		spared func(int) int
	}{
		{
			"KiB of memory",
			func(u footprint) int { return int(u.memory >> 10) },
			func(n int) int { return n/10 + 32<<10 },
		},
		{
			"open files",
			func(u footprint) int { return u.files },
			func(n int) int { return n/10 + 8 },
		},
		{"threads", func(u footprint) int { return u.threads }, func(int) int { return 16 }},
		{
			"goroutines",
			func(u footprint) int { return u.goroutines },
			func(n int) int { return n/10 + 8 },
		},
	} {
		first, was, is := held.of(s.seen[third]), most(before, held.of), most(after, held.of)
		t.Logf("%s: %s: %d after a third; at most %d until two thirds, %d in the last", s.name,
			held.what, first, was, is)
		if is > was+held.spared(was) {
			t.Errorf("%s: %s grow: at most %d in the second third, %d in the last", s.name,
				held.what, was, is)
		}
	}
}

// usageOf adds up a process and those below it.
func usageOf(pid int, metrics string) (u footprint) {
	for _, p := range append(processesBelow(pid), pid) {
		dir := filepath.Join("/proc", strconv.Itoa(p))
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue // it has ended
		}

		kib, threads := 0, 0
		for line := range strings.Lines(string(status)) {
			_, _ = fmt.Sscanf(line, "RssAnon: %d", &kib) // another line
			_, _ = fmt.Sscanf(line, "Threads: %d", &threads)
		}

		u.memory += uint64(kib) << 10
		u.threads += threads
		files, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err == nil {
			u.files += len(files)
		}
	}

	if metrics != "" {
		for line := range strings.Lines(content("http://" + metrics + "/metrics")) {
			_, _ = fmt.Sscanf(line, "go_goroutines %d", &u.goroutines)
		}
	}

	return u
}

// processesBelow are those that a process started, and those that they did.
func processesBelow(pid int) (all []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}

	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}

		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), processesBelow(child)...)
			}
		}
	}

	return all
}

// content is empty where nothing answers.
func content(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return ""
	}

	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}

	return string(text)
}
