package pagefile

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadsBesideThePageCache: what is read beside the owner of a file is what the file holds, and
// brings no page of it into the page cache.
func TestReadsBesideThePageCache(t *testing.T) {
	const pages, page = 64, 4096
	content := make([]byte, pages*page+100)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content) // never fails
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}

	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close() // the test has its answer
	cached := func() uint64 {
		var counted unix.Cachestat_t
		if err := unix.Cachestat(uint(file.Fd()), new(unix.CachestatRange), &counted,
			0); err != nil {
			t.Skipf("the kernel does not tell what is cached: %v", err)
		}
		return counted.Cache
	}

	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}

	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}

	if cached() > 0 {
		t.Skip("this filesystem keeps the pages of its files in memory")
	}

	b, err := openBeside(path)
	if err != nil {
		t.Fatal(err)
	}

	defer b.Close() // only read
	check := func(at, length int) {
		t.Helper()
		got := make([]byte, length)
		if n, err := b.ReadAt(got, int64(at)); err != nil || n != length ||
			!bytes.Equal(got, content[at:at+length]) {
			t.Errorf("%d bytes from %d: %d read, %v", length, at, n, err)
		}
	}

	for _, part := range [][2]int{{0, page}, {7 * page, page}, {20*page + 16, 24}, {4090, 12},
		{30 * page, 4 * page}, {pages * page, 100}} {
		check(part[0], part[1])
	}

	if n := cached(); n != 0 && b.direct != nil {
		t.Errorf("%d pages came into the page cache", n)
	}

	if _, err := b.ReadAt(make([]byte, 200), pages*page); err == nil {
		t.Error("bytes behind the end were read")
	}

	// What the owner has in the page cache is read there.
	if _, err := file.ReadAt(make([]byte, page), 5*page); err != nil {
		t.Fatal(err)
	}
	check(5*page, page)
}
