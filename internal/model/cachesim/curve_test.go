package cachesim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/statelab/statelab/engine"
)

// smallTrace is 20,000 Gets of four accesses each: a filter, an index, a data
// block, and a top index that is always the same.
func smallTrace(t testing.TB) *Trace {
	t.Helper()
	random := rand.New(rand.NewPCG(2, 3))
	trace := &Trace{WarmupGets: 5000}
	for range 20_000 {
		trace.BeginGet()
		for _, b := range []Block{
			{File: 1, Offset: 0, Bytes: 900, DiskBytes: 500, Type: engine.TopIndex, Level: 6},
			{
				File:      2,
				Offset:    random.Uint64N(40),
				Bytes:     3000,
				DiskBytes: 3000,
				Type:      engine.Filter,
				Level:     4,
			},
			{
				File:      3,
				Offset:    random.Uint64N(500),
				Bytes:     4000,
				DiskBytes: 2500,
				Type:      engine.Index,
				Level:     5,
			},
			{
				File:      4,
				Offset:    random.Uint64N(9000),
				Bytes:     4100,
				DiskBytes: 3100,
				Type:      engine.Data,
				Level:     6,
			},
		} {
			if err := trace.Touch(b); err != nil {
				t.Fatal(err)
			}
		}
	}

	return trace
}

func TestCurve(t *testing.T) {
	trace := smallTrace(t)
	for _, policy := range Policies() {
		sizes := []int64{1, 200_000, 1 << 20, 4 << 20, 1 << 30}
		points, err := Curve(context.Background(), trace, Setup{Policy: policy, Cores: 1}, sizes)
		if err != nil {
			t.Fatal(err)
		}

		if reads := points[0].BlockReadsPerGet(); reads != 4 {
			t.Errorf("%s: %v block reads per Get without a cache, want 4", policy, reads)
		}

		for i := 1; i < len(points); i++ {
			if points[i].BlockReadsPerGet() >= points[i-1].BlockReadsPerGet() {
				t.Errorf("%s: %v block reads per Get with %d bytes, %v with less", policy,
					points[i].BlockReadsPerGet(), sizes[i], points[i-1].BlockReadsPerGet())
			}
		}

		// With room for all, what is read after the warm-up was not seen in it.
		seen, fresh := map[uint32]bool{}, int64(0)
		for i, number := range trace.Accesses {
			if !seen[number] && i >= int(trace.Gets[trace.WarmupGets]) {
				fresh++
			}
			seen[number] = true
		}

		last := points[len(points)-1]
		if last.Gets != 15_000 || last.Accesses[engine.Data] != 15_000 ||
			last.Reads[engine.Data] != fresh || last.Reads[engine.Filter] != 0 ||
			last.ReadsByLevel[6] != fresh || last.DiskBytesRead != 3100*fresh {
			t.Errorf("%s: %+v, want %d data reads of 3100 bytes", policy, last, fresh)
		}

		if names := slices.Sorted(maps.Keys(last.HitRates())); !slices.Equal(names, []string{"all",
			"data", "filter", "index", "top_index"}) {
			t.Errorf("hit rates of %v", names)
		}
	}
}

// A trace without its last warm-up Gets is the trace that never had them.
func TestWithoutGets(t *testing.T) {
	whole, want := smallTrace(t), &Trace{WarmupGets: 4000}
	for i, start := range whole.Gets {
		if i >= 4000 && i < 5000 {
			continue
		}

		want.BeginGet()
		for _, number := range whole.Accesses[start : start+4] {
			if err := want.Touch(whole.Blocks[number]); err != nil {
				t.Fatal(err)
			}
		}
	}

	for _, policy := range Policies() {
		sizes := []int64{200_000, 4 << 20}
		have, err := Curve(t.Context(), whole.WithoutGets(4000, 5000),
			Setup{Policy: policy, Cores: 1}, sizes)
		if err != nil {
			t.Fatal(err)
		}

		expected, err := Curve(t.Context(), want, Setup{Policy: policy, Cores: 1}, sizes)
		if err != nil || !slices.Equal(have, expected) {
			t.Errorf("%s: %+v, want %+v (%v)", policy, have, expected, err)
		}
	}

	if same := whole.WithoutGets(3,
		3); same.WarmupGets != 5000 || len(same.Gets) != len(whole.Gets) {
		t.Errorf("%d warm-up Gets of %d", same.WarmupGets, len(same.Gets))
	}
}

func TestReservedBytesShrinkTheCache(t *testing.T) {
	trace := smallTrace(t)
	half, err := Curve(
		context.Background(),
		trace,
		Setup{Policy: ClockPro1Policy, Cores: 1},
		[]int64{1 << 20},
	)
	if err != nil {
		t.Fatal(err)
	}

	reserved, err := Curve(
		context.Background(),
		trace,
		Setup{Policy: ClockPro1Policy, Cores: 1, ReservedBytes: 1 << 20},
		[]int64{2 << 20},
	)
	if err != nil {
		t.Fatal(err)
	}

	have, want := reserved[0].BlockReadsPerGet(), half[0].BlockReadsPerGet()
	if have < want-0.05 || have > want+0.05 {
		t.Errorf("%v block reads per Get with half of 2 MiB reserved, %v with 1 MiB", have, want)
	}
}

func TestCurveRefuses(t *testing.T) {
	good := Setup{Policy: LRUPolicy, Cores: 1}
	noGets := smallTrace(t)
	noGets.WarmupGets = len(noGets.Gets)
	wild := smallTrace(t)
	wild.Accesses[7] = 1 << 30
	for name, c := range map[string]struct {
		trace *Trace
		setup Setup
		size  int64
	}{
		"warm-up only":   {noGets, good, 1},
		"wild access":    {wild, good, 1},
		"unknown policy": {smallTrace(t), Setup{Policy: "fifo", Cores: 1}, 1},
		"no cores":       {smallTrace(t), Setup{Policy: LRUPolicy}, 1},
		"no cache":       {smallTrace(t), good, 0},
	} {
		if _, err := Curve(context.Background(), c.trace, c.setup, []int64{c.size}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}

	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Curve(stopped, smallTrace(t), good,
		[]int64{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped simulation returns %v", err)
	}
}
