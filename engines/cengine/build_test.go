//go:build cgo

package cengine

import (
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/internal/adapt/sharedlib/libtest"
)

// builtLibrary names a library that is built already, to have it admitted instead of the example in
// C.
const builtLibrary = "STATELAB_NATIVE_TEST_LIBRARY"

func buildExampleInC(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libhashlog.so")
	libtest.Tool(t, "install gcc and make (apt-get install gcc make)", "make", "--silent", "-C",
		"../../examples/native-c", "OUT="+path)
	return path
}

func compile(t testing.TB, source string) string {
	t.Helper()
	return libtest.Compile(t, "../../native", source)
}
