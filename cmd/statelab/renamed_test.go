package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// A name of the last release means the same as before, and its use names the new one.
func TestRenamedCommandsAndFlags(t *testing.T) {
	for before, after := range map[string]string{
		"read --db D --cache 1%":          "sweep --db D --cache 1%",
		"--quiet read --db D":             "--quiet sweep --db D",
		"fidelity A":                      "inspect --as node A",
		"fidelity A B --cache 1MiB":       "inspect --as node A B --cache 1MiB",
		"serve R --listen :80":            "report --serve R --listen :80",
		"publish S --out S.zip":           "pack create S --out S.zip",
		"verify S.zip":                    "pack verify S.zip",
		"site packs --out web":            "pack site packs --out web",
		"workloads":                       "engines --workloads",
		"version":                         "--version",
		"predict --layout L --cache 1%":   "predict --levels L --cache 1%",
		"predict --layout=L --cache 1%":   "predict --levels=L --cache 1%",
		"layouts --layout flat-pebble":    "layouts --layout flat-pebble",
		"sweep --where local --db D":      "sweep --on local --db D",
		"read --where=local":              "sweep --on=local",
		"changeset verify set.slcs":       "changeset verify set.slcs",
		"help read":                       "help sweep",
		"help fidelity":                   "help inspect",
		"help version":                    "help",
		"sweep --db read":                 "sweep --db read",
		"":                                "",
		"--help":                          "--help",
		"help":                            "help",
		"pack verify S.zip --db --layout": "pack verify S.zip --db --layout",
	} {
		now, notes := names.Current(strings.Fields(before))
		if got := strings.Join(now, " "); got != after {
			t.Errorf("%q: %q, want %q", before, got, after)
		}

		if len(notes) != 0 != (before != after) {
			t.Errorf("%q: notes %q", before, notes)
		}
	}

	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"workloads"}, &out, &errs); code != exitDone ||
		!strings.Contains(out.String(), "readrandom") {
		t.Errorf("exit %d: %s", code, out.String())
	}

	if want := "note: \"statelab workloads\" is now \"statelab engines --workloads\"; the old " +
		"name works until the next release\n"; errs.String() != want {
		t.Errorf("stderr %q, want %q", errs.String(), want)
	}

	root := new(app).root()
	for _, name := range names.Commands {
		cmd, _, err := root.Find(strings.Fields(name))
		if err != nil || name != "--version" && cmd == root {
			t.Errorf("%s: %v", name, err)
		}
	}

	for verb, flags := range names.Flags {
		cmd, _, err := root.Find([]string{verb})
		for before, after := range flags {
			if err != nil || cmd.Flags().Lookup(after) == nil || cmd.Flags().Lookup(before) != nil {
				t.Errorf("%s --%s: %v", verb, after, err)
			}
		}
	}

	errs.Reset()
	code := run(context.Background(), []string{"bisect", "--module", "M"}, &out, &errs)
	if code != exitUsage || !strings.Contains(errs.String(), "examples/bisect") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}
