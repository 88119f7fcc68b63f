package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
)

// A writer is a command and the flags of it that name what it writes. Words in
// capitals are paths of the tree that the test makes; NEW is a path that does not
// exist yet.
type writer struct {
	args string // "" where the command writes nothing
	// "0" is the first argument; those ending in "/" name a folder that may hold other things
	flags []string
}

// writers holds every command: one that is not in it fails the test.
var writers = map[string]writer{
	"accesses build": {"accesses build LISTS --db NEW", []string{"--db"}},
	"accesses generate": {"accesses generate --blocks 2 --accounts 1k --out NEW",
		[]string{"--out"}},
	"accesses import":  {"accesses import LISTS --out NEW", []string{"--out"}},
	"accesses info":    {},
	"accesses verify":  {},
	"advise":           {"advise DB --probe-seconds 0 --out NEW", []string{"--out"}},
	"cluster check":    {},
	"changeset export": {"changeset export SET --format cronos --out NEW", []string{"--out"}},
	"changeset generate": {"changeset generate --profile bank --versions 3 --out NEW",
		[]string{"--out"}},
	"changeset harvest": {"changeset harvest --db DB --out NEW", []string{"--out"}},
	"changeset import":  {"changeset import SET --out NEW", []string{"--out"}},
	"changeset info":    {},
	"changeset verify":  {},
	"compare": {"compare --run gets=1k gets=1k --db DB --use-existing --warmup 0 --access-gets 0 " +
		"--cache 1MiB --repeats 2 " +
		"--fail-if block_reads_per_get>0 --out NEW", []string{"--out"}},
	"disk": {"disk TREE --seconds 0.05 --repeats 1 --in-flight 1 --fio none --out NEW",
		[]string{"--out"}},
	"doctor":  {"doctor --db DB --run RUN --report NEW.zip", []string{"--report"}},
	"engines": {},
	"help":    {},
	"import":  {"import LOGS --out NEW", []string{"--out"}},
	"inspect": {"inspect DB", nil},
	"layouts": {"layouts --layout flat-pebble --accounts 1k --reads 100 --update-blocks 0 " +
		"--memory 0 --db NEW1 --out NEW", []string{"--out", "--db/"}},
	"load": {"load --db NEW1 --keys 1k --out NEW", []string{"--out", "--db"}},
	"price": {"price --layout flat-pebble --accounts 1k --contract-slots 100 --at 2k " +
		"--contract-at 100 --reads 100 --update-blocks 0 --memory 0 " +
		"--hardware nvme.json --out NEW", []string{"--out"}},
	"tune": {"tune --keys 1000000 --memory 64MiB --timeout 1s --seeds 1 --gets 10k --out " +
		"NEW", []string{"--out"}},
	"predict": {"predict --keys 1M --cache 1% --gets 10k --out NEW", []string{"--out"}},
	"replay": {"replay --tree null --changes SET --db NEW1 --out NEW",
		[]string{"--out", "--db/"}},
	"report": {"report RUN --picture NEW1.svg --tidy NEW2.csv --out NEW",
		[]string{"--out", "--picture", "--tidy"}},
	"run":         {"run EXPERIMENT --out NEW", []string{"--out"}},
	"pack create": {"pack create RUN --out NEW.zip", []string{"--out"}},
	"pack site":   {"pack site PACKS --out NEW", []string{"--out"}},
	"pack verify": {},
	"simulate": {"simulate TRACE --cache 1MiB --export NEW1 --out NEW",
		[]string{"--export", "--out"}},
	"sweep": {"sweep --db DB --use-existing --cache 1MiB --gets 1k --warmup 0 " +
		"--access-gets 0 --disk none --out NEW", []string{"--out"}},
	"trace": {"trace --db DB --use-existing --gets 1k --warmup 0 --out NEW",
		[]string{"--out"}},
	"volume create": {"volume create NEW --size 16MiB", []string{"0"}},
	"volume remove": {"volume remove NEW", []string{"0"}},
	"watch": {"watch --pid 1 --seconds 1 --trace-out NEW1 --keep-keys NEW2 --out NEW",
		[]string{"--out", "--trace-out", "--keep-keys"}},
}

// onlyRefused are commands that need what a machine may not have, or much time:
// only their refusals are tested.
var onlyRefused = []string{"accesses build", "accesses import", "changeset harvest", "disk",
	"predict", "price", "volume create", "volume remove", "watch"}

func TestEveryCommandIsAWriter(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.HasSubCommands() {
			for _, sub := range cmd.Commands() {
				walk(sub)
			}
			return
		}

		name := strings.TrimPrefix(cmd.CommandPath(), "statelab ")
		w, known := writers[name]
		if !known {
			t.Errorf("%s is not in the table of what commands write", name)
		}

		for _, flag := range []string{"out", "picture", "export"} {
			if cmd.Flags().Lookup(flag) != nil && !slices.Contains(w.flags, "--"+flag) {
				t.Errorf("%s --%s is not in the table of what commands write", name, flag)
			}
		}
	}

	walk(new(app).root())
}

