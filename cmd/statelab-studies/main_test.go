package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var said, errors bytes.Buffer
	page := filepath.Join(t.TempDir(), "page.html")
	if code := run(t.Context(), []string{"report", "-out", page, "../../studies/iavl"}, &said,
		&errors); code != 0 {
		t.Fatalf("exit %d: %s", code, errors.String())
	}

	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(said.String(), "published claims and figures") ||
		!bytes.Contains(text, []byte("published claims and figures")) {
		t.Errorf("%v: %s", err, said.String())
	}
}

// A small published log has every point predicted, and the table is written beside its charts.
func TestValidate(t *testing.T) {
	var said, errors bytes.Buffer
	out := t.TempDir()
	if code := run(t.Context(),
		[]string{"validate", "-out", out, "-gets", "100000",
			"../../internal/explain/kvdblog/testdata"}, &said, &errors); code != 0 {
		t.Fatalf("exit %d: %s", code, errors.String())
	}

	text, err := os.ReadFile(filepath.Join(out, "prediction-validation.md"))
	if err != nil || !bytes.Contains(text, said.Bytes()) ||
		!strings.Contains(said.String(), "| 2.5000 |") ||
		!strings.Contains(said.String(), "1 points: mean error") {
		t.Errorf("%v: %s", err, said.String())
	}

	if _, err := os.Stat(filepath.Join(out, "predicted-3m.svg")); err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"report"},
		{"validate"},
		{"validate", "a", "b"},
		{"price"},
		{"report", "-what"},
	} {
		var errors bytes.Buffer
		if code := run(t.Context(), args, &errors, &errors); code != 2 ||
			!strings.Contains(errors.String(), "usage:") {
			t.Errorf("%q: exit %d, %s", args, code, errors.String())
		}
	}
}
