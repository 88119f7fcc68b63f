package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statelab/statelab/internal/base/testring"
)

// Those that take longest begin first, so that none of them is left for the end.
var beginFirst = regexp.MustCompile(`Books|ClientsOfRocksDB|Tune|StudiesRun|OnlyNamedPaths|` +
	`LayoutsAgree|Outcomes|DamagedInputs|Storm|Harvest|Cluster|Soak|LeaveEachOthers|` +
	`LoadSweepReport`)

// endToEnd runs the tests of the command line, each in a process of its own, twice as many at a
// time as there are cores (at most eight), since most of them wait for disks, clocks and children.
// They take the programs that make has put into bin. Go's test cache does not see what a child
// process read, so they always run; but make ci leaves out what passed in make test with the same
// programs and files.
func endToEnd(pattern string) error {
	scratch, err := os.MkdirTemp("", "statelab-e2e-")
	if err != nil {
		return err
	}

	defer os.RemoveAll(scratch)
	root, err := os.Getwd()
	if err != nil {
		return err
	}

	e := suite{
		dir:     filepath.Join(root, "cmd", "statelab"),
		program: filepath.Join(scratch, "e2e.test"),
	}

	if _, err := goOutput("test", "-c", "-o", e.program, "./cmd/statelab"); err != nil {
		return err
	}

	tool, err := goOutput("tool", "-n", "test2json")
	if err != nil {
		return err
	}

	e.converter = strings.TrimSpace(tool)
	if e.kept, err = keptFor(e.program, filepath.Join(root, "bin", "statelab")); err != nil {
		return err
	}

	e.environment = append(os.Environ(), "STATELAB_TEST_PROGRAMS="+filepath.Join(root, "bin"),
		"STATELAB_TEST_KEPT="+e.kept)

	tests, err := e.list(pattern)
	if err != nil {
		return err
	}

	if e.passed, err = passedFile(e.kept); err != nil {
		return err
	}

	before := []string{}
	if testring.All() {
		if before, err = passedBefore(e.passed); err != nil {
			return err
		}
	}

	outer := slices.DeleteFunc(slices.Clone(tests), func(test string) bool {
		return slices.Contains(before, test)
	})
	for _, test := range tests {
		if slices.Contains(before, test) {
			err = errors.Join(err,
				keep(record{Package: "cmd/statelab", Test: test, Outcome: earlier}))
		}
	}

	if err != nil {
		return err
	}

	return e.all(outer)
}

// A suite is a compiled test binary.
type suite struct {
	dir, program string
	converter    string // test2json
	kept         string // a folder for what tests make for each other
	passed       string // a file: see passedFile
	environment  []string
}

// keptFor is the folder of what tests keep for each other: databases and programs that were made
// by exactly these programs. It lies below Go's build cache, and those that no test has used for
// two days are removed.
func keptFor(programs ...string) (string, error) {
	hash := sha256.New()
	for _, path := range programs {
		file, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("make build makes it: %w", err)
		}

		_, err = io.Copy(hash, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", err
		}
	}

	cache, err := goOutput("env", "GOCACHE")
	if err != nil {
		return "", err
	}

	all := filepath.Join(strings.TrimSpace(cache), "statelab-e2e")
	dir := filepath.Join(all, fmt.Sprintf("%x", hash.Sum(nil)[:12]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}

	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return "", err
	}

	others, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}

	for _, other := range others {
		if info, err := other.Info(); err == nil && now.Sub(info.ModTime()) > 48*time.Hour {
			err = os.RemoveAll(filepath.Join(all, other.Name()))
			if err != nil {
				return "", err
			}
		}
	}

	return dir, nil
}

