package keyspace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func key(k Keys, index uint64) []byte {
	dst := make([]byte, k.Bytes)
	k.Maker().Key(dst, index)
	return dst
}

func TestKeccakKeysEqualTheStandard(t *testing.T) {
	// keccak256 of 32 zero bytes, a well-known constant of Solidity storage layouts.
	const want = "290decd9548b62a8d60345a988386fc84ba6bc95484008f6362f93160ef3e563"
	got := hex.EncodeToString(key(Keys{Count: 1, Bytes: 32, Order: Hashed, Hash: Keccak256}, 0))
	if got != want {
		t.Errorf("key 0 = %s, want %s", got, want)
	}
}

func TestSortedKeysAscend(t *testing.T) {
	for _, count := range []uint64{1, 2, 3, 1000, 5_000_000} {
		k := Keys{Count: count, Bytes: 32, Order: Sorted, Hash: Mix, Seed: 3}
		last := []byte(nil)
		for index := uint64(0); index < min(count, 10_000); index++ {
			next := key(k, index)
			if bytes.Compare(last, next) >= 0 {
				t.Fatalf("%d keys: key %d does not follow key %d", count, index, index-1)
			}
			last = next
		}

		if first, end := key(k, 0)[0], key(k, count-1)[0]; count >= 1000 &&
			(first > 1 || end < 0xfe) {
			t.Errorf("%d keys start at %x.. and end at %x..: not spread over the key space", count,
				first, end)
		}
	}
}

func TestKeysAreUniqueAndAbsentOnesAbsent(t *testing.T) {
	for _, order := range []string{Hashed, Sorted} {
		for _, hash := range []string{Mix, Keccak256} {
			k := Keys{Count: 5000, Bytes: 32, Order: order, Hash: hash, Seed: 9}
			if k.Check() != nil {
				continue
			}

			seen := map[string]bool{}
			for index := range uint64(15_000) { // two thirds of them absent
				seen[string(key(k, index))] = true
			}

			if len(seen) != 15_000 {
				t.Errorf("%s %s: %d different keys of 15000", order, hash, len(seen))
			}
		}
	}
}

func TestCheckerAcceptsItsValuesAndNothingElse(t *testing.T) {
	for _, model := range []string{Random, Table32, TrieNode} {
		v, err := NewValues(model, 110, 5)
		if err != nil {
			t.Fatal(err)
		}

		checker := v.Checker(3)
		var value []byte
		for index := range uint64(200) {
			for version := range uint32(4) {
				value = v.Value(value, index, version)
				if err := checker.Check(value, index, false); err != nil {
					t.Fatalf("%s index %d version %d: %v", model, index, version, err)
				}

				// Two versions of a table's value are one row now and then.
				if err := checker.Check(value, index, true); err == nil != (version == 3 ||
					bytes.Equal(value, v.Value(nil, index, 3))) {
					t.Fatalf("%s index %d version %d, where only 3 is right: %v", model, index,
						version, err)
				}

				value[len(value)/2] ^= 1
				if checker.Check(value, index, false) == nil {
					t.Fatalf("%s index %d version %d: a flipped bit passed", model, index, version)
				}

				value[len(value)/2] ^= 1
				if model != Table32 && checker.Check(value, index+1, false) == nil {
					t.Fatalf("%s: the value of key %d passed for key %d", model, index, index+1)
				}

				if checker.Check(value[:len(value)-1], index, false) == nil {
					t.Fatalf("%s: a value cut short passed", model)
				}
			}

			if model == Random {
				if v.Checker(3).Check(v.Value(nil, index, 4), index, false) == nil {
					t.Fatalf("version 4 passed where 3 is the newest")
				}
			}
		}
	}
}

func TestAcknowledgedKeys(t *testing.T) {
	a := NewAcknowledged(130)
	a.Add(129)
	a.Add(1 << 40) // beyond what is followed
	if a.Has(128) || !a.Has(129) || a.Has(1<<40) {
		t.Error("of 129 added, the set has another")
	}

	if n := len(NewAcknowledged(1<<50).words) * 8; n != 8<<20 {
		t.Errorf("a large set takes %d bytes", n)
	}
}

func TestNothingAllocates(t *testing.T) {
	dst := make([]byte, 32)
	for _, hash := range []string{Mix, Keccak256} {
		m := Keys{Count: 1e6, Bytes: 32, Order: Hashed, Hash: hash}.Maker()
		if n := testing.AllocsPerRun(100, func() { m.Key(dst, 77) }); n != 0 {
			t.Errorf("%s key allocates %v times", hash, n)
		}
	}

	for _, model := range []string{Random, Table32, TrieNode} {
		v, _ := NewValues(model, 110, 5)
		c, value := v.Checker(1), v.Value(nil, 9, 1)
		if n := testing.AllocsPerRun(100, func() {
			value = v.Value(value, 9, 1)
			if err := c.Check(value, 9, true); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s value allocates %v times", model, n)
		}
	}
}

func TestManifestRoundTripAndDamage(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadManifest(dir); err != ErrNoManifest {
		t.Errorf("empty folder: %v, want ErrNoManifest", err)
	}

	want := &Manifest{
		Engine:     "mem",
		Workload:   "fillrandom",
		Keys:       10,
		KeyBytes:   32,
		KeyOrder:   Hashed,
		KeyHash:    Mix,
		ValueModel: Random,
		ValueBytes: 110,
		Loaded:     10,
	}

	if err := WriteManifest(dir, want); err != nil {
		t.Fatal(err)
	}

	got, err := ReadManifest(dir)
	if err != nil || got.Keys != 10 || got.Loaded != 10 {
		t.Fatalf("read back %+v, %v", got, err)
	}

	text, err := os.ReadFile(ManifestPath(dir))
	if err != nil {
		t.Fatal(err)
	}

	for name, damaged := range map[string]string{
		"cut":   string(text[:len(text)/2]),
		"lying": strings.Replace(string(text), `"loaded": 10`, `"loaded": 11`, 1),
		"order": strings.Replace(string(text), `"hashed"`, `"sideways"`, 1),
	} {
		if err := os.WriteFile(ManifestPath(dir), []byte(damaged), 0o644); err != nil {
			t.Fatal(err)
		}

		if _, err := ReadManifest(dir); err == nil {
			t.Errorf("%s manifest was accepted", name)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"schema":"statelab.manifest/1","keys":10,"key_bytes":32,` +
		`"key_order":"hashed","key_hash":"mix","value_model":"random","value_bytes":110,` +
		`"loaded":10}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		err := os.MkdirAll(filepath.Dir(ManifestPath(dir)), 0o755)
		if err = errors.Join(err, os.WriteFile(ManifestPath(dir), text, 0o644)); err != nil {
			t.Fatal(err)
		}

		m, err := ReadManifest(dir)
		if err == nil && (m.Keys == 0 || m.Loaded > m.Keys) {
			t.Errorf("accepted %+v", m)
		}
	})
}

func BenchmarkMixKey(b *testing.B) {
	m := Keys{Count: 1e6, Bytes: 32, Order: Hashed, Hash: Mix}.Maker()
	dst := make([]byte, 32)
	for i := 0; b.Loop(); i++ {
		m.Key(dst, uint64(i))
	}
}

func BenchmarkKeccakKey(b *testing.B) {
	m := Keys{Count: 1e6, Bytes: 32, Order: Hashed, Hash: Keccak256}.Maker()
	dst := make([]byte, 32)
	for i := 0; b.Loop(); i++ {
		m.Key(dst, uint64(i))
	}
}
