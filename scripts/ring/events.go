package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// An event is a line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// A packageLog is what a package's tests printed, until the package has ended.
type packageLog struct {
	lines   []event           // with output
	outcome map[string]string // of tests that have ended
	records []record
	cached  bool
}

// read follows the events of tests. It prints a line for each package that passes, and of each
// that fails all that its failing tests printed; if verbose, everything as it comes. What is no
// event is printed as it is. The records are of all tests that ended, and of each package that
// failed outside its tests.
func read(
	events io.Reader, out io.Writer, name func(pkg string) string, verbose bool,
) (records []record, err error) {
	l := &listener{out: out, name: name, verbose: verbose, packages: map[string]*packageLog{}}
	if err := l.follow(events); err != nil {
		return l.records, err
	}

	// A package without an end: its process was killed, or the stream was cut.
	for pkg, p := range l.packages {
		if _, err := io.WriteString(out, p.failures()); err != nil {
			return l.records, err
		}
		l.records = append(l.records, p.records...)
		l.records = append(l.records, record{Package: name(pkg), Outcome: failed})
	}

	return l.records, nil
}

// A listener follows the events of all packages.
type listener struct {
	out      io.Writer
	name     func(pkg string) string
	verbose  bool
	packages map[string]*packageLog // those that have not ended
	ended    []string               // packages
	records  []record               // of packages that have ended
}

// follow reads events to their end.
func (l *listener) follow(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r, err := l.take(line)
			if err != nil {
				return err
			}
			l.records = append(l.records, r...)
		}

		if err == io.EOF {
			return nil
		}

		if err != nil {
			return fmt.Errorf("read the events of tests: %w", err)
		}
	}
}

// take takes one line; the records are those of a package that has ended with it.
func (l *listener) take(line []byte) ([]record, error) {
	var e event
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		_, err := l.out.Write(line)
		return nil, err
	}

	if e.Action == "build-output" {
		_, err := io.WriteString(l.out, e.Output)
		return nil, err
	}

	if e.Package == "" {
		return nil, nil
	}

	p := l.packages[e.Package]
	if p == nil {
		p = &packageLog{outcome: map[string]string{}}
		l.packages[e.Package] = p
	}

	switch e.Action {
	case "output":
		p.lines = append(p.lines, e)
		p.cached = p.cached || e.Test == "" && strings.HasSuffix(e.Output, "\t(cached)\n")
		if !l.verbose {
			return nil, nil
		}
		_, err := io.WriteString(l.out, e.Output)
		return nil, err
	case passed, failed, skipped:
	default:
		return nil, nil
	}

	if e.Test != "" {
		p.outcome[e.Test] = e.Action
		r := record{Package: l.name(e.Package), Test: e.Test, Outcome: e.Action, Seconds: e.Elapsed}
		switch e.Action {
		case skipped:
			r.Reason = p.reason(e.Test)
		case failed:
			r.Said = p.said(e.Test)
		}

		p.records = append(p.records, r)
		return nil, nil
	}

	delete(l.packages, e.Package)
	l.ended = append(l.ended, e.Package)
	for i := range p.records {
		p.records[i].Cached = p.cached
	}

	text := p.verdict()
	if e.Action == failed {
		text = p.failures()
		if !containsFailure(p.records) {
			p.records = append(p.records, record{Package: l.name(e.Package), Outcome: failed})
		}
	}

	if l.verbose {
		return p.records, nil
	}

	_, err := io.WriteString(l.out, text)
	return p.records, err
}

func containsFailure(records []record) bool {
	for _, r := range records {
		if r.Outcome == failed {
			return true
		}
	}
	return false
}

// verdict is the line in which go test says how the package ended.
func (p *packageLog) verdict() string {
	for i := len(p.lines) - 1; i >= 0; i-- {
		if e := p.lines[i]; e.Test == "" &&
			(strings.HasPrefix(e.Output, "ok") || strings.HasPrefix(e.Output, "?")) {
			return e.Output
		}
	}
	return ""
}

var progress = regexp.MustCompile(`^\s*=== (RUN|PAUSE|CONT|NAME) `)

// failures is all that was printed, but for the tests that passed or were skipped.
func (p *packageLog) failures() string {
	var b bytes.Buffer
	for _, e := range p.lines {
		outcome := p.outcome[e.Test]
		if e.Test != "" && (outcome == passed || outcome == skipped) ||
			progress.MatchString(e.Output) {
			continue
		}

		b.WriteString(e.Output)
	}

	return b.String()
}

var source = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: `)

// reason is the last thing that a skipped test said, without the place in the source.
func (p *packageLog) reason(test string) string {
	said := ""
	for _, e := range p.lines {
		switch {
		case e.Test != test:
		case source.MatchString(e.Output):
			said = strings.TrimSpace(source.ReplaceAllString(e.Output, ""))
		case said != "" && strings.HasPrefix(e.Output, "        "): // a reason of more lines
			said += " " + strings.TrimSpace(e.Output)
		}
	}

	return said
}

// Bounds of what the summary repeats of a failed test: its messages, and lines of each.
const (
	saidMessages = 12
	saidLines    = 16
	saidColumns  = 240
)

// said are the last messages of a test, each cut to its first lines: logs and errors look alike
// in what go test prints, and what made the test fail is among the last ones.
func (p *packageLog) said(test string) []string {
	var messages [][]string
	for _, e := range p.lines {
		line := strings.TrimRight(e.Output, "\n")
		switch {
		case e.Test != test || progress.MatchString(e.Output):
		case source.MatchString(e.Output):
			messages = append(messages, []string{line})
		case len(messages) > 0 && strings.HasPrefix(line, "        "):
			messages[len(messages)-1] = append(messages[len(messages)-1], line)
		}
	}

	var lines []string
	for _, message := range messages[max(0, len(messages)-saidMessages):] {
		for _, line := range message[:min(saidLines, len(message))] {
			lines = append(lines, line[:min(saidColumns, len(line))])
		}
	}

	return lines
}
