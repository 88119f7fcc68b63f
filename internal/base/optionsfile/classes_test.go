package optionsfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each file was written by that version of the library itself, with its default options; that of
// 7.8.3 by db_bench, which sets most of them.
func TestWrittenOptionsAreClassified(t *testing.T) {
	files, err := filepath.Glob("testdata/OPTIONS-*")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}

	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}

		sections, err := Parse(file)
		if err != nil || file.Close() != nil || LibraryOf(sections) != RocksDB {
			t.Fatalf("%s: %v, of %q", name, err, LibraryOf(sections))
		}

		for _, d := range Doubts(sections, nil) {
			t.Errorf("%s: [%s] %s=%s is in no class", name, d.Section.Kind, d.Name, d.Value)
		}
	}
}

// An option has one class, and every class but Applied, Measured and Simulated says why.
func TestOptionsAreClassifiedOnce(t *testing.T) {
	type key struct {
		library    Library
		kind, name string
	}

	seen := map[key]bool{}
	for _, o := range Options() {
		k := key{o.Library, o.Kind, o.Name}
		if seen[k] {
			t.Errorf("%v is classified twice", k)
		}

		seen[k] = true
		switch o.Class {
		case Applied, Measured, Simulated:
		case Unmodelled:
			if len(o.Values) == 0 && o.Name != "Comparer" && o.Name != "comparator" {
				t.Errorf("%v: no value is known with which it changes nothing", k)
			}
			fallthrough
		default:
			if o.Why == "" {
				t.Errorf("%v is %s, and why is not said", k, o.Class)
			}
		}
	}
}

func TestDoubts(t *testing.T) {
	const text = "[Version]\n  rocksdb_version=12.0.0\n[DBOptions]\n  newest_option=7\n" +
		"  open_files_async=true\n  max_open_files=64\n[CFOptions \"a\"]\n  strange=1\n" +
		"[TableOptions/BlockBasedTable \"b\"]\n  read_amp_bytes_per_bit=32\n" +
		"  filter_policy={id=bloomfilter:10:false;}\n"
	sections, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}

	list := func(doubts []Doubt) (all []string) {
		for _, d := range doubts {
			known := "unknown"
			if d.Known != nil {
				known = string(d.Known.Class)
			}
			all = append(all, d.Section.Name+" "+d.Name+"="+d.Value+" "+known)
		}
		return all
	}

	got := strings.Join(list(Doubts(sections, nil)), "\n")
	want := " newest_option=7 unknown\n open_files_async=true unmodelled\na strange=1 unknown\n" +
		"b read_amp_bytes_per_bit=32 unmodelled"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	isB := func(family string) bool { return family == "b" }
	if some := Doubts(sections, isB); len(some) != 3 {
		t.Errorf("of family b: %v", list(some))
	}
}
