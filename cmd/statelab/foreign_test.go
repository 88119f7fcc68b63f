package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	pebble1 "github.com/cockroachdb/pebble"
	bloom1 "github.com/cockroachdb/pebble/bloom"
	pebble2 "github.com/cockroachdb/pebble/v2"
	bloom2 "github.com/cockroachdb/pebble/v2/bloom"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/result"
)

// Databases that plain Pebble has written, as a node's would be: read by sample,
// never changed, refused while their owner holds them.

const foreignKeys = 60_000

// newForeign writes a database without statelab. It ends with keys that are only
// in the log, as after a crash of their owner.
func newForeign(t *testing.T, engine string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "chaindata")
	if err := writeForeign(engine, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeForeign(engine, dir string) error {
	type store interface {
		Flush() error
		Close() error
	}

	var db store
	var set func(key, value []byte) error
	var compact func(from, to []byte) error
	switch engine {
	case "pebble1":
		levels := []pebble1.LevelOptions{{FilterPolicy: bloom1.FilterPolicy(10)}}
		d, err := pebble1.Open(dir, &pebble1.Options{Levels: levels})
		if err != nil {
			return err
		}
		db, set = d, func(key, value []byte) error { return d.Set(key, value, pebble1.NoSync) }
		compact = func(from, to []byte) error { return d.Compact(from, to, false) }
	case "pebble2":
		o := &pebble2.Options{}
		for i := range o.Levels {
			o.Levels[i].FilterPolicy = bloom2.FilterPolicy(10)
		}

		d, err := pebble2.Open(dir, o)
		if err != nil {
			return err
		}

		db, set = d, func(key, value []byte) error { return d.Set(key, value, pebble2.NoSync) }
		compact = func(from, to []byte) error {
			return d.Compact(context.Background(), from, to, false)
		}
	default:
		return fmt.Errorf("no engine %q", engine)
	}

	for i := range foreignKeys {
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		if err := set(sum[:], append(sum[:], sum[:i%32]...)); err != nil {
			return err
		}

		if i == foreignKeys*9/10 {
			if err := db.Flush(); err != nil {
				return err
			}

			// Pebble compacts the tables in L0 by itself, but Close interrupts it where it is not
			// done.
			if err := compact([]byte{}, bytes.Repeat([]byte{0xff}, sha256.Size)); err != nil {
				return err
			}
		}
	}

	return db.Close()
}

func TestForeignDatabaseIsReadAndNeverChanged(t *testing.T) {
	for _, engine := range []string{"pebble1", "pebble2"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "pebble1" {
				testring.Outer(t, "as pebble2")
			}

			db := newForeign(t, engine)
			before := fingerprint(t, db)
			out := filepath.Join(t.TempDir(), "S")
			must(t, "sweep", "--db", db, "--use-existing", "--cache", "512KiB,1MiB", "--gets",
				"20k", "--warmup", "0", "--sample-keys", "10k", "--missing", "20%",
				"--out", out)
			must(t, "inspect", db)
			if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
				t.Errorf("the database was changed:\n%s", diff)
			}

			s := readSweep(t, out)
			if s.Status != result.OK || len(s.Points) != 2 || s.Database.Written != "foreign" {
				t.Fatalf("%s, %d points, written by %q", s.Status, len(s.Points),
					s.Database.Written)
			}

			for _, p := range s.Points {
				run := readRun(t, filepath.Join(out, p.Run))
				if run.Engine.Name != engine {
					t.Errorf("read with %s", run.Engine.Name)
				}

				f := run.Figures
				if share := float64(f.Missing) / float64(f.Gets); f.Gets != 20_000 ||
					share < 0.18 || share > 0.22 {
					t.Errorf("%d Gets, a share of %.3f missing", f.Gets, share)
				}

				for _, c := range run.Checks {
					if !c.OK {
						t.Errorf("self-check %+v", c)
					}
				}
			}
		})
	}
}

// fingerprint is every file of dir with a digest of its content.
func fingerprint(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}

		info, err := entry.Info()
		if err != nil {
			return err
		}

		files[path] = fmt.Sprintf("%x, modified %v", sha256.Sum256(text), info.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return files
}

// settled is the fingerprint of a directory whose owner has stopped changing it:
// after opening, Pebble still deletes old files.
func settled(t *testing.T, dir string) map[string]string {
	t.Helper()
	for last := listing(t, dir); ; {
		time.Sleep(300 * time.Millisecond)
		now := listing(t, dir)
		if cmp.Equal(last, now) {
			return fingerprint(t, dir)
		}

		last = now
	}
}

// listing is the names and sizes of dir's files.
func listing(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // deleted meanwhile
		}
		files = append(files, fmt.Sprint(e.Name(), info.Size()))
	}

	return files
}

// holderOf makes this test binary a process that holds a database: see TestMain.
const holderOf = "STATELAB_TEST_HOLD"

// hold opens dir as its owner would, says so and waits to be killed.
func hold(engine, dir string) error {
	var err error
	if engine == "pebble1" {
		_, err = pebble1.Open(dir, &pebble1.Options{})
	} else {
		_, err = pebble2.Open(dir, &pebble2.Options{})
	}

	if err != nil {
		return err
	}

	fmt.Println("held")
	select {}
}

func TestHeldDatabase(t *testing.T) {
	for _, engine := range []string{"pebble1", "pebble2"} {
		t.Run(engine, func(t *testing.T) {
			db := newForeign(t, engine)
			owner := exec.Command(os.Args[0])
			owner.Env = append(os.Environ(), holderOf+"="+engine+":"+db)
			owner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			owner.Stderr = os.Stderr
			words, err := owner.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}

			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}

			defer func() {
				if err := owner.Process.Kill(); err != nil {
					t.Error(err)
				}
				owner.Wait() // its error is the kill
			}()

			if line, err := bufio.NewReader(words).ReadString('\n'); line != "held\n" {
				t.Fatalf("the owner says %q, %v", line, err)
			}

			before := settled(t, db)
			typed := db + "/." // errors name it so
			read := []string{"sweep", "--db", typed, "--use-existing", "--gets", "5k", "--warmup",
				"0", "--sample-keys", "5k", "--out", filepath.Join(t.TempDir(), "R")}
			refused(t, statelab(t, read...), exitFailed,
				fmt.Sprintf("%s is in use by process %d: stop it, or add --ignore-lock", typed,
					owner.Process.Pid))
			// so that the folder can be given again
			if _, err := os.Stat(read[len(read)-1]); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the refused command left its folder behind: %v", err)
			}

			must(t, append(read, "--ignore-lock")...)
			if run := runsOf(t, read[len(read)-1],
				sweepOf(t, read[len(read)-1]))[0]; run.Figures.Found != 5000 {
				t.Errorf("%d of 5000 found", run.Figures.Found)
			}

			if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
				t.Errorf("the database was changed:\n%s", diff)
			}
		})
	}
}
