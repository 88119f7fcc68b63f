package kinds

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/report/render"
)

// What version 0.1.0 wrote stays readable: testdata/0.1.0 holds folders made by it,
// trimmed. Every one is drawn as a page and as text.
func TestFoldersOf010(t *testing.T) {
	const old = "testdata/0.1.0"
	entries, err := os.ReadDir(old)
	if err != nil {
		t.Fatal(err)
	}

	says := map[string][]string{
		"sweep":    {"block reads per Get", "1 MiB"},
		"read":     {"block reads per Get (0 device reads) at a 256 KiB cache"},
		"load":     {"20,000 Puts"},
		"disk":     {"reads/s", "in flight"},
		"replay":   {"Only trees that keep nothing were replayed"},
		"layouts":  {"A lookup of one of 2k accounts costs"},
		"imported": {"200M"},
	}

	if len(entries) != len(says) {
		t.Errorf("%d folders, %d expected", len(entries), len(says))
	}

	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			r, err := Open(filepath.Join(old, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}

			var text, page bytes.Buffer
			if err := render.Terminal(&text, r.Document()); err != nil {
				t.Error(err)
			}

			if err := render.Page(&page, r.Document()); err != nil {
				t.Error(err)
			}

			for _, want := range says[entry.Name()] {
				for what, got := range map[string]string{
					"text": text.String(),
					"page": page.String(),
				} {
					if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
						t.Errorf("the %s lacks %q", what, want)
					}
				}
			}

			if strings.Contains(page.String(), "damaged") ||
				strings.Contains(text.String(), "damaged") {
				t.Errorf("a sound folder is called damaged:\n%s", text.String())
			}
		})
	}
}
