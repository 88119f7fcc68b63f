//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// wrap is deferred: it says, in a format, what failed where *err is an error.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}

// eachFile opens every regular file below dir for reading and hands it over. A
// file that a running database deletes meanwhile is left out.
func eachFile(ctx context.Context, dir string, visit func(f *os.File, bytes int64) error) error {
	root, err := filepath.EvalSymlinks(dir) // WalkDir does not follow dir itself
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = visit(f, info.Size())
		}
		return errors.Join(err, f.Close())
	})
}
