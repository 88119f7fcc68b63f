package studies

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/studies from the studies")

const root = "../../../studies"

// Every claim of every study has a verdict, a source, and a command or the reason why
// there is none; the documents are what the results say.
func TestEveryClaimIsJudged(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(root, "*", File))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no studies: %v", err)
	}
	for _, file := range folders {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			s, err := Open(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.Claims() {
				if c.Word == "" {
					t.Errorf("%s: %s: no figure of ours and no reason", c.Section, c.Says)
				}
				if c.Theirs.Source == "" {
					t.Errorf("%s: %s: no source", c.Section, c.Says)
				}
				if ours, _ := c.Ours(); ours != nil && s.Command(c) == "" {
					t.Errorf("%s: %s: no command", c.Section, c.Says)
				}
			}
			var page bytes.Buffer
			if err := s.Markdown(&page); err != nil {
				t.Fatal(err)
			}
			document := filepath.Join("../../../docs/studies", name+".md")
			if *update {
				if err := os.WriteFile(document, page.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(have, page.Bytes()) {
				t.Errorf("%s is not what the results say: go test ./internal/explain/studies -update", document)
			}
		})
	}
}
