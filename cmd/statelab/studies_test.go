package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/observe/host"
)

// A study's experiment, so small that a test can run it: counts of keys and Gets become these.
var tiny = []struct{ pattern, replacement string }{
	{`(?m)^(  keys): .*$`, "$1: 60k"},
	{`(?m)^(  gets): .*$`, "$1: 2k"},
	{`(?m)^(  warmup): .*$`, "$1: 1k"},
	{`(?m)^(  cache): .*$`, "$1: [1MiB, 4MiB]"},
	{`(?m)^(  threads): \[.*$`, "$1: [2, 8]"},
	// Trees and layouts have runners of their own; that their experiments are understood shows
	// without them.
	{`(?m)^(  tree): .*$`, "$1: [null]"},
	{`(?m)^(  layout): .*$`, "$1: [flat-pebble, pagetrie]"},
	{`(?m)^(  accounts): .*$`, "$1: [1k]"},
	{`(?m)^(  reads|  first): .*$`, "$1: 5"},
	{`(?m)^  options:\n    .*\n`, ""},
}

// TestStudiesRun runs every experiment of every study in a small size and reports it with the
// study.
func TestStudiesRun(t *testing.T) {
	testring.Outer(t, "it runs the published studies")
	withCRunners(t)
	beside(t, "statelab-studies")
	files, err := filepath.Glob("../../studies/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range files {
		study, name := filepath.Split(file)
		if name == "study.yaml" {
			continue
		}

		t.Run(filepath.Base(study)+"/"+name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			for _, r := range tiny {
				text = regexp.MustCompile(r.pattern).ReplaceAll(text, []byte(r.replacement))
			}

			dir := t.TempDir()
			if host.DirectSupported(dir) != nil {
				text = regexp.MustCompile(`page_cache: direct`).ReplaceAll(text,
					[]byte("page_cache: asis"))
			}

			small, results := filepath.Join(dir, "small.yaml"), filepath.Join(dir, "S")
			if err := os.WriteFile(small, text, 0o644); err != nil {
				t.Fatal(err)
			}

			if strings.Contains(string(text), "measure: replay") {
				set := filepath.Join(dir, "C")
				must(t, "changeset", "generate", "--profile", "bank", "--scale", "0.001",
					"--versions", "3", "--out", set)
				text = regexp.MustCompile(`(?m)^(  path): C\d*$`).ReplaceAll(text,
					[]byte("$1: "+set))
				if err := os.WriteFile(small, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}

			must(t, "run", small, "--out", results)
			// Figures of a small size are refused beside the study's own, where it has some.
			report := exec.Command(filepath.Join(scratch, "statelab-studies"), "report", "-out",
				filepath.Join(dir, "report.html"), absolute(study), results)
			said, err := report.CombinedOutput()
			if err != nil &&
				!regexp.MustCompile("of that size|the name and the size|of the same kind").
					Match(said) {
				t.Errorf("%v: %v\n%s", report, err, said)
			}
		})
	}
}
