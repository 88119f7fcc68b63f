package publish

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/mutilate"
)

// Files are the records of a pack, whose list of checksums names each. Their order says nothing: a
// pack with the same files in another order is whole, and passes.
func TestMutilatedPacks(t *testing.T) {
	type entry struct {
		name string
		text []byte
	}

	root := t.TempDir()
	source := filepath.Join(root, "S")
	for _, engine := range []string{"a", "b", "c", "d", "e"} {
		sweep(t, filepath.Join(source, engine), engine, 120)
	}
	sweep(t, source, "pebble1", 120)
	valid := filepath.Join(root, "valid.zip")
	pack(t, source, valid)

	in, err := zip.OpenReader(valid)
	must(t, err)
	defer in.Close()
	var entries []entry
	for _, f := range in.File {
		r, err := f.Open()
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		entries = append(entries, entry{f.Name, text})
	}

	middle := -1
	for i, e := range entries {
		if strings.HasSuffix(e.name, "run.json") && i+1 < len(entries) && middle < 0 {
			middle = i
		}
	}

	check := func(entries []entry) error {
		path := filepath.Join(t.TempDir(), "pack.zip")
		out, err := os.Create(path)
		must(t, err)
		w := zip.NewWriter(out)
		for _, e := range entries {
			to, err := w.Create(e.name)
			must(t, err)
			_, err = to.Write(e.text)
			must(t, err)
		}

		must(t, w.Close())
		must(t, out.Close())
		_, err = Check(path, "test")
		return err
	}

	if err := check(entries); err != nil {
		t.Fatalf("the valid pack is refused: %v", err)
	}

	merged := func(a, b entry) entry { return entry{a.name, append(a.text, b.text...)} }
	for _, c := range mutilate.Of(t, entries, middle, merged) {
		err := check(c.Records)
		if (err == nil) != (c.Name == mutilate.Reordered) {
			t.Errorf("%s: %v", c.Name, err)
		}
		t.Logf("%s: %s", c.Name, fmt.Sprintf("%.200v", err))
	}
}
