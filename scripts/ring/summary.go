package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// runRing runs make's targets, as many at a time as there are cores and one more, since some wait
// for a disk or a clock. All are run, even if one fails.
func runRing(name, makeCommand string, targets []string) (err error) {
	log, err := os.CreateTemp("", "statelab-ring-*.jsonl")
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, log.Close(), os.Remove(log.Name())) }()

	began := time.Now()
	jobs := fmt.Sprintf("--jobs=%d", runtime.NumCPU()+1)
	command := exec.Command(makeCommand,
		append([]string{"--no-print-directory", "--keep-going", jobs}, targets...)...)
	// The jobs of this make are its own: it cannot share those of the make that started it.
	command.Env = append(os.Environ(), logVariable+"="+log.Name(), "RING="+name, "MAKEFLAGS=",
		"MFLAGS=")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	ended := command.Run()
	took := time.Since(began)

	records, err := recorded(log)
	if err != nil {
		return errors.Join(ended, err)
	}

	var children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		return errors.Join(ended, err)
	}

	cpu := time.Duration(children.Utime.Nano() + children.Stime.Nano())
	if err := summarize(os.Stdout, name, targets, records, took, cpu, ended != nil); err != nil {
		return err
	}

	if ended != nil ||
		slices.ContainsFunc(records, func(r record) bool { return r.Outcome == failed }) {
		return errReported
	}

	return nil
}

func recorded(log io.Reader) (records []record, err error) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read what tests recorded: %w", err)
		}
		records = append(records, r)
	}
	return records, nil
}

// longest is how many tests the summary names.
const longest = 10

// summarize prints what a ring ran.
func summarize(
	out io.Writer, ring string, targets []string, records []record, took, cpu time.Duration,
	makeFailed bool,
) error {
	var b strings.Builder
	counts := map[string]int{}
	packages := map[string]bool{}
	for _, r := range records {
		if !strings.Contains(r.Test, "/") { // subtests are counted with their test
			counts[r.Outcome]++
		}
		packages[r.Package] = true
	}

	delete(packages, "")
	fmt.Fprintf(&b, "\nmake %s ran %s: %d tests of %d packages passed", ring,
		strings.Join(withoutVariables(targets), ", "),
		counts[passed], len(packages))
	if counts[earlier] > 0 {
		fmt.Fprintf(&b, ", %d more in make test before", counts[earlier])
	}

	fmt.Fprintf(&b, "; %s, %s of CPU\n", took.Round(time.Second), cpu.Round(time.Second))
	skips(&b, records)
	slowest(&b, records)

	failures := slices.DeleteFunc(slices.Clone(records), func(r record) bool {
		return r.Outcome != failed
	})
	for _, r := range failures {
		fmt.Fprintf(&b, "FAILED: %s\n", called(r))
		for _, line := range r.Said {
			fmt.Fprintln(&b, line)
		}
	}

	switch {
	case len(failures) > 0:
		fmt.Fprintf(&b, "make %s: FAILED (the output of what failed is above)\n", ring)
	case makeFailed:
		fmt.Fprintf(&b, "make %s: FAILED outside the tests (see above)\n", ring)
	default:
		fmt.Fprintf(&b, "make %s: passed\n", ring)
	}

	_, err := io.WriteString(out, b.String())
	return err
}

// withoutVariables are the targets among make's arguments.
func withoutVariables(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return strings.Contains(arg, "=")
	})
}

func called(r record) string { return strings.TrimSpace(r.Package + " " + r.Test) }

// skips prints what was skipped, by reason, the most frequent first.
func skips(b *strings.Builder, records []record) {
	by := map[string][]string{}
	total := 0
	for _, r := range records {
		if r.Outcome == skipped {
			reason := cmp.Or(r.Reason, "no reason given")
			by[reason] = append(by[reason], called(r))
			total++
		}
	}

	if total == 0 {
		b.WriteString("skipped: nothing\n")
		return
	}

	fmt.Fprintf(b, "skipped: %d\n", total)
	reasons := make([]string, 0, len(by))
	for reason := range by {
		reasons = append(reasons, reason)
	}

	slices.SortFunc(reasons, func(x, y string) int {
		return cmp.Or(cmp.Compare(len(by[y]), len(by[x])), strings.Compare(x, y))
	})
	for _, reason := range reasons {
		tests := by[reason]
		slices.Sort(tests)
		fmt.Fprintf(b, "  %s: %s\n", reason, strings.Join(tests, ", "))
	}
}

// slowest prints the tests and steps that took longest.
func slowest(b *strings.Builder, records []record) {
	whole := slices.DeleteFunc(slices.Clone(records), func(r record) bool {
		return strings.Contains(r.Test, "/") || r.Test == "" || r.Outcome == earlier
	})
	slices.SortStableFunc(whole, func(x, y record) int { return cmp.Compare(y.Seconds, x.Seconds) })
	b.WriteString("slowest:\n")
	for _, r := range whole[:min(longest, len(whole))] {
		note := ""
		if r.Cached {
			note = " (then; cached now)"
		}
		fmt.Fprintf(b, "  %6.1f s  %s%s\n", r.Seconds, called(r), note)
	}
}
