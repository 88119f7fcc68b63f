package host

import (
	"io/fs"
	"path/filepath"
)

// FilesIn is what the files below dir hold, and how many they are, without write-ahead logs, which no
// cache holds a part of; those that vanish meanwhile do not count.
func FilesIn(dir string) (bytes int64, files int) {
	walk := func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(entry.Name()) == ".log" {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			bytes, files = bytes+info.Size(), files+1
		}
		return nil
	}
	if filepath.WalkDir(dir, walk) != nil {
		return 0, 0
	}
	return bytes, files
}
