package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The search finds the first bad version whatever it is, with as few trials as halving
// needs, and names those that it had to skip beside it.
func TestBisectFindsTheFirstBadVersion(t *testing.T) {
	var list []string
	for n := range 17 {
		list = append(list, fmt.Sprint("v", n))
	}
	quiet := func(string, ...any) {}
	for first := 1; first < len(list); first++ {
		for _, broken := range [][]string{nil, {"v3"}, {"v7", "v8", "v9"}} {
			if slices.Contains(broken, list[len(list)-1]) {
				continue
			}
			trials := 0
			var s bisection
			err := s.search(list, func(version string) (tried, error) {
				trials++
				is := tried{Version: version, Verdict: versionGood}
				switch {
				case slices.Contains(broken, version):
					is.Verdict = versionSkipped
				case slices.Index(list, version) >= first:
					is.Verdict = versionBad
				}
				return is, nil
			}, quiet)
			if err != nil {
				t.Fatal(err)
			}
			good, bad := slices.Index(list, s.LastGood), slices.Index(list, s.FirstBad)
			if !(good < first && first <= bad) || trials > 6+len(broken) {
				t.Errorf("first bad v%d, skipping %v: %d trials say %s to %s", first, broken, trials, s.LastGood, s.FirstBad)
			}
			for _, version := range list[good+1 : bad] {
				if !slices.Contains(s.Between, version) || !slices.Contains(broken, version) {
					t.Errorf("first bad v%d, skipping %v: nothing is said of %s between %s and %s", first, broken, version, s.LastGood, s.FirstBad)
				}
			}
		}
	}
	var s bisection
	err := s.search(list, func(version string) (tried, error) {
		return tried{Version: version, Verdict: versionGood, Says: "the same"}, nil
	}, quiet)
	if err == nil || !strings.Contains(err.Error(), "v16 has no such change against v0: the same") {
		t.Errorf("without a change: %v", err)
	}
}

// goleveldb with a commit that reads every block twice, behind one that does not compile:
// bisect builds each, and the first one with more reads is found.
func TestBisectOfRealCommits(t *testing.T) {
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
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	reader := filepath.Join(repo, "leveldb", "table", "reader.go")
	text, err := os.ReadFile(reader)
	if err != nil {
		t.Fatal(err)
	}
	const read = "	if _, err := r.reader.ReadAt(data, int64(bh.offset)); err != nil && err != io.EOF {\n"
	if !strings.Contains(string(text), read) {
		t.Fatal("goleveldb reads blocks in another way now")
	}
	twice := strings.Replace(string(text), read, "	r.reader.ReadAt(data, int64(bh.offset))\n"+read, 1)
	var commits []string
	for n, source := range []string{string(text), string(text) + "\n// a comment\n", string(text) + "\nbroken\n", twice, twice + "\n// a comment\n"} {
		if err := os.WriteFile(reader, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		git("commit", "--quiet", "-m", fmt.Sprint(n))
		commits = append(commits, git("rev-parse", "--short=12", "HEAD"))
	}
	o := must(t, "bisect", "--source", absolute("../.."), "--module", module, "--repo", repo, "--good", commits[0], "--bad", "HEAD",
		"--fail-if", "block_reads_per_get > +20%", "--keys", "20k", "--cache", "256KiB", "--gets", "2k", "--warmup", "0", "--access-gets", "0",
		"--out", filepath.Join(t.TempDir(), "B"), "--json")
	var found bisection
	if err := json.Unmarshal([]byte(o.stdout), &found); err != nil {
		t.Fatal(err)
	}
	if found.LastGood != commits[1] || found.FirstBad != commits[3] || !slices.Equal(found.Between, commits[2:3]) {
		t.Errorf("%+v, commits %v", found, commits)
	}
	for _, is := range found.Tried {
		if is.Version == commits[2] && !strings.Contains(is.Says, "does not build") {
			t.Errorf("of the commit that does not compile it says %q", is.Says)
		}
	}
}
