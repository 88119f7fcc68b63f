package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tests is a module whose tests end in every way there is.
var tests = map[string]string{
	"go.mod": "module m\n\ngo 1.26.0\n",
	"passes/a_test.go": `package passes
import "testing"
func TestPasses(t *testing.T) { t.Log("nobody reads this") }
func TestSkips(t *testing.T) { t.Skip("no disk here") }
`,
	"fails/a_test.go": `package fails
import "testing"
func TestPasses(t *testing.T) { t.Log("nobody reads this") }
func TestFails(t *testing.T) {
	t.Run("inside", func(t *testing.T) { t.Error("3 is not 4") })
	t.Run("beside", func(t *testing.T) { t.Log("nobody reads this") })
}
`,
	"panics/a_test.go": "package panics\nimport \"testing\"\nfunc TestPanics(t *testing.T) { " +
		"panic(\"cannot go on\") }\n",
	"exits/a_test.go": "package exits\nimport (\"os\"; \"testing\")\nfunc TestExits(t " +
		"*testing.T) { os.Exit(3) }\n",
	"main/a_test.go": "package main\nimport (\"os\"; \"testing\")\nfunc TestMain(m " +
		"*testing.M) { println(\"no start\"); os.Exit(1) }\n",
	"broken/a_test.go": "package broken\nimport \"testing\"\nfunc TestBroken(t *testing.T) { " +
		"undefined() }\n",
	"nothing/nothing.go": "package nothing\n",
}

// runTests is what ring says of the tests of packages, and the records.
func runTests(t *testing.T, packages ...string) (text string, records []record, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range tests {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	command := exec.Command("go", append([]string{"test", "-json"}, packages...)...)
	command.Dir = dir
	var events, out bytes.Buffer
	command.Stdout = &events
	ended := command.Run()
	records, err = read(&events, &out,
		func(pkg string) string { return strings.TrimPrefix(pkg, "m/") }, false)
	if err != nil {
		t.Fatal(err)
	}

	return out.String(), records, ended
}

// TestFailuresAreSeen: however a test fails, its output is printed and a record says so; the
// output of tests that pass is not printed.
func TestFailuresAreSeen(t *testing.T) {
	for _, c := range []struct {
		folder, test, said string
	}{
		{"fails", "TestFails/inside", "3 is not 4"},
		{"panics", "TestPanics", "cannot go on"},
		{"exits", "", "FAIL\tm/exits"},
		{"main", "", "no start"},
		{"broken", "", "undefined: undefined"},
	} {
		text, records, err := runTests(t, "./"+c.folder, "./passes")
		if err == nil {
			t.Fatalf("%s: go test passes", c.folder)
		}

		if !strings.Contains(text, c.said) || strings.Contains(text, "nobody reads this") {
			t.Errorf("%s: printed\n%s", c.folder, text)
		}

		if !strings.Contains(text, "ok  \tm/passes") {
			t.Errorf("%s hides what passed:\n%s", c.folder, text)
		}

		if !slices.ContainsFunc(records, func(r record) bool {
			return r.Package == c.folder && r.Outcome == failed &&
				(c.test == "" || r.Test == c.test)
		}) {
			t.Errorf("%s: no record of a failure: %+v", c.folder, records)
		}

		if c.folder != "fails" {
			continue
		}

		var b strings.Builder
		if err := summarize(&b, "test", nil, records, 0, 0, true); err != nil ||
			!strings.Contains(b.String(), "FAILED: fails TestFails/inside\n") ||
			!strings.Contains(b.String(), ": 3 is not 4\n") {
			t.Errorf("the summary does not say what failed: %v\n%s", err, b.String())
		}
	}
}

// TestSummary says what passed, what was skipped and why, what took longest, and what failed.
func TestSummary(t *testing.T) {
	text, records, err := runTests(t, "./passes", "./nothing")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	records = append(
		records,
		record{Package: "slow", Test: "TestSlow", Outcome: passed, Seconds: 61.5, Cached: true},
		record{Package: "slow", Test: "TestSlow/inside", Outcome: passed, Seconds: 61.5},
	)

	print := func(records []record, makeFailed bool) string {
		var b strings.Builder
		if err := summarize(&b, "test", []string{"unit", "GO=go"}, records, time.Minute, time.Hour,
			makeFailed); err != nil {
			t.Fatal(err)
		}

		return b.String()
	}

	got := print(records, false)
	for _, want := range []string{
		"make test ran unit: 2 tests of 2 packages passed; 1m0s, 1h0m0s of CPU\n",
		"skipped: 1\n  no disk here: passes TestSkips\n",
		"slowest:\n    61.5 s  slow TestSlow (then; cached now)\n", "\nmake test: passed\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}

	got = print(append(records, record{Package: "p", Test: "TestX", Outcome: failed}), true)
	if !strings.Contains(got, "FAILED: p TestX\n") ||
		!strings.Contains(got, "make test: FAILED (") {
		t.Errorf("a failure is not named:\n%s", got)
	}

	if got = print(records, true); !strings.Contains(got, "make test: FAILED outside the tests") {
		t.Errorf("a failure of make is not named:\n%s", got)
	}
}

// TestRunKeepsTheExitCode with real makefiles: a target that fails, and one that passes.
func TestRunKeepsTheExitCode(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make: ", err)
	}

	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("Makefile", []byte("good:\n\t@echo fine\nbad:\n\t@false\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	if err := runRing("test", "make", []string{"good"}); err != nil {
		t.Errorf("a ring that passes: %v", err)
	}

	if err := runRing("test", "make", []string{"bad", "good"}); err == nil {
		t.Error("a ring with a target that fails passes")
	}
}

// TestDependentsAreInOrder: the nearest importers first, those whose tests alone import a package
// too, and nothing that imports nothing of it.
func TestDependentsAreInOrder(t *testing.T) {
	listed := []goPackage{
		{ImportPath: "a"},
		{ImportPath: "b", Imports: []string{"a"}},
		{ImportPath: "c", Imports: []string{"b"}},
		{ImportPath: "d", TestImports: []string{"b"}},
		{ImportPath: "e", Imports: []string{"d"}},
		{ImportPath: "f", XTestImports: []string{"a"}},
		{ImportPath: "g"},
	}

	got := dependents(listed, []string{"a"})
	if want := []string{"a", "b", "f", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWhole: make ci runs a test again of which make test skipped a part.
func TestWhole(t *testing.T) {
	names := whole([]record{
		{Test: "TestA", Outcome: passed},
		{Test: "TestB", Outcome: passed}, {Test: "TestB/x", Outcome: passed},
		{Test: "TestC/x", Outcome: skipped}, {Test: "TestC", Outcome: passed},
		{Test: "TestD", Outcome: skipped}, {Test: "TestE", Outcome: failed},
	})
	if !slices.Equal(names, []string{"TestA", "TestB"}) {
		t.Error(names)
	}
}
