package watch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/observe/probe"
)

// TestConfigOfAProcess: the file that a process's command line names is read relative to its
// folder, and its environment is read.
func TestConfigOfAProcess(t *testing.T) {
	followsBelow(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(dir, "geth.toml"), []byte("[Eth]\nDatabaseCache = 32\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	// The shell takes the rest as its parameters, says that it runs, and waits for its input.
	node := exec.Command("sh", "-c", "echo; read line; true", "geth", "--config", "geth.toml")
	node.Dir = dir
	node.Env = []string{"GETH_CACHE_TRIE=20", "GOMEMLIMIT=1GiB", "SECRET=x"}
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := node.Start(); err != nil {
		t.Fatal(err)
	}

	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}

	defer func() {
		stdin.Close()
		if err := node.Wait(); err != nil {
			t.Error(err)
		}
	}()

	target, err := probe.Process(node.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}

	c := configOf(target, clients.Geth, "")
	file := filepath.Join(dir, "geth.toml")
	want := "{Name:cache.trie Value:20 Variable:GETH_CACHE_TRIE File: Line:0} " +
		"{Name:GOMEMLIMIT Value:1GiB Variable:GOMEMLIMIT File: Line:0} " +
		"{Name:Eth.DatabaseCache Value:32 Variable: File:" + file + " Line:2}"
	if got := strings.Trim(fmt.Sprintf("%+v", c.Options), "[]"); got != want || c.File != file ||
		len(c.Warnings) > 0 {
		t.Errorf("%+v\nwant\n%s", c, want)
	}
}

// followsBelow skips where the kernel (before 5.6) or a sandbox does not look paths up below a
// root.
func followsBelow(t *testing.T) {
	t.Helper()
	how := &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_IN_ROOT}
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", how)
	if err != nil {
		t.Skip("openat2: ", err)
	}

	if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
}

// TestReadBelow: a path of a process is followed below its root, symbolic links too.
func TestReadBelow(t *testing.T) {
	followsBelow(t)
	root := t.TempDir()
	for _, step := range []error{
		os.WriteFile(filepath.Join(root, "real.toml"), []byte("a = 1"), 0o644),
		os.Symlink("/real.toml", filepath.Join(root, "absolute")),
		os.Symlink("../../../../../../../real.toml", filepath.Join(root, "relative")),
		os.WriteFile(filepath.Join(root, "large"), make([]byte, maxConfigBytes+1), 0o644),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}

	for path, want := range map[string]string{"/real.toml": "", "/absolute": "", "/relative": "",
		"/none": "no such file", "/": "not a file", "/large": "larger than"} {
		text, err := readBelow(root, path)
		if want == "" && (err != nil || string(text) != "a = 1") ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

func TestUnitIn(t *testing.T) {
	id := "0123456789ab" + strings.Repeat("c", 52)
	const user = "0::/user.slice/user-1000.slice/"
	for _, c := range []struct{ groups, want string }{
		{"0::/system.slice/geth.service\n", "geth.service"},
		{"0::/system.slice/system-geth.slice/geth@main.service/payload\n", "geth@main.service"},
		{user + "user@1000.service/app.slice/reth.service", "reth.service"},
		{user + "user@1000.service/app.slice/run-r1.scope", ""},
		{user + "session-3.scope\n", ""},
		{"0::/system.slice/docker-" + id + ".scope\n", "container 0123456789ab"},
		{"12:memory:/docker/" + id + "\n11:cpu:/docker/" + id, "container 0123456789ab"},
		{"0::/kubepods.slice/pod1.slice/cri-containerd-" + id + ".scope\n",
			"container 0123456789ab"},
		{"0::/\n", ""},
		{"", ""},
	} {
		if got := unitIn(c.groups); got != c.want {
			t.Errorf("%s: %q, want %q", c.groups, got, c.want)
		}
	}
}
