package blockio

import (
	"bytes"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/minio/minlz"

	"github.com/statelab/statelab/engine"
)

func TestTypeAt(t *testing.T) {
	l, err := NewBlockMap([]Block{
		{engine.Meta, 5000, 100}, // properties
		{engine.Data, 0, 1000},
		{engine.Data, 1005, 900},
		{engine.Filter, 1910, 500},
		{engine.Index, 2415, 300},
		{engine.Index, 2720, 300},
		{engine.TopIndex, 3025, 50},
		{engine.Value, 4000, 0}, // absent
	}, 5200)
	if err != nil {
		t.Fatal(err)
	}

	if len(l.types) != 5 {
		t.Errorf("%d ranges, want neighbours of one type merged into 5", len(l.types))
	}

	for offset, want := range map[int64]engine.BlockType{
		0:    engine.Data,
		1005: engine.Data,
		1909: engine.Data,
		1910: engine.Filter,
		2415: engine.Index,
		2720: engine.Index,
		3024: engine.Index,
		3025: engine.TopIndex,
		5000: engine.Meta,
		5199: engine.Meta,
		9999: engine.Meta,
	} {
		if got := l.TypeAt(offset); got != want {
			t.Errorf("offset %d is %v, want %v", offset, got, want)
		}
	}
}

func TestNewLayoutRefuses(t *testing.T) {
	for name, blocks := range map[string][]Block{
		"overlap":             {{engine.Data, 0, 100}, {engine.Index, 99, 10}},
		"beyond the end":      {{engine.Data, 0, 1001}},
		"overflow":            {{engine.Data, 10, ^uint64(0)}},
		"starting at the end": {{engine.Data, 1000, 1}},
	} {
		if _, err := NewBlockMap(blocks, 1000); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDecodedBytes(t *testing.T) {
	content := bytes.Repeat([]byte("state"), 1000)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}

	small, err := minlz.Encode(nil, content, minlz.LevelFastest)
	if err != nil {
		t.Fatal(err)
	}

	stored := map[byte][]byte{
		storedPlain:  content,
		storedSnappy: snappy.Encode(nil, content),
		// 5000 as a varint, as Pebble puts before the frame
		storedZstd:  encoder.EncodeAll(content, []byte{0x88, 0x27}),
		storedMinLZ: small,
	}

	for kind, payload := range stored {
		trailer := []byte{kind, 1, 2, 3, 4}
		if got, ok := DecodedBytes(append(payload, trailer...)); !ok || got != int64(len(content)) {
			t.Errorf("compression %d: %d bytes, %v; want %d", kind, got, ok, len(content))
		}
	}

	for name, stored := range map[string][]byte{
		"short":               {1, 2},
		"unknown compression": append(content, 3, 0, 0, 0, 0),
		"no varint":           {0xff, 0xff, storedSnappy, 0, 0, 0, 0},
	} {
		if n, ok := DecodedBytes(stored); ok {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

func FuzzDecodedBytes(f *testing.F) {
	f.Add([]byte{0x88, 0x27, 0, 0, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 0x88, 0x27, 0, 8, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, stored []byte) {
		if n, ok := DecodedBytes(stored); ok && (n < 0 || n >= maxDecodedBytes) {
			t.Errorf("%d bytes", n)
		}
	})
}

func FuzzNewLayout(f *testing.F) {
	f.Add(uint64(0), uint64(100), uint64(105), uint64(50), uint64(4096), int64(5000))
	f.Fuzz(func(t *testing.T, a, aBytes, b, bBytes, offset uint64, tableBytes int64) {
		if tableBytes < 0 {
			return
		}

		l, err := NewBlockMap([]Block{{engine.Data, a, aBytes}, {engine.Filter, b, bBytes}},
			tableBytes)
		if err != nil {
			return
		}

		kind := l.TypeAt(int64(offset % (1 << 62)))
		if kind != engine.Data && kind != engine.Filter && kind != engine.Meta {
			t.Errorf("type %v", kind)
		}

		if aBytes > 0 && l.TypeAt(int64(a)) != engine.Data {
			t.Errorf("the data block at %d is %v", a, l.TypeAt(int64(a)))
		}
	})
}
