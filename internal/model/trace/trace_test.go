package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/frames"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/model/cachesim"
)

// written is a random trace of gets Gets as it should come back.
type written struct {
	trace  *cachesim.Trace
	found  []bool
	totals Totals
	bytes  []byte
	ends   []int // where the frames end
}

func write(t testing.TB, seed uint64, gets int) written {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Engine: "pebble1", Seed: seed, WarmupGets: 1})
	if err != nil {
		t.Fatal(err)
	}

	result := written{trace: &cachesim.Trace{WarmupGets: 1}}
	for range gets {
		var numbers []uint32
		for range random.IntN(12) {
			if n := len(result.trace.Blocks); n == 0 || random.IntN(4) == 0 {
				b := cachesim.Block{
					File:      random.Uint64() >> random.IntN(64),
					Offset:    random.Uint64() >> random.IntN(64),
					Bytes:     random.Int32(),
					DiskBytes: random.Int32(),
					Type:      engine.BlockType(random.IntN(int(engine.NumBlockTypes))),
					Level:     uint8(random.IntN(engine.LevelUnknown + 1)),
				}

				if number := w.Block(b); int(number) != n {
					t.Fatalf("block %d got number %d", n, number)
				}

				result.trace.Blocks = append(result.trace.Blocks, b)
				numbers = append(numbers, uint32(n))
			} else {
				numbers = append(numbers, uint32(random.IntN(n)))
			}
		}

		found := random.IntN(2) == 0
		if err := w.Get(found, numbers); err != nil {
			t.Fatal(err)
		}

		result.trace.Gets = append(result.trace.Gets, uint32(len(result.trace.Accesses)))
		result.trace.Accesses = append(result.trace.Accesses, numbers...)
		result.found = append(result.found, found)
	}

	if result.totals, err = w.Close(uint64(2 * gets)); err != nil {
		t.Fatal(err)
	}

	at, perGet := 0, w.PerGet()
	ends := append(slices.Clone(result.trace.Gets[1:]), uint32(len(result.trace.Accesses)))
	for n, told := range perGet.ByAccesses {
		at += int(told)
		for i, begin := range result.trace.Gets {
			if int(ends[i]-begin) == n {
				told--
			}
		}

		if told != 0 {
			t.Errorf("%d Gets too many with %d accesses", int64(told), n)
		}
	}

	if at != gets || int(perGet.Gets) != gets || perGet.Max != len(perGet.ByAccesses)-1 ||
		perGet.MaxGets != perGet.ByAccesses[perGet.Max] ||
		perGet.Formula != 2*perGet.Levels+1 {
		t.Errorf("accesses of Gets: %+v", perGet)
	}

	result.bytes = out.Bytes()
	for end := len(magic); end < out.Len(); {
		end += frames.HeadBytes + int(binary.LittleEndian.Uint32(result.bytes[end+1:]))
		result.ends = append(result.ends, end)
	}

	return result
}

func TestTraceComesBack(t *testing.T) {
	for _, gets := range []int{2, 3, 1000, 60_000} {
		want := write(t, 7, gets)
		have, header, err := Load(bytes.NewReader(want.bytes))
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want.trace, have, cmpopts.IgnoreUnexported(cachesim.Trace{}),
			cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}

		if header.Schema != schema.Trace || header.Engine != "pebble1" || header.Seed != 7 {
			t.Fatalf("%+v", header)
		}

		r, err := NewReader(bytes.NewReader(want.bytes))
		if err != nil {
			t.Fatal(err)
		}

		for i := range gets {
			if _, found, err := r.Next(nil); err != nil || found != want.found[i] {
				t.Fatal(i, found, err)
			}
		}

		if _, _, err := r.Next(nil); err != io.EOF || r.Totals() != want.totals ||
			r.Totals().Offered != uint64(2*gets) {
			t.Fatal(err, r.Totals(), want.totals)
		}
	}
}

// TestLevelsAreStoredAsBefore: in files of the first versions, which told seven levels apart, 7 is
// no known level.
func TestLevelsAreStoredAsBefore(t *testing.T) {
	for level := range uint8(7) {
		if storedLevel(level) != level {
			t.Errorf("level %d is stored as %d", level, storedLevel(level))
		}
	}

	if level, known := levelOf(7); level != engine.LevelUnknown || !known {
		t.Errorf("7 is level %d, %v", level, known)
	}

	if level, known := levelOf(engine.LevelUnknown + 1); known {
		t.Errorf("%d is level %d", engine.LevelUnknown+1, level)
	}
}

// TestCutTrace cuts a trace everywhere: what was complete is read, what was not
// is said.
func TestCutTrace(t *testing.T) {
	want := write(t, 3, 20_000)
	if len(want.ends) < 4 {
		t.Fatalf("only %d frames", len(want.ends))
	}

	random := rand.New(rand.NewPCG(1, 1))
	cuts := append([]int{len(want.bytes) - 1}, want.ends[:len(want.ends)-1]...)
	for range 100 {
		cuts = append(cuts, random.IntN(len(want.bytes)))
	}

	for _, cut := range cuts {
		have, _, err := Load(bytes.NewReader(want.bytes[:cut]))
		if have == nil {
			if cut >= want.ends[0] {
				t.Fatalf("cut at %d: nothing left: %v", cut, err)
			}
			continue
		}

		damage := checkDamage(t, err)
		if !strings.Contains(err.Error(), "cut short") {
			t.Fatal(err)
		}

		complete := 0
		for _, end := range want.ends {
			if end <= cut {
				complete++
			}
		}

		if damage.Frame != complete || damage.Gets != uint64(len(have.Gets)) {
			t.Fatalf("cut at %d, behind %d frames: %v, %d Gets read", cut, complete, err,
				len(have.Gets))
		}

		checkPrefix(t, want.trace, have)
	}
}

