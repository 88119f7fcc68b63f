// Package testring decides which tests run where.
//
// The inner ring, `make test`, needs Go alone: a test that needs a program, a library or a right
// that the machine does not have skips there, and says what it lacks. The outer ring, `make ci`,
// installs what tests need and sets [Variable]: there the same lack is a failure, so that no test
// is left out unseen. The third ring, `make slow`, leaves out -short (testing.Short).
//
// Non-goals: what a kernel or a file system cannot do is no lack that anybody could mend; such
// tests skip by themselves, in every ring.
package testring

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Variable is the variable of the environment that make ci and make slow set to 1: all tests run.
const Variable = "STATELAB_TEST_ALL"

// All tells whether the outer ring runs.
func All() bool { return os.Getenv(Variable) == "1" }

// Outer marks a test of the outer ring: it is skipped in the inner one. Why says what is too
// expensive about it.
func Outer(t testing.TB, why string) {
	t.Helper()
	if !All() {
		t.Skipf("make ci runs it: %s", why)
	}
}

// Lacks ends a test that needs what is not here: it is skipped in the inner ring and fails in the
// outer one.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if All() {
		t.Fatalf("not here, and make ci leaves out nothing: %s", what)
	}
	t.Skipf("not here (make ci installs it): %s", what)
}

// Program is the path of a program on PATH, or where daemons are kept. A test that needs it ends
// where it is not installed (see Lacks).
func Program(t testing.TB, name string) string {
	t.Helper()
	path, found := Find(name)
	if !found {
		Lacks(t, "the program "+name)
	}
	return path
}

// Find looks for a program as Program does.
func Find(name string) (path string, found bool) {
	if path, err := exec.LookPath(name); err == nil {
		return path, true
	}

	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return path, true
		}
	}

	return "", false
}

// Root ends a test that only root can run (see Lacks). What says what for.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Lacks(t, "root: "+what)
	}
}

// Compiler ends a test that builds programs with cgo where there is no C compiler (see Lacks).
func Compiler(t testing.TB) {
	t.Helper()
	names := []string{"cc", "gcc", "clang"}
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		names = cc[:1]
	}

	if !slices.ContainsFunc(names,
		func(name string) bool { _, found := Find(name); return found }) {
		Lacks(t, "a C compiler")
	}
}
