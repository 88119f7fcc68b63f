package bugreport

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/result"
)

// TestNothingPrivate packs texts with every private thing in them, and finds none in the archive.
func TestNothingPrivate(t *testing.T) {
	t.Setenv("STATELAB_CLASS", "zorblax-class")
	t.Setenv("OTHER_SECRET", "zorblax-secret")
	home := filepath.Join(t.TempDir(), "zorblax of home")
	dir, run := filepath.Join(home, "a database"), filepath.Join(home, "runs", "first")
	for _, folder := range []string{dir, run} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			t.Fatal(err)
		}
	}

	const key = "7a6f72626c61782d"
	measured := result.Run{
		Status:  "failed",
		Error:   "put key " + key + " at op 81204: open " + dir + "/000012.log: full",
		Command: []string{"statelab", "sweep", "--db", "zorblax-argument"},
		Engine: result.Engine{Name: "pebble1", Version: "v1.1.5",
			Options: map[string]string{"library": "/opt/zorblax/lib.so", "BlockSize": "4096"}},
		Host:     result.Host{Node: "zorblax-node", Class: "zorblax-class", Job: "zorblax-job"},
		Database: result.Database{Dir: dir, Bytes: 1 << 20},
		Warnings: []engine.Warning{{Code: "not_warm", Text: "key 0x" + key + " of " + home}},
	}
	measured.Host.Mount = "rw,stripe=64,lowerdir=zorblax/low"
	if err := result.WriteRun(run, &measured); err != nil {
		t.Fatal(err)
	}

	files, err := Files(Source{
		Dir: dir, Run: run,
		Findings: []host.Finding{
			{Name: "page cache",
				State: "open " + dir + "/.x: denied to Zorblax-User on zorblax-host"},
			{Name: "loop devices", State: "mount=/mnt/zorblax,upperdir=/var/zorblax:/srv/zorblax"},
			{Name: "root", State: "yes: set 128 in /sys/class/block/vda/queue, 3 reads/Get"},
			{Name: "short", State: "yo@qx: total 12 of qxy"},
		},
		Installed: []runners.Installed{{Kind: "engine", Name: "rocksdb",
			Missing: "/srv/zorblax/bin/statelab-run-rocksdb is of another version"}},
		Private: Private{Hosts: []string{"zorblax-host.example", "zorblax-host", "qx"},
			Users: []string{"zorblax-user", "yo", "root", ""}, Folders: []string{home, ""}},
	})
	if err != nil {
		t.Fatal(err)
	}

	var packed bytes.Buffer
	if err := Write(&packed, files); err != nil {
		t.Fatal(err)
	}

	all := unpacked(t, packed.Bytes())
	for _, private := range []string{"zorblax", home, key, "yo@", "@qx"} {
		if strings.Contains(strings.ToLower(all), private) {
			t.Errorf("%q is in the report:\n%s", private, all)
		}
	}

	for _, public := range []string{`"STATELAB_CLASS"`, "/sys/class/block/vda/queue", "3 reads/Get",
		"total 12 of qxy", "not_warm", `"BlockSize": "4096"`, "at op 81204", `"root"`, "v1.1.5",
		`"go": "go1.`, `"kernel"`, `"rw,stripe=64,lowerdir"`} {
		if !strings.Contains(all, public) {
			t.Errorf("%q is not in the report:\n%s", public, all)
		}
	}
}

// TestDamagedResultsAreReported: what cannot be read may be the fault.
func TestDamagedResultsAreReported(t *testing.T) {
	dir := t.TempDir()
	if _, err := Files(Source{Dir: dir, Run: dir}); engine.CodeOf(err) != engine.CodeNoResult {
		t.Errorf("a folder without results: %v", err)
	}

	if err := os.WriteFile(filepath.Join(dir, result.SweepFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}

	files, err := Files(Source{Dir: dir, Run: dir})
	if err != nil {
		t.Fatal(err)
	}

	var found struct{ Unreadable string }
	if err := json.Unmarshal(files[len(files)-1].Text, &found); err != nil ||
		found.Unreadable == "" {
		t.Errorf("%v: %s", err, files[len(files)-1].Text)
	}
}

// TestAWatchIsReported: the program and what was seen, and nothing of its command line or of what
// it looks up.
func TestAWatchIsReported(t *testing.T) {
	dir := t.TempDir()
	w := result.Watch{
		Schema: "statelab.watch/1",
		Process: result.WatchedProcess{
			Program: "github.com/ethereum/go-ethereum",
			Version: "v1.17.10",
			Args:    []string{"geth", "--secretoption"},
		},
		Gets:     12_345,
		Keys:     []result.WatchedKeys{{Kind: "secretkind"}},
		Warnings: []engine.Warning{{Code: "lost", Text: "at key deadbeefdeadbeef"}},
	}
	text, err := json.Marshal(w)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, result.WatchFile), text, 0o600)
	}

	if err != nil {
		t.Fatal(err)
	}

	files, err := Files(Source{Dir: dir, Run: dir})
	if err != nil {
		t.Fatal(err)
	}

	all := string(files[len(files)-1].Text)
	for _, want := range []string{"go-ethereum", "v1.17.10", "12345", "lost"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in the report:\n%s", want, all)
		}
	}

	for _, private := range []string{"secret", "deadbeef"} {
		if strings.Contains(all, private) {
			t.Errorf("%q is in the report:\n%s", private, all)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, result.WatchFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	files, err = Files(Source{Dir: dir, Run: dir})
	if err != nil || !strings.Contains(string(files[len(files)-1].Text), `"unreadable"`) {
		t.Errorf("a damaged watch: %v", err)
	}
}

// unpacked is the text of all files of an archive, each after its name.
func unpacked(t *testing.T, archive []byte) (all string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range r.File {
		f, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}

		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}

		if err := f.Close(); err != nil {
			t.Fatal(err)
		}

		all += file.Name + "\n" + string(text) + "\n"
	}

	return all
}
