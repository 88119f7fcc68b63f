package main

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/ask/inspect"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/fidelity"
	"github.com/statelab/statelab/result/figure"
)

// ofRocksDB is a folder in which RocksDB wrote a database of so many keys as a client leaves it:
// besu, nethermind, nethermind-flat; or families: default (empty), accounts, storage (the same
// keys, without filters) and code.
func ofRocksDB(t *testing.T, client string, keys int) string {
	t.Helper()
	withCRunners(t)
	dir := filepath.Join(t.TempDir(), "db")
	command := exec.Command("go", "run", "./testdata/rocksfamilies", dir, strconv.Itoa(keys),
		client)
	command.Env = append(os.Environ(), "CGO_ENABLED=1", "STATELAB_ROCKSDB_LIBRARY="+
		absolute("../../bin/lib/librocksdb.so"))
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("write the database: %v\n%s", err, text)
	}

	return dir
}

// judged is what inspect --as says: of a database as it would be in a node, or as another.
func judged(t *testing.T, as string, args ...string) inspect.Comparison {
	t.Helper()
	var found inspect.Comparison
	if err := json.Unmarshal([]byte(must(t,
		append([]string{"inspect", "--json", "--as", as}, args...)...).stdout),
		&found); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFamilies goes the way of a user: inspect lists the families, fidelity flags the one
// without filters, and runs of it and of its twin differ by what fidelity predicts.
func TestFamilies(t *testing.T) {
	db := ofRocksDB(t, "families", 60_000)
	before := fingerprint(t, db)
	var seen inspect.Inspection
	if err := json.Unmarshal([]byte(must(t, "inspect", db, "--json").stdout), &seen); err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, table := range seen.Database.Tables {
		names = append(names, table.Name)
		if (table.Keys > 0) != (len(table.Levels) > 0) {
			t.Errorf("%s: %d keys in %d levels", table.Name, table.Keys, len(table.Levels))
		}
	}

	if slices.Sort(names); strings.Join(names, " ") != "accounts code default storage" ||
		len(seen.Warnings) > 0 {
		t.Errorf("families %v, warnings %v", names, seen.Warnings)
	}

	if text := must(t, "inspect", db).stdout; !strings.Contains(text, "storage, ") ||
		!strings.Contains(text, "--table NAME") {
		t.Errorf("inspect says\n%s", text)
	}

	const cache = "64KiB"
	found := judged(t, anyNode, db, "--cache", cache)
	extra := 0.0
	for _, table := range found.Tables {
		flagged := slices.ContainsFunc(table.Differences, func(d fidelity.Difference) bool {
			return d.Kind == fidelity.Filters
		})
		if flagged != (table.Name == "storage") {
			t.Errorf("%s: %+v", table.Name, table.Differences)
		}

		if flagged {
			extra = table.Differences[0].Extra
		}
	}

	reads := func(table string) float64 {
		out := filepath.Join(t.TempDir(), "R")
		must(t, "sweep", "--db", db, "--use-existing", "--table", table, "--cache", cache,
			"--gets", "300k", "--warmup", "1k", "--sample-keys", "300k",
			"--threads", "1", "--access-gets", "0", "--out", out)
		return readSweep(t, out).Points[0].Figures.OrZero(figure.BlockReadsPerGet)
	}

	measured := reads("storage") - reads("accounts")
	t.Logf("without filters %.4f block reads per Get more predicted, %.4f measured", extra,
		measured)
	if math.Abs(extra/measured-1) > 0.01 {
		t.Errorf("without filters %.4f block reads per Get more predicted, %.4f measured: more "+
			"than 1 %% apart", extra, measured)
	}

	var advice advise.RocksAdvice
	if err := json.Unmarshal([]byte(must(t, "advise", db, "--table", "accounts=20,storage=80",
		"--memory", "4MiB", "--json").stdout), &advice); err != nil {
		t.Fatal(err)
	}

	if len(advice.Tables) != 2 || advice.Tables[1].Share != 0.8 ||
		advice.Then.CacheBytes+advice.OutsideBytes != 4<<20 ||
		!strings.Contains(advice.Flags[0], "NewLRUCache(") ||
		!(advice.Then.BlockReadsPerGet < advice.Curve[0].BlockReadsPerGet) {
		t.Errorf("advice %+v", advice)
	}

	refused(t, statelab(t, "advise", db, "--verify"), exitUsage,
		"--verify: not for databases of RocksDB")
	refused(t, statelab(t, "inspect", db, "--as", "node", "--strict"), exitStrict, "--strict: ")
	refused(t, statelab(t, "inspect", db, "--as", "node", "--table", "slots"), exitUsage,
		"no such table (tables: ", "storage")
	refused(t, statelab(t, "sweep", "--db", db, "--use-existing", "--gets", "1k", "--warmup", "0"),
		exitFailed, "choose one with --table", "accounts")
	if same := judged(t, db, db); len(slices.DeleteFunc(same.Tables, func(v fidelity.Verdict) bool {
		return len(v.Differences) == 0
	})) > 0 {
		t.Errorf("a database differs from itself: %+v", same.Tables)
	}

	if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
		t.Errorf("the database was changed:\n%s", diff)
	}
}

