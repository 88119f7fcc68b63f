package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// TestUpgrade uses what earlier versions wrote (testdata/VERSION, whose README names the commands):
// a database, an experiment file and the results of it, and a pack. The counts of their own run are
// what today's must be on their database.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for version, reads := range map[string]string{"0.1.0": "0.912", "0.2.0": "0.911"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			testUpgrade(t, filepath.Join("testdata", version), reads)
		})
	}
}

func testUpgrade(t *testing.T, written, reads string) {
	t.Helper()
	dir := t.TempDir()
	unzip(t, filepath.Join(written, "written.zip"), dir)
	pack, err := filepath.Abs(filepath.Join(written, "pack.zip"))
	if err != nil {
		t.Fatal(err)
	}

	in := func(args ...string) string {
		t.Helper()
		o := startIn(t, dir, nil, args...).wait()
		if o.exit != exitDone {
			t.Fatal(o)
		}

		return o.stdout
	}

	counts := func(folder string) (reads []map[string]float64) {
		t.Helper()
		for _, point := range []string{"000", "001"} {
			run, err := result.ReadRun(filepath.Join(dir, folder, "points", point))
			if err != nil {
				t.Fatal(err)
			}
			reads = append(reads, run.Figures.BlockReadsPerGetByType)
		}

		return reads
	}

	before := counts("sweep")
	for name, args := range map[string][]string{
		"ran": {"run", "sweep.yaml", "--out", "ran"},
		"swept": {"sweep", "--db", "db", "--cache", "90KiB,130KiB", "--gets", "3k", "--warmup",
			"2k", "--threads", "1", "--access-gets", "500",
			"--out", "swept"},
		"old": {"read", "--db", "db", "--cache", "90KiB,130KiB", "--gets", "3k", "--warmup", "2k",
			"--threads", "1", "--out", "old"},
	} {
		in(args...)
		if now := counts(name); !reflect.DeepEqual(now, before) {
			t.Errorf("%s reads %v, they read %v", strings.Join(args, " "), now, before)
		}
	}

	// What they measured stands in the archive, and the machine that tests it now is another one.
	const machine = "os,hardware-class,cpu,cores,host-memory,memory-limit,filesystem,device," +
		"read-ahead"
	simulated := map[string]string{"0.912": "3.8753", "0.911": "3.8737"}[reads] // as they did
	for _, c := range []struct{ command, says string }{
		{"report sweep", reads + " block reads per Get"},
		{"compare sweep ran --allow statelab," + machine, "the same block reads per Get: " + reads},
		{"inspect db", "3,457"},
		{"simulate T --cache 26KiB", simulated},
		{"trace --db db --gets 3k --warmup 2k --out T2", " blocks"},
		{"simulate T2 --cache 26KiB", simulated},
		{"advise db --memory 4MiB --probe-seconds 0", "block reads"},
		{"changeset verify set.slcs", "Sound"},
		{"pack create sweep --out sweep.zip", "sweep.zip: 2 runs"},
		{"pack verify sweep.zip", "sweep.zip passes"},
		{"pack verify " + pack, "pack.zip passes: 2 runs"},
	} {
		if text := in(strings.Fields(c.command)...); !strings.Contains(text, c.says) {
			t.Errorf("%s does not say %q:\n%s", c.command, c.says, text)
		}
	}

	// What 0.2.0 could write, too.
	for _, c := range []struct{ of, command, says string }{
		{"replay", "report replay", "null"},
		{"layouts", "report layouts", "flat-pebble"},
		{"advice", "report advice", "With a cache of"},
		{"prediction", "report prediction", "1.49 at 1.24 MiB"},
		{"l.slal", "accesses verify l.slal", "1 block"},
	} {
		if _, err := os.Stat(filepath.Join(dir, c.of)); err != nil {
			continue
		}

		if text := in(strings.Fields(c.command)...); !strings.Contains(text, c.says) {
			t.Errorf("%s does not say %q:\n%s", c.command, c.says, text)
		}
	}
}

// TestFiguresOfEarlierIndexes: what 0.1.0 stored in sweep.json, replay.json and layouts.json is
// what report --json prints of the same folder, under the same names but for those in
// docs/stability.md.
func TestFiguresOfEarlierIndexes(t *testing.T) {
	const stored = "../../internal/explain/kinds/testdata/0.1.0"
	// A figure that 0.1.0 stored as 0 because it was not measured is unavailable now; and it named
	// the first of several repeats, whichever it showed.
	for folder, file := range map[string]string{"sweep": "sweep.json", "imported": "sweep.json",
		"replay": "replay.json", "layouts": "layouts.json", "read": "run.json"} {
		text, err := os.ReadFile(filepath.Join(stored, folder, file))
		if err != nil {
			t.Fatal(err)
		}

		before := leaves(t, text)
		now := leaves(t, []byte(must(t, "report", absolute(filepath.Join(stored, folder)),
			"--json").stdout))
		compared := 0
		for name, value := range before {
			if before, is := strings.CutSuffix(name, ".phase"); is {
				name = before + ".regime"
			}

			name = strings.Replace(name, ".cache_bytes.", ".cache.", 1)
			if value == "0" || strings.HasSuffix(name, ".run") ||
				file == "sweep.json" && name == ".inflection.regime" { // each point has its own
				continue
			}

			compared++
			if now[name] != value {
				t.Errorf("%s: %s is %q, was %q", folder, name, now[name], value)
			}
		}

		if compared < 20 {
			t.Errorf("%s: only %d members", folder, compared)
		}
	}
}

// leaves are the values of a JSON text that have no parts, by their path.
func leaves(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}

	found := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, part := range v {
				walk(path+"."+name, part)
			}
		case []any:
			for i, part := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), part)
			}
		default:
			found[path] = fmt.Sprint(v)
		}
	}

	walk("", v)
	return found
}

// unzip writes the files of an archive into dir.
func unzip(t *testing.T, archive, dir string) {
	t.Helper()
	r, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}

	defer r.Close()
	if err := os.CopyFS(dir, r); err != nil {
		t.Fatal(err)
	}
}

// TestVersionIsOfTheTag: a version is told only of what was built from the tag of one.
func TestVersionIsOfTheTag(t *testing.T) {
	for module, want := range map[string]string{
		"v0.2.0":                               "0.2.0",
		"v0.2.0+dirty":                         host.Version,
		"v0.2.1-0.20261126120000-0123456789ab": host.Version,
		"(devel)":                              host.Version,
		"":                                     host.Version,
	} {
		if got := host.VersionOf(module); got != want {
			t.Errorf("%q: %s, want %s", module, got, want)
		}
	}
}
