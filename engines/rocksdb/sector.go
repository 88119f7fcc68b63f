//go:build cgo

package rocksdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unknownSector is what RocksDB rounds O_DIRECT reads to where the device does not
// tell its sectors.
const unknownSector = 4096

// sectorBytes is the logical sector of the device below dir, to which RocksDB
// rounds O_DIRECT reads.
func sectorBytes(dir string) (int64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return 0, fmt.Errorf("find the device of %s: %w", dir, err)
	}

	device := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	for _, queue := range []string{"queue", "../queue"} { // of the disk, or of a partition's disk
		text, err := os.ReadFile(filepath.Join(device, queue, "logical_block_size"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return 0, err
		}

		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || n <= 0 || n&(n-1) != 0 {
			return unknownSector, nil
		}

		return n, nil
	}

	return unknownSector, nil
}