// familyKeys are the keys of each large family of TestClientsOfRocksDB: go test -run
// TestClientsOfRocksDB -family-keys 670000. With many, files and levels are as large as the clients
// have them.
var familyKeys = flag.Int("family-keys", 60_000, "keys of each large column family")

// TestClientsOfRocksDB: databases with the options of Besu and of Nethermind are recognised, their
// families are listed, advise answers in their flags, and Gets of the same mix of families read as
// many blocks as it predicts, with the present cache and with the recommended one.
func TestClientsOfRocksDB(t *testing.T) {
	for _, c := range []struct {
		client, database string
		mix              []string // families with keys, and their percentage of the Gets
		families         int
		words            []string // of inspect
		flag             string
		// of the size that is advised: Besu has one for each family with keys
		caches      int64
		now, memory int64 // MiB, with the least number of keys
		// of each key; few of the keys of small blocks would make some blocks likelier than others
		samples int
	}{
		{
			"besu",
			"database",
			[]string{`\x06=40`, `\x07=5`, `\x08=25`, `\t=30`},
			7,
			[]string{"of Besu", `\x06 (flat accounts)`, `\x08 (flat storage slots)`,
				`\x09 (trie nodes)`, `\x0a (trie logs)`},
			"--Xplugin-rocksdb-cache-capacity=",
			6,
			1,
			12,
			1,
		},
		{"nethermind", "nethermind_db/mainnet/state/0", nil, 0, []string{"of Nethermind"},
			"--Db.SharedBlockCacheSize ", 1, 1, 2, 10},
		{
			"nethermind-flat",
			"nethermind_db/mainnet/flat",
			[]string{"Account=30", "Storage=40", "StateNodes=10", "StorageNodes=20"},
			5,
			[]string{"of Nethermind"},
			"--Db.SharedBlockCacheSize ",
			1,
			2,
			4,
			5,
		},
	} {
		t.Run(c.client, func(t *testing.T) {
			if testing.Short() && c.client == "nethermind-flat" {
				t.Skip("families are Besu's, too")
			}

			db := filepath.Join(ofRocksDB(t, c.client, *familyKeys), filepath.FromSlash(c.database))
			before := fingerprint(t, db)
			var seen inspect.Inspection
			if err := json.Unmarshal([]byte(must(t, "inspect", db, "--json").stdout),
				&seen); err != nil {
				t.Fatal(err)
			}

			o := must(t, "inspect", db)
			for _, w := range c.words {
				if !o.says(w) {
					t.Errorf("no word of %q in\n%s", w, o.stdout)
				}
			}

			if len(seen.Database.Tables) != c.families {
				t.Errorf("%d families, want %d", len(seen.Database.Tables), c.families)
			}

			mib := func(n int64) string {
				return strconv.FormatInt(max(1, n*int64(*familyKeys)/60_000), 10) + "MiB"
			}
			args := []string{"advise", db, "--cache", mib(c.now), "--memory", mib(c.memory),
				"--json"}
			// Besu's caches are independent of one another: each is measured alone.
			runs := map[string]float64{strings.Join(c.mix, ","): 1}
			if len(c.mix) > 0 {
				args = append(args, "--table", strings.Join(c.mix, ","))
			}

			if c.client == "besu" {
				clear(runs)
				for _, family := range c.mix {
					name, percent, _ := strings.Cut(family, "=")
					n, err := strconv.ParseFloat(percent, 64)
					if err != nil {
						t.Fatal(err)
					}

					runs[name] = n / 100
				}
			}

			var advice advise.RocksAdvice
			if err := json.Unmarshal([]byte(must(t, args...).stdout), &advice); err != nil {
				t.Fatal(err)
			}

			cache := advice.Then.CacheBytes
			if want := c.flag + strconv.FormatInt(cache, 10); len(advice.Flags) != 1 ||
				advice.Flags[0] != want {
				t.Errorf("flags %q, want %s", advice.Flags, want)
			}

			// Tables that are smaller than the cache leave more to the others.
			if room := advice.MemoryBytes - advice.OutsideBytes; cache < room/c.caches ||
				cache > room {
				t.Errorf("%d caches of %d bytes in %d", c.caches, cache, room)
			}

			for name, place := range map[string]advise.RocksPlace{
				"present":     advice.Now,
				"recommended": advice.Then,
			} {
				if testing.Short() && name == "present" && c.client != "nethermind" {
					continue // the smaller of two caches, which are predicted in one way
				}

				measured := 0.0
				for table, share := range runs {
					out := filepath.Join(t.TempDir(), "R")
					read := []string{"sweep", "--db", db, "--use-existing", "--gets", "60k",
						"--warmup", "30k", "--threads", "1",
						"--sample-keys", strconv.Itoa(c.samples * *familyKeys), "--access-gets",
						"0", "--cache", strconv.FormatInt(place.CacheBytes, 10) + "B", "--out", out}

					if table != "" {
						read = append(read, "--table", table)
					}

					must(t, read...)
					sweep := readSweep(t, out)
					measured += share * sweep.Points[0].Figures.OrZero(figure.BlockReadsPerGet)
				}

				t.Logf("%s, %s cache of %d bytes: %.4f block reads per Get predicted, "+
					"%.4f measured", c.client, name, place.CacheBytes, place.BlockReadsPerGet,
					measured)
				if math.Abs(place.BlockReadsPerGet/measured-1) > 0.01 {
					t.Errorf("%s cache: %.4f block reads per Get predicted, %.4f measured", name,
						place.BlockReadsPerGet, measured)
				}
			}

			if diff := cmp.Diff(before, fingerprint(t, db)); diff != "" {
				t.Errorf("the database was changed:\n%s", diff)
			}
		})
	}
}

