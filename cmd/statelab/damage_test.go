package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
)

// Full disks, damaged files and wrong folders: each ends soon, with words that
// name the thing and the way out.

func TestFullDiskEndsTheLoad(t *testing.T) {
	testring.Root(t, "to mount a small disk that the test fills")
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("this machine does not let root mount a small disk: %v", err)
	}

	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})

	db := filepath.Join(disk, "db")
	refused(t, statelab(t, "load", "--db", db, "--keys", "2M"), exitFailed, "loading 2M keys",
		"64.0 MiB is free", "--ignore-space")
	for _, engine := range []string{"pebble1", "pebble2"} {
		// Small memtables fill the disk with tables, which Pebble would retry for
		// ever; large ones with its log, which makes it panic.
		for _, memtable := range []string{"4MiB", "64MiB"} {
			t.Run(engine+" "+memtable, func(t *testing.T) {
				o := statelab(t, "load", "--db", db, "--engine", engine, "--keys", "2M",
					"--ignore-space", "--set", "MemTableSize="+memtable)
				refused(t, o, exitFailed, "no space left on device", "the disk is full",
					"statelab load --resume --db "+db, "fewer --keys")
				if err := os.RemoveAll(db); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestAbsurdLoadIsRefused(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	refused(t, statelab(t, "load", "--db", db, "--keys", "1T"), exitFailed,
		"loading 1T keys with pebble1 needs about", "is free: --keys", "fits")
	if _, err := os.Stat(db); !os.IsNotExist(err) {
		t.Errorf("%s was made", db)
	}
}

func TestDamagedDatabase(t *testing.T) {
	whole := small(t, "20k")
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, db string) (named string)
		exit   int
		words  []string
	}{
		{"table cut short", func(t *testing.T, db string) string {
			table := theFile(t, db, "*.sst")
			truncate(t, table, size(t, table)/2)
			return filepath.Base(table)
		}, exitFailed, nil},
		{"table gone", func(t *testing.T, db string) string {
			table := theFile(t, db, "*.sst")
			remove(t, table)
			return number(table)
		}, exitFailed, nil},
		{"data block with a wrong byte", func(t *testing.T, db string) string {
			table := theFile(t, db, "*.sst")
			flip(t, table, 1000)
			return number(table)
		}, exitFailed, []string{"checksum"}},
		{"manifest with a wrong byte", func(t *testing.T, db string) string {
			manifest := theFile(t, db, "MANIFEST-*")
			flip(t, manifest, size(t, manifest)/2)
			return db
		}, exitFailed, []string{"of the 20,000 keys", "damaged"}}, // Pebble itself says nothing
		{"manifest gone", func(t *testing.T, db string) string {
			manifest := theFile(t, db, "MANIFEST-*")
			remove(t, manifest)
			return filepath.Base(manifest)
		}, exitFailed, nil},
		{"statelab's manifest cut short", func(t *testing.T, db string) string {
			manifest := filepath.Join(db, engine.OwnFolder, "manifest.json")
			truncate(t, manifest, 20)
			return manifest
		}, exitFailed, []string{"damaged"}},
		{"wrong value", func(t *testing.T, db string) string {
			manifest := filepath.Join(db, engine.OwnFolder, "manifest.json")
			text, err := os.ReadFile(manifest)
			if err != nil {
				t.Fatal(err)
			}

			// The keys stay the same, the values are expected from another seed.
			text = []byte(strings.Replace(string(text), `"seed": 1`, `"seed": 2`, 1))
			if err := os.WriteFile(manifest, text, 0o644); err != nil {
				t.Fatal(err)
			}

			return "get key "
		}, exitFailed, []string{"wrong answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(db, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}

			named := c.damage(t, db)
			out := filepath.Join(t.TempDir(), "R")
			refused(t,
				statelab(t, "sweep", "--db", db, "--gets", "20k", "--warmup", "0", "--cache",
					"1MiB", "--out", out), c.exit, append(c.words, named)...)
		})
	}
}

func TestWrongFolders(t *testing.T) {
	db := database(t, "pebble1")
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter.txt"), []byte("dear reader"),
		0o644); err != nil {
		t.Fatal(err)
	}

	missing := filepath.Join(other, "missing")
	foreign := newForeign(t, "pebble1")
	columnar := small(t, "10k", "--engine", "pebble2", "--profile", "columnar")
	for _, c := range []struct {
		name  string
		args  []string
		exit  int
		words []string
	}{
		{"no database", []string{"sweep", "--db", other, "--use-existing"}, exitFailed,
			[]string{other, "no database was found in", "it has no CURRENT file. For a geth " +
				"node, give the path of geth/chaindata"}},
		{
			"no directory",
			[]string{"sweep", "--db", missing},
			exitUsage,
			[]string{"--db", missing, "no such file or directory"},
		},
		{
			"a file",
			[]string{"sweep", "--db", filepath.Join(other, "letter.txt")},
			exitUsage,
			[]string{"--db", "letter.txt", "is a file"},
		},
		{
			"foreign without --use-existing",
			[]string{"sweep", "--db", foreign},
			exitUsage,
			[]string{foreign, "--use-existing"},
		},
		{
			"foreign and written",
			[]string{"sweep", "--db", foreign, "--use-existing", "--workload", "overwrite"},
			exitUsage,
			[]string{"--workload overwrite", "--use-existing"},
		},
		{
			"load over a database",
			[]string{"load", "--db", db},
			exitUsage,
			[]string{db, "complete database"},
		},
		{
			"load over a foreign database",
			[]string{"load", "--db", foreign},
			exitUsage,
			[]string{foreign, "not empty"},
		},
		{
			"load over another engine's database",
			[]string{"load", "--engine", "goleveldb", "--db", foreign},
			exitUsage,
			[]string{foreign, "not of goleveldb", "--db"},
		},
		{
			"load over other things",
			[]string{"load", "--db", other},
			exitUsage,
			[]string{other, "letter.txt"},
		},
		{
			"sweep into other things",
			[]string{"sweep", "--db", db, "--out", other},
			exitUsage,
			[]string{"--out", "letter.txt"},
		},
		{
			"read into other things",
			[]string{"sweep", "--db", db, "--out", other},
			exitUsage,
			[]string{"--out", "letter.txt"},
		},
		{"report of other things", []string{"report", other}, exitFailed, []string{other}},
		{
			"import of other things",
			[]string{"import", other, "--out", missing},
			exitFailed,
			[]string{other},
		},
		{
			"v1 with pebble2",
			[]string{"sweep", "--db", db, "--engine", "pebble2"},
			exitUsage,
			[]string{db, "of pebble1, not of pebble2"},
		},
		{
			"a newer format with pebble1",
			[]string{"sweep", "--db", columnar, "--engine", "pebble1"},
			exitUsage,
			[]string{columnar, "of pebble2, not of pebble1"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Contains(c.args, "--out") && c.args[0] == "sweep" {
				c.args = append(c.args, "--out", filepath.Join(t.TempDir(), "R"))
			}
			refused(t, statelab(t, c.args...), c.exit, c.words...)
		})
	}
}

// theFile is the largest file of db that matches.
func theFile(t *testing.T, db, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(db, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, db, err)
	}
	return slices.MaxFunc(paths, func(a, b string) int { return int(size(t, a) - size(t, b)) })
}

// number is how Pebble calls a table.
func number(table string) string { return strings.TrimSuffix(filepath.Base(table), ".sst") }

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func truncate(t *testing.T, path string, bytes int64) {
	t.Helper()
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}

	b[0] ^= 0x55
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}
