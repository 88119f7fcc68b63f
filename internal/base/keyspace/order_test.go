package keyspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

func TestOrderIsThatOfTheKeys(t *testing.T) {
	for _, k := range []Keys{
		{Count: 1, Bytes: 32, Order: Hashed, Hash: Mix},
		{Count: 1000, Bytes: 8, Order: Hashed, Hash: Mix, Seed: 7},
		{Count: 100_000, Bytes: 32, Order: Hashed, Hash: Keccak256},
		{Count: 3_000_001, Bytes: 16, Order: Hashed, Hash: Mix, Seed: 1}, // several buckets
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "order")
		var done atomic.Uint64
		if err := k.WriteOrder(context.Background(), path, 2,
			func(n uint64) { done.Add(n) }); err != nil {
			t.Fatal(err)
		}

		order, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		if uint64(len(order)) != k.Count*IndexBytes {
			t.Fatalf("%d keys: %d bytes", k.Count, len(order))
		}

		if n := done.Load(); n > k.Count+10 || n+300 < k.Count {
			t.Errorf("%d of %d keys told", n, k.Count)
		}

		maker, last, next := k.Maker(), []byte(nil), make([]byte, k.Bytes)
		for at := 0; at < len(order); at += IndexBytes {
			index := binary.LittleEndian.Uint64(order[at:])
			if index >= k.Count {
				t.Fatalf("index %d of %d", index, k.Count)
			}

			maker.Key(next, index)
			if bytes.Compare(last, next) >= 0 { // so every index is there once
				t.Fatalf("%d keys: %x follows %x", k.Count, next, last)
			}

			last = append(last[:0], next...)
		}

		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestOrderCancelledIsNotThere(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("enough")
	path := filepath.Join(t.TempDir(), "order")
	err := Keys{Count: 2_000_000, Bytes: 32, Order: Hashed, Hash: Mix}.WriteOrder(ctx, path, 2,
		func(uint64) { cancel(stopped) })
	if !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}

	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
