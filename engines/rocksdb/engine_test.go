//go:build cgo

package rocksdb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/internal/adapt/adapter"
)

// TestMain sees to the library: the one named, else the one fetch.sh gets.
func TestMain(m *testing.M) {
	if err := haveLibrary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	code := m.Run()
	for _, dir := range layoutDirs {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}

	os.Exit(code)
}

func haveLibrary() error {
	if os.Getenv(LibraryVariable) != "" {
		return nil
	}

	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "lib", libraryName))
	if err != nil {
		return err
	}

	if said, err := exec.Command("./fetch.sh", path).CombinedOutput(); err != nil {
		return fmt.Errorf("these tests need RocksDB's library: fetch.sh %s: %w\n%s", path, err,
			said)
	}

	return os.Setenv(LibraryVariable, path)
}

func TestEngine(t *testing.T) { enginetest.Run(t, Engine{}) }

// TestOptions asks RocksDB about option names and values.
func TestOptions(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"write_buffer_size", "1048576", ""},
		{"block_size", "8192", ""},
		{"max_background_jobs", "4", ""},
		{"no_such_option", "1", "unknown option"},
		{"block_size", "large", "block_size"},
		{"compression", "kMagic", "compression"},
		{"max_open_files", "10", "--max-open-files"},
		{"block_cache", "1M", "--cache"},
		{"a=1;b", "1", "none of that name"},
		{cacheOption, "hyper-clock:4096", ""},
		{cacheOption, "hyper-clock:0", "invalid kind of cache"},
	} {
		errs := Engine{}.Check(engine.Options{
			Create:    true,
			Overrides: map[string]string{c.name: c.value},
		})

		switch {
		case c.want == "" && len(errs) > 0:
			t.Errorf("%s=%s: %v", c.name, c.value, errs)
		case c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)):
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, errs, c.want)
		}
	}

	// A budget changes the size of the cache, and the table of this one stays.
	fixed := engine.Options{
		Create:      true,
		MemoryBytes: 64 << 20,
		Overrides:   map[string]string{cacheOption: "hyper-clock:4096"},
	}

	if errs := (Engine{}).Check(fixed); len(errs) != 1 ||
		engine.CodeOf(errs[0]) != engine.CodeOption {
		t.Errorf("a fixed table with a budget: %v", errs)
	}
}

// TestOverridesTakeEffect holds what was asked for against RocksDB's log.
func TestOverridesTakeEffect(t *testing.T) {
	d := create(t, engine.Options{Profile: "partitioned", Handles: 300, CacheBytes: 5 << 20,
		Overrides: map[string]string{"block_size": "8192", "write_buffer_size": "1048576"}})
	e := d.Effective()
	for name, want := range map[string]string{
		"block_size":                           "8192",
		"write_buffer_size":                    "1048576",
		"index_type":                           "2",
		"partition_filters":                    "1",
		"filter_policy":                        "bloomfilter",
		"compression":                          "Snappy",
		"max_open_files":                       "300",
		"handles":                              "300",
		"cache_bytes":                          "5242880",
		"level_compaction_dynamic_level_bytes": "1",
		"cache_index_and_filter_blocks":        "1",
		"pin_top_level_index_and_filter":       "1",
		"metadata_block_size":                  "4096",
	} {
		if e[name] != want {
			t.Errorf("%s is %q, want %s", name, e[name], want)
		}
	}
}

func TestNoLibrary(t *testing.T) {
	if os.Getenv("STATELAB_ROCKSDB_TEST_ALONE") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoLibrary$", "-test.v")
		cmd.Env = append(os.Environ(), "STATELAB_ROCKSDB_TEST_ALONE=1",
			LibraryVariable+"=/dev/null")
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}

		return
	}

	if err := (Engine{}).Ready(); err == nil || !strings.Contains(err.Error(), LibraryVariable) {
		t.Errorf("error %v, want one that names $%s", err, LibraryVariable)
	}

	if errs := (Engine{}).Check(engine.Options{}); len(errs) == 0 {
		t.Error("options pass without a library that could judge them")
	}

	if v := (Engine{}).Info().Version; v != wantVersion {
		t.Errorf("version %q, want %s", v, wantVersion)
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	d := create(t, engine.Options{})
	fill(t, d, 1000)
	r := reading(t, d)
	key, dst := keyOf(500), make([]byte, 0, 128)
	n := testing.AllocsPerRun(2000, func() {
		if _, found, err := r.Get(key, dst); err != nil || !found {
			t.Fatal(found, err)
		}
	})

	if n != 0 {
		t.Errorf("%v allocations a Get, want none", n)
	}
}

// TestFewHandles: a database of more tables than may be open tells all its keys,
// and opening tables anew shows as such.
func TestFewHandles(t *testing.T) {
	const n = 100_000
	small := map[string]string{
		"write_buffer_size":        "1048576",
		"target_file_size_base":    "262144",
		"max_bytes_for_level_base": "1048576",
	}

	d := create(t, engine.Options{Handles: 20, Overrides: small})
	fill(t, d, n)
	shape, err := d.Shape()
	if err != nil {
		t.Fatal(err)
	}

	keys := int64(0)
	for _, l := range shape.Levels {
		keys += l.Keys
	}

	if keys != n || shape.Files < 40 {
		t.Errorf("%d keys in %d files, want %d in more than 40", keys, shape.Files, n)
	}

	r := reading(t, d)
	before := d.Counters()
	getRandom(t, r, n, 2000, 1)
	c := d.Counters().Sub(before)
	if *c.TableOpens < 500 || c.Reads.Type(engine.Meta).Count < *c.TableOpens {
		t.Errorf("%d tables opened by 2000 Gets with %d meta reads", *c.TableOpens,
			c.Reads.Type(engine.Meta).Count)
	}
}

