package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOddNames: whatever a folder is called, what is measured is in it and nowhere else;
// the page shows its name as text. A name that JSON cannot hold is refused.
func TestOddNames(t *testing.T) {
	home := t.TempDir()
	odd := filepath.Join(home, `a "b" 'c' <script>alert(1)</script> $(id) ;%s`+"\té")
	odd = strings.ReplaceAll(odd, "</script>", "<script>") // a slash is a folder
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}

	db, out := filepath.Join(odd, "db"), filepath.Join(odd, "S")
	must(t, "load", "--db", db, "--keys", "3k")
	must(t, "sweep", "--db", db, "--cache", "512KiB,1MiB", "--gets", "1k", "--warmup", "0",
		"--access-gets", "0", "--disk", "none", "--out", out)
	must(t, "sweep", "--resume", "--out", out)
	must(t, "report", out)
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}

	if strings.Contains(string(page), "<script>alert") ||
		!strings.Contains(string(page), "&lt;script&gt;alert") {
		t.Error("the page does not show the name as text")
	}

	for _, bad := range []string{"\xff", "b\xc3\x28"} {
		before := entriesOf(t, home)
		refused(t, statelab(t, "load", "--db", filepath.Join(home, bad), "--keys", "1k"),
			exitUsage, "is not valid UTF-8", "rename")
		if diff := cmp.Diff(before, entriesOf(t, home)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestValuesOfAnySize: none, and of two megabytes.
func TestValuesOfAnySize(t *testing.T) {
	for _, c := range []struct{ bytes, keys, gets string }{
		{"2097152", "8", "16"},
		{"1", "2k", "2k"},
	} {
		must(t, "sweep", "--db", small(t, c.keys, "--value-bytes", c.bytes), "--gets", c.gets,
			"--warmup", "0", "--access-gets", "0",
			"--out", filepath.Join(t.TempDir(), "R"))
	}
}
