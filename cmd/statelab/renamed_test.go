package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// Who types a name of an earlier release is told what it is called now. Nothing else is taken for one.
func TestRenamedCommandsAndFlags(t *testing.T) {
	for typed, told := range map[string]string{
		"read --db D --cache 1%":        "statelab sweep",
		"--quiet read --db D":           "statelab sweep",
		"help read":                     "statelab sweep",
		"fidelity A B --cache 1MiB":     "statelab inspect A --as B",
		"serve R --listen :80":          "statelab report --serve",
		"publish S --out S.zip":         "statelab pack create",
		"verify S.zip":                  "statelab pack verify",
		"site packs --out web":          "statelab pack site",
		"workloads":                     "statelab engines --workloads",
		"version":                       "statelab --version",
		"bisect --module M":             "examples/bisect",
		"predict --layout L --cache 1%": "predict --levels",
		"predict --layout=L --cache 1%": "predict --levels",
		"predict --validate":            "statelab-studies validate",
		"sweep --where local --db D":    "--on",
		"run E --where=local":           "--on",
		"sweep --db read --help":        "",
		"help":                          "",
		"engines --workloads":           "",
		"pack --help":                   "",
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), strings.Fields(typed), &out, &errs)
		if refused := code == exitUsage; refused != (told != "") || !strings.Contains(errs.String(), told) {
			t.Errorf("%s: exit %d, %q: want %q", typed, code, errs.String(), told)
		}
	}
}
