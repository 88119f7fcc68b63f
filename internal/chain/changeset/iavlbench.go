package changeset

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// The iavl-bench directory: changeset_info.json and one file a version, from 1,
// of StoreKVPair messages {1 store_key, 2 delete, 3 key, 4 value}, each behind its
// length as a uvarint. The order is that in which the generator wrote.

const (
	benchInfoFile    = "changeset_info.json"
	maxInfoFileBytes = 16 << 20
)

type benchInfo struct {
	Versions    int64           `json:"versions"`
	StoreNames  []string        `json:"store_names"`
	StoreParams json.RawMessage `json:"store_params"`
}

func benchFile(version int64) string { return fmt.Sprintf("%09d.delimpb", version) }

type benchSource struct {
	fsys     fs.FS
	dir      string
	versions int64
	unknown  []string
	stores   *storeTable
	version  int64 // being read, or the last
	in       *stream
	message  []byte
}

func openBench(fsys fs.FS, dir string) (Source, error) {
	file := path.Join(dir, benchInfoFile)
	text, err := readSmall(fsys, file, maxInfoFileBytes)
	if err != nil {
		return nil, err
	}

	var info benchInfo
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, &DamageError{File: file, Offset: -1, Err: err}
	}

	stores, err := newStoreTable(info.StoreNames)
	if err == nil && info.Versions < 0 {
		err = fmt.Errorf("%d versions", info.Versions)
	}

	if err != nil {
		return nil, &DamageError{File: file, Offset: -1, Err: err}
	}

	s := &benchSource{fsys: fsys, dir: dir, versions: info.Versions, stores: stores}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("list change sets: %w", err)
	}

	for _, entry := range entries {
		version := int64(0)
		if name := entry.Name(); name != benchInfoFile {
			if fmt.Sscanf(name, "%09d.delimpb", &version); version < 1 || version > s.versions ||
				name != benchFile(version) {
				s.unknown = append(s.unknown, path.Join(dir, name))
			}
		}
	}

	return &seeking{reading{form: s}, s.seek}, nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(fsys fs.FS, file string, limit int64) (text []byte, err error) {
	f, err := fsys.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open change set: %w", err)
	}

	defer f.Close() // nothing was written
	if text, err = io.ReadAll(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}

	if int64(len(text)) > limit {
		return nil,
			&DamageError{File: file, Offset: limit, Err: fmt.Errorf("more than %d bytes", limit)}
	}

	return text, nil
}

func (s *benchSource) Info() Info {
	info := Info{
		Format:   FormatIAVLBench,
		Order:    OrderInsertion,
		Stores:   s.stores.names,
		Complete: true,
		Last:     s.versions,
		Unknown:  s.unknown,
		NotChecked: []string{"the format counts versions, not changes: changes that are missing, " +
			"there twice or moved within a version cannot be seen"},
	}

	if s.versions > 0 {
		info.First = 1
	}

	return info
}

func (s *benchSource) Close() error {
	if s.in == nil {
		return nil
	}
	return s.in.close()
}

// seek goes to a version, which is a file.
func (s *benchSource) seek(version int64) { s.version = max(version, 1) - 1 }

func (s *benchSource) begin() (int64, error) {
	if s.version >= s.versions {
		return 0, io.EOF
	}

	s.version++
	if err := s.openFile(); err != nil {
		return 0, &DamageError{
			File:    path.Join(s.dir, benchFile(s.version)),
			Offset:  -1,
			Version: s.version,
			Err:     err,
		}
	}

	return s.version, nil
}

func (s *benchSource) openFile() (err error) {
	file := path.Join(s.dir, benchFile(s.version))
	if s.in != nil {
		return s.in.next(s.fsys, file)
	}
	s.in, err = openStream(s.fsys, file, nil)
	return err
}

func (s *benchSource) change() (c Change, more bool, err error) {
	ended, err := s.in.atEnd()
	if err == nil && !ended {
		c, err = s.readPair()
	}
	if err != nil {
		err = s.in.damage(s.version, err)
	}
	return c, !ended, err
}

func (s *benchSource) readPair() (c Change, err error) {
	length, err := s.in.uvarint()
	if err != nil {
		return c, err
	}

	if s.message, err = s.in.message(s.message, length); err != nil {
		return c, err
	}

	c, store, _, err := numbering{store: 1, remove: 2, key: 3, value: 4}.decode(s.message)
	if err != nil {
		return c, err
	}

	if c.Store = s.stores.number(store); c.Store < 0 {
		return c, fmt.Errorf("store %.40q is not among the store_names of %s", store, benchInfoFile)
	}

	return c, nil
}
