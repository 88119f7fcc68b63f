//go:build cgo

package clayout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/statelab/statelab/layout"
)

const (
	// LibraryEnv names a library of the user's own.
	LibraryEnv = "STATELAB_STATE_LIBRARY"

	filePrefix, fileSuffix = "libstatelab_", ".so"
)

// Find finds the library of the environment, then those named libstatelab_X.so in
// folder/lib and in folder. None is loaded yet, so that a broken one hides no other.
// Of two that say the same name, the first is used.
func Find(folder string) (found []layout.Layout, err error) {
	if path := os.Getenv(LibraryEnv); path != "" {
		found = append(found, Layout{Library: path})
	}
	for _, in := range []string{filepath.Join(folder, "lib"), folder} {
		entries, err := os.ReadDir(in)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find libraries: %w", err)
		}
		for _, entry := range entries {
			if name := entry.Name(); strings.HasPrefix(name, filePrefix) && strings.HasSuffix(name, fileSuffix) {
				found = append(found, Layout{Library: filepath.Join(in, name)})
			}
		}
	}
	return found, nil
}
