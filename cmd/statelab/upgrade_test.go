package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// TestUpgradeFrom010 uses what version 0.1.0 wrote (testdata/0.1.0, whose README names the
// commands): a database, an experiment file and the results of it, and a pack. The counts of its
// own run are what today's must be on its database.
func TestUpgradeFrom010(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unzip(t, "testdata/0.1.0/written.zip", dir)
	pack, err := filepath.Abs("testdata/0.1.0/pack.zip")
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
			t.Errorf("%s reads %v, 0.1.0 read %v", strings.Join(args, " "), now, before)
		}
	}

	// What 0.1.0 measured stands in the archive, and the machine that tests it now is another one.
	const machine = "os,hardware-class,cpu,cores,host-memory,memory-limit,filesystem,device," +
		"read-ahead"
	for _, c := range []struct{ command, says string }{
		{"report sweep", "0.912 block reads per Get"},
		{"compare sweep ran --allow statelab," + machine, "the same block reads per Get: 0.912"},
		{"inspect db", "3,457"},
		{"simulate T --cache 26KiB", "3.8753"}, // as 0.1.0 did
		{"trace --db db --gets 3k --warmup 2k --out T2", "access 3.86 blocks"},
		{"simulate T2 --cache 26KiB", "3.8753"},
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
