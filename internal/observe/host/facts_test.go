//go:build linux

package host

import (
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The system's own programs say the same.
func TestFactsAgreeWithTheSystem(t *testing.T) {
	dir := t.TempDir()
	h := Describe(dir)
	t.Logf("%+v", h)
	for _, c := range []struct {
		fact, got string
		command   []string
	}{
		{"kernel", h.Kernel, []string{"uname", "-r"}},
		{"filesystem", h.Filesystem, []string{"stat", "-f", "-c", "%T", dir}},
		{"cores", strconv.Itoa(h.Cores), []string{"nproc"}},
	} {
		out, err := exec.Command(c.command[0], c.command[1:]...).Output()
		if err != nil {
			t.Logf("%s not compared: %v", c.fact, err)
			continue
		}

		// stat calls the whole ext family one name, and has an own one for overlay.
		if want := strings.TrimSpace(string(out)); c.got != want &&
			!(want == "ext2/ext3" && strings.HasPrefix(c.got, "ext")) &&
			!(want == "overlayfs" && c.got == "overlay") {
			t.Errorf("%s is %q, %v says %q", c.fact, c.got, c.command, want)
		}
	}

	if h.MemoryBytes < 1<<26 || h.FDLimit < 3 || h.ClockNanos <= 0 || h.ClockNanos > 1e5 ||
		h.CPU == "" || h.OS == "" || h.Go == "" {
		t.Errorf("a fact is missing: %+v", h)
	}
}

func TestParseCPU(t *testing.T) {
	got := parseCPU([]byte("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor " +
		"tsc\n\nprocessor\t: 1\nmodel name\t: other\n"))
	if got != (cpuInfo{"AMD EPYC", true}) {
		t.Errorf("%+v", got)
	}
}

func TestDescribeBuild(t *testing.T) {
	build := &debug.BuildInfo{
		Main: debug.Module{Version: "(devel)"},
		Settings: []debug.BuildSetting{
			{Key: "CGO_ENABLED", Value: "1"}, {Key: "vcs.revision", Value: "abc"}},
	}

	if version, commit, cgo := describeBuild(build); version != Version || commit != "abc" || !cgo {
		t.Errorf("%q, commit %q, cgo %v", version, commit, cgo)
	}

	build.Settings = append(build.Settings, debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	build.Main.Version = "v0.0.0-20261129091049-0123456789ab+dirty"
	if version, commit, _ := describeBuild(build); version != Version || commit != "abc+dirty" {
		t.Errorf("%q, commit %q, of changed files", version, commit)
	}

	build.Main.Version = "v1.2.3"
	if version, _, _ := describeBuild(build); version != "1.2.3" {
		t.Errorf("%q of a release", version)
	}

	unknown := debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	if version, commit, _ := describeBuild(&unknown); version != Version || commit != "" {
		t.Errorf("%q, commit %q, of a build that no commit is known of", version, commit)
	}
}

func TestMemoryLimitFiles(t *testing.T) {
	for _, c := range []struct {
		about, membership string
		mounts            []mount
		want              []string
	}{
		{"version 2", "0::/user/app\n",
			[]mount{{filesystem: "cgroup2", point: "/sys/fs/cgroup", root: "/"}},
			[]string{"/sys/fs/cgroup/user/app/memory.max", "/sys/fs/cgroup/user/memory.max",
				"/sys/fs/cgroup/memory.max"}},
		{"version 1 in a container", "5:cpu:/box/7\n4:memory:/box/7\n",
			[]mount{
				{
					filesystem: "cgroup",
					point:      "/cg/cpu",
					root:       "/box/7",
					options:    []string{"rw", "cpu"},
				},
				{
					filesystem: "cgroup",
					point:      "/cg/memory",
					root:       "/box/7",
					options:    []string{"rw", "memory"},
				},
			},
			[]string{"/cg/memory/memory.limit_in_bytes"}},
	} {
		if d := cmp.Diff(c.want, memoryLimitFiles([]byte(c.membership), c.mounts)); d != "" {
			t.Errorf("%s: %s", c.about, d)
		}
	}

	for text, want := range map[string]int64{
		"1073741824":          1 << 30,
		"max":                 0,
		"9223372036854771712": 0,
		"":                    0,
	} {
		if got, _ := parseMemoryLimit(text); got != want {
			t.Errorf("limit %q is read as %d, want %d", text, got, want)
		}
	}
}

func TestChosen(t *testing.T) {
	for options, want := range map[string]string{
		"none [mq-deadline] kyber": "mq-deadline",
		"none":                     "none",
		"":                         "",
	} {
		if got := chosen(options); got != want {
			t.Errorf("chosen(%q) = %q, want %q", options, got, want)
		}
	}
}
