//go:build linux

package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/result"
)

// evictAll does what Evict does and then drops every clean page of the machine.
func evictAll(ctx context.Context, dir string) (method string, err error) {
	if method, err = Evict(ctx, dir); err != nil {
		return "", err
	}
	unix.Sync()
	const pagesAndInodes = "3" // Documentation/admin-guide/sysctl/vm.rst, drop_caches
	return method + ", then drop_caches", os.WriteFile("/proc/sys/vm/drop_caches",
		[]byte(pagesAndInodes), 0)
}

// The claim that everything else rests on: 2,000 random reads are 2,000 requests
// of the private device, not one more and not one less.
func TestPrivateDeviceCountsExactly(t *testing.T) {
	const reads, blockBytes, fileBytes = 2000, 4096, 128 << 20
	mountPoint, d := newVolume(t, 256<<20)
	dir := filepath.Join(mountPoint, "db")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	switch err := os.WriteFile(d.queue("read_ahead_kb"), []byte("0"), 0); {
	case errors.Is(err, unix.EROFS):
		t.Skip("readahead cannot be switched off: ", err)
	case err != nil:
		t.Fatal(err)
	}

	path := randomFile(t, dir, fileBytes).Name()
	blocks := rand.New(rand.NewPCG(1, 2)).Perm(fileBytes / blockBytes)[:reads]

	for _, c := range []struct {
		mode  string
		flags int
		evict func(context.Context, string) (string, error)
	}{
		{"O_DIRECT", unix.O_DIRECT, Evict},
		{"buffered after fadvise", 0, Evict},
		{"buffered after drop_caches", 0, evictAll},
	} {
		if c.mode == "buffered after drop_caches" && testing.Short() {
			continue // it takes the page cache from all that is measured beside it: make slow
		}

		method, err := c.evict(context.Background(), dir)
		if err != nil {
			t.Fatal(err)
		}

		wantResident(t, dir, 0, fileBytes)
		f, err := os.OpenFile(path, os.O_RDONLY|c.flags, 0)
		if err != nil {
			t.Fatal(err)
		}

		block := alignedBlock()
		read := func(n int) {
			if _, err := unix.Pread(int(f.Fd()), block, int64(n)*blockBytes); err != nil {
				t.Fatal(err)
			}
		}

		read(blocks[0]) // the first read of a dropped file also fetches where its blocks are
		if c.flags == 0 {
			if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
				t.Fatal(err)
			}
		}

		before, process := deviceNow(t, d), processNow(t)
		for _, n := range blocks {
			read(n)
		}

		device, own := Between(before, deviceNow(t, d)), Between(process, processNow(t))
		t.Logf("%s (%s): %d reads -> %d device reads, %d merged, %d device bytes; the process: "+
			"%d bytes",
			c.mode, method, reads, device.Reads, device.ReadMerges, device.ReadBytes, own.ReadBytes)
		if device.Reads != reads || device.ReadMerges != 0 || device.ReadBytes != reads*blockBytes {
			t.Errorf("%s: %+v, want %d reads of %d bytes each", c.mode, device, reads, blockBytes)
		}

		// A little more: dropped pages of this program itself.
		if extra := own.ReadBytes - reads*blockBytes; extra < 0 || extra > 1<<20 {
			t.Errorf("%s: the process read %d bytes from devices, want %d", c.mode, own.ReadBytes,
				reads*blockBytes)
		}

		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// One read call is one request only up to the queue's limit: a filter block of
// half a megabyte may be several device reads.
func TestLargeReadsAreSplit(t *testing.T) {
	const reads, fileBytes = 64, 64 << 20
	mountPoint, d := newVolume(t, 128<<20)
	path := randomFile(t, mountPoint, fileBytes).Name()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	limitKB, err := strconv.Atoi(firstLine(d.queue("max_sectors_kb")))
	if err != nil {
		t.Fatal(err)
	}

	block, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}

	for _, blockBytes := range []int{4 << 10, 64 << 10, 512 << 10, 1 << 20} {
		before := deviceNow(t, d)
		for i := range int64(reads) {
			if _, err := unix.Pread(int(f.Fd()), block[:blockBytes],
				i*int64(fileBytes-1<<20)/reads&^4095); err != nil {
				t.Fatal(err)
			}
		}

		device := Between(before, deviceNow(t, d))
		t.Logf("%7d bytes (limit %d KB): %d reads -> %d device reads of %d bytes", blockBytes,
			limitKB, reads, device.Reads, device.ReadBytes)
		if device.ReadBytes != int64(reads*blockBytes) {
			t.Errorf("%d bytes were read, want %d", device.ReadBytes, reads*blockBytes)
		}

		if blockBytes == 4<<10 && device.Reads != reads || device.Reads < reads {
			t.Errorf("%d reads of %d bytes are %d device reads", reads, blockBytes, device.Reads)
		}
	}

	if err := unix.Munmap(block); err != nil {
		t.Error(err)
	}
}

