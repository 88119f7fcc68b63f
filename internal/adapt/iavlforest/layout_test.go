package iavlforest

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	db := memory{}
	for _, key := range []string{"s/latest", "s/1", "s/k:acc/sx", "s/k:acc/n", "s/k:bank/s",
		"s/k:bank2/f", "s/k:08-wasm/m", "t"} {
		db[key] = nil
	}

	names, err := Names(db)
	if err != nil || strings.Join(names, " ") != "08-wasm acc bank bank2" {
		t.Errorf("names %q, %v", names, err)
	}

	db["s/k:nothing"] = nil
	if _, err := Names(db); err == nil {
		t.Error("a key that belongs to no store passes")
	}
}

// TestBeginAfterAKill wants nothing left of trees that were never committed, and
// no claim that fast nodes are right.
func TestBeginAfterAKill(t *testing.T) {
	for version, want := range map[int64]string{
		0: "s/1 statelab/open",
		7: "s/1 s/k:bank/fa s/k:bank/sx statelab/open",
	} {
		db := memory{"s/1": nil}
		if killed, err := begin(db, version); killed || err != nil {
			t.Fatal(killed, err)
		}

		maps.Copy(db, memory{
			"s/k:bank/sx":               nil,
			"s/k:bank/fa":               nil,
			"s/k:bank/mstorage_version": nil,
		})

		if killed, err := begin(db, version); !killed || err != nil {
			t.Fatal(killed, err)
		}

		if got := strings.Join(slices.Sorted(maps.Keys(db)), " "); got != want {
			t.Errorf("version %d: left %s, want %s", version, got, want)
		}

		if err := End(db); err != nil {
			t.Fatal(err)
		}

		if killed, err := begin(db, version); killed || err != nil {
			t.Errorf("after an end: killed %v, %v", killed, err)
		}
	}
}

func FuzzLatest(f *testing.F) {
	for _, seed := range [][]byte{
		nil,
		{8, 1},
		{8, 0x80, 1},
		{8},
		{16, 1},
		bytes.Repeat([]byte{0xff}, 12),
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, value []byte) {
		version, err := Latest(memory{latestKey: value})
		if err == nil && len(value) > 0 {
			if again, err := Latest(memory{latestKey: latestValue(version)}); again != version ||
				err != nil {
				t.Errorf("%x is version %d, which is written as another: %d, %v", value, version,
					again, err)
			}
		}

		if version < 0 {
			t.Errorf("%x is version %d", value, version)
		}
	})
}

// memory is a database in a map.
type memory map[string][]byte

func (m memory) Get(key []byte) ([]byte, error) { return m[string(key)], nil }

func (m memory) Set(key, value []byte) error {
	m[string(key)] = value
	return nil
}

func (m memory) Delete(key []byte) error {
	delete(m, string(key))
	return nil
}

func (m memory) Scan(start, end []byte) (Iterator, error) {
	var keys keys
	for key := range m {
		if key >= string(start) && key < string(end) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return &keys, nil
}

func (memory) Close() error { return nil }

type keys []string

func (k *keys) Valid() bool { return len(*k) > 0 }
func (k *keys) Next()       { *k = (*k)[1:] }
func (k *keys) Key() []byte { return []byte((*k)[0]) }
func (*keys) Error() error  { return nil }
func (*keys) Close() error  { return nil }
