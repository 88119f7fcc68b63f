package host

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// released is the version of a module that was built from the tag of a release.
var released = regexp.MustCompile(`^v(\d+\.\d+\.\d+)$`)

// untagged is the version of a module that was built from a commit between two releases.
var untagged = regexp.MustCompile(`[-.](?:0\.)?\d{14}-([0-9a-f]{12})$`)

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

// OwnBuild is the version of this program, and the commit that it was built from, "" where that is
// not known.
func OwnBuild() (version, commit string) {
	if build, ok := debug.ReadBuildInfo(); ok {
		version, commit, _ = describeBuild(build)
		return version, commit
	}
	return Version, ""
}

// VersionLine tells of this program what --version prints.
func VersionLine() string {
	version, commit, cgo := Version, "", false
	if build, ok := debug.ReadBuildInfo(); ok {
		version, commit, cgo = describeBuild(build)
	}

	with := "pure Go"
	if cgo {
		with = "cgo"
	}

	return fmt.Sprintf("statelab %s, %s %s/%s, %s, commit %s", version, runtime.Version(),
		runtime.GOOS, runtime.GOARCH, with, cmp.Or(commit, "unknown"))
}

// describeBuild names the release that this program is, or follows, and the commit that it was
// built from, "" where that is not known.
func describeBuild(build *debug.BuildInfo) (version, commit string, cgo bool) {
	changed := ""
	for _, s := range build.Settings {
		switch {
		case s.Key == "CGO_ENABLED":
			cgo = s.Value == "1"
		case s.Key == "vcs.revision":
			commit = shortCommit(s.Value)
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+dirty"
		}
	}

	if of := untagged.FindStringSubmatch(build.Main.Version); of != nil && commit == "" {
		commit = of[1]
	}

	if commit != "" {
		commit += changed
	}

	return VersionOf(build.Main.Version), commit, cgo
}

// shortCommit is what names a commit to people.
func shortCommit(revision string) string { return revision[:min(12, len(revision))] }
