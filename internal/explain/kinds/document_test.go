package kinds

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
)

var update = flag.Bool("update", false, "rewrite the expected documents in testdata/documents")

// stored are folders of results, one for each kind that the repository holds.
var stored = map[string]string{
	"sweep":    "testdata/0.1.0/sweep",
	"run":      "testdata/0.1.0/read",
	"load":     "testdata/0.1.0/load",
	"disk":     "testdata/0.1.0/disk",
	"replay":   "testdata/0.1.0/replay",
	"layouts":  "testdata/0.1.0/layouts",
	"imported": "testdata/0.1.0/imported",
	"prices":   "../../../studies/binary-trie/runs/ahead",

	// Of a database of 100,000 keys: statelab load --db D --keys 100k, then predict, simulate,
	// advise and tune with --out.
	"prediction": "testdata/stored/prediction",
	"simulation": "testdata/stored/simulation",
	"advice":     "testdata/stored/advice",
	"tuning":     "testdata/stored/tuning",
}

// TestDocuments: what a stored folder says, in full (as Markdown) and in short form (as on a
// terminal of 80 columns).
func TestDocuments(t *testing.T) {
	for name, folder := range stored {
		t.Run(name, func(t *testing.T) {
			report, err := Open(folder)
			if err != nil {
				t.Fatal(err)
			}

			d := report.Document()
			expect(t, name+".md", d, render.Markdown)
			expect(t, name+".txt", d, render.Terminal)
		})
	}
}

// expect compares a document with its file in testdata/documents.
func expect(
	t *testing.T, name string, d *doc.Document, shown func(w io.Writer, d *doc.Document) error,
) {
	t.Helper()
	var got bytes.Buffer
	if err := shown(&got, d); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join("testdata", "documents", name)
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}
