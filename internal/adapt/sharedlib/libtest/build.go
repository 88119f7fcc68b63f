// Package libtest builds libraries for tests of adapters of shared libraries.
package libtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Compile compiles a library of one file against the headers in the folder native.
func Compile(t testing.TB, headers, source string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c")+".so")
	args := append([]string{"-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-I" + headers, "-o",
		path, source}, flags...)
	Tool(t, "install gcc (apt-get install gcc)", "cc", args...)
	return path
}

// Once is the library that build makes, for a test that starts itself again in child
// processes: those, which could not clean up after themselves, find it in env.
func Once(t *testing.T, env string, build func(*testing.T) string) string {
	t.Helper()
	path := os.Getenv(env)
	if path == "" {
		path = build(t)
	}
	t.Setenv(env, path)
	return path
}

// Tool runs a build tool; one that is missing fails the test, saying what to do.
func Tool(t testing.TB, remedy, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%v: %s", err, remedy)
	}
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
}
