package output

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not say %q", err, w)
		}
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s holds %q (%v), want %q", path, text, err, want)
	}
}

func write(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

func TestNothingIsReplacedUnasked(t *testing.T) {
	dir := t.TempDir()
	old := put(t, filepath.Join(dir, "old"), "mine")
	toOld := link(t, "old", filepath.Join(dir, "link"))
	for path, why := range map[string]string{
		old:                             "already exists",
		toOld:                           "symbolic link",
		dir:                             "is a folder",
		filepath.Join(dir, "none", "x"): "there is no folder",
		link(t, "nowhere", filepath.Join(dir, "dangling")): "link to nothing",
	} {
		refused(t, Write(path, nil, write("new")), path, why)
	}

	refused(t, Write(toOld, Anything, write("new")), "symbolic link")
	holds(t, old, "mine")
	if err := Write(old, Anything, write("new")); err != nil {
		t.Fatal(err)
	}

	holds(t, old, "new")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("left %v (%v)", entries, err)
	}
}

func TestOnlyReportsAreReplacedByReports(t *testing.T) {
	dir := t.TempDir()
	for text, own := range map[string]bool{
		"<!DOCTYPE html>\n<p class=\"kicker\">Statelab report</p>": true,
		"<!DOCTYPE html>\n<p>my page</p>":                          false,
		"statelab":                                                 false,
		"":                                                         false,
	} {
		path := put(t, filepath.Join(dir, "report.html"), text)
		if err := File(path, Reports); (err == nil) != own {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhatAppearsMeanwhileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new")
	refused(t, Write(path, nil, func(*os.File) error {
		put(t, path, "another's")
		return nil
	}), "already exists")
	holds(t, path, "another's")
}

func TestAFailedFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	failure := errors.New("disk full")
	if err := Write(filepath.Join(dir, "a"), nil,
		func(*os.File) error { return failure }); !errors.Is(
		err,
		failure,
	) {
		t.Error(err)
	}

	if err := WriteFolder(filepath.Join(dir, "b"),
		func(string) error { return failure }); !errors.Is(
		err,
		failure,
	) {
		t.Error(err)
	}

	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v (%v)", entries, err)
	}
}

func TestNothingIsPutInsideADatabase(t *testing.T) {
	for _, mark := range []string{"CURRENT", "MANIFEST-000001", "marker.format-version.000001.013",
		"000010.sst", "000005.ldb", "data.mdb", "mdbx.dat",
		"000001.vlog", "KEYREGISTRY", "headers.cidx", "statelab/manifest.json"} {
		root := t.TempDir()
		db := filepath.Join(root, "db")
		put(t, filepath.Join(db, mark), "x")
		outside := filepath.Join(root, "outside")
		put(t, filepath.Join(outside, "file"), "x")
		into := link(t, db, filepath.Join(outside, "into"))
		for _, path := range []string{db, filepath.Join(db, mark), filepath.Join(db, "new"),
			filepath.Join(db, "a", "b", "c"), filepath.Join(into, "new")} {
			refused(t, Write(path, Anything, write("new")), path, "inside a database", db)
			refused(t, errors.Join(Folder(path), WriteFolder(path, nil)), path,
				"inside a database", db)
			_, err := MakeFolder(path)
			refused(t, err, "inside a database")
		}

		holds(t, filepath.Join(db, mark), "x")
		if err := Folder(filepath.Join(root, "beside")); err != nil {
			t.Error(err)
		}
	}
}

func TestFoldersAreNewOrEmpty(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "x")
	for name, why := range map[string]string{
		"sweep.json": "already holds a sweep: choose another folder, or add --resume",
		"run.json":   "already holds a run",
		"notes.txt":  "it holds notes.txt",
	} {
		path := filepath.Join(dir, "of-"+name)
		put(t, filepath.Join(path, name), "x")
		refused(t, Folder(path), path, why)
	}

	refused(t, Folder(file), "is not a folder")
	empty := filepath.Join(dir, "empty")
	put(t, filepath.Join(empty, ".experiment.yaml.2762275029"), "") // of a process that was killed
	if err := errors.Join(os.MkdirAll(filepath.Join(empty, "lost+found"), 0o755), Folder(empty),
		Folder(filepath.Join(dir, "a", "b"))); err != nil {
		t.Error(err)
	}
}

func TestTidyRemovesOnlyEmptyFoldersItMade(t *testing.T) {
	dir := t.TempDir()
	for _, used := range []bool{false, true} {
		path := filepath.Join(dir, "runs", "one")
		tidy, err := MakeFolder(path)
		if err != nil {
			t.Fatal(err)
		}

		if used {
			put(t, filepath.Join(path, "run.json"), "x")
		}

		if err := tidy(); err != nil {
			t.Error(err)
		}

		if _, err := os.Stat(path); (err == nil) != used {
			t.Errorf("used %v: %v", used, err)
		}

		if _, err := os.Stat(filepath.Join(dir, "runs")); (err == nil) != used {
			t.Errorf("used %v: %v", used, err)
		}
	}

	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
