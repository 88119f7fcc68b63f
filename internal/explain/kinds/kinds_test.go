package kinds

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Every kind has a file, a schema and a reader of its own; what is compared can be packed.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range All() {
		for _, once := range []string{k.Name, k.File, k.Schema} {
			if once == "" || seen[once] {
				t.Errorf("%s: %q is empty or used twice", k.Name, once)
			}
			seen[once] = true
		}

		if k.Read == nil || k.Words == "" ||
			k.Settings != nil && !slices.Contains(k.Packed, k.File) {
			t.Errorf("%s has no reader, no words, or is compared and not packed", k.Name)
		}

		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, k.File), []byte("{}\n"), 0o644); err != nil {
			t.Fatal(err)
		}

		if found, ok := Detect(dir); !ok || found.Name != k.Name {
			t.Errorf("a folder with %s is taken for %q", k.File, found.Name)
		}

		if r, err := k.Read(dir); err == nil {
			t.Errorf("%s: a file without a schema is read as %T", k.Name, r)
		}
	}

	if k, ok := Detect(t.TempDir()); ok {
		t.Errorf("an empty folder is taken for %q", k.Name)
	}
}

func TestSubjectsOfMembers(t *testing.T) {
	for name, c := range map[string]struct {
		member string
		want   []string
	}{
		"sweep": {`[{"name":"cache","values":["1%"]},{"name":"engine","values":["a","b"]}]`,
			[]string{"a", "b"}},
		"replay":  {`[{"tree":"a"},{"tree":"b"}]`, []string{"a", "b"}},
		"layouts": {`[{"layout":"a","accounts":1},{"layout":"b"}]`, []string{"a", "b"}},
	} {
		kind := All()[slices.IndexFunc(All(), func(k Kind) bool { return k.Name == name })]
		if got, err := kind.Subjects(json.RawMessage(c.member)); err != nil ||
			!slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