// TestWords: RocksDB says in words alone what kind of failure it is.
func TestWords(t *testing.T) {
	for name, code := range map[string]engine.Code{
		"no_such_option":    engine.CodeOption,
		"write_buffer_size": "",
	} {
		errs := Engine{}.Check(engine.Options{
			Dir:       t.TempDir(),
			Create:    true,
			Overrides: map[string]string{name: "no such value"},
		})

		if len(errs) == 0 || engine.CodeOf(errs[0]) != code {
			t.Errorf("%s: %v, want the code %q", name, errs, code)
		}
	}

	o := engine.Options{Dir: t.TempDir(), Create: true}
	first, err := Engine{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := (Engine{}).Open(t.Context(),
		engine.Options{Dir: o.Dir}); engine.CodeOf(err) != engine.CodeInUse {
		t.Errorf("%v: the code %q", err, engine.CodeOf(err))
	}

	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// TestSampleIsUniform compares draws of keys with the list of all.
func TestSampleIsUniform(t *testing.T) {
	h := enginetest.NewHistory()
	dir := enginetest.BuildHistory(t, Engine{}, h, map[string]string{
		"disable_auto_compactions": "true",
		"write_buffer_size":        "67108864",
	}, func(dir string) {
		t.Run("compact", func(t *testing.T) {
			d := openAt(t, engine.Options{Dir: dir, Overrides: map[string]string{
				"level0_file_num_compaction_trigger": "1",
			}})
			if err := d.Settle(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		})
	})

	check := func(t *testing.T) {
		opened, err := Engine{}.Open(t.Context(), engine.Options{Dir: dir, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}

		enginetest.CheckUniform(t, opened, h.Live)
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("in tables", check)
	t.Run("write to the log", func(t *testing.T) {
		var changes []enginetest.Change
		for i, key := range h.Keys() {
			c := enginetest.Change{Key: []byte(key), Value: []byte("in the log")}
			switch i % 7 {
			case 0: // once more, whether it is there or not
				h.Live[key] = "in tables and the log"
			case 1:
				c.Value = nil
				delete(h.Live, key)
			case 2:
				c.Key = append(c.Key, 'n')
				h.Live[string(c.Key)] = "in the log alone"
			default:
				continue
			}

			changes = append(changes, c)
		}

		enginetest.Write(t, openAt(t, engine.Options{Dir: dir}), changes, nil, h.Batch)
	})

	t.Run("in tables and the log", check)
}

// TestSampleOfFamilies: keys of one column family are drawn as evenly beside others as alone, and
// those of a mix with its shares.
func TestSampleOfFamilies(t *testing.T) {
	h := enginetest.NewHistory()
	of := func(family string) map[string]string {
		return map[string]string{
			"table":                          family,
			"create_missing_column_families": "true",
			"disable_auto_compactions":       "true",
			"write_buffer_size":              "67108864",
		}
	}

	dir := enginetest.BuildHistory(t, Engine{}, h, of("first"), nil)
	second := map[string]string{}
	var changes []enginetest.Change
	for i := range 3000 {
		key := fmt.Appendf(nil, "second %d", i*i)
		changes = append(changes, enginetest.Change{Key: key, Value: make([]byte, 10+i)})
		second[string(key)] = fmt.Sprintf("values below %d KiB", i/1024+1)
	}

	enginetest.Write(t, openAt(t, engine.Options{Dir: dir, Overrides: of("second")}), changes, nil,
		h.Batch)
	opened := func(t *testing.T, table string) engine.DB {
		db, err := Engine{}.Open(t.Context(), engine.Options{
			Dir:       dir,
			ReadOnly:  true,
			Overrides: map[string]string{"table": table},
		})
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db
	}

	t.Run("first", func(t *testing.T) { enginetest.CheckUniform(t, opened(t, "first"), h.Live) })
	t.Run("second", func(t *testing.T) { enginetest.CheckUniform(t, opened(t, "second"), second) })
	t.Run("mix", func(t *testing.T) {
		const draws = 20_000
		drawn := map[int]int{}
		if err := opened(t, "first=70;second=30").(engine.KeySampler).SampleKeys(t.Context(), draws,
			1, func(mixed []byte) error {
				family, key, known := adapter.Unmix(2, mixed)
				live := []map[string]string{h.Live, second}[family]
				if !known || live[string(key)] == "" {
					return fmt.Errorf("%q of family %d is not there", key, family)
				}

				drawn[family]++
				return nil
			}); err != nil {
			t.Fatal(err)
		}

		if drawn[0] != 14_000 || drawn[1] != 6_000 {
			t.Errorf("of %d draws, by family: %v, want 70 and 30 %%", draws, drawn)
		}
	})
}
