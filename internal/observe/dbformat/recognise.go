package dbformat

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/livedir"
	"github.com/statelab/statelab/internal/base/optionsfile"
)

// Found is what the files of a directory say about their writer.
type Found struct {
	// Engine is the adapter that reads them. Pebble's are pebble1's below format 13, which v2
	// no longer reads, the writer's up to format 16, which both read, and pebble2's from there.
	Engine string
	// PebbleFormat is Pebble's format major version, 1 for the oldest; 0 for other engines.
	PebbleFormat uint64
}

// Pebble v1 and v2 both open the formats from FirstOfPebble2 to LastOfPebble1.
const (
	FirstOfPebble2 = 13
	LastOfPebble1  = 16
)

// opens reports whether the adapter of that name opens the database as its own.
func (f Found) opens(name string) bool {
	switch {
	case f.PebbleFormat == 0:
		return name == f.Engine
	case name == "pebble1":
		return f.PebbleFormat <= LastOfPebble1
	}
	return name == "pebble2" && f.PebbleFormat >= FirstOfPebble2
}

// hasOwnFiles reports whether the databases of an engine are recognised by their files.
func hasOwnFiles(name string) bool {
	return slices.Contains([]string{"pebble1", "pebble2", "rocksdb", "goleveldb"}, name) ||
		slices.ContainsFunc(signs(), func(s sign) bool { return s.engine == name })
}

// Recognise tells whose database the files of dir are, without opening a database
// or taking a lock. Any other directory is an engine.NotADatabaseError.
func Recognise(dir string) (Found, error) {
	found, err := recognise(dir)
	if none := new(engine.NotADatabaseError); errors.As(err, &none) {
		if other, is := nearby(dir); is {
			none.Remedy = fmt.Sprintf("%s is a database: give that folder", other)
		}
	}
	return found, err
}

// recognise is Recognise of this directory alone. The process that holds the database may replace
// its files meanwhile.
func recognise(dir string) (found Found, err error) {
	err = livedir.Retry(dir, func() (err error) {
		found, err = recogniseOnce(dir)
		return err
	}, errUnwritten)
	if err == errUnwritten { // and nobody writes them
		err = &engine.NotADatabaseError{Dir: dir, Why: "its OPTIONS files are empty"}
	}
	return found, err
}

// errUnwritten is that of a database whose owner has created its only OPTIONS file, but not written
// it yet.
var errUnwritten = errors.New("its OPTIONS files are empty")

func recogniseOnce(dir string) (Found, error) {
	not := func(why string) (Found, error) {
		return Found{}, &engine.NotADatabaseError{Dir: dir, Why: why}
	}
	entries, err := livedir.ReadDir(dir, func(name string) bool {
		return strings.HasPrefix(name, formatMarker) || strings.HasPrefix(name, "OPTIONS-")
	})
	if errors.Is(err, fs.ErrNotExist) {
		return not("there is no such directory")
	}

	if err != nil {
		return Found{}, fmt.Errorf("look into %s: %w", dir, err)
	}

	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}

	format, err := newestMarker(names, formatMarker)
	switch {
	case err != nil:
		return not(err.Error())
	case format != "":
		version, err := strconv.ParseUint(format, 10, 32)
		if err != nil {
			return not("its format marker is unreadable: " + format)
		}
		switch {
		case version < FirstOfPebble2:
			return Found{"pebble1", max(version, 1)}, nil
		case version <= LastOfPebble1:
			writer, err := pebbleWriter(dir)
			return Found{cmp.Or(writer, "pebble2"), version}, err
		}
		return Found{"pebble2", version}, nil
	case slices.Contains(names, current) || exists(filepath.Join(dir, current)):
		return family(dir, names)
	case len(names) == 0:
		return not("it is empty")
	}

	for _, sign := range signs() {
		if !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			return e.Name() == sign.file && !e.IsDir()
		}) {
			continue
		}

		if is, err := sign.at(filepath.Join(dir, sign.file)); is || err != nil {
			return Found{Engine: sign.engine}, err
		}
	}

	return Found{}, incomplete(dir, names)
}

