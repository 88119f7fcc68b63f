package adapter

import (
	"path/filepath"
	"runtime/debug"
)

// Version is the version of a module that this binary was built with: pinned, that of our
// go.mod, unless it was built with another one, as examples/bisect does.
func Version(module, pinned string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return pinned
	}
	for _, m := range info.Deps {
		switch {
		case m.Path != module:
		case m.Replace == nil:
			return m.Version
		case m.Replace.Version != "":
			return m.Replace.Version
		default: // a folder, which has no version
			return pinned + " replaced by " + filepath.Base(m.Replace.Path)
		}
	}
	return pinned
}
