package versions

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Commits of a clone, and the mistakes that can be made in naming them.
func TestOpen(t *testing.T) {
	repo, source := t.TempDir(), filepath.Join("..", "..", "..")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	if err := os.WriteFile(filepath.Join(repo, "go.mod"), []byte("module example.org/m // a comment\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	for range 3 {
		git("commit", "--quiet", "--allow-empty", "-m", "x")
	}
	b, list, err := Open(context.Background(), Of{Module: "example.org/m", Repo: repo, Source: source, Good: "HEAD~2", Bad: "HEAD"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 || list[0] != git("rev-parse", "HEAD~2")[:12] || list[2] != git("rev-parse", "HEAD")[:12] {
		t.Errorf("%v", list)
	}
	unpacked := filepath.Join(t.TempDir(), "u")
	if err := b.unpack(context.Background(), list[1], unpacked); err != nil {
		t.Fatal(err)
	}
	if is, err := moduleAt(unpacked); err != nil || is != "example.org/m" {
		t.Errorf("%q, %v", is, err)
	}
	if left := git("status", "--porcelain", "--ignored"); left != "" {
		t.Errorf("the clone was changed: %s", left)
	}
	for want, of := range map[string]Of{
		"--bad nothing is not a commit of": {Module: "example.org/m", Repo: repo, Source: source, Good: "HEAD", Bad: "nothing"},
		"must be an ancestor of":           {Module: "example.org/m", Repo: repo, Source: source, Good: "HEAD", Bad: "HEAD~1"},
		"is not a clone of example.org/n":  {Module: "example.org/n", Repo: repo, Source: source, Good: "HEAD~1", Bad: "HEAD"},
		"is not a checkout of statelab":    {Module: "example.org/m", Repo: repo, Source: repo, Good: "HEAD~1", Bad: "HEAD"},
	} {
		if _, _, err := Open(context.Background(), of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
