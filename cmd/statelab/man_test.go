package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/sbom"
)

// Every verb has a manual page, and the bill of materials of the binary names its engines.
func TestWhatATarballHas(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	if code := distribute(manVerb, []string{dir}, &out, &errs); code != exitDone {
		t.Fatal(errs.String())
	}

	for _, verb := range new(app).root().Commands() {
		text, err := os.ReadFile(filepath.Join(dir, "statelab-"+verb.Name()+".1"))
		if err != nil || !strings.Contains(string(text), verb.Short) {
			t.Errorf("%s: %v", verb.Name(), err)
		}
	}

	if code := distribute(materialsVerb, []string{binary, "man_test.go"}, &out,
		&errs); code != exitDone {
		t.Fatal(errs.String())
	}

	var found struct{ Components []sbom.Component }
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatal(err)
	}

	if len(found.Components) != 2 || len(found.Components[1].Parts) != 0 ||
		len(found.Components[0].Hashes[0]["content"]) != 64 {
		t.Fatalf("%+v", found)
	}

	names := ""
	for _, part := range found.Components[0].Parts {
		names += part.Name + " "
	}

	for _, want := range []string{"github.com/cockroachdb/pebble ",
		"github.com/cockroachdb/pebble/v2 ", "go.etcd.io/bbolt "} {
		if !strings.Contains(names, want) {
			t.Errorf("no %s in %s", want, names)
		}
	}

	if code := distribute(manVerb, nil, &out, &errs); code != exitFailed {
		t.Error("no folder is no error")
	}
}
