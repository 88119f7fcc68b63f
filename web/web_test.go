package web

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of the chart library are those whose checksums are noted.
func TestLibraryIsUnchanged(t *testing.T) {
	note, err := os.ReadFile(filepath.Join("uplot", "README.md"))
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"LICENSE", "uPlot.iife.min.js", "uPlot.min.css"} {
		text, err := os.ReadFile(filepath.Join("uplot", name))
		if err != nil {
			t.Fatal(err)
		}

		line := fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name)
		if !strings.Contains(string(note), line) {
			t.Errorf("uplot/README.md lacks the line %q", line)
		}
	}
}
