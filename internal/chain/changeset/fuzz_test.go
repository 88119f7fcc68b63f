package changeset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/schema"
)

// Whatever bytes a reader is given, it ends, with versions that ascend, in batches
// within their bound; and a set that it reads without an error can be written and
// read back.

func holds(t *testing.T, s Source, err error) {
	t.Helper()
	if err != nil {
		return
	}

	versions, err := readUntil(s, 64)
	for i := 1; i < len(versions); i++ {
		if versions[i].Number <= versions[i-1].Number {
			t.Fatalf("version %d after version %d", versions[i].Number, versions[i-1].Number)
		}
	}

	if err != nil {
		var damage *DamageError
		var path *fs.PathError
		if !errors.As(err, &damage) && !errors.As(err, &path) {
			t.Fatalf("an error without a place: %v", err)
		}

		return
	}

	again, ok := s.(Seeker)
	if !ok {
		return
	}

	if err := again.SeekVersion(0); err != nil {
		t.Fatal(err)
	}

	order := s.Info().Order
	if order == OrderSortedNet {
		order = OrderUnknown // the reader believes it, the writer would not
	}

	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Order: order})
	if err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(w.Copy(s, nil), w.Close()); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(versions, read(t, open(t, out.Bytes()), 64)); diff != "" {
		t.Fatal(diff)
	}
}

func FuzzContainer(f *testing.F) {
	s, err := Generate(Generation{
		Profiles:   []string{"bank", "prefix"},
		Versions:   4,
		Scale:      1e-6,
		EmptyStore: true,
	})
	if err != nil {
		f.Fatal(err)
	}

	whole := contained(f, s)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := OpenContainer(bytes.NewReader(text), int64(len(text)), "set")
		if err == nil {
			holds(t, c, nil)
		}
	})
}

// The bytes behind the checksums: records, and a footer that lies.
func FuzzContainerRecords(f *testing.F) {
	record := func(numbers ...uint64) (raw []byte) {
		for _, n := range numbers {
			raw = binary.AppendUvarint(raw, n)
		}
		return raw
	}

	name := append(record(nameTag, 1), 'a')
	change := append(record(setTag, 1, 1), "kv"...)
	remove := append(record(deleteTag, 1), 'k')
	raw := bytes.Join([][]byte{name, record(beginTag, 7), change, remove, record(endTag, 2)}, nil)
	f.Add(raw, []byte{}, []byte{})
	f.Add(raw[:len(raw)-2], append(record(beginTag|1<<tagBits, 7), record(endTag, 2)...), []byte{})
	footer := append(append(record(1, 1), 'a'),
		record(1, 1, 2, 1, 1, 2, 0, 7, 7, 2, 14, 40, 1, 40)...)
	f.Add(raw[:len(raw)-2],
		append(record(beginTag|1<<tagBits, 7), record(endTag|1<<tagBits, 1, 9, 1, 1, 8, 2)...),
		footer)
	f.Add(record(beginTag, 1<<60), record(beginTag, 1, endTag|1<<tagBits, 0, 1<<60), record(1<<60))
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}

	f.Fuzz(func(t *testing.T, first, second, footer []byte) {
		text := frames.Append([]byte(magic), encoder, headerFrame,
			[]byte(`{"schema":"`+schema.ChangeSet+`","order":"insertion"}`))
		text = frames.Append(text, encoder, changesFrame, first)
		text = frames.Append(text, encoder, changesFrame, second)
		at := len(text)
		text = frames.Append(text, encoder, footerFrame, footer)
		trailer := binary.LittleEndian.AppendUint64(nil, uint64(at))
		text = append(append(text,
			binary.LittleEndian.AppendUint32(trailer, frames.Checksum(trailer))...), endMagic...)
		c, err := OpenContainer(bytes.NewReader(text), int64(len(text)), "set")
		if err == nil {
			holds(t, c, nil)
		}
	})
}

func FuzzIAVLBench(f *testing.F) {
	f.Add([]byte(`{"versions":1,"store_names":["bank","ibc"]}`),
		benchSet()["000000001.delimpb"].Data)
	f.Fuzz(func(t *testing.T, info, version []byte) {
		s, err := Open(fstest.MapFS{
			benchInfoFile: {Data: info},
			benchFile(1):  {Data: version},
			benchFile(2):  {},
		}, ".", FormatIAVLBench)

		holds(t, s, err)
	})
}

func FuzzCronos(f *testing.F) {
	version := append(cronosVersion(1, append(cronosPair("a", "1", 0), cronosPair("b", "", 1)...)),
		cronosVersion(3, nil)...)
	f.Add(version, version, deflated(f, version), snapped(f, version))
	f.Fuzz(func(t *testing.T, plain, more, zz, snappy []byte) {
		s, err := Open(fstest.MapFS{
			"a/block-0":        {Data: plain},
			"a/block-5":        {Data: more},
			"b/block-0.zz":     {Data: zz},
			"c/block-0.snappy": {Data: snappy},
		}, ".",
			FormatCronos)

		holds(t, s, err)
	})
}

// The nodes behind gzip, which has a checksum.
func FuzzNodes(f *testing.F) {
	f.Add(node("bank", "b", "1", false, 1),
		append(node("", "a", "", true, 4), node("ibc", "a", "", false, 5)...))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s, err := Open(fstest.MapFS{
			"1-4.pb.gz": {Data: gzipped(t, first)},
			"5-9.pb.gz": {Data: gzipped(t, second)},
		}, ".", FormatNodes)
		holds(t, s, err)
	})
}

func FuzzDiffs(f *testing.F) {
	f.Add([]byte(`[{"result":` + destructed + `},{"result":` + stored + `}]`))
	f.Add([]byte(`{"id":1,"result":` + undelegated + `}`))
	f.Fuzz(func(t *testing.T, block []byte) {
		s, err := Open(fstest.MapFS{"17.json": {Data: block}}, ".", FormatDiffs)
		holds(t, s, err)
	})
}
