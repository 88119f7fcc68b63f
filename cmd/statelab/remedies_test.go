package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	pebble1 "github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/bbolt"

	"github.com/statelab/statelab/internal/base/testring"
)

// remedy is a refusal and what it says to type.
type remedy struct {
	name string
	// args is the command that is refused.
	args []string
	// says finds in the refusal what to type: a whole command of statelab or of the shell, or flags
	// that are added to args. Where it has two groups, the second replaces --db.
	says string
	// fill is put in place of words such as DIR and N.
	fill map[string]string
	// then is typed behind commands of the shell.
	then []string
}

// TestRemedies: what refusals say to type is typed, and works. Other programs made the databases.
func TestRemedies(t *testing.T) {
	testring.Outer(t, "it runs every remedy that a message names")
	withCRunners(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	read := func(db string, more ...string) []string {
		args := append([]string{"sweep", "--db", db, "--gets", "100", "--warmup", "100",
			"--sample-keys", "100", "--repeats", "1", "--access-gets", "0"}, more...)
		return append(args, "--out", filepath.Join(t.TempDir(), "out"))
	}

	client := in("geth/chaindata")
	pebbleOf(t, client, "")
	logs := in("logs")
	pebbleOf(t, in("logged"), logs)
	if err := os.Rename(logs, logs+"-moved"); err != nil {
		t.Fatal(err)
	}

	bolt, err := bbolt.Open(in("member.db"), 0o644, nil)
	if err = errors.Join(err, bolt.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("key"))
		return err
	}), bolt.Close(), os.Mkdir(in("etcd"), 0o755),
		os.Link(in("member.db"), in("etcd/bolt.db"))); err != nil {
		t.Fatal(err)
	}

	// by the engines' own libraries; the rest of statelab is taken away
	for _, engine := range []string{"rocksdb", "mdbx", "lmdb"} {
		must(t, "load", "--engine", engine, "--db", in(engine), "--keys", "2k", "--out",
			in(engine+"-load"))
		if err := os.RemoveAll(filepath.Join(in(engine), "statelab")); err != nil {
			t.Fatal(err)
		}
	}

	state := in("state")
	if err := os.Rename(filepath.Join(in("lmdb"), "data.mdb"), state); err != nil {
		t.Fatal(err)
	}

	old, err := pebble1.Open(in("old"), &pebble1.Options{})
	if err = errors.Join(err, old.Set([]byte("k"), []byte("v"), nil), old.Flush(),
		old.Close()); err != nil {
		t.Fatal(err)
	}

	backup, empty := in("backup"), in("emptied")
	for _, command := range []string{
		"ldb --db=" + in("rocksdb7") + " --create_if_missing put a b",
		"ldb --db=" + in("rocksdb7") + " backup --backup_dir=" + backup,
		"ldb --db=" + empty + " --create_if_missing put a b",
		"ldb --db=" + empty + " delete a",
		"ldb --db=" + empty + " compact",
	} {
		if text, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, text)
		}
	}

	unmarked := in("unmarked")
	markers, err := filepath.Glob(filepath.Join(client, "marker.*"))
	if err = errors.Join(err, os.CopyFS(unmarked, os.DirFS(client))); err != nil {
		t.Fatal(err)
	}

	for _, marker := range markers {
		if err := os.Remove(filepath.Join(unmarked, filepath.Base(marker))); err != nil {
			t.Fatal(err)
		}
	}

	lists := in("lists")
	if err := errors.Join(os.Mkdir(lists, 0o755),
		os.WriteFile(filepath.Join(lists, "7.rlp"), []byte(`{"result":[{"address":"0xaa"}]}`),
			0o644)); err != nil {
		t.Fatal(err)
	}

	for _, c := range []remedy{
		{
			name: "no database",
			args: read(in("none")),
			says: `\((statelab load --db DIR --keys N)\)`,
			fill: map[string]string{"DIR": in("made"), "N": "1k"},
		},
		{name: "another program's", args: read(client), says: `Add (--use-existing) to read it`},
		{
			name: "the folder around it",
			args: read(in("geth"), "--use-existing"),
			says: `()(\S+) is a database: give that folder`,
		},
		{
			name: "a file of it",
			args: read(filepath.Join(client, "MANIFEST-000001"), "--use-existing"),
			says: `()give its folder, (\S+)`,
		},
		{
			name: "a file of bbolt",
			args: read(in("member.db"), "--use-existing"),
			says: `(statelab load --engine bbolt --db NEW --keys N)`,
			fill: map[string]string{"NEW": in("like1"), "N": "1k"},
		},
		{
			name: "bbolt",
			args: read(in("etcd"), "--use-existing"),
			says: `(statelab load --engine bbolt --db NEW --keys N)`,
			fill: map[string]string{"NEW": in("like2"), "N": "1k"},
		},
		{
			name: "a file of lmdb",
			args: read(state, "--use-existing"),
			says: `(mkdir NEW; ln -s \S+ NEW/data.mdb)`,
			fill: map[string]string{"NEW": in("new1")},
			then: read(in("new1"), "--use-existing", "--page-cache", "cold"),
		},
		{
			name: "a log elsewhere",
			args: read(in("logged"), "--use-existing"),
			says: `(mkdir NEW; ln -s \S+ FURTHER/\* NEW/)`,
			fill: map[string]string{"NEW": in("new2"), "FURTHER": logs + "-moved"},
			then: read(in("new2"), "--use-existing"),
		},
		{
			name: "a backup",
			args: read(backup, "--use-existing"),
			says: `(ldb restore --db=NEW --backup_dir=\S+)`,
			fill: map[string]string{"NEW": in("restored")},
			then: read(in("restored"), "--use-existing"),
		},
		{
			name: "no marker files",
			args: read(unmarked, "--use-existing"),
			says: `copy all files of the database again, such as with (cp -a)`,
			fill: map[string]string{"cp -a": "cp -a " + client + " " + in("copy")},
			then: read(in("copy"), "--use-existing"),
		},
		{
			name: "a database without keys",
			args: read(empty, "--use-existing"),
			says: `(statelab load --db NEW --keys N)`,
			fill: map[string]string{"NEW": in("filled"), "N": "1k"},
		},
		{
			name: "another engine's",
			args: read(in("old"), "--use-existing", "--engine", "pebble2"),
			says: `(?:use|give) (--engine pebble1)`,
		},
		{
			name: "O_DIRECT",
			args: read(in("mdbx"), "--use-existing", "--page-cache", "direct"),
			says: `use (--page-cache cold)`,
		},
		{
			name: "an option",
			args: read(client, "--use-existing", "--set", "MaxOpenFiles=many"),
			says: `write (MaxOpenFiles=\d+)`,
			fill: map[string]string{"MaxOpenFiles=": "--set MaxOpenFiles="},
		},
		{
			name: "a profile",
			args: read(client, "--use-existing", "--profile", "none"),
			says: `use one of (bench-kvdb)`,
			fill: map[string]string{"bench-kvdb": "--profile bench-kvdb"},
		},
		{
			name: "a cache",
			args: read(client, "--use-existing", "--cache", "much"),
			says: `examples: (64MiB)`,
			fill: map[string]string{"64MiB": "--cache 64MiB"},
		},
		{
			name: "a table",
			args: read(in("rocksdb"), "--use-existing", "--table", "accounts"),
			says: `the tables are (\w+)`,
			fill: map[string]string{"default": "--table default"},
		},
	} {
		t.Run(c.name, func(t *testing.T) { c.works(t) })
	}

	t.Run("a newer format", func(t *testing.T) {
		newer := in("newer")
		pebbleOf(t, newer, "")
		marker, err := filepath.Glob(filepath.Join(newer, "marker.format-version.*"))
		if err != nil || len(marker) != 1 {
			t.Fatal(marker, err)
		}

		if err := os.Rename(marker[0],
			filepath.Join(newer, "marker.format-version.000099.099")); err != nil {
			t.Fatal(err)
		}

		refused(t, statelab(t, read(newer, "--use-existing")...), exitFailed,
			"a newer Pebble wrote it", "use a newer statelab")
	})

	t.Run("no prediction", func(t *testing.T) {
		refused(t, statelab(t, "predict", "--db", in("mdbx"), "--cache", "1MiB"), exitUsage,
			"a database of mdbx; only those of pebble1",
			"Measure it with statelab sweep")
	})

	t.Run("one run each", func(t *testing.T) {
		a, b := in("A"), in("B")
		args := read(client, "--use-existing")
		for _, out := range []string{a, b} {
			must(t, append(slices.Clone(args[:len(args)-1]), out)...)
		}

		text := strings.Join(strings.Fields(must(t, "compare", a, b).stdout), " ")
		if !strings.Contains(text, "5 interleaved runs of each side: one sweep, or statelab "+
			"compare --run, with --repeats 5.") {
			t.Error(text)
		}

		turns := must(t, "compare", "--run", "cache=1MiB", "cache=2MiB", "--db", client,
			"--use-existing", "--gets", "100", "--warmup", "100",
			"--sample-keys", "100", "--access-gets", "0", "--repeats", "5", "--out", in("C")).stdout
		if strings.Contains(turns, "were not interleaved") ||
			strings.Contains(turns, "interleaved runs of each side") {
			t.Error(turns)
		}
	})

	t.Run("in use", func(t *testing.T) {
		owner, err := pebble.Open(client, &pebble.Options{})
		if err != nil {
			t.Fatal(err)
		}

		remedy{args: read(client, "--use-existing"), says: `add (--ignore-lock)`}.works(t)
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("a list as objects", func(t *testing.T) {
		o := statelab(t, "accesses", "import", lists, "--out", in("list.slal"))
		refused(t, o, exitFailed, "import the block's prestateTracer JSON as NUMBER.json instead")
		traces := []byte(`{"result":[{"result":{` +
			`"0x00000000000000000000000000000000000000aa":{"balance":"0x1"}}}]}`)
		if err := errors.Join(os.Remove(filepath.Join(lists, "7.rlp")),
			os.WriteFile(filepath.Join(lists, "7.json"), traces, 0o644)); err != nil {
			t.Fatal(err)
		}

		must(t, "accesses", "import", lists, "--out", in("list.slal"))
	})
}

// works expects the refusal, and success of what it says to type.
func (r remedy) works(t *testing.T) {
	t.Helper()
	o := statelab(t, r.args...)
	found := regexp.MustCompile(r.says).FindStringSubmatch(strings.Join(strings.Fields(o.stderr),
		" "))
	if o.exit == exitDone || found == nil {
		t.Fatalf("it does not say %s: %v", r.says, o)
	}

	typed := found[1]
	for word, by := range r.fill {
		typed = strings.ReplaceAll(typed, word, by)
	}

	if command, is := strings.CutPrefix(typed, "statelab "); is {
		must(t, strings.Fields(command)...)
		return
	}

	if r.then != nil {
		if text, err := exec.Command("sh", "-c", typed).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", typed, err, text)
		}
		must(t, r.then...)
		return
	}

	args := slices.Clone(r.args)
	args[len(args)-1] += "2" // the folder of the first has what is known of it
	if len(found) > 2 {
		args[2] = found[2]
	}

	must(t, changed(args, strings.Fields(typed))...)
}

// changed are args with flags added, or changed where they have them.
func changed(args, flags []string) []string {
	if len(flags) < 2 {
		return append(args, flags...)
	}

	for i, arg := range args {
		if arg == flags[0] {
			args[i+1] = flags[1]
			return args
		}
	}

	return append(args, flags...)
}

// pebbleOf makes a database by Pebble itself, with its log in a folder; "" is its own.
func pebbleOf(t *testing.T, dir, logs string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	db, err := pebble.Open(dir,
		&pebble.Options{WALDir: logs, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}

	for i := range 2000 {
		if err := db.Set([]byte{byte(i >> 8), byte(i), 1}, make([]byte, 100),
			pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}
