package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a paper takes of a sweep: a picture whose caption is printed, a table, and BibTeX alone on
// stdout, for which no page is written.
func TestFigureOfAPaper(t *testing.T) {
	sweep, err := filepath.Abs("../../internal/explain/kinds/testdata/0.1.0/sweep")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	o := must(t, "report", sweep, "--out", at("page.html"), "--picture", at("figure.svg"),
		"--tidy", at("figures.csv"))
	if !strings.Contains(o.stderr, "warning: these block reads were not disk I/O") {
		t.Errorf("the doubts about the results are not told: %s", o.stderr)
	}

	_, caption, printed := strings.Cut(o.stdout, "\ncaption: ")
	if !printed || !strings.HasPrefix(caption, "Block reads per Get") {
		t.Errorf("no caption: %s", o.stdout)
	}

	caption, latex, printed := strings.Cut(caption, "\nin LaTeX: ")
	if !printed || strings.Contains(strings.ReplaceAll(latex, `\%`, ""), "%") {
		t.Errorf("no caption for LaTeX: %s", latex)
	}

	for file, want := range map[string]string{
		"figure.svg":  strings.TrimSpace(caption) + "</desc>",
		"figures.csv": "block_reads_per_get",
	} {
		text, err := os.ReadFile(at(file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q (%v)", file, want, err)
		}
	}

	o = must(t, "report", "--cite", sweep, "--picture", at("cited.svg"), "--tidy", at("cited.csv"))
	if !strings.HasPrefix(o.stdout, "@misc{statelab,\n") || strings.Contains(o.stdout, "report: ") {
		t.Errorf("not BibTeX alone: %s", o.stdout)
	}

	if _, err := os.Stat(at("cited.csv")); err != nil || !strings.Contains(o.stderr, "caption: ") {
		t.Errorf("--cite beside files: %v\n%s", err, o.stderr)
	}

	if _, err := os.Stat(filepath.Join(sweep, "report.html")); err == nil {
		t.Error("--cite wrote a page")
	}

	o = statelab(t, "report", "--cite", sweep, "--out", at("more.html"))
	if o.exit != exitUsage || !strings.Contains(o.stderr, "--out: not with --cite") {
		t.Errorf("%v", o)
	}
}
