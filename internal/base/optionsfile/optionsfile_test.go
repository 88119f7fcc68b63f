package optionsfile

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/livedir/churn"
)

func TestParse(t *testing.T) {
	const text = "# a comment = no option\n[Version]\n  rocksdb_version=7.8.3\n\n[CFOptions " +
		"\"a\\:b \\n\"]\n  merge_operator={id=X;delimiter=,;}\n  wal_dir=\n" +
		"[WAL Failover]\nsecondary_dir=/x"
	got, err := Parse(strings.NewReader("stray=1\n" + text))
	want := []Section{
		{"Version", "", map[string]string{"rocksdb_version": "7.8.3"}},
		{"CFOptions", "a:b \n",
			map[string]string{"merge_operator": "{id=X;delimiter=,;}", "wal_dir": ""}},
		{"WAL Failover", "", map[string]string{"secondary_dir": "/x"}},
	}

	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestNewest(t *testing.T) {
	dir := t.TempDir()
	if name, sections, err := Read(dir); name != "" || sections != nil || err != nil {
		t.Errorf("an empty folder has %q, %v, %v", name, sections, err)
	}

	for name, text := range map[string]string{
		"OPTIONS-000009":       "[Version]\n",
		"OPTIONS-1000000":      "[DBOptions]\n",
		"OPTIONS-000010.dbtmp": "[TableOptions]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if name, sections, err := Read(dir); name != "OPTIONS-1000000" || len(sections) != 1 ||
		sections[0].Kind != "DBOptions" || err != nil {
		t.Errorf("%q, %v, %v; want the file of the highest number", name, sections, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[CFOptions \"x\"]\na=b\n")
	f.Fuzz(func(t *testing.T, text string) {
		sections, err := Parse(strings.NewReader(text))
		if err == nil && len(sections) > strings.Count(text, "[") {
			t.Errorf("%d sections", len(sections))
		}
	})
}

// TestReadWhileTheNewestIsUnwritten: a writer can pause between the creation of a file and its
// first byte for as long as the disk lets it wait.
func TestReadWhileTheNewestIsUnwritten(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"OPTIONS-000008": "[Version]\n  pebble_version=0.1\n",
		"OPTIONS-000009": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	name, sections, err := Read(dir)
	if name != "OPTIONS-000008" || len(sections) != 1 || err != nil {
		t.Errorf("%q, %v, %v; want the newest file that is written", name, sections, err)
	}
}

func TestReadBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	churn.Replace(t, dir, "OPTIONS-%06d", "[DBOptions]\n  wal_dir=w\n", churn.Times, func() error {
		name, sections, err := Read(dir)
		if err == nil &&
			(name == "" || len(sections) != 1 || sections[0].Values["wal_dir"] != "w") {
			err = fmt.Errorf("%s: %v", name, sections)
		}

		return err
	})
}