// TestConformity: a database has the options of the profile that wrote it, and not those of another
// client.
func TestConformity(t *testing.T) {
	withCRunners(t)
	for _, c := range []struct{ engine, own, other, differs string }{
		{"pebble1", "bsc-1.7", "op-geth-1.101411", "block_size"},
		{"pebble2", "geth-1.17-v2", "sei-6.6", "compression"},
		{"rocksdb", "besu-26.3", "ethrex-2026.06", "cache_index_and_filter_blocks"},
	} {
		db := filepath.Join(t.TempDir(), "db")
		must(t, "load", "--engine", c.engine, "--profile", c.own, "--keys", "5k", "--db", db)
		as := func(profile string) (found inspect.Conformity) {
			if err := json.Unmarshal([]byte(must(t, "inspect", db, "--as", profile, "--table",
				"default", "--json").stdout), &found); err != nil {
				t.Fatal(err)
			}
			return found
		}

		if same := as(c.own); same.Differences() > 0 || len(same.Options) < 20 {
			t.Errorf("%s as itself: %+v", c.own, same)
		}

		if !slices.ContainsFunc(as(c.other).Options, func(o inspect.OptionPair) bool {
			return o.Differs && o.Name == c.differs
		}) {
			t.Errorf("%s as %s: no word of %s", c.own, c.other, c.differs)
		}
	}
}

// TestFidelityOfPebble: tables without filters are told, and cost more in a small cache.
func TestFidelityOfPebble(t *testing.T) {
	testring.Outer(t, "it builds databases as nodes have them")
	bare, whole := filepath.Join(t.TempDir(), "bare"), filepath.Join(t.TempDir(), "whole")
	// Sorted, four levels whose sizes do not depend on when compactions ran.
	small := []string{"--keys", "200k", "--workload", "fillsorted", "--set", "LBaseMaxBytes=1MiB",
		"--set", "MemTableSize=1MiB"}
	must(t, append([]string{"load", "--db", bare, "--set", "FilterLevels=none"}, small...)...)
	must(t, append([]string{"load", "--db", whole}, small...)...)
	of := func(db, as string) *fidelity.Difference {
		v := judged(t, as, db, "--cache", "1MiB").Tables[0]
		i := slices.IndexFunc(v.Differences, func(d fidelity.Difference) bool {
			return d.Kind == fidelity.Filters
		})
		if i < 0 {
			return nil
		}

		return &v.Differences[i]
	}

	if d := of(whole, anyNode); d != nil {
		t.Errorf("all levels have filters: %+v", d)
	}

	for _, as := range []string{anyNode, whole} {
		if d := of(bare, as); d == nil || !(d.Extra > 0) {
			t.Errorf("as %v: %+v, want the missing filters and their cost", as, d)
		}
	}

	refused(t, statelab(t, "inspect", "--as", "node", filepath.Join(t.TempDir(), "none")),
		exitUsage, "no such file")
	refused(t, statelab(t, "inspect", "--as", "node"), exitUsage, "name one database")
}

// TestLogIsInTheAnswer: what Pebble left in its log alone is said with the verdict, and not as a
// warning below it.
func TestLogIsInTheAnswer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	pebbleOf(t, dir, "")
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}

	for i := range 500 {
		if err := db.Set([]byte{byte(i >> 8), byte(i), 2}, make([]byte, 4000),
			pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}

	if err := db.Close(); err != nil { // without a flush
		t.Fatal(err)
	}

	o := must(t, "inspect", dir, "--as", "node")
	if !o.says("All of this is about tables, and a Get reads less than they tell: the "+
		"write-ahead log contains writes") ||
		strings.Contains(o.stderr, "write-ahead log") {
		t.Errorf("%+v", o)
	}
}
