package pebbledb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	marker := func(format string) string {
		return filepath.Join(dir, "marker.format-version.000001."+format)
	}
	for _, c := range []struct{ format, adapter, want string }{
		{"012", "pebble2", "use pebble1"},
		{"013", "pebble1", ""},
		{"016", "pebble1", ""},
		{"017", "pebble1", "use pebble2"},
		{"024", "pebble2", ""},
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
