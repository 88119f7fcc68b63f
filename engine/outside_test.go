package engine_test

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

const module = "github.com/statelab/statelab"

// TestFromAModuleProxy: others get this module from a proxy, without the replace lines that the
// modules in this repository have for it. A program can then be installed by its version, which
// go install refuses if go.mod has a replace line, and another module can import package engine
// alone, which brings no other package with it.
func TestFromAModuleProxy(t *testing.T) {
	testring.Outer(t, "it unpacks all modules that the program links")
	const version = "v0.9.9"
	t.Chdir("..") // the folder of the module
	proxy := t.TempDir()
	publish(t, proxy, version)
	modules := filepath.ToSlash(strings.TrimSpace(goIn(t, ".", nil, "env", "GOMODCACHE")))
	others := strings.TrimSpace(goIn(t, ".", nil, "env", "GOPROXY"))
	installed := t.TempDir()
	outside := []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + modules + "/cache/download," +
			others, // for what this machine has not downloaded yet
		"GOFLAGS=-mod=mod -modcacherw " + os.Getenv("GOFLAGS"), "GONOSUMDB=*", "GOWORK=off",
		"GOMODCACHE=" + t.TempDir(), "GOBIN=" + installed, "CGO_ENABLED=0",
	}

	t.Run("install", func(t *testing.T) {
		goIn(t, t.TempDir(), outside, "install", "-trimpath", module+"/cmd/statelab@"+version)
		told, err := exec.Command(filepath.Join(installed, "statelab"), "--version").Output()
		want := "statelab " + strings.TrimPrefix(version, "v") + ", "
		if err != nil || !strings.HasPrefix(string(told), want) {
			t.Errorf("--version: %q, %v; want %q", told, err, want)
		}
	})

	t.Run("import engine", func(t *testing.T) {
		dir := t.TempDir()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		write("go.mod", "module example.com/user\n\ngo 1.26.0\n\nrequire "+module+" "+version+"\n")
		write("main.go", "package main\n\nimport \""+module+"/engine\"\n\nfunc main() { "+
			"_ = engine.MaxLevels }\n")
		linked := strings.Fields(goIn(t, dir, outside, "list", "-deps", "-f",
			"{{if not .Standard}}{{.ImportPath}}{{end}}", "."))
		if want := []string{module + "/engine", "example.com/user"}; !slices.Equal(linked, want) {
			t.Errorf("the program links %q, want %q", linked, want)
		}
	})
}

// publish writes this module into the folder of a proxy.
func publish(t *testing.T, proxy, version string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}

	requires, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"list":            version + "\n",
		version + ".info": `{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`,
		version + ".mod":  string(requires),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}

	text, err := exec.Command("git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard").Output()
	if err != nil {
		t.Skipf("not a git clone: %v", err)
	}

	archive := zip.NewWriter(f)
	files := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	for _, name := range files {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || isInNested(name, files) {
			continue
		}

		if err := add(archive, name, version); err != nil {
			t.Fatal(err)
		}
	}

	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// isInNested tells whether a file is of a module of its own inside this one.
func isInNested(name string, files []string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(files, dir+"/go.mod") {
			return true
		}
	}
	return false
}

func add(archive *zip.Writer, name, version string) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()

	to, err := archive.Create(module + "@" + version + "/" + name)
	if err != nil {
		return err
	}

	_, err = io.Copy(to, from)
	return err
}

// goIn runs the go command in a folder and returns what it prints.
func goIn(t *testing.T, dir string, environment []string, arguments ...string) string {
	t.Helper()
	command := exec.Command("go", arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), environment...)
	var words strings.Builder
	command.Stderr = &words
	text, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, &words)
	}
	return string(text)
}
