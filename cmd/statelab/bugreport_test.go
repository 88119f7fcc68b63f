package main

import (
	"archive/zip"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBugReport: what doctor packs is what it prints, and names neither the machine nor its user.
func TestBugReport(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home", "quillon-user")
	db := filepath.Join(home, "nodes", "db")
	if err := os.MkdirAll(filepath.Dir(db), 0o750); err != nil {
		t.Fatal(err)
	}

	as := []string{"HOME=" + home, "USER=quillon-user", "STATELAB_CLASS=quillon-class"}
	in := func(args ...string) outcome {
		t.Helper()
		o := startIn(t, home, as, args...).wait()
		if o.exit != exitDone {
			t.Fatal(o)
		}
		return o
	}

	in("load", "--db", "nodes/db", "--keys", "2k")
	in("sweep", "--db", "nodes/db", "--cache", "1MiB", "--gets", "1k", "--warmup", "0",
		"--access-gets", "0", "--out", "S")
	o := in("doctor", "--db", "nodes/db", "--run", "S", "--report", "fault.zip")

	archive, err := zip.OpenReader(filepath.Join(home, "fault.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()

	var all strings.Builder
	for _, file := range archive.File {
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

		if !strings.Contains(o.stdout, file.Name+"\n"+string(text)) {
			t.Errorf("%s is packed and not printed", file.Name)
		}
		all.Write(text)
	}

	private := []string{"quillon", home, scratch}
	if name, err := os.Hostname(); err == nil && len(name) > 4 && name != "localhost" {
		private = append(private, name)
	}

	if u, err := user.Current(); err == nil && len(u.Username) > 4 {
		private = append(private, u.Username)
	}

	for _, word := range private {
		if strings.Contains(strings.ToLower(all.String()), strings.ToLower(word)) {
			t.Errorf("%q is in the report:\n%s", word, all.String())
		}
	}

	for _, want := range []string{`"kernel"`, `"goleveldb"`, `"STATELAB_CLASS"`, `"readrandom"`,
		`"O_DIRECT"`, `"cpu"`, `"memory_bytes"`, `"filesystem"`, `"mount_options"`} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%s is not in the report:\n%s", want, all.String())
		}
	}

	refused(t, startIn(t, home, as, "doctor", "--report", "fault.zip").wait(), exitUsage,
		"already exists")
	refused(t, statelab(t, "doctor", "--run", "S"), exitUsage, "only with --report")
	refused(t, statelab(t, "doctor", "--report", "fault.txt"), exitUsage, ".zip")
	if o := must(t, "--version"); !regexp.MustCompile(
		`^statelab \d+\.\d+\.\d+, go1\.\S+ \w+/\w+, `).MatchString(o.stdout) {
		t.Error(o)
	}
}