// incomplete says what the folder of these names is, which has no file that names a manifest.
func incomplete(dir string, names []string) error {
	has := func(name string) bool { return slices.Contains(names, name) }
	manifest := slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "MANIFEST-")
	})

	switch {
	case has("meta") && has("private"):
		return &engine.NotADatabaseError{
			Dir:    dir,
			Why:    "it is a backup that RocksDB's BackupEngine made",
			Remedy: fmt.Sprintf("restore it: ldb restore --db=NEW --backup_dir=%s", dir),
		}
	case manifest:
		return &engine.NotADatabaseError{
			Dir: dir,
			Why: "it has a manifest, but no file that names it: neither CURRENT nor Pebble's " +
				"marker.manifest files, which are empty, and which some programs do not copy",
			Remedy: "copy all files of the database again, such as with cp -a",
		}
	case slices.ContainsFunc(names, isTable):
		return &engine.NotADatabaseError{
			Dir: dir,
			Why: "it has tables, but no manifest, which tells their levels, and no CURRENT file",
			Remedy: "copy all files of the database again, such as with cp -a; RocksDB's " +
				"ldb repair --db=COPY makes a manifest for tables of RocksDB",
		}
	}

	return &engine.NotADatabaseError{Dir: dir, Why: "it has no CURRENT file"}
}

// current names the manifest. Engines replace it by a rename, during which a listing can miss it.
const current = "CURRENT"

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".ldb")
}

// family tells Pebble, RocksDB and LevelDB apart, which all have a file CURRENT:
// the newest options file that names a writer decides. LevelDB has none.
func family(dir string, names []string) (Found, error) {
	var options []string
	for _, name := range names {
		if strings.HasPrefix(name, "OPTIONS-") {
			options = append(options, name)
		}
	}

	// numbers of six digits
	slices.SortFunc(options, func(a, b string) int { return strings.Compare(b, a) })
	written := false
	for _, name := range options {
		names, err := optionNames(filepath.Join(dir, name))
		if found := writerOf(names); found != (Found{}) || err != nil {
			return found, err
		}
		written = written || len(names) > 0
	}

	switch {
	case len(options) > 0 && unreadable(filepath.Join(dir, current)):
		return Found{},
			&engine.NotADatabaseError{
				Dir: dir,
				Why: "its CURRENT file names no manifest: the files are encrypted, which is not " +
					"supported, or damaged",
			}
	case len(options) > 0 && !written:
		return Found{}, errUnwritten
	case len(options) > 0:
		return Found{},
			&engine.NotADatabaseError{
				Dir: dir,
				Why: "its OPTIONS files are of no engine that is known here",
			}
	case slices.Contains(names, "IDENTITY"): // RocksDB's before it wrote options
		return Found{Engine: "rocksdb"}, nil
	case !slices.Contains(names, "LOG") && !slices.ContainsFunc(names, isTable):
		// LevelDB begins with a LOG
		return Found{"pebble1", 1}, nil // Pebble's before it wrote options
	}

	return Found{Engine: "goleveldb"}, nil
}

// unreadable tells whether a CURRENT file names no manifest.
func unreadable(path string) bool {
	manifest, err := os.ReadFile(path)
	return err == nil && !strings.HasPrefix(string(manifest), "MANIFEST-")
}

// maxOptionsBytes bounds what is read of an options file.
const maxOptionsBytes = 1 << 20

// optionNames are those of an options file.
func optionNames(path string) (names []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read options file: %w", err)
	}

	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewScanner(io.LimitReader(file, maxOptionsBytes))
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), "=")
		names = append(names, strings.TrimSpace(name))
	}

	return names, lines.Err()
}

// writerOf says who wrote an options file of these names; nobody, if they do not tell.
func writerOf(names []string) Found {
	for _, name := range names {
		switch name {
		case "pebble_version":
			return Found{"pebble1", 1}
		case "rocksdb_version":
			return Found{Engine: "rocksdb"}
		}
	}

	return Found{}
}

// pebbleWriter is the version of Pebble that wrote the newest options file in dir, as an engine's
// name; "" if that is not known. Version 2 alone has a schema of keys, for columnar blocks.
func pebbleWriter(dir string) (string, error) {
	_, sections, err := optionsfile.Read(dir)
	has := func(option string) bool {
		return slices.ContainsFunc(sections, func(s optionsfile.Section) bool {
			return s.Values[option] != ""
		})
	}

	switch {
	case has("key_schema"):
		return "pebble2", err
	case has("pebble_version"):
		return "pebble1", err
	}

	return "", err
}

const formatMarker = "marker.format-version."

