package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// goleveldb with a commit that reads every block twice, behind one that does not compile:
// git bisect finds it with the script of the example.
func TestBisectOfRealCommits(t *testing.T) {
	testring.Outer(t, "it builds statelab five times")
	if testing.Short() {
		t.Skip("builds statelab five times: make slow")
	}

	const module = "github.com/syndtr/goleveldb"
	where, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}

	repo := filepath.Join(t.TempDir(), "goleveldb")
	if err := os.CopyFS(repo, os.DirFS(strings.TrimSpace(string(where)))); err != nil {
		t.Fatal(err)
	}

	if out, err := exec.Command("chmod", "-R", "u+w", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	command := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = repo
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}

		return strings.TrimSpace(string(out))
	}

	git := func(args ...string) string {
		t.Helper()
		return command("git",
			append([]string{"-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...)
	}

	git("init", "--quiet")
	reader := filepath.Join(repo, "leveldb", "table", "reader.go")
	text, err := os.ReadFile(reader)
	if err != nil {
		t.Fatal(err)
	}

	const read = "	if _, err := r.reader.ReadAt(data, int64(bh.offset)); err != nil && err != " +
		"io.EOF {\n"
	if !strings.Contains(string(text), read) {
		t.Fatal("goleveldb reads blocks in another way now")
	}

	twice := strings.Replace(string(text), read, "	r.reader.ReadAt(data, int64(bh.offset))\n"+
		read, 1)
	var commits []string
	for _, source := range []string{string(text), string(text) + "\n// a comment\n",
		string(text) + "\nbroken\n", twice, twice + "\n// a comment\n"} {
		if err := os.WriteFile(reader, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}

		git("add", "-A")
		git("commit", "--quiet", "--allow-empty", "-m", "commit")
		commits = append(commits, git("rev-parse", "HEAD"))
	}

	judge := []string{absolute("../../examples/bisect/judge.sh"), module,
		"block_reads_per_get > +20%", "--engine", "goleveldb", "--keys", "20k",
		"--cache", "256KiB", "--gets", "2k", "--warmup", "0", "--access-gets", "0", "--quiet"}
	git("checkout", "--quiet", commits[0])
	command(judge[0], judge[1:]...)
	git("bisect", "start", commits[4], commits[0])
	c := exec.Command("git", append([]string{"bisect", "run"}, judge...)...)
	c.Dir = repo
	said, err := c.CombinedOutput() // an error: the commit that does not compile may be the first
	for commit, is := range map[string]bool{
		commits[1]: false,
		commits[2]: true,
		commits[3]: true,
		commits[4]: false,
	} {
		_, last, _ := strings.Cut(string(said), "The first bad commit could be any of:")
		if strings.Contains(last, commit) != is {
			t.Errorf("%s named: %v, want %v, %v:\n%s", commit, !is, is, err, said)
		}
	}
}
