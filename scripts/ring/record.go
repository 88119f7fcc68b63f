package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// logVariable names the file to which the parts of a ring, each a process of its own, append
// their records. Without it nothing is recorded.
const logVariable = "STATELAB_RING_LOG"

// A record is how one test, or one other step, ended.
type record struct {
	Package string `json:"package,omitempty"` // "" for a step
	// of a test with its subtests' names, as go test prints it
	Test string `json:"test"`
	// pass, fail, skip, or earlier: it passed in the inner ring
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`          // wall clock; of a cached test as it was when it ran
	Reason  string  `json:"reason,omitempty"` // of a skip
	// of a failure: the beginnings of what the test said, one a line
	Said   []string `json:"said,omitempty"`
	Cached bool     `json:"cached,omitempty"` // Go's test cache had the result
}

// Outcomes of records; the first three are test2json's.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
	earlier = "earlier"
)

// keep appends records to the ring's log.
func keep(records ...record) error {
	path := os.Getenv(logVariable)
	if path == "" || len(records) == 0 {
		return nil
	}

	var lines []byte
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}

	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("record tests: %w", err)
	}

	_, err = file.Write(lines) // one write: others append at the same time
	return errors.Join(err, file.Close())
}

// skip records packages that a ring leaves out.
func skip(reason string, packages []string) error {
	var records []record
	for _, name := range packages {
		records = append(records, record{
			Package: strings.TrimPrefix(name, "./"), Outcome: skipped, Reason: reason,
		})
	}
	return keep(records...)
}

// step runs a command and records how long it took.
func step(name string, command []string) error {
	began := time.Now()
	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := child.Run()
	r := record{Test: name, Outcome: passed, Seconds: time.Since(began).Seconds()}
	if err != nil {
		r.Outcome = failed
		err = fmt.Errorf("%s: %w", name, err)
	}

	return errors.Join(err, keep(r))
}
