package runners

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/subject"
)

// TestALibraryIsTheRunnersParameter: a runner hears which library an option names, and nothing else
// of this process does. The runner of the test describes an engine whose version is what it heard.
func TestALibraryIsTheRunnersParameter(t *testing.T) {
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho '{\"schema\": %q, \"engines\": [{\"name\": \"native\", "+
		"\"version\": \"'\"$%s\"'\"}]}'\n", schema.Runner, nativeLibraryEnv)
	if err := os.WriteFile(filepath.Join(bin, "statelab-run-echo"), []byte(script),
		0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(nativeLibraryEnv, "/of/the/user.so")
	table := func() *Table[engine.Info] {
		known := Known{Name: "native", Program: subject.Program{Runner: "statelab-run-echo"}}
		return &Table[engine.Info]{Outside: Programs{known}}
	}

	for _, c := range []struct {
		options []map[string]string
		want    string
	}{
		{nil, "/of/the/user.so"},
		{[]map[string]string{{"other": "1"}, nil, {"library": "/b.so"}, {"library": "/c.so"}},
			"/b.so"},
	} {
		engines := table()
		engines.UseLibrary(c.options...)
		found, err := engines.Find("native")
		if err != nil {
			t.Fatal(err)
		}

		if found.Info.Version != c.want {
			t.Errorf("%v: the runner loads %q, not %q", c.options, found.Info.Version, c.want)
		}
	}

	if own := os.Getenv(nativeLibraryEnv); own != "/of/the/user.so" {
		t.Errorf("this process's own environment has become %q", own)
	}
}
