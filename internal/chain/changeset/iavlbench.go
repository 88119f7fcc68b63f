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
	reading  bool
	message  []byte
	pending  bool // message holds a change that did not fit
	done     error
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
			if fmt.Sscanf(name, "%09d.delimpb", &version); version < 1 || version > s.versions || name != benchFile(version) {
				s.unknown = append(s.unknown, path.Join(dir, name))
			}
		}
	}
	return s, nil
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
		return nil, &DamageError{File: file, Offset: limit, Err: fmt.Errorf("more than %d bytes", limit)}
	}
	return text, nil
}

func (s *benchSource) Info() Info {
	info := Info{Format: FormatIAVLBench, Order: OrderInsertion, Stores: s.stores.names, Complete: true, Last: s.versions, Unknown: s.unknown}
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

// SeekVersion implements Seeker: a version is a file.
func (s *benchSource) SeekVersion(version int64) error {
	s.version, s.reading, s.pending, s.done = max(version, 1)-1, false, false, nil
	return nil
}

func (s *benchSource) Next(b *Batch) error {
	if s.done == nil {
		s.done = s.next(b)
	}
	return s.done
}

func (s *benchSource) next(b *Batch) error {
	if !s.reading {
		if s.version >= s.versions {
			return io.EOF
		}
		s.version++
		if err := s.openFile(); err != nil {
			return &DamageError{File: path.Join(s.dir, benchFile(s.version)), Offset: -1, Version: s.version, Err: err}
		}
		s.reading = true
	}
	b.begin(s.version)
	if err := s.fill(b); err != nil {
		return s.in.damage(s.version, err)
	}
	return nil
}

func (s *benchSource) openFile() (err error) {
	file := path.Join(s.dir, benchFile(s.version))
	if s.in != nil {
		return s.in.next(s.fsys, file)
	}
	s.in, err = openStream(s.fsys, file, nil)
	return err
}

func (s *benchSource) fill(b *Batch) error {
	for {
		if !s.pending {
			ended, err := s.in.atEnd()
			if err != nil {
				return err
			}
			if ended {
				b.Last, s.reading = true, false
				return nil
			}
			length, err := s.in.uvarint()
			if err != nil {
				return err
			}
			if length > maxMessageBytes {
				return fmt.Errorf("a message of %d bytes, at most %d are believed", length, maxMessageBytes)
			}
			s.message = grow(s.message, int(length))
			if err := s.in.full(s.message); err != nil {
				return err
			}
		}
		added, err := s.addPair(b)
		if err != nil {
			return err
		}
		if s.pending = !added; s.pending {
			return nil
		}
	}
}

// addPair decodes the message; added is false if it does not fit.
func (s *benchSource) addPair(b *Batch) (added bool, err error) {
	var store, key, value []byte
	remove := false
	for rest := s.message; len(rest) > 0; {
		var f field
		if f, rest, err = cutField(rest); err != nil {
			return false, err
		}
		switch f.number {
		case 1:
			store, err = f.bytes, f.want(true)
		case 2:
			remove, err = f.value != 0, f.want(false)
		case 3:
			key, err = f.bytes, f.want(true)
		case 4:
			value, err = f.bytes, f.want(true)
		}
		if err != nil {
			return false, err
		}
	}
	if err := checkKey(uint64(len(key))); err != nil {
		return false, err
	}
	if err := checkValue(uint64(len(value))); err != nil {
		return false, err
	}
	number := s.stores.number(store)
	if number < 0 {
		return false, fmt.Errorf("store %.40q is not among the store_names of %s", store, benchInfoFile)
	}
	return b.offer(number, key, value, remove), nil
}
