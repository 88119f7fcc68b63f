package host

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// released is the version of a module that was built from the tag of a release.
var released = regexp.MustCompile(`^v(\d+\.\d+\.\d+)$`)

// VersionOf is that of the release that a version of the module is, or the next one's.
func VersionOf(module string) string {
	if tag := released.FindStringSubmatch(module); tag != nil {
		return tag[1]
	}
	return Version
}

// OwnVersion is the version of this program.
func OwnVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return VersionOf(info.Main.Version)
	}
	return Version
}

// VersionLine tells of this program what --version prints.
func VersionLine() string {
	line := fmt.Sprintf("statelab %s, %s %s/%s", OwnVersion(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				line += ", commit " + s.Value[:min(12, len(s.Value))]
			}
		}
	}

	return line
}
