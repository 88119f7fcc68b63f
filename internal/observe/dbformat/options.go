package dbformat

import (
	"os"
	"strconv"
	"strings"
)

// NewestOptions is the name of the newest OPTIONS file in dir, of Pebble or RocksDB; "" if
// there is none.
func NewestOptions(dir string) (name string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	newest := int64(-1)
	for _, entry := range entries {
		number, is := strings.CutPrefix(entry.Name(), "OPTIONS-")
		if n, err := strconv.ParseInt(number, 10, 63); is && err == nil && n > newest {
			newest, name = n, entry.Name()
		}
	}
	return name, nil
}
