package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
)

// Whose database a directory is: no engine may touch what another one wrote.

func TestEmbeddedEnginesLeaveEachOthersDatabases(t *testing.T) {
	leaveEachOther(t, embeddedNames(), nil)
}

func TestAllEnginesLeaveEachOthersDatabases(t *testing.T) {
	testring.Outer(t, "it needs every engine")
	withCRunners(t)
	leaveEachOther(t, []string{"rocksdb", "mdbx", "lmdb", "fjall", "parity-db"}, embeddedNames())
}

func embeddedNames() (names []string) {
	for _, e := range embedded() {
		names = append(names, e.Info().Name)
	}
	return names
}

// leaveEachOther asks every engine for every other one's database, but not one of
// more for another of more: loaded by statelab, and without its manifest. It is
// refused with the names of both, or opened where it reads the format; no file
// changes in any case.
func leaveEachOther(t *testing.T, engines, more []string) {
	t.Helper()
	all := slices.Concat(engines, more)
	for i, writer := range all {
		loaded, foreign := small(t, "3k", "--engine", writer), filepath.Join(t.TempDir(), "foreign")
		if err := os.CopyFS(foreign, os.DirFS(loaded)); err != nil {
			t.Fatal(err)
		}

		if err := os.RemoveAll(filepath.Join(foreign, engine.OwnFolder)); err != nil {
			t.Fatal(err)
		}

		if slices.Contains(engines, writer) &&
			slices.Contains([]string{"pebble1", "pebble2", "goleveldb", "rocksdb", "mdbx", "lmdb"},
				writer) {
			untouched(t, foreign, true, "", "", "inspect", foreign) // known without --engine
		}

		for j, asked := range all {
			if asked == writer || slices.Contains(more, asked) && slices.Contains(more, writer) {
				continue
			}

			reads := slices.Contains(readers(writer), asked)
			if testing.Short() && !reads && (i+j)%3 != 0 { // each meets a third of the others
				continue
			}

			t.Run(asked+" on "+writer, func(t *testing.T) {
				if !reads && (i+j)%6 != 0 {
					testring.Outer(t, "each meets a sixth of the others in make test")
				}

				read := []string{"sweep", "--engine", asked, "--gets", "1k", "--warmup", "0",
					"--access-gets", "0", "--db"}
				untouched(t, loaded, reads && asked == "null", writer, asked,
					append(read, loaded)...)
				untouched(t, loaded, reads, writer, asked, append(read, loaded, "--read-only")...)
				untouched(t, loaded, false, "", "", "load", "--engine", asked, "--db", loaded,
					"--resume")
				if writer == "mem" || writer == "null" {
					return // left nothing
				}

				untouched(t, foreign, reads, writer, asked,
					append(read, foreign, "--use-existing")...)
				if !reads || asked == "null" { // else the files could be its own
					untouched(t, foreign, false, writer, asked, "load", "--engine", asked, "--db",
						foreign)
				}
			})
		}
	}
}

// readers are the engines that read a database of writer without changing it, with
// the profiles that they load by default.
func readers(writer string) []string {
	if writer == "pebble2" { // in the oldest format that it opens, which v1 opens too
		return []string{"pebble1", "null"}
	}
	return []string{"null"}
}

// untouched runs a command on db, which must succeed or be refused with words, and
// changes no file.
func untouched(t *testing.T, db string, succeeds bool, writer, asked string, args ...string) {
	t.Helper()
	before := fingerprint(t, db)
	if succeeds {
		must(t, args...)
	} else {
		refused(t, statelab(t, args...), exitUsage, db, writer, asked)
	}

	if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
		t.Errorf("%q changed the database:\n%s", args, diff)
	}
}
