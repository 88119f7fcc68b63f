//go:build cgo

package rocksdb_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/engines/rocksdb/familytest"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/fidelity"
)

const familyKeys = 60_000

func open(t *testing.T, o engine.Options) engine.DB {
	t.Helper()
	o.Foreign = true
	db, err := rocksdb.Engine{}.Open(t.Context(), o)
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

// TestFamilies: families are listed each with its levels, one is chosen by name, and what a
// family without filters costs is predicted from its metadata within 1 % of what Gets read.
func TestFamilies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	if err := familytest.Write(t.Context(), dir, familyKeys); err != nil {
		t.Fatal(err)
	}

	before := checksum(t, dir)
	listed := open(t, engine.Options{Dir: dir})
	shape, err := listed.Shape()
	if err != nil {
		t.Fatal(err)
	}

	tables := map[string]fidelity.Table{}
	for _, table := range shape.Tables {
		tables[table.Name] = fidelity.Table{
			Name:   table.Name,
			Keys:   table.Keys,
			Bytes:  table.Bytes,
			Levels: table.Levels,
		}
	}

	for name, keys := range map[string]int64{
		"default":           0,
		familytest.Accounts: familyKeys,
		familytest.Storage:  familyKeys,
		familytest.Code:     familyKeys / 200,
	} {
		if got, is := tables[name]; !is || got.Keys != keys || (keys > 0) != (got.Bytes > 0) {
			t.Errorf("family %s: %d keys in %d bytes, want %d keys", name, got.Keys, got.Bytes,
				keys)
		}
	}

	if shape.Files != 0 || len(shape.Tables) != 4 {
		t.Errorf("%d families; %d files of the default one, which is empty", len(shape.Tables),
			shape.Files)
	}

	if !slices.ContainsFunc(listed.Warnings(), func(w engine.Warning) bool {
		return w.Code == engine.TableNotChosen && strings.Contains(w.Remedy, "--table: ") &&
			strings.Contains(w.Remedy, familytest.Storage)
	}) {
		t.Errorf("no warning that keys are in other families: %v", listed.Warnings())
	}

	if err := listed.(engine.KeySampler).SampleKeys(t.Context(), 10, 1, func([]byte) error {
		return nil
	}); err == nil ||
		!strings.Contains(err.Error(), "choose one with --table") {
		t.Errorf("sampling the empty default family: %v, want an error that lists the others", err)
	}

	_, err = rocksdb.Engine{}.Open(t.Context(), engine.Options{
		Dir:       dir,
		Foreign:   true,
		Overrides: map[string]string{"table": "codes"},
	})

	if err == nil ||
		!strings.Contains(err.Error(), "there is no table codes: the tables are default, ") {
		t.Errorf("a family that is not there: error %v, want one that lists the families", err)
	}

	const cache = 64 << 10
	price := func(levels []engine.Level) (float64, error) {
		return fidelity.Reads(levels, 0, cache)
	}
	measured, verdicts := map[string]float64{}, map[string]fidelity.Verdict{}
	for _, name := range []string{familytest.Accounts, familytest.Storage} {
		if verdicts[name], err = fidelity.Compare(tables[name], nil, price); err != nil {
			t.Fatal(err)
		}

		measured[name] = readsPerGet(t, engine.Options{
			Dir:        dir,
			CacheBytes: cache,
			Overrides:  map[string]string{"table": name},
		})

		predicted := verdicts[name].ReadsPerGet
		t.Logf("%s: %.4f block reads per Get predicted, %.4f measured", name, predicted,
			measured[name])
		if math.Abs(predicted/measured[name]-1) > 0.01 {
			t.Errorf("%s: %.4f block reads per Get predicted, %.4f measured: more than 1 %% apart",
				name, predicted, measured[name])
		}
	}

	kinds := func(v fidelity.Verdict) (kinds []string) {
		for _, d := range v.Differences {
			kinds = append(kinds, d.Kind)
		}
		return kinds
	}

	if slices.Contains(kinds(verdicts[familytest.Accounts]), fidelity.Filters) ||
		!slices.Contains(kinds(verdicts[familytest.Storage]), fidelity.Filters) {
		t.Fatalf("differences: accounts %v, storage %v; storage alone lacks filters",
			kinds(verdicts[familytest.Accounts]), kinds(verdicts[familytest.Storage]))
	}

	extra := verdicts[familytest.Storage].Differences[0].Extra
	cost := measured[familytest.Storage] - measured[familytest.Accounts]
	t.Logf("without filters %.4f block reads per Get more predicted, %.4f measured", extra, cost)
	if math.Abs(extra/cost-1) > 0.01 {
		t.Errorf("without filters %.4f block reads per Get more predicted, %.4f measured: more "+
			"than 1 %% apart", extra, cost)
	}

	mixedReads(t, dir, cache, measured)
	if checksum(t, dir) != before {
		t.Error("a file of the database changed")
	}
}

