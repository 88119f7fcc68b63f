//go:build cgo

package rocksdb

// #cgo LDFLAGS: -ldl
// #include "capi.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
)

const (
	// wantVersion is the version that fetch.sh fetches.
	wantVersion = "11.8.1"

	// LibraryVariable names the library to load, before any other place is tried.
	LibraryVariable = "STATELAB_ROCKSDB_LIBRARY"

	libraryName = "librocksdb.so"
	howToGet    = "get it with engines/rocksdb/fetch.sh (needs Maven), or name it in $" +
		LibraryVariable
)

// systemNames are what the system's library may be called; Debian's package for
// running programs has no unversioned name.
func systemNames() []string { return []string{libraryName, "librocksdb.so.7.8"} }

// load loads the library, once per process, and returns its version.
func load() (version string, err error) {
	if named := os.Getenv(LibraryVariable); named != "" {
		if err := loadFrom(named); err != nil {
			return "", fmt.Errorf("load RocksDB: $%s: %w: name RocksDB's library there, 7.8 or "+
				"newer, or unset it", LibraryVariable, err)
		}

		return loadedVersion(), nil
	}

	beside, err := besideExecutable()
	if err != nil {
		return "", err
	}

	if _, err := os.Stat(beside); err == nil {
		if err := loadFrom(beside); err != nil {
			return "", fmt.Errorf("load RocksDB: %w: %s", err, howToGet)
		}
		return loadedVersion(), nil
	}

	var failures []string
	for _, name := range systemNames() {
		err := loadFrom(name)
		if err == nil {
			return loadedVersion(), nil
		}
		failures = append(failures, err.Error())
	}

	return "", fmt.Errorf("RocksDB's library is not installed: %s; not next to this program as "+
		"%s, nor the system's (%s)", howToGet, filepath.Join("lib", libraryName),
		strings.Join(failures, "; "))
}

func besideExecutable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("load RocksDB: find the folder of this program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "lib", libraryName), nil
}

func loadFrom(path string) error {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	return errFromC(C.rocks_load(c))
}

func loadedVersion() string {
	if v := text(C.rocks_version()); v != "" {
		return v
	}
	return "of unknown version"
}

// errFromC returns an error of RocksDB's, freed; nil for none.
func errFromC(message *C.char) error {
	if message == nil {
		return nil
	}
	says := text(message)
	return engine.Fail(failure.RocksDB(says), "%s", says)
}

// text is a string of RocksDB's, freed; "" for none.
func text(c *C.char) string {
	defer C.free(unsafe.Pointer(c))
	return C.GoString(c)
}
