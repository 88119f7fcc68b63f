package resolve

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/objstorage"
)

// openFile opens a table; it stays readable when its name is deleted. Tables
// never change once written. They are read, not mapped: mapped, all that was
// ever looked at would count as this process's memory.
func openFile(path string, bytes int64) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != bytes {
		err = fmt.Errorf("%d bytes long, %d in the manifest", info.Size(), bytes)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// readable lets Pebble's reader read the table. Closing it does not close the
// file.
type readable struct{ t *table }

func (f readable) ReadAt(_ context.Context, p []byte, offset int64) error {
	_, err := f.t.opened.ReadAt(p, offset)
	return err
}

func (f readable) Close() error { return nil }

func (f readable) Size() int64 { return f.t.bytes }

func (f readable) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle {
	h := objstorage.MakeNoopReadHandle(f)
	return &h
}
