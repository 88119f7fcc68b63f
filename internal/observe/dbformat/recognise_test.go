package dbformat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
)

// folder is a directory of files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	pebbleOptions = "[Version]\n  pebble_version=0.1\n"
	rocksOptions  = "[Version]\n  rocksdb_version=8.1.1\n"
	blank16       = "0123456789abcdef"
)

func TestRecognise(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Found // {}: no database
	}{
		{
			"oldest Pebble",
			map[string]string{
				"CURRENT":         "",
				"MANIFEST-000001": "",
				"OPTIONS-000003":  pebbleOptions,
			},
			Found{"pebble1", 1},
		},
		{
			"Pebble v1 with marker",
			map[string]string{"marker.format-version.000011.012": "", "CURRENT": ""},
			Found{"pebble1", 12},
		},
		{
			"Pebble v2",
			map[string]string{
				"marker.format-version.000001.013":       "",
				"marker.manifest.000001.MANIFEST-000001": "",
			},
			Found{"pebble2", 13},
		},
		{
			"newest marker wins",
			map[string]string{
				"marker.format-version.000009.016": "",
				"marker.format-version.000010.021": "",
			},
			Found{"pebble2", 21},
		},
		{
			"of v1, in a format of both",
			map[string]string{
				"marker.format-version.000009.016": "",
				"OPTIONS-000007":                   pebbleOptions,
			},
			Found{"pebble1", 16},
		},
		{
			"of v2, in a format of both",
			map[string]string{
				"marker.format-version.000009.013": "",
				"OPTIONS-000007":                   pebbleOptions + "[Options]\n  key_schema=x\n",
			},
			Found{"pebble2", 13},
		},
		{
			"RocksDB",
			map[string]string{"CURRENT": "", "OPTIONS-000007": rocksOptions},
			Found{Engine: "rocksdb"},
		},
		{
			"RocksDB once, Pebble now",
			map[string]string{
				"CURRENT":        "",
				"OPTIONS-000007": rocksOptions,
				"OPTIONS-000009": pebbleOptions,
			},
			Found{"pebble1", 1},
		},
		{
			"Pebble once, RocksDB now",
			map[string]string{
				"CURRENT":        "",
				"OPTIONS-000009": rocksOptions,
				"OPTIONS-000007": pebbleOptions,
			},
			Found{Engine: "rocksdb"},
		},
		{
			"RocksDB without options",
			map[string]string{"CURRENT": "", "IDENTITY": "x"},
			Found{Engine: "rocksdb"},
		},
		{
			"LevelDB",
			map[string]string{"CURRENT": "", "MANIFEST-000004": "", "000005.ldb": ""},
			Found{Engine: "goleveldb"},
		},
		{
			"LevelDB without tables",
			map[string]string{"CURRENT": "", "LOG": "", "MANIFEST-000000": "", "000001.log": ""},
			Found{Engine: "goleveldb"},
		},
		{
			"Pebble killed before its options",
			map[string]string{"CURRENT": "", "LOCK": "", "MANIFEST-000001": "", "000002.log": ""},
			Found{"pebble1", 1},
		},
		{"options of somebody", map[string]string{"CURRENT": "", "OPTIONS-000004": "x"}, Found{}},
		{
			"MDBX",
			map[string]string{"mdbx.dat": blank16 + "abcd\x03\x11\x4c\xef\xbd\x9d\x65\x59"},
			Found{Engine: "mdbx"},
		},
		{
			"LMDB",
			map[string]string{"data.mdb": blank16 + "\xde\xc0\xef\xbe\x01\x00\x00\x00"},
			Found{Engine: "lmdb"},
		},
		{
			"LMDB by MDBX's name",
			map[string]string{"mdbx.dat": blank16 + "\xde\xc0\xef\xbe\x01\x00\x00\x00"},
			Found{Engine: "lmdb"},
		},
		{
			"bbolt",
			map[string]string{"bolt.db": blank16 + "\xed\xda\x0c\xed\x02\x00\x00\x00"},
			Found{Engine: "bbolt"},
		},
		{"bbolt cut short", map[string]string{"bolt.db": blank16 + "\xed"}, Found{}},
		{
			"fjall",
			map[string]string{"version": "FJL\x03", "lock": "", "0.jnl": ""},
			Found{Engine: "fjall"},
		},
		{
			"ParityDB",
			map[string]string{
				"metadata": "version=9\nsalt=00\ncol0=preimage: false, uniform: false",
				"lock":     "",
			},
			Found{Engine: "parity-db"},
		},
		{
			"Badger",
			map[string]string{"MANIFEST": "Bdgr\x00\x00\x00\x08", "KEYREGISTRY": ""},
			Found{Engine: "badger"},
		},
		{"a manifest of something", map[string]string{"MANIFEST": "{}"}, Found{}},
		{"other files", map[string]string{"notes.txt": ""}, Found{}},
		{"damaged marker", map[string]string{"marker.format-version.x.013": ""}, Found{}},
		{"damaged format", map[string]string{"marker.format-version.000001.abc": ""}, Found{}},
		{"empty", nil, Found{}},
	} {
		found, err := Recognise(folder(t, c.files))
		var not *engine.NotADatabaseError
		if found != c.want || (c.want == Found{}) != errors.As(err, &not) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, found, err, c.want)
		}
	}
}