// Every flag that names what a command writes is pointed at files of others, into a
// database and through links: nothing that was there may change.
func TestOnlyNamedPathsChange(t *testing.T) {
	testring.Outer(t, "it runs every command")
	tree := sentinels(t)
	before := holding(t, tree)
	at := func(name string) string { return filepath.Join(tree, name) }
	targets := map[string]string{
		"file":                     at("mine/notes.svg"),
		"page":                     at("mine/page.html"),
		"folder":                   at("mine"),
		"run":                      at("run"),
		"link":                     at("link.svg"),
		"linked folder":            at("linked"),
		"dangling link":            at("dangling.svg"),
		"file of a database":       at("db/CURRENT"),
		"new in a database":        at("db/new/deeper.svg"),
		"new in a linked database": at("linked/new.svg"),
	}

	for name, w := range writers {
		if w.args == "" {
			continue
		}

		t.Run(name, func(t *testing.T) {
			run := func(t *testing.T, flag, target string) outcome {
				fresh := t.TempDir()
				args := strings.Fields(w.args)
				for i, arg := range args {
					switch {
					case target != "" &&
						(i > 0 && args[i-1] == flag || flag == "0" && arg == "NEW"):
						args[i] = target
					case strings.HasPrefix(arg, "NEW"):
						args[i] = filepath.Join(fresh, strings.ToLower(arg))
					case arg == strings.ToUpper(arg) && !strings.HasPrefix(arg, "-") &&
						arg != strings.ToLower(arg):
						args[i] = at(strings.ToLower(arg))
					}
				}

				return statelab(t, args...)
			}

			changed := func(t *testing.T, o outcome) {
				after := holding(t, tree)
				for path, was := range before {
					if after[path] != was {
						t.Errorf("%s changed: %s became %s\n%v", path, was, after[path], o)
					}
				}

				for path := range after {
					if _, was := before[path]; !was {
						t.Errorf("%s is new\n%v", path, o)
						if err := os.RemoveAll(filepath.Join(tree, path)); err != nil {
							t.Fatal(err)
						}
						delete(after, path)
					}
				}

				before = after // what follows is not to blame
			}

			if !slices.Contains(onlyRefused, name) {
				o := run(t, "", "")
				if changed(t, o); o.exit != exitDone {
					t.Errorf("the command of the table fails: %v", o)
				}
			}

			for _, flag := range w.flags {
				flag, shared := strings.CutSuffix(flag, "/")
				for what, target := range targets {
					if shared && !strings.Contains(what, "database") {
						continue
					}

					t.Run(flag+" "+what, func(t *testing.T) {
						o := run(t, flag, target)
						if changed(t, o); o.exit == exitDone {
							t.Errorf("not refused: %v", o)
						}
					})
				}
			}
		})
	}
}

// sentinels is a tree of files that no command may change.
func sentinels(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	at := func(name string) string { return filepath.Join(tree, name) }
	must(t, "load", "--db", at("db"), "--keys", "2k")
	must(t, "sweep", "--db", at("db"), "--gets", "1k", "--warmup", "0", "--access-gets", "0",
		"--out", at("run"))
	if err := os.Mkdir(at("packs"), 0o755); err != nil {
		t.Fatal(err)
	}

	must(t, "pack", "create", at("run"), "--out", at("packs/run.zip"))
	must(t, "trace", "--db", at("db"), "--gets", "1k", "--warmup", "0", "--out", at("trace"))
	must(t, "changeset", "generate", "--profile", "bank", "--versions", "3", "--scale", "0.001",
		"--out", at("set"))
	experiment := must(t, "sweep", "--db", at("db"), "--use-existing", "--gets", "1k", "--warmup",
		"0", "--access-gets", "0", "--print-experiment")
	if err := os.WriteFile(at("experiment"), []byte(experiment.stdout), 0o644); err != nil {
		t.Fatal(err)
	}

	// another program's from now on
	if err := os.RemoveAll(at("db/" + engine.OwnFolder)); err != nil {
		t.Fatal(err)
	}

	files := map[string]string{
		"mine/notes.svg": "mine",
		"mine/page.html": "<!DOCTYPE html>\n<p>my page</p>",
	}

	for _, name := range []string{"RadmonRead_3M_2M.log", "Properties_3M.log"} {
		text, err := os.ReadFile(filepath.Join("../../internal/explain/kvdblog/testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files["logs/"+name] = string(text)
	}

	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(at(path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for link, to := range map[string]string{
		"link.svg":     "mine/notes.svg",
		"linked":       "db",
		"dangling.svg": "nowhere",
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}

	return tree
}

// holding is what every path below dir holds.
func holding(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		switch {
		case d.IsDir():
			found[name] = "a folder"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			found[name] = "a link to " + to
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found[name] = fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256(text))
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return found
}