// TestFlippedBits flips single bits everywhere: never a wrong access, always
// the frame.
func TestFlippedBits(t *testing.T) {
	want := write(t, 4, 20_000)
	random := rand.New(rand.NewPCG(2, 1))
	for range 100 {
		at := random.IntN(len(want.bytes))
		changed := bytes.Clone(want.bytes)
		changed[at] ^= 1 << random.IntN(8)
		have, _, err := Load(bytes.NewReader(changed))
		if err == nil {
			t.Fatalf("byte %d changed unnoticed", at)
		}

		if have == nil {
			if at >= want.ends[0] {
				t.Fatal(at, err)
			}
			continue
		}

		frame := 0
		for frame < len(want.ends) && want.ends[frame] <= at {
			frame++
		}

		if damage := checkDamage(t, err); damage.Frame != frame {
			t.Fatalf("byte %d, in frame %d: %v", at, frame, err)
		}

		checkPrefix(t, want.trace, have)
	}
}

func checkDamage(t *testing.T, err error) *DamageError {
	t.Helper()
	var damage *DamageError
	if !errors.As(err, &damage) {
		t.Fatalf("%v is no DamageError", err)
	}
	return damage
}

func checkPrefix(t *testing.T, want, have *cachesim.Trace) {
	t.Helper()
	if !bytes.Equal(asBytes(want.Accesses[:len(have.Accesses)]), asBytes(have.Accesses)) ||
		!bytes.Equal(asBytes(want.Gets[:len(have.Gets)]), asBytes(have.Gets)) {
		t.Fatal("accesses differ from what was written")
	}

	for i, b := range have.Blocks {
		if b != want.Blocks[i] {
			t.Fatalf("block %d is %+v, written as %+v", i, b, want.Blocks[i])
		}
	}
}

func asBytes(numbers []uint32) (b []byte) {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// failing fails all writes after some.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriterReportsItsFailure(t *testing.T) {
	w, err := NewWriter(&failing{left: 1}, Header{})
	if err != nil {
		t.Fatal(err)
	}

	if err := w.Get(true,
		[]uint32{0}); err == nil || !strings.Contains(err.Error(), "block 0 of 0") {
		t.Fatal(err)
	}

	w, err = NewWriter(&failing{left: 1}, Header{})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := w.Close(0); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}

	if _, err := NewWriter(&failing{}, Header{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
}

func TestSampleTakesItsShareOfKeysAndOnlyByKey(t *testing.T) {
	const keys = 200_000
	taken := 0
	for i := range uint64(keys) {
		key := binary.BigEndian.AppendUint64([]byte("account "), i)
		if (Sample{3}).Takes(key) {
			taken++
			if !(Sample{3}).Takes(bytes.Clone(key)) || !(Sample{2}).Takes(key) ||
				!(Sample{}).Takes(key) {
				t.Fatal("a key is taken by one of eight but not by one of four")
			}
		}
	}

	// 5 standard deviations of a binomial.
	if mean, five := keys/8.0, 5*math.Sqrt(keys*7/64.0); math.Abs(float64(taken)-mean) > five {
		t.Fatalf("%d of %d taken, expected %.0f ± %.0f", taken, keys, mean, five)
	}
}

func TestOracleGeneral(t *testing.T) {
	trace := &cachesim.Trace{
		Blocks:   []cachesim.Block{{Bytes: 10}, {Bytes: 4096}, {Bytes: 7}},
		Accesses: []uint32{0, 1, 0, 2, 1},
		Gets:     []uint32{0, 2, 2},
	}

	var out bytes.Buffer
	if err := WriteOracleGeneral(&out, trace, 336); err != nil {
		t.Fatal(err)
	}

	// By hand: time, block, size, next (counted from 1).
	want := [][4]int64{
		{0, 0, 346, 3},
		{0, 1, 4432, 5},
		{2, 0, 346, -1},
		{2, 2, 343, -1},
		{2, 1, 4432, -1},
	}

	var have [][4]int64
	for b := out.Bytes(); len(b) > 0; b = b[24:] {
		have = append(have, [4]int64{
			int64(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint64(b[4:])),
			int64(binary.LittleEndian.Uint32(b[12:])), int64(binary.LittleEndian.Uint64(b[16:])),
		})
	}

	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatal(diff)
	}
}

// FuzzReader: no input makes the reader panic, hang or return what the block
// table does not hold.
func FuzzReader(f *testing.F) {
	good := write(f, 5, 50)
	f.Add(good.bytes)
	f.Add(good.bytes[:len(good.bytes)/2])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) { readAll(t, data) })
}

// FuzzFrame fuzzes behind the checksum, which random input hardly passes.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{1, 0, 3, 2, 1, 1, 1, 1, 3, 0}, []byte{1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, gets, footer []byte) {
		var out bytes.Buffer
		w, err := NewWriter(&out, Header{})
		if err != nil {
			t.Fatal(err)
		}

		data := frames.Append(out.Bytes(), w.encoder, getsFrame, gets)
		readAll(t, frames.Append(data, w.encoder, footerFrame, footer))
	})
}

func readAll(t *testing.T, data []byte) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return
	}

	var numbers []uint32
	for {
		if numbers, _, err = r.Next(numbers); err != nil {
			return
		}

		for _, n := range numbers {
			if int(n) >= len(r.Blocks()) {
				t.Fatalf("access to block %d of %d", n, len(r.Blocks()))
			}
		}
	}
}
