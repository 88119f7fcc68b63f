package mmapdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := func(access Access, length int64) bool {
		t.Helper()
		is, err := IsLocked(path, access, length)
		if err != nil {
			t.Fatal(err)
		}

		return is
	}

	if held(ToWrite, 0) {
		t.Error("a file that is not there is held")
	}

	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close()
	lock := func(kind int16, start int64) {
		t.Helper()
		if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK,
			&unix.Flock_t{Type: kind, Start: start, Len: 1}); err != nil {
			t.Fatal(err)
		}
	}

	if held(ToWrite, 0) {
		t.Error("held by nobody")
	}

	lock(unix.F_RDLCK, 7)
	if held(ToRead, 0) || !held(ToWrite, 0) || held(ToWrite, 7) {
		t.Error("a reader of byte 7 stands against writers of it, and nobody else")
	}

	lock(unix.F_WRLCK, 7)
	if !held(ToRead, 0) || held(ToRead, 7) {
		t.Error("a writer of byte 7 stands against readers of it, and nobody else")
	}
}

// sorted walks over keys.
func sorted(keys [][]byte) walker {
	const first, last, next, setRange = 1, 2, 3, 4
	at := 0
	return walker{
		CursorOps{First: first, Last: last, Next: next, SetRange: setRange},
		func(key []byte, operation uint) ([]byte, error) {
			switch operation {
			case first:
				at = 0
			case last:
				at = len(keys) - 1
			case next:
				at++
			default:
				at, _ = slices.BinarySearchFunc(keys, key, bytes.Compare)
			}

			if at < 0 || at >= len(keys) {
				return nil, nil
			}

			return keys[at], nil
		},
	}
}

func TestSampleIsSpreadOverDenseKeys(t *testing.T) {
	const n, samples, buckets = 10_000, 8000, 8
	var keys [][]byte
	for i := range uint64(n) {
		keys = append(keys, binary.BigEndian.AppendUint64([]byte("account/"), 1_000_000+i))
	}

	var count [buckets]int
	err := sample(t.Context(), sorted(keys), samples, 3, func(key []byte) error {
		count[(binary.BigEndian.Uint64(key[8:])-1_000_000)*buckets/n]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	for i, c := range count {
		if c < samples/buckets*85/100 || c > samples/buckets*115/100 {
			t.Errorf("bucket %d has %d keys of %d in all: %v", i, c, samples, count)
		}
	}
}

func TestSampleOfFewKeys(t *testing.T) {
	stop := errors.New("stop")
	for _, keys := range [][][]byte{
		{},
		{[]byte("one")},
		{[]byte("a"), []byte("ab")},
		{{}, []byte("z")},
	} {
		got := 0
		if err := sample(t.Context(), sorted(keys), 50, 1,
			func([]byte) error { got++; return nil }); err != nil {
			t.Error(err)
		}

		if want := min(len(keys), 1) * 50; got != want {
			t.Errorf("%q: %d samples, want %d", keys, got, want)
		}

		err := sample(t.Context(), sorted(keys), 50, 1, func([]byte) error { return stop })
		if len(keys) > 0 && !errors.Is(err, stop) {
			t.Errorf("%q: error %v, want the one of yield", keys, err)
		}
	}
}
