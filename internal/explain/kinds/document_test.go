package kinds

import (
	"bytes"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/output"
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

	// Of a geth with --cache 32 that answers eth_getProof: statelab watch --seconds 40 --out.
	"watch": "testdata/stored/watch",

	// A comparison whose only layout failed: statelab layouts --layout pagetrie --accounts 20k
	// --out L, where no file may be larger than 300 KiB (ulimit -f 300).
	"failed": "testdata/stored/failed",
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

// TestEveryKindHasADocument: a kind without a stored folder would change unseen, and a stored
// folder that is not listed would be compared with nothing.
func TestEveryKindHasADocument(t *testing.T) {
	for _, kind := range All() {
		if _, ok := stored[kind.Name]; !ok && kind.Name != "load" {
			t.Errorf("kind %q: add a folder of it to testdata/stored, and its name to the map",
				kind.Name)
		}
	}

	folders, err := filepath.Glob("testdata/stored/*")
	if err != nil {
		t.Fatal(err)
	}

	for _, folder := range folders {
		if !slices.Contains(slices.Collect(maps.Values(stored)), folder) {
			t.Errorf("%s is not in the map stored", folder)
		}
	}
}

// TestFoldersOfEveryKindAreKept: a verb that is told to write where a result of any kind lies names
// what lies there.
func TestFoldersOfEveryKindAreKept(t *testing.T) {
	for _, kind := range All() {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, kind.File), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}

		if err := output.Folder(dir); err == nil ||
			!strings.Contains(err.Error(), "already holds") {
			t.Errorf("%s: %v; its file belongs into the list of internal/base/output", kind.Name,
				err)
		}
	}
}