// PebbleManifest is the name of the manifest that a database of Pebble in dir is described by. If
// the database's owner began another one meanwhile, the error can wrap fs.ErrNotExist: ask again.
func PebbleManifest(dir string) (name string, err error) {
	for range 2 { // a listing can miss both the marker that is being replaced and its successor
		names, err := fs.Glob(os.DirFS(dir), "marker.manifest.*")
		if err != nil {
			return "", err
		}

		if name, err = newestMarker(names, "marker.manifest."); err != nil || name != "" {
			return name, err
		}
	}

	text, err := os.ReadFile(filepath.Join(dir, current))
	if name = strings.TrimSpace(string(text)); err == nil && !filepath.IsLocal(name) {
		err = engine.Fail(engine.CodeDamaged, "CURRENT names no manifest: %q", name)
	}

	return name, err
}

// newestMarker returns the value of an atomic marker: of the files
// prefix.<iteration>.<value> the one of the highest iteration.
func newestMarker(names []string, prefix string) (value string, err error) {
	newest := int64(-1)
	for _, name := range names {
		rest, is := strings.CutPrefix(name, prefix)
		if !is {
			continue
		}

		iteration, v, is := strings.Cut(rest, ".")
		n, err := strconv.ParseInt(iteration, 10, 63)
		if !is || err != nil {
			return "", engine.Fail(engine.CodeDamaged, "unreadable marker file %s", name)
		}

		if n > newest {
			newest, value = n, v
		}
	}

	return value, nil
}

// sign is what a file of an engine holds at offset, on a little-endian machine.
type sign struct {
	file, engine string
	offset       int64
	bytes        string
}

// signs are those of engines whose folder has no CURRENT file.
func signs() []sign {
	return append(
		wholeSigns(),
		sign{"MANIFEST", "badger", 0, "Bdgr"},
		sign{"version", "fjall", 0, "FJL"},
		sign{"metadata", "parity-db", 0, "version="},
	)
}

// wholeSigns are those of engines that keep everything in one file. A file is known by its content:
// LMDB and libmdbx have used each other's names.
func wholeSigns() (all []sign) {
	for _, file := range []string{"mdbx.dat", "data.mdb", "bolt.db"} {
		all = append(all,
			sign{file, "mdbx", 21, "\x11\x4c\xef\xbd\x9d\x65\x59"},
			sign{file, "lmdb", 16, "\xde\xc0\xef\xbe"},
			sign{file, "bbolt", 16, "\xed\xda\x0c\xed"},
		)
	}
	return all
}

// EngineOfFile is the engine whose whole database a file is, whatever its name; "" for other files.
func EngineOfFile(path string) (string, error) {
	for _, sign := range wholeSigns() {
		if is, err := sign.at(path); is || err != nil {
			return sign.engine, err
		}
	}
	return "", nil
}

func (s sign) at(path string) (is bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", filepath.Dir(path), err)
	}

	defer func() { err = errors.Join(err, file.Close()) }()
	head := make([]byte, len(s.bytes))
	if _, err := file.ReadAt(head, s.offset); err != nil && err != io.EOF {
		return false, fmt.Errorf("look into %s: %w", path, err)
	}

	return string(head) == s.bytes, nil
}

// File is nil unless the file at path is a whole database or a part of one; then it says what to
// give instead.
func File(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil
	}

	dir := filepath.Dir(full)
	if found, err := recognise(dir); err == nil && found != (Found{}) {
		return fmt.Errorf("%s is a file of a database of %s: give its folder, %s", path,
			found.Engine, dir)
	}

	for _, s := range wholeSigns() {
		is, err := s.at(full)
		switch {
		case err != nil || !is:
		case s.engine == "bbolt": // of which another program's database is not read
			return fmt.Errorf("%s is a whole database of %s, of which only databases that "+
				"statelab loaded are read. Measure one like it: "+
				"statelab load --engine %s --db NEW --keys N", path, s.engine, s.engine)
		default:
			return fmt.Errorf("%s is a whole database of %s, which is read from a folder of its "+
				"own: make one with a link to it and give that: "+
				"mkdir NEW; ln -s %s NEW/%s", path, s.engine, full, usualName(s.engine))
		}
	}

	return nil
}

// usualName is what an engine calls its only file.
func usualName(engine string) string {
	return map[string]string{"mdbx": "mdbx.dat", "lmdb": "data.mdb"}[engine]
}
