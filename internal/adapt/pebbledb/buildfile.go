package pebbledb

import (
	"bufio"
	"errors"
	"os"
)

// TableFile is where a table is written to: objstorage.Writable of both
// versions. Their own writes out every block by a call of its own.
type TableFile struct {
	file   *os.File // nil: bytes are but counted
	buffer *bufio.Writer
	bytes  int64
}

const tableBufferBytes = 256 << 10

func newTableFile(file *os.File) *TableFile {
	f := &TableFile{file: file}
	if file != nil {
		f.buffer = bufio.NewWriterSize(file, tableBufferBytes)
	}
	return f
}

// Write writes all of p.
func (f *TableFile) Write(p []byte) error {
	f.bytes += int64(len(p))
	if f.file == nil {
		return nil
	}
	_, err := f.buffer.Write(p)
	return err
}

// Finish makes the file durable and closes it.
func (f *TableFile) Finish() error {
	if f.file == nil {
		return nil
	}
	err := f.buffer.Flush()
	if err == nil {
		err = f.file.Sync()
	}
	return errors.Join(err, f.file.Close())
}

// Abort closes the file, whose table is not going to be used. The build removes
// it; its error would hide the one that led here.
func (f *TableFile) Abort() {
	if f.file != nil {
		_ = f.file.Close()
	}
}
