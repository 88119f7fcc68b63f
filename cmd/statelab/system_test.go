package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// Elsewhere than on Linux a command that measures says so, whatever its flags are; the
// others and all help texts stay.
func TestMeasuringNeedsLinux(t *testing.T) {
	for line, refused := range map[string]bool{
		"sweep --db D --cache 1MiB":              true,
		"volume create V --size 1GiB":            true,
		"cluster check":                          true,
		"sweep":                                  true,
		"sweep --help":                           false,
		"engines":                                false,
		"predict --keys 1M --gets 1k --cache 1%": false,
		"engines --workloads":                    false,
	} {
		a := &app{
			ctx:    context.Background(),
			stdout: io.Discard,
			stderr: io.Discard,
			tables: newTables(),
		}

		root := a.root()
		a.needLinux("darwin", root.Commands())
		root.SetArgs(strings.Fields(line))
		root.SetOut(io.Discard)
		err := root.ExecuteContext(a.ctx)
		if is := err != nil &&
			strings.Contains(err.Error(), "needs Linux, and this is darwin"); is != refused {
			t.Errorf("%s: %v", line, err)
		}
	}

	known := map[string]bool{}
	for _, cmd := range new(app).root().Commands() {
		known[cmd.Name()] = true
	}

	for _, name := range measuring {
		if !known[name] {
			t.Errorf("there is no command %s", name)
		}
	}
}