// TestFamilyNamedByAByte: Besu's families have such names, which can be neither shown nor typed.
func TestFamilyNamedByAByte(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	made, err := rocksdb.Engine{}.Open(t.Context(), engine.Options{
		Dir:       dir,
		Create:    true,
		Overrides: map[string]string{"table": "\n"},
	})
	if err != nil {
		t.Fatal(err)
	}

	w, err := made.Writer()
	if err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(w.Put([]byte("key"), []byte("trie log")), w.Commit(), w.Close(),
		made.Settle(t.Context(), nil), made.Close()); err != nil {
		t.Fatal(err)
	}

	shape, err := open(t, engine.Options{Dir: dir}).Shape()
	if err != nil || len(shape.Tables) != 2 || shape.Tables[1].Name != `\x0a` ||
		shape.Tables[1].Keys != 1 {
		t.Errorf("tables %+v, %v; want default and one named 10", shape.Tables, err)
	}

	reader, err := open(t, engine.Options{Dir: dir, Overrides: map[string]string{"table": `\n`}}).
		Reader()
	if err != nil {
		t.Fatal(err)
	}

	if value, found, err := reader.Get([]byte("key"), nil); err != nil || !found ||
		string(value) != "trie log" {
		t.Errorf("%q, found %v, %v", value, found, err)
	}

	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	name, sections, err := optionsfile.Read(dir)
	if err != nil {
		t.Fatal(err)
	}

	options, err := fidelity.ParseRocksDB(sections, name)
	if err != nil || options[`\x0a`].BlockBytes != 4096 {
		t.Errorf("options %+v, %v; want those of the family", options, err)
	}
}

// mixedReads: Gets of a mix go to each family in its proportion.
func mixedReads(t *testing.T, dir string, cache int64, alone map[string]float64) {
	t.Helper()
	db := open(t, engine.Options{
		Dir:        dir,
		CacheBytes: cache,
		Overrides:  map[string]string{"table": "accounts=1;storage=3"},
	})

	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	before, gets, expected := db.Counters(), 0, 0.0
	var value []byte
	err = db.(engine.KeySampler).SampleKeys(t.Context(), 40_000, 1, func(key []byte) (err error) {
		found := false
		if value, found, err = reader.Get(key, value); err == nil && !found {
			t.Fatalf("the sampled key %x is not there", key)
		}

		gets++
		expected += alone[[]string{familytest.Accounts, familytest.Storage}[key[0]]]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	if _, found, err := reader.Get([]byte{9, 1}, nil); found || err != nil {
		t.Errorf("a key of no table: found %v, %v", found, err)
	}

	got, mean := float64(db.Counters().Sub(before).Reads.Total().Count)/float64(gets),
		expected/float64(gets)
	if want := 0.25*alone[familytest.Accounts] +
		0.75*alone[familytest.Storage]; math.Abs(mean-want) > 1e-9 || math.Abs(got/mean-1) > 0.03 {
		t.Errorf("%.4f block reads per Get of a mix, want %.4f", got, want)
	}

	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// readsPerGet asks for every key once, in random order.
func readsPerGet(t *testing.T, o engine.Options) float64 {
	t.Helper()
	db := open(t, o)
	reader, err := db.Reader()
	if err != nil {
		t.Fatal(err)
	}

	before := db.Counters()
	var value []byte
	for _, i := range rand.New(rand.NewPCG(7, 7)).Perm(familyKeys) {
		var found bool
		if value, found, err = reader.Get(familytest.Key(uint64(i)), value); err != nil || !found {
			t.Fatal(found, err)
		}
	}

	reads := db.Counters().Sub(before).Reads.Total().Count
	if err := reader.Close(); err != nil {
		t.Error(err)
	}

	return float64(reads) / familyKeys
}

// checksum is that of all files below dir and their names.
func checksum(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n", path, len(content))
		sum.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return fmt.Sprintf("%x", sum.Sum(nil))
}
