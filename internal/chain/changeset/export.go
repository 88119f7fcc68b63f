package changeset

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zlib"
)

// Folder is where an export writes its files: slash-separated names, whose
// directories it makes.
type Folder interface {
	Create(name string) (io.WriteCloser, error)
}

// ExportFormats are those that Export writes.
func ExportFormats() []Format { return []Format{FormatIAVLBench, FormatCronos} }

// Export writes all of s into a folder.
func Export(folder Folder, s Source, format Format, told ProgressFunc) (err error) {
	var to exporter
	switch format {
	case FormatIAVLBench:
		to = &benchExport{folder: folder}
	case FormatCronos:
		to = &cronosExport{folder: folder}
	default:
		return fmt.Errorf("format %q: there are %v", format, ExportFormats())
	}

	err = Each(s, &Batch{}, func(b *Batch) error {
		if err := to.add(b, s.Info().Stores); err != nil {
			return fmt.Errorf("version %d: %w", b.Version, err)
		}
		return told.report(b)
	})
	if err != nil {
		return errors.Join(err, to.abandon())
	}

	return to.finish(s.Info().Stores)
}

type exporter interface {
	add(b *Batch, stores []string) error
	finish(stores []string) error
	abandon() error
}

// outFile is a file being exported: buffered, compressed where asked.
type outFile struct {
	file io.WriteCloser
	pack io.WriteCloser // nil if not compressed
	out  []byte
}

const outBufferBytes = 256 << 10

func (f *outFile) flush() error {
	to := io.Writer(f.file)
	if f.pack != nil {
		to = f.pack
	}
	_, err := to.Write(f.out)
	f.out = f.out[:0]
	return err
}

func (f *outFile) close() error {
	err := f.flush()
	if f.pack != nil {
		err = errors.Join(err, f.pack.Close())
	}
	return errors.Join(err, f.file.Close())
}

// benchExport writes an iavl-bench directory: a file for each version from 1, so
// versions that the set does not hold become empty ones.
type benchExport struct {
	folder  Folder
	version int64 // the last with a file
	open    *outFile
	pair    []byte
}

// maxFillFiles bounds the files of versions that the set does not hold.
const maxFillFiles = 1_000_000

func (e *benchExport) add(b *Batch, stores []string) error {
	if missing := b.Version - e.version - 1; missing > maxFillFiles {
		return fmt.Errorf("the form has a file for every version from 1: it would take %d empty "+
			"ones before this one", missing)
	}

	for e.version < b.Version {
		if err := e.next(); err != nil {
			return err
		}
	}

	for _, c := range b.Changes {
		e.pair = appendPair(e.pair[:0], stores[c.Store], c)
		if e.open.out = appendSized(e.open.out, e.pair); len(e.open.out) >= outBufferBytes {
			if err := e.open.flush(); err != nil {
				return err
			}
		}
	}

	return nil
}

// next begins the file of the next version.
func (e *benchExport) next() error {
	out := []byte(nil)
	if e.open != nil {
		out = e.open.out // its memory: closing empties it
	}

	if err := e.abandon(); err != nil {
		return err
	}

	file, err := e.folder.Create(benchFile(e.version + 1))
	if err != nil {
		return err
	}

	e.open = &outFile{file: file, out: out[:0]}
	e.version++
	return nil
}

func (e *benchExport) abandon() error {
	open := e.open
	if e.open = nil; open == nil {
		return nil
	}
	return open.close()
}

// appendPair is a StoreKVPair message. Deletes have no value, and protobuf leaves
// out what is empty or false.
func appendPair(dst []byte, store string, c Change) []byte {
	dst = appendSized(append(dst, 1<<3|bytesWire), []byte(store))
	if c.Delete {
		dst = append(dst, 2<<3|varintWire, 1)
	}

	dst = appendSized(append(dst, 3<<3|bytesWire), c.Key)
	if len(c.Value) > 0 {
		dst = appendSized(append(dst, 4<<3|bytesWire), c.Value)
	}

	return dst
}

func (e *benchExport) finish(stores []string) error {
	if err := e.abandon(); err != nil {
		return err
	}

	text, err := json.Marshal(benchInfo{
		Versions:    e.version,
		StoreNames:  stores,
		StoreParams: json.RawMessage("null"),
	})
	if err != nil {
		return fmt.Errorf("encode %s: %w", benchInfoFile, err)
	}

	file, err := e.folder.Create(benchInfoFile)
	if err != nil {
		return err
	}

	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// cronosExport writes a directory a store with one zlib file, which has every
// version. A version's changes of a store are held in memory: their size comes
// first.
type cronosExport struct {
	folder  Folder
	files   []*outFile // by store number
	changes [][]byte   // of the open version, by store number
	first   int64
}

func (e *cronosExport) add(b *Batch, stores []string) error {
	if e.first == 0 {
		e.first = b.Version
	}

	for i := len(e.files); i < len(stores); i++ {
		file, err := e.folder.Create(fmt.Sprintf("%s/block-%d.zz", stores[i], e.first))
		if err != nil {
			return err
		}

		e.files = append(e.files, &outFile{file: file, pack: zlib.NewWriter(file)})
		e.changes = append(e.changes, nil)
	}

	for _, c := range b.Changes {
		e.changes[c.Store] = appendCronosChange(e.changes[c.Store], c)
	}

	if !b.Last {
		return nil
	}

	for i, file := range e.files {
		file.out = binary.LittleEndian.AppendUint64(file.out, uint64(b.Version))
		file.out = binary.LittleEndian.AppendUint64(file.out, uint64(len(e.changes[i])))
		file.out = append(file.out, e.changes[i]...)
		if e.changes[i] = e.changes[i][:0]; len(file.out) >= outBufferBytes {
			if err := file.flush(); err != nil {
				return err
			}
		}
	}

	return nil
}

func appendCronosChange(dst []byte, c Change) []byte {
	if c.Delete {
		return appendSized(append(dst, 1), c.Key)
	}
	return appendSized(appendSized(append(dst, 0), c.Key), c.Value)
}

func (e *cronosExport) finish([]string) error { return e.abandon() }

func (e *cronosExport) abandon() error {
	var errs []error
	for _, file := range e.files {
		errs = append(errs, file.close())
	}
	return errors.Join(errs...)
}

// Dir is a directory that exports write to.
type Dir string

// Create implements Folder.
func (f Dir) Create(name string) (io.WriteCloser, error) {
	path := filepath.Join(string(f), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}
