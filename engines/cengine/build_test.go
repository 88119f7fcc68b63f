//go:build cgo

package cengine

import (
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
)

// builtLibrary names a library that is built already.
const builtLibrary = "STATELAB_NATIVE_TEST_LIBRARY"

// use builds a library and makes it the one of the environment.
func use(t *testing.T, build func(*testing.T) string) {
	t.Helper()
	t.Setenv(LibraryEnv, libtest.Once(t, builtLibrary, build))
}

func buildExampleInC(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libhashlog.so")
	libtest.Tool(t, "install gcc and make (apt-get install gcc make)", "make", "--silent", "-C", "../../examples/native-c", "OUT="+path)
	return path
}

// buildExampleInRust leaves what it builds where cargo finds it the next time.
func buildExampleInRust(t *testing.T) string {
	t.Helper()
	libtest.Tool(t, "install Rust (https://rustup.rs)", "cargo", "build", "--quiet", "--release", "--locked",
		"--manifest-path", "../../examples/native-rust/Cargo.toml")
	return "../../examples/native-rust/target/release/libredb_engine.so"
}

func compile(t testing.TB, source string) string {
	t.Helper()
	return libtest.Compile(t, "../../native", source)
}
