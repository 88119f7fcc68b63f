package pebbledb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

func TestPeek(t *testing.T) {
	const pebbleOptions = "[Version]\n  pebble_version=0.1\n"
	for _, c := range []struct {
		name   string
		files  map[string]string
		format uint64
		engine string // "": no database
	}{
		{"oldest", map[string]string{"CURRENT": "", "MANIFEST-000001": "", "OPTIONS-000003": pebbleOptions}, 1, "pebble1"},
		{"v1 with marker", map[string]string{"marker.format-version.000011.012": "", "CURRENT": ""}, 12, "pebble1"},
		{"v2", map[string]string{"marker.format-version.000001.013": "", "marker.manifest.000001.MANIFEST-000001": ""}, 13, "pebble2"},
		{"newest marker wins", map[string]string{"marker.format-version.000009.016": "", "marker.format-version.000010.021": ""}, 21, "pebble2"},
		{"rocksdb", map[string]string{"CURRENT": "", "OPTIONS-000007": "[Version]\n  rocksdb_version=8.1.1\n"}, 0, ""},
		{"leveldb", map[string]string{"CURRENT": "", "MANIFEST-000004": "", "000005.ldb": ""}, 0, ""},
		{"other files", map[string]string{"notes.txt": ""}, 0, ""},
		{"damaged marker", map[string]string{"marker.format-version.x.013": ""}, 0, ""},
		{"damaged format", map[string]string{"marker.format-version.000001.abc": ""}, 0, ""},
		{"empty", nil, 0, ""},
	} {
		dir := t.TempDir()
		for name, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		found, err := Peek(dir)
		var not *engine.NotADatabaseError
		if found.Engine != c.engine || found.FormatMajorVersion != c.format || (c.engine == "") != errors.As(err, &not) {
			t.Errorf("%s: %+v, %v; want %s, format %d", c.name, found, err, c.engine, c.format)
		}
	}
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	marker := func(format string) string { return filepath.Join(dir, "marker.format-version.000001."+format) }
	for _, c := range []struct{ format, adapter, want string }{
		{"012", "pebble2", "use pebble1"}, {"013", "pebble1", ""}, {"016", "pebble1", ""}, {"017", "pebble1", "use pebble2"}, {"024", "pebble2", ""},
	} {
		if err := os.WriteFile(marker(c.format), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		err := CheckDir(engine.Options{Dir: dir}, c.adapter)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("format %s by %s: %v, want %q", c.format, c.adapter, err, c.want)
		}
		if err := os.Remove(marker(c.format)); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzNewestMarker(f *testing.F) {
	f.Add("marker.format-version.000001.013")
	f.Add("marker.format-version..")
	f.Fuzz(func(t *testing.T, name string) {
		value, err := newestMarker([]string{name, "marker.format-version.000000.001"}, formatMarker)
		if err == nil && value == "" && !strings.HasPrefix(name, formatMarker) {
			t.Errorf("%q hides the other marker", name)
		}
	})
}