// passedFile is the file that lists the tests that passed in the inner ring, one a line. Its name
// has a hash of all files of the repository: tests read documents and expected outputs, too. It is
// "" where git does not tell the files: nothing is then left out.
func passedFile(kept string) (string, error) {
	text, err := exec.Command("git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard").
		Output()
	if err != nil {
		return "", nil
	}

	hash := sha256.New()
	for path := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		content, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // deleted, not committed yet
			return "", err
		}
		fmt.Fprintf(hash, "%q %x\n", path, sha256.Sum256(content))
	}

	return filepath.Join(kept, fmt.Sprintf("passed-%x", hash.Sum(nil)[:12])), nil
}

func passedBefore(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

// list are the tests whose names match, in the order in which they are to begin.
func (e suite) list(pattern string) ([]string, error) {
	command := exec.Command(e.program, "-test.list", pattern)
	command.Dir, command.Env, command.Stderr = e.dir, e.environment, os.Stderr
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}

	tests := slices.DeleteFunc(strings.Fields(string(text)), func(name string) bool {
		return !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz")
	})
	slices.SortStableFunc(tests, func(x, y string) int {
		return cmp.Compare(first(x), first(y))
	})
	return tests, nil
}

func first(test string) int {
	if beginFirst.MatchString(test) {
		return 0
	}
	return 1
}

// all runs tests and prints those that fail.
func (e suite) all(tests []string) error {
	var (
		running sync.WaitGroup
		mutex   sync.Mutex
		records []record
		errs    []error
		next    = make(chan string)
	)

	for range min(8, 2*runtime.NumCPU()) {
		running.Go(func() {
			for test := range next {
				r, text, err := e.one(test)
				mutex.Lock()
				records = append(records, r...)
				if err != nil {
					errs = append(errs, err)
				}

				_, err = io.WriteString(os.Stdout, text)
				errs = append(errs, err)
				mutex.Unlock()
			}
		})
	}

	for _, test := range tests {
		next <- test
	}

	close(next)
	running.Wait()

	count := map[string]int{}
	for _, r := range records {
		if !strings.Contains(r.Test, "/") {
			count[r.Outcome]++
		}
	}

	inner := whole(records)

	if !testring.All() && e.passed != "" {
		before, err := passedBefore(e.passed)
		all := strings.Join(slices.Compact(slices.Sorted(slices.Values(append(before, inner...)))),
			"\n")
		errs = append(errs, err, os.WriteFile(e.passed, []byte(all+"\n"), 0o644))
	}

	fmt.Printf("e2e: %d tests passed, %d failed, %d skipped\n", count[passed], count[failed],
		count[skipped])
	return errors.Join(append(errs, keep(records...))...)
}

// whole are the tests that passed, with all of their subtests: what one of these skipped, make ci
// may run.
func whole(records []record) (names []string) {
	parts := map[string]bool{}
	for _, r := range records {
		if name, _, sub := strings.Cut(r.Test, "/"); sub && r.Outcome == skipped {
			parts[name] = true
		}
	}

	for _, r := range records {
		if !strings.Contains(r.Test, "/") && r.Outcome == passed && !parts[r.Test] {
			names = append(names, r.Test)
		}
	}

	return names
}

// one runs a test; text is empty unless the test failed.
func (e suite) one(test string) (records []record, text string, err error) {
	command := exec.Command(e.converter, "-t", "-p", modulePath+"/cmd/statelab", e.program,
		"-test.v=test2json",
		"-test.short", "-test.timeout", "30m", "-test.run", "^"+test+"$")
	command.Dir, command.Env = e.dir, e.environment
	var events, out bytes.Buffer
	command.Stdout, command.Stderr = &events, &out
	ended := command.Run()
	records, err = read(&events, &out, short, false)
	if err != nil {
		return records, out.String(), err
	}

	if ended == nil && !containsFailure(records) && len(records) > 0 {
		return records, "", nil
	}

	if !containsFailure(records) {
		records = append(records, record{Package: "cmd/statelab", Test: test, Outcome: failed})
	}

	return records, fmt.Sprintf("e2e %s:\n%s", test, out.String()), errors.Join(errReported)
}