// TestIncomplete tells apart what lacks the file that names a manifest, and what to do with it.
func TestIncomplete(t *testing.T) {
	for _, c := range []struct {
		name, why, remedy string
		files             []string
	}{
		{"a backup", "RocksDB's BackupEngine", "ldb restore --db=NEW --backup_dir=",
			[]string{"meta", "private", "shared_checksum"}},
		{"no markers", "neither CURRENT nor Pebble's marker.manifest files", "cp -a",
			[]string{"MANIFEST-000001", "OPTIONS-000003", "000005.sst"}},
		{"tables alone", "it has tables, but no manifest", "ldb repair --db=COPY",
			[]string{"000005.sst"}},
		{"something", "it has no CURRENT file", "", []string{"notes.txt"}},
	} {
		files := map[string]string{}
		for _, name := range c.files {
			files[name] = ""
		}

		_, err := Recognise(folder(t, files))
		not, is := errors.AsType[*engine.NotADatabaseError](err)
		if !is || !strings.Contains(not.Why, c.why) || !strings.Contains(not.Remedy, c.remedy) ||
			(c.remedy == "") != (not.Remedy == "") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUnlisted(t *testing.T) {
	dir := folder(t, map[string]string{"000004.sst": "", "000005.sst": "", "000006.ldb": "",
		"CURRENT": "", "000007.log": ""})
	for listed, want := range map[int]bool{0: true, 2: true, 3: false, 4: false} {
		if w, is := Unlisted(dir, listed); is != want {
			t.Errorf("%d of 3 are listed: %v %q", listed, is, w.Text)
		}
	}
}

func TestCheck(t *testing.T) {
	pebble := func(format string) map[string]string {
		return map[string]string{"marker.format-version.000001." + format: ""}
	}
	leveldb, rocks := map[string]string{"CURRENT": ""},
		map[string]string{"CURRENT": "", "OPTIONS-000007": rocksOptions}
	readOnly, create := engine.Options{ReadOnly: true}, engine.Options{Create: true}
	for _, c := range []struct {
		name    string
		loaded  string // the manifest's engine
		files   map[string]string
		asked   string
		options engine.Options
		want    string // of the refusal; "": none
	}{
		{"its own", "pebble1", pebble("001"), "pebble1", engine.Options{}, ""},
		{"its own in a format of both", "pebble1", pebble("013"), "pebble1", engine.Options{}, ""},
		{"another version, to read", "pebble1", pebble("013"), "pebble2", readOnly, ""},
		{"another version, to write", "pebble1", pebble("013"), "pebble2", engine.Options{},
			"of pebble1, not of pebble2: use --engine pebble1, or read it with pebble2 and " +
				"--read-only"},
		{"too old a format", "pebble1", pebble("012"), "pebble2", readOnly,
			"of pebble1, not of pebble2: use --engine pebble1"},
		{"too new a format", "pebble2", pebble("017"), "pebble1", readOnly,
			"of pebble2, not of pebble1: use --engine pebble2"},
		{"RocksDB on Pebble", "pebble1", pebble("001"), "rocksdb", engine.Options{},
			"of pebble1, not of rocksdb: use --engine pebble1"},
		{"RocksDB on Pebble, to read", "pebble1", pebble("001"), "rocksdb", readOnly,
			"of pebble1, not of rocksdb: use --engine pebble1"},
		{"RocksDB on a foreign Pebble", "", pebble("016"), "rocksdb",
			engine.Options{Foreign: true}, "of pebble2, not of rocksdb: use --engine pebble2"},
		{"both Pebbles on a foreign one", "", pebble("016"), "pebble1",
			engine.Options{Foreign: true}, ""},
		{"Pebble on RocksDB", "rocksdb", rocks, "pebble1", engine.Options{},
			"of rocksdb, not of pebble1: use --engine rocksdb"},
		{"RocksDB on LevelDB, to read", "goleveldb", leveldb, "rocksdb", readOnly,
			"of goleveldb, not of rocksdb"},
		{"RocksDB on LevelDB, to write", "goleveldb", leveldb, "rocksdb", engine.Options{},
			"of goleveldb, not of rocksdb"},
		{"LevelDB on RocksDB", "", rocks, "goleveldb", engine.Options{Foreign: true},
			"of rocksdb, not of goleveldb"},
		{"a new one over another's", "", pebble("001"), "rocksdb", create,
			"of pebble1, not of rocksdb: give rocksdb a directory of its own with --db"},
		{"a load to go on with", "rocksdb", nil, "rocksdb", create, ""},
		{"a load to go on with, another's files", "rocksdb", pebble("001"), "rocksdb", create,
			"of pebble1, not of rocksdb: statelab loaded it with rocksdb"},
		{"a library's own", "native", rocks, "native", engine.Options{}, ""},
		{"a library on another's, to read", "", rocks, "native", readOnly, ""},
		{"a library on another's, to write", "", rocks, "native", engine.Options{},
			"of rocksdb, not of native"},
		{"a library on what statelab loaded", "rocksdb", rocks, "native", readOnly,
			"of rocksdb, not of native"},
		{"RocksDB on a library's", "native", rocks, "rocksdb", readOnly, ""},
		{"somebody's engine that keeps its data in RocksDB", "mine", rocks, "mine",
			engine.Options{}, ""},
		{"somebody's engine on another's", "", rocks, "mine", engine.Options{},
			"of rocksdb, not of mine: use --engine rocksdb"},
		{"null touches nothing", "rocksdb", rocks, "null", engine.Options{}, ""},
		{"null over another's", "", rocks, "null", create, "of rocksdb, not of null"},
		{"nothing known", "", map[string]string{"x": ""}, "lmdb", engine.Options{}, ""},
		{"what kept nothing", "mem", nil, "pebble1", engine.Options{}, "of mem, not of pebble1"},
	} {
		c.options.Dir = folder(t, c.files)
		if c.loaded != "" {
			m := &keyspace.Manifest{
				Engine:     c.loaded,
				Keys:       1,
				Loaded:     1,
				KeyBytes:   32,
				KeyOrder:   keyspace.Hashed,
				KeyHash:    keyspace.Mix,
				ValueModel: keyspace.Random,
			}

			if err := keyspace.WriteManifest(c.options.Dir, m); err != nil {
				t.Fatal(err)
			}
		}

		err := Check(c.asked, c.options)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" &&
			(engine.CodeOf(err) != engine.CodeOtherEngine ||
				!strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestFile: a file in the place of a folder leads to the folder, or to what makes one.
func TestFile(t *testing.T) {
	lmdb := blank16 + "\xde\xc0\xef\xbe\x01\x00\x00\x00"
	dir := folder(t, map[string]string{"data.mdb": lmdb, "state": lmdb})
	for file, want := range map[string]string{
		filepath.Join(dir, "data.mdb"): "is a file of a database of lmdb: give its folder, " + dir,
		filepath.Join(folder(t, map[string]string{"state": lmdb}), "state"): "is a whole " +
			"database of lmdb, which is read from a folder of its own: " +
			"make one with a link to it and give that: mkdir NEW; ln -s ",
	} {
		if err := File(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}

	if err := File(filepath.Join(folder(t, map[string]string{"properties.txt": "level table"}),
		"properties.txt")); err != nil {
		t.Error(err)
	}
}

func FuzzNewestMarker(f *testing.F) {
	f.Add("marker.format-version.000001.013")
	f.Add("marker.format-version..")
	f.Fuzz(func(t *testing.T, name string) {
		value, err := newestMarker([]string{name, "marker.format-version.000000.001"}, formatMarker)
		if err == nil && value == "" && !strings.HasPrefix(name, formatMarker) {
			t.Errorf("%q hides the other marker", name)
		}
	})
}

func TestOtherVersion(t *testing.T) {
	const ofBoth, v2Options = "marker.format-version.000001.013",
		pebbleOptions + "[Options]\n  key_schema=DefaultKeySchema(leveldb.BytewiseComparator,16)\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		asked string
		want  string // of the warning; "": none
	}{
		{"v2's with v1", map[string]string{ofBoth: "", "OPTIONS-000003": v2Options}, "pebble1",
			"Pebble v2 wrote this database, and Pebble v1 (pebble1) reads it here"},
		{"v1's with v2", map[string]string{ofBoth: "", "OPTIONS-000003": pebbleOptions}, "pebble2",
			"Pebble v1 wrote this database, and Pebble v2 (pebble2) reads it here"},
		{"v2's with v2", map[string]string{ofBoth: "", "OPTIONS-000003": v2Options}, "pebble2", ""},
		{"the newest options count",
			map[string]string{
				ofBoth:           "",
				"OPTIONS-000003": pebbleOptions,
				"OPTIONS-000009": v2Options,
			}, "pebble2", ""},
		{"no options", map[string]string{ofBoth: ""}, "pebble1", ""},
		{"RocksDB's", map[string]string{"CURRENT": "", "OPTIONS-000007": rocksOptions}, "rocksdb",
			""},
	} {
		w, other := OtherVersion(c.asked, folder(t, c.files))
		if other != (c.want != "") || !strings.HasPrefix(w.Text, c.want) {
			t.Errorf("%s: %v %q, want %q", c.name, other, w.Text, c.want)
		}
	}
}
