//go:build cgo

package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// builtLibrary hands a built library to the child processes of a test, which
// could not clean up after themselves.
const builtLibrary = "STATELAB_NATIVE_TEST_LIBRARY"

// use builds a library, unless the parent process has, and makes it the one of the
// environment.
func use(t *testing.T, build func(*testing.T) string) {
	t.Helper()
	path := os.Getenv(builtLibrary)
	if path == "" {
		path = build(t)
	}
	t.Setenv(builtLibrary, path)
	t.Setenv(LibraryEnv, path)
}

func buildExampleInC(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libsortedtable.so")
	tool(t, "install gcc and make (apt-get install gcc make)", "make", "--silent", "-C", "../../examples/native-c", "OUT="+path)
	return path
}

// buildExampleInRust leaves what it builds where cargo finds it the next time.
func buildExampleInRust(t *testing.T) string {
	t.Helper()
	tool(t, "install Rust (https://rustup.rs)", "cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", "../../examples/native-rust/Cargo.toml")
	return "../../examples/native-rust/target/release/libredb_engine.so"
}

func compile(t testing.TB, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(source)+".so")
	tool(t, "install gcc (apt-get install gcc)", "cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-I../../native", "-o", path, source)
	return path
}

// tool runs a build tool; one that is missing fails the test, saying what to do.
func tool(t testing.TB, remedy, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%v: %s", err, remedy)
	}
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
}
