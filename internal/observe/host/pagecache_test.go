//go:build linux

package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const cachedBytes = 8<<20 + 100 // the last page is not full

func TestEvictAndWarmAreSeenByTheKernel(t *testing.T) {
	dir := onDisk(t)
	f := randomFile(t, dir, cachedBytes)
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}

	method, err := Evict(context.Background(), dir)
	if err != nil || method == "" {
		t.Fatalf("method %q, error %v", method, err)
	}

	wantResident(t, dir, 0, cachedBytes)

	block := make([]byte, 4096)
	if _, err := f.ReadAt(block, 4<<20); err != nil {
		t.Fatal(err)
	}

	if resident, _, err := Resident(dir); err != nil || resident < 4096 || resident >= cachedBytes {
		t.Errorf("after one read %d bytes are resident, error %v", resident, err)
	}

	var last, total int64
	if err := Warm(context.Background(), dir,
		func(done, all int64) { last, total = done, all }); err != nil {
		t.Fatal(err)
	}

	wantResident(t, dir, cachedBytes, cachedBytes)
	if last != cachedBytes || total != cachedBytes {
		t.Errorf("progress ended at %d of %d, want %d", last, total, cachedBytes)
	}
}

// A page that this process has touched through a mapping of its own is dropped, too, and can be
// read again.
func TestEvictDropsMappedPages(t *testing.T) {
	dir := onDisk(t)
	f := randomFile(t, dir, cachedBytes)
	memory, err := unix.Mmap(int(f.Fd()), 0, cachedBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}

	defer func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
	}()

	before := bytes.Clone(memory)
	if _, err := Evict(context.Background(), dir); err != nil {
		t.Fatal(err)
	}

	wantResident(t, dir, 0, cachedBytes)
	if !bytes.Equal(before, memory) {
		t.Error("the mapping holds other bytes than before")
	}
}

// A warm file costs no device bytes, a cold one all of its own: the process's
// counters know nothing of Resident.
func TestColdReadsCostDeviceBytes(t *testing.T) {
	dir := onDisk(t)
	randomFile(t, dir, cachedBytes)
	cost := func() int64 {
		before := processNow(t)
		if err := Warm(context.Background(), dir, nil); err != nil {
			t.Fatal(err)
		}
		return Between(before, processNow(t)).ReadBytes
	}

	if _, err := Evict(context.Background(), dir); err != nil {
		t.Fatal(err)
	}

	if cold := cost(); cold < cachedBytes || cold > cachedBytes+1<<20 {
		t.Errorf("reading %d cold bytes fetched %d from the device", cachedBytes, cold)
	}

	// A little more: dropped pages of this program itself.
	if warm := cost(); warm > 1<<20 {
		t.Errorf("reading warm bytes fetched %d from the device", warm)
	}
}

// Containers keep files on overlay filesystems.
func TestResidentSeesThroughAnOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}

	base := onDisk(t)
	var dirs [4]string
	for i, name := range []string{"lower", "upper", "work", "merged"} {
		dirs[i] = filepath.Join(base, name)
		if err := os.Mkdir(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}

	randomFile(t, dirs[0], cachedBytes)
	merged := dirs[3]
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dirs[0], dirs[1], dirs[2])
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Skip("no overlay filesystem: ", err)
	}

	defer func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	}()

	if _, err := Evict(context.Background(), merged); err != nil {
		t.Fatal(err)
	}

	wantResident(t, merged, 0, cachedBytes)
	if err := Warm(context.Background(), merged, nil); err != nil {
		t.Fatal(err)
	}

	wantResident(t, merged, cachedBytes, cachedBytes)
}

func TestMincoreAgreesWithCachestat(t *testing.T) {
	dir := onDisk(t)
	f := randomFile(t, dir, cachedBytes)
	if _, err := Evict(context.Background(), dir); err != nil {
		t.Fatal(err)
	}

	// Without reading ahead: pages that are still on their way count as cached by cachestat alone.
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		t.Fatal(err)
	}

	for _, at := range []int64{0, 1 << 20, 5 << 20} {
		if _, err := f.ReadAt(make([]byte, 4096), at); err != nil {
			t.Fatal(err)
		}
	}

	byMincore, err := mincorePages(f, cachedBytes)
	if err != nil {
		t.Fatal(err)
	}

	byCachestat, err := cachestatPages(f, 0)
	if err != nil {
		t.Skip(err)
	}

	if byMincore != byCachestat || byMincore < 3 {
		t.Errorf("mincore counts %d pages, cachestat %d", byMincore, byCachestat)
	}
}

func TestCancelledWarmStops(t *testing.T) {
	dir := t.TempDir()
	randomFile(t, dir, 1<<20)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Warm(ctx, dir, nil); err == nil {
		t.Error("no error")
	}
}

// onDisk returns a directory on a filesystem that has a device, or skips.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := DeviceOf(dir); err != nil {
		t.Skip(err)
	}
	return dir
}

func wantResident(t *testing.T, dir string, wantResident, wantTotal int64) {
	t.Helper()
	resident, total, err := Resident(dir)
	if err != nil || resident != wantResident || total != wantTotal {
		t.Errorf("%d of %d bytes are resident, want %d of %d, error %v", resident, total,
			wantResident, wantTotal, err)
	}
}

// TestLinksAreFollowed: a folder of links to files that lie elsewhere is as large and as cold as
// they are.
func TestLinksAreFollowed(t *testing.T) {
	elsewhere, dir := onDisk(t), onDisk(t)
	file := filepath.Join(elsewhere, "000001.sst")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}

	for from, to := range map[string]string{
		file:      "000001.sst",
		elsewhere: "folder",
		"nowhere": "broken",
	} {
		if err := os.Symlink(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}

	wantResident(t, dir, 1<<20, 1<<20)
	if _, err := Evict(t.Context(), dir); err != nil {
		t.Fatal(err)
	}

	wantResident(t, dir, 0, 1<<20)
}
