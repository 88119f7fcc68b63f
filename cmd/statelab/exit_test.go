package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The rule of docs/reliability.md: 2 where the command line cannot be meant, a path that does
// not exist included; 1 where it can, and something failed.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	db := database(t, "pebble1")
	missing, out, file := filepath.Join(dir, "missing"), filepath.Join(dir, "out"),
		filepath.Join(dir, "file")
	damaged := filepath.Join(dir, "damaged")
	must(t, "sweep", "--db", db, "--gets", "1k", "--warmup", "0", "--access-gets", "0", "--out",
		damaged)
	for path, text := range map[string]string{
		file: "no format that anybody knows\n",
		filepath.Join(damaged, "points", "000", "run.json"): "{",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	// Every verb is here; nil: it takes no path that has to exist.
	verbs := map[string][][]string{
		"accesses": {{"accesses", "info", missing}},
		"advise":   {{"advise", missing}},
		"changeset": {{"changeset", "info", missing},
			{"changeset", "verify", missing}},
		"cluster": nil,
		"compare": {{"compare", missing, damaged}},
		"disk":    {{"disk", missing}},
		"doctor":  nil,
		"engines": nil,
		"import":  {{"import", missing, "--out", out}},
		"inspect": {
			{"inspect", missing},
			{"inspect", "--db", missing},
			{"inspect", missing, "--as", "node"},
		},
		"layouts": nil,
		"load":    nil,
		"predict": {
			{"predict", "--levels", missing, "--cache", "1MiB"},
			{"predict", "--db", missing, "--cache", "1MiB"},
		},
		"price": {{"price", "--from", missing}},
		"pack": {
			{"pack", "create", missing, "--out", out + ".zip"},
			{"pack", "verify", missing},
			{"pack", "site", missing, "--out", out},
		},
		"replay":   {{"replay", "--tree", "null", "--changes", missing}},
		"report":   {{"report", missing}, {"report", "--serve", missing}},
		"run":      {{"run", missing}},
		"simulate": {{"simulate", missing, "--cache", "1MiB"}},
		"sweep": {
			{"sweep", "--db", missing, "--cache", "1MiB"},
			{"sweep", "--db", db, "--cache", "200KiB"},
			{"sweep", "--db", db, "--engine", "rocks"},
		},
		"trace":      {{"trace", "--db", missing, "--out", out}},
		"volume":     nil,
		"completion": nil,
		"tune": {
			{"tune", "--db", missing, "--memory", "1GiB"},
			{"tune", "--keys", "1M"},
			{"tune", "--keys", "200M", "--memory", "100KiB"},
		},
		"watch": {{"watch"}, {"watch", missing}},
	}

	for _, verb := range new(app).root().Commands() {
		lines, known := verbs[verb.Name()]
		if !known {
			t.Errorf("%s: not in the table of this test", verb.Name())
		}

		if verb.Name() != "completion" {
			lines = append(lines, []string{verb.Name(), "--no-such-flag"})
		}

		for _, args := range lines {
			if o := statelab(t, args...); o.exit != exitUsage {
				t.Errorf("exit %d, want %d: %v\n%s", o.exit, exitUsage, args, o)
			}
		}
	}

	for says, args := range map[string][]string{
		"run.json":       {"report", damaged},
		"does not pass":  {"pack", "verify", damaged},
		"--ignore-space": {"load", "--db", out, "--keys", "100000B"},
		"changeset":      {"changeset", "info", file},
	} {
		if o := statelab(t, args...); o.exit != exitFailed ||
			!strings.Contains(o.stderr+o.stdout, says) && says != "changeset" {
			t.Errorf("exit %d, want %d and %q: %v\n%s", o.exit, exitFailed, says, args, o)
		}
	}
}