// TestSettledHasEveryReadThatReturned: the kernel may wake a reader before it counts the read.
func TestSettledHasEveryReadThatReturned(t *testing.T) {
	const reads = 200
	mountPoint, d := newVolume(t, 64<<20)
	f, err := os.OpenFile(randomFile(t, mountPoint, 32<<20).Name(), os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	block, before, atOnce := alignedBlock(), deviceNow(t, d), 0
	for n := range int64(reads) {
		if _, err := unix.Pread(int(f.Fd()), block, n*8192); err != nil {
			t.Fatal(err)
		}

		now, err := d.Now()
		if err != nil {
			t.Fatal(err)
		}

		if now.Reads == before.Reads {
			atOnce++
		}

		own := OwnReads{}
		settled, err := d.Settled(&own, 200*time.Millisecond)
		if err != nil || settled.Reads != before.Reads+1 {
			t.Fatalf("read %d: %+v after %+v, error %v", n, settled, before, err)
		}

		if calls, chars, settled := own.Now(); calls < 2 || chars < calls*20 || !settled {
			t.Fatalf("Settled read its file %d times, %d characters", calls, chars)
		}

		before = settled
	}

	t.Logf("%d of %d reads were not counted when they returned", atOnce, reads)
}

func TestVolumeIsPrivateUntilSomebodyElseMountsIt(t *testing.T) {
	mountPoint, d := newVolume(t, 32<<20)
	if !d.Loop || !d.Private || d.Backing != strings.TrimSuffix(mountPoint, ".mount") {
		t.Errorf("%+v", d)
	}

	second := t.TempDir()
	if err := unix.Mount(mountPoint, second, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}

	shared, err := DeviceOf(mountPoint)
	if err != nil || shared.Private {
		t.Errorf("with a second mount: %+v, error %v", shared, err)
	}

	if err := unix.Unmount(second, 0); err != nil {
		t.Fatal(err)
	}

	if disk, err := DeviceOf(second); err == nil && disk.Private {
		t.Errorf("the machine's own disk is private: %+v", disk)
	}
}

func TestVolumeRemoveTwiceAndInUse(t *testing.T) {
	mountPoint, d := newVolume(t, 32<<20)
	image := d.Backing
	f, err := os.Create(filepath.Join(mountPoint, "open"))
	if err != nil {
		t.Fatal(err)
	}

	if err := VolumeRemove(image); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("with an open file: %v", err)
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if err := VolumeRemove(image); err != nil {
			t.Errorf("remove: %v", err)
		}
	}

	wantNothing(t, filepath.Dir(image))
	wantNoLoop(t, image)
}

func TestVolumeFailuresLeaveNothing(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	wantError := func(size int64, text string) {
		t.Helper()
		if _, err := VolumeCreate(context.Background(), image, size); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want %q", err, text)
		}
	}

	wantError(1<<20, "too small")
	wantError(1<<55, "no space")
	wantNothing(t, dir)

	// The last step fails: something stands where the mount point should be.
	if err := os.WriteFile(mountPointOf(image), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	wantError(32<<20, "file exists")
	if _, err := os.Stat(image); !os.IsNotExist(err) {
		t.Errorf("the image is left behind: %v", err)
	}

	wantNoLoop(t, image)
}

func TestVolumeRemoveSparesOtherFiles(t *testing.T) {
	for _, bytes := range []int{0, 4096} {
		image := filepath.Join(t.TempDir(), "precious")
		if err := os.WriteFile(image, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}

		if err := VolumeRemove(image); err == nil {
			t.Error("no error")
		}

		if _, err := os.Stat(image); err != nil {
			t.Error(err)
		}
	}
}

// newVolume makes a volume for one test, or skips with the reason.
func newVolume(t *testing.T, size int64) (mountPoint string, d Device) {
	t.Helper()
	needRoot(t)
	image := filepath.Join(t.TempDir(), "image")
	mountPoint, err := VolumeCreate(context.Background(), image, size)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := VolumeRemove(image); err != nil {
			t.Error(err)
		}
	})

	if d, err = DeviceOf(mountPoint); err != nil {
		t.Fatal(err)
	}

	return mountPoint, d
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("volumes need root")
	}

	if err := loopDevices(); err != nil {
		t.Skip(err)
	}

	if _, err := mkfsPath(); err != nil {
		t.Skip(err)
	}
}

func deviceNow(t *testing.T, d Device) result.DeviceIO {
	t.Helper()
	io, err := d.Settled(&OwnReads{}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return io
}

func wantNothing(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func wantNoLoop(t *testing.T, image string) {
	t.Helper()
	loops, err := filepath.Glob(sysBlock + "/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range loops {
		if strings.HasPrefix(firstLine(path), image) {
			t.Errorf("%s still holds %s", path, firstLine(path))
		}
	}
}
