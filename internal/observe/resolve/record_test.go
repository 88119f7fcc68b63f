package resolve

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/observe/lookuppath"
)

const recordedKeys = 20_000

// recordedStream is gets Gets, two of three of present keys.
func recordedStream(gets int) lookuppath.Keys { return streamOf(recordedKeys, gets) }

// streamOf is recordedStream of a database of n keys.
func streamOf(n uint64, gets int) lookuppath.Keys {
	maker, key := testKeys(n).Maker(), make([]byte, 32)
	i := 0
	return func() ([]byte, bool, bool) {
		if i == gets {
			return nil, false, false
		}

		index, known := uint64(i)*0x9e3779b97f4a7c15>>20%n, true
		if i%3 == 2 {
			index, known = index+n, false
		}

		i++
		maker.Key(key, index)
		return key, known, true
	}
}

// TestRecord holds a recorded trace against one Get after the other.
func TestRecord(t *testing.T) {
	for _, f := range flavours() {
		dir := t.TempDir()
		buildPlain(t, f, dir, recordedKeys)
		r := openResolver(t, f, dir)
		for _, sample := range []trace.Sample{{}, {Shift: 3}} {
			const gets = 10_000
			have, offered := recordAll(t, r, recordedStream(gets), sample)
			if offered != gets {
				t.Errorf("%d Gets offered, %d were", offered, gets)
			}

			w, keys := r.Walker(), recordedStream(gets)
			get := 0
			for {
				key, known, more := keys()
				if !more {
					break
				}

				if !sample.Takes(key) {
					continue
				}

				numbers, _, err := w.Get(key, known, nil)
				must(t, err)
				var want []cachesim.Block
				for _, number := range numbers {
					b, err := r.Block(number)
					must(t, err)
					want = append(want, b)
				}

				if !slices.Equal(want, blocksOf(have, get)) {
					t.Fatalf("%s, Get %d: recorded %v, want %v", f.name, get, blocksOf(have, get),
						want)
				}

				get++
			}

			if get != len(have.Gets) || sample.Shift == 0 && get != gets {
				t.Errorf("%s: %d Gets recorded, want %d", f.name, len(have.Gets), get)
			}
		}
	}
}

func recordAll(
	t *testing.T, r *Resolver, keys lookuppath.Keys, sample trace.Sample,
) (*cachesim.Trace, uint64) {
	t.Helper()
	var out bytes.Buffer
	w, err := trace.NewWriter(&out, trace.Header{Database: r.Identity(), SampleShift: sample.Shift})
	must(t, err)
	offered, err := lookuppath.Record(t.Context(), r, nil, keys, 0, sample, w)
	must(t, err)
	_, err = w.Close(offered)
	must(t, err)
	have, _, err := trace.Load(&out)
	must(t, err)
	return have, offered
}

func blocksOf(t *cachesim.Trace, get int) (blocks []cachesim.Block) {
	end := len(t.Accesses)
	if get+1 < len(t.Gets) {
		end = int(t.Gets[get+1])
	}
	for _, number := range t.Accesses[t.Gets[get]:end] {
		blocks = append(blocks, t.Blocks[number])
	}
	return blocks
}

func TestRecordStops(t *testing.T) {
	f := flavours()[2]
	dir := t.TempDir()
	buildPlain(t, f, dir, recordedKeys)
	r := openResolver(t, f, dir)

	// At a key that is beyond all though said to be there; the Gets before count.
	var out bytes.Buffer
	w, err := trace.NewWriter(&out, trace.Header{})
	must(t, err)
	stream, i := recordedStream(5000), 0
	_, err = lookuppath.Record(t.Context(), r, nil, func() ([]byte, bool, bool) {
		key, known, more := stream()
		if i++; i == 4001 {
			return bytes.Repeat([]byte{255}, 40), true, true
		}
		return key, known, more
	}, 0, trace.Sample{}, w)

	if err == nil || !strings.Contains(err.Error(), "should be in the database") {
		t.Fatal(err)
	}

	totals, err := w.Close(5000)
	must(t, err)
	if totals.Gets != 4000 {
		t.Errorf("%d Gets before the 4001st that failed", totals.Gets)
	}

	// Where absent keys are said to be there.
	w, err = trace.NewWriter(&out, trace.Header{})
	must(t, err)
	stream = recordedStream(5000)
	_, err = lookuppath.Record(t.Context(), r, nil, func() ([]byte, bool, bool) {
		key, _, more := stream()
		return key, true, more
	}, 0, trace.Sample{}, w)

	if err == nil || !strings.Contains(err.Error(), "should be in the database") {
		t.Fatal(err)
	}

	// When it is told to.
	ctx, cancel := context.WithCancel(t.Context())
	w, err = trace.NewWriter(&out, trace.Header{})
	must(t, err)
	endless, calls := recordedStream(-1), 0
	_, err = lookuppath.Record(ctx, r, nil, func() ([]byte, bool, bool) {
		if calls++; calls == 10_000 {
			cancel()
		}
		return endless()
	}, 0, trace.Sample{}, w)

	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}

	// When the trace cannot be written.
	w, err = trace.NewWriter(&fullDisk{left: 1}, trace.Header{})
	must(t, err)
	if _, err = lookuppath.Record(t.Context(), r, nil, recordedStream(100_000), 0, trace.Sample{},
		w); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left--; d.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// BenchmarkRecord is the whole way to a trace, on all cores: random Gets of
// present keys.
//
//	go test -run none -bench Record -benchtime 1000000x ./internal/observe/resolve
func BenchmarkRecord(b *testing.B) {
	const keys = 1_000_000
	for _, f := range []flavour{flavours()[0], flavours()[3]} {
		dir := b.TempDir()
		buildPlain(b, f, dir, keys)
		r := openResolver(b, f, dir)
		b.Run(f.name, func(b *testing.B) {
			var out countingWriter
			w, err := trace.NewWriter(&out, trace.Header{})
			must(b, err)
			random := rand.New(rand.NewPCG(1, 1))
			maker, key, i := testKeys(keys).Maker(), make([]byte, 32), 0
			offered, err := lookuppath.Record(b.Context(), r, nil, func() ([]byte, bool, bool) {
				maker.Key(key, random.Uint64N(keys))
				i++
				return key, true, i <= b.N
			}, 0, trace.Sample{}, w)

			must(b, err)
			totals, err := w.Close(offered)
			must(b, err)
			b.ReportMetric(float64(out)/float64(totals.Gets), "trace-B/Get")
			b.ReportMetric(float64(totals.Accesses)/float64(totals.Gets), "accesses/Get")
		})
	}
}

type countingWriter int64

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}
