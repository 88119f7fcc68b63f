//go:build linux

package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseMounts(t *testing.T) {
	got, err := parseMounts([]byte(
		"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root " +
			"rw,errors=continue\n" +
			"24 27 0:6 / /dev rw - devtmpfs dev\\134tmpfs rw,mode=755\n"))
	if err != nil {
		t.Fatal(err)
	}

	want := []mount{
		{36, "98:0", "/mnt1", "/mnt 2", []string{"rw", "noatime", "rw", "errors=continue"}, "ext3",
			"/dev/root"},
		{24, "0:6", "/", "/dev", []string{"rw", "rw", "mode=755"}, "devtmpfs", `dev\tmpfs`},
	}

	if d := cmp.Diff(want, got, cmp.AllowUnexported(mount{})); d != "" {
		t.Error(d)
	}
}

// TestUnlistedMount: what is told of a mount outside this process's root is what the list of mounts
// says of it.
func TestUnlistedMount(t *testing.T) {
	dir := t.TempDir()
	listed, err := mountOf(dir)
	if err != nil {
		t.Fatal(err)
	}

	var info unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &info); err != nil {
		t.Fatal(err)
	}

	got, err := unlistedMount(dir, &info)
	sameFamily := strings.HasPrefix(listed.filesystem, "ext") && got.filesystem == "ext4"
	shared := strings.HasPrefix(listed.device, "0:") // several numbers for one filesystem
	if err != nil || got.id != listed.id || got.device != listed.device && !shared ||
		!strings.HasPrefix(listed.filesystem, got.filesystem) && !sameFamily &&
			!strings.HasPrefix(got.filesystem, "filesystem of type") {
		t.Errorf("%+v, %v; want %+v", got, err, listed)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("36 35 98:0 / / rw - ext3 /dev/root rw\n"))
	f.Add([]byte("36 35 98:0 \\0 \\04 rw - - a b c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseMounts(text)
		if err == nil && len(text) > 0 && len(all) == 0 {
			t.Errorf("%q holds no mount and no error", text)
		}
	})
}

func FuzzParseBlockStat(f *testing.F) {
	f.Add(" 5 1 72 3 0 0 0 0 8 9 10\n")
	f.Fuzz(func(t *testing.T, text string) {
		if io, _, err := parseBlockStat(text); err != nil && io.Reads != 0 {
			t.Errorf("%q is refused and counted", text)
		}
	})
}
