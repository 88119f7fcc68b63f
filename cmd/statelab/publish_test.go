package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Results of every kind are packed, pass the check, and stand on a site; a figure that was
// changed is named.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, "load", "--db", at("db"), "--keys", "2k", "--out", at("load"))
	must(t, "sweep", "--db", at("db"), "--cache", "1MiB,2MiB", "--gets", "1k", "--warmup", "0",
		"--repeats", "2", "--out", at("sweep"))
	must(t, "sweep", "--db", at("db"), "--rate", "5k", "--gets", "1k", "--warmup", "0", "--out",
		at("read"))
	must(t, "changeset", "generate", "--profile", "bank", "--versions", "3", "--scale", "0.001",
		"--out", at("set"))
	onPath(t, "statelab-run-iavl1") // a tree with roots has a chart of its versions
	must(t, "replay", "--tree", "null,iavl1", "--changes", at("set"), "--repeats", "2", "--out",
		at("replay"))
	must(t, "layouts", "--layout", "flat-pebble", "--accounts", "1k", "--reads", "100",
		"--repeats", "2", "--out", at("layouts"))
	must(t, "predict", "--keys", "1M", "--cache", "1MiB", "--gets", "2k", "--warmup", "1k",
		"--out", at("predicted"))
	must(t, "advise", at("db"), "--memory", "4MiB", "--probe-seconds", "0", "--out", at("advised"))
	must(t, "tune", "--db", at("db"), "--memory", "4MiB", "--gets", "30k", "--out", at("tuned"))
	if err := os.Mkdir(at("packs"), 0o755); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"load", "sweep", "read", "replay", "layouts", "predicted",
		"advised", "tuned"} {
		must(t, "pack", "create", at(name), "--out", at("packs/"+name+".zip"))
		o := must(t, "pack", "verify", at("packs/"+name+".zip"), at(name))
		if strings.Count(o.stdout, " passes: ") != 2 ||
			strings.Count(o.stdout, "not compared") != 1 {
			t.Errorf("%s: %s", name, o.stdout)
		}
	}

	if o := must(t, "pack", "site", at("packs"), "--out", at("web")); !o.says("8 packs of 8") {
		t.Error(o.stdout)
	}

	path := at("sweep/points/000-0/run.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	changed := strings.Replace(string(text), `"found": 1000`, `"found": 999`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil || changed == string(text) {
		t.Fatal(err, "nothing changed")
	}

	for _, args := range [][]string{
		{"pack", "verify", at("sweep")},
		{"pack", "create", at("sweep"), "--out", at("changed.zip")},
	} {
		if o := statelab(t, args...); o.exit != exitFailed ||
			!strings.Contains(o.stderr, "gets is 1000, and the raw files give 999") {
			t.Errorf("%v", o)
		}
	}
}
