package enginetest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/statelab/statelab/engine"
)

// Change is a write: of Key, deleted where Value is nil, or of all keys from Key up to End, which
// are deleted.
type Change struct{ Key, Value, End []byte }

// History is what databases are made of whose keys a sampler could draw unevenly: keys with gaps
// and with prefixes, values of 10 bytes to 64 KiB, keys written up to four times, deleted one by
// one and by range.
type History struct {
	// Generations are to reach tables of their own, the oldest first.
	Generations [][]Change
	// Batch is how many changes are committed together.
	Batch int
	// Live is each key that is there in the end, with a name for those it is like.
	Live map[string]string
}

// NewHistory makes always the same one.
func NewHistory() *History {
	h := &History{Batch: 20, Live: map[string]string{}}
	rng := rand.New(rand.NewPCG(0x68, 0x69))
	versions := map[string]int{}
	var now []Change
	put := func(kind string, key []byte, valueBytes int) {
		value := make([]byte, valueBytes)
		for i := range value {
			value[i] = byte(rng.Uint32())
		}

		versions[string(key)]++
		now = append(now, Change{Key: key, Value: value})
		h.Live[string(key)] = fmt.Sprintf("%s, %d versions", kind, versions[string(key)])
	}

	end := func() { h.Generations, now = append(h.Generations, now), nil }
	const dense, gap, small, mixed, large = "dense", "behind gaps", "small values", "mixed values",
		"large values"
	keys := map[string][][]byte{}
	for i := range uint64(1200) {
		keys[dense] = append(keys[dense], binary.BigEndian.AppendUint64([]byte("dense/"), i))
	}

	at := uint64(0)
	for range 400 { // each gap is up to 2^50 times as large as the last
		at += 1 << rng.IntN(51)
		keys[gap] = append(keys[gap], binary.BigEndian.AppendUint64([]byte("gap/"), at))
	}

	for kind, n := range map[string]uint64{small: 1500, mixed: 800, large: 100} {
		for i := range n {
			hashed := binary.BigEndian.AppendUint64([]byte(kind[:2]), i*0x9e3779b97f4a7c15)
			keys[kind] = append(keys[kind], append(hashed, make([]byte, 24)...))
		}
	}

	valueBytes := map[string]func() int{
		dense: func() int { return 100 },
		gap:   func() int { return 30 },
		small: func() int { return 10 },
		mixed: func() int { return 10 << rng.IntN(10) },
		large: func() int { return 16<<10 + rng.IntN(48<<10) },
	}

	kinds := slices.Sorted(maps.Keys(keys))
	write := func(of func(i int) bool) {
		for _, kind := range kinds {
			for i, key := range keys[kind] {
				if of(i) {
					put(kind, key, valueBytes[kind]())
				}
			}
		}
	}

	write(func(int) bool { return true })
	end()
	write(func(i int) bool { return i%3 == 0 })
	end()
	write(func(i int) bool { return i%6 == 0 })
	for _, kind := range kinds {
		for i, key := range keys[kind] {
			if i%5 == 4 {
				now = append(now, Change{Key: key})
				delete(h.Live, string(key))
			}
		}
	}

	from, to := keys[dense][300], keys[dense][700]
	now = append(now, Change{Key: from, End: to})
	for key := range h.Live {
		if key >= string(from) && key < string(to) {
			delete(h.Live, key)
		}
	}

	end()
	write(func(i int) bool { return i%12 == 0 || i%10 == 4 })
	end()
	return h
}

// Write writes changes, in batches of so many. Where a range is deleted whose engine has no such
// deletion, the existing keys in it are.
func Write(t *testing.T, db engine.DB, changes []Change, existing []string, batch int) {
	t.Helper()
	w := writer(t, db)
	ranges, canRange := w.(engine.RangeDeleter)
	for i, c := range changes {
		switch {
		case c.Value != nil:
			must(t, w.Put(c.Key, c.Value))
		case c.End == nil:
			must(t, w.Delete(c.Key))
		case canRange:
			must(t, ranges.DeleteRange(c.Key, c.End))
		default:
			for _, key := range existing {
				if key >= string(c.Key) && key < string(c.End) {
					must(t, w.Delete([]byte(key)))
				}
			}
		}

		if i%batch == batch-1 {
			must(t, w.Commit())
		}
	}

	must(t, w.Commit())
	must(t, w.Close())
}

// Keys are all that were written, in order.
func (h *History) Keys() []string {
	all := map[string]bool{}
	for _, changes := range h.Generations {
		for _, c := range changes {
			if c.Value != nil {
				all[string(c.Key)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// BuildHistory writes a history with an engine, opened anew for each generation, and settled behind
// the first one; then calls settled with the folder, which it returns in the end. With these
// options the engine is to do nothing in the background that depends on time.
func BuildHistory(
	t *testing.T, e engine.Engine, h *History, overrides map[string]string,
	settled func(dir string),
) string {
	t.Helper()
	dir, keys := newDir(t), h.Keys()
	for i, changes := range h.Generations {
		db, err := e.Open(t.Context(), engine.Options{
			Dir:       dir,
			Create:    i == 0,
			Overrides: overrides,
		})
		must(t, err)
		Write(t, db, changes, keys, h.Batch)
		if i == 0 {
			must(t, db.Settle(t.Context(), nil))
		}

		must(t, db.Close())
		if i == 0 && settled != nil {
			settled(dir)
		}
	}

	db, err := e.Open(t.Context(), engine.Options{Dir: dir, Overrides: overrides})
	must(t, err) // makes a table of the log
	must(t, db.Close())
	return dir
}

// CheckUniform draws keys of a database and compares how often each was drawn with its chance, one
// of all that are live, and how often those of one name were: chi-square, whose seed is fixed, so
// that a database that is always the same passes always or never.
func CheckUniform(t *testing.T, db engine.DB, live map[string]string) {
	t.Helper()
	shape, err := db.Shape()
	must(t, err)
	for _, l := range shape.Levels {
		t.Logf("L%d: %d files, %d entries", l.Level, l.Files, l.Keys)
	}

	const drawsPerKey = 10
	drawn := map[string]int{}
	draws := 0
	want := drawsPerKey * len(live)
	must(t, db.(engine.KeySampler).SampleKeys(t.Context(), want, 1, func(key []byte) error {
		if _, is := live[string(key)]; !is {
			return fmt.Errorf("%q was drawn, and is not there", key)
		}
		drawn[string(key)]++
		draws++
		return nil
	}))

	if draws != want {
		t.Errorf("%d keys were drawn, want %d", draws, want)
	}

	keys := slices.Sorted(maps.Keys(live))
	counts := make([]int, len(keys))
	shares := make([]float64, len(keys))
	byName, names := map[string]int{}, map[string]int{}
	for i, key := range keys {
		counts[i], shares[i] = drawn[key], 1/float64(len(keys))
		byName[live[key]] += drawn[key]
		names[live[key]]++
	}

	p := uniform(counts, shares)
	t.Logf("%d draws of %d keys: p = %.3g", draws, len(keys), p)
	if p < 1e-6 {
		t.Errorf("keys are not drawn evenly: p = %.3g", p)
	}

	counts, shares = nil, nil
	table := ""
	for _, name := range slices.Sorted(maps.Keys(names)) {
		counts = append(counts, byName[name])
		shares = append(shares, float64(names[name])/float64(len(keys)))
		table += fmt.Sprintf("\n%-28s %4d keys %7.3f draws a key", name, names[name],
			float64(byName[name])/float64(names[name]))
	}

	p = uniform(counts, shares)
	t.Logf("by kind: p = %.3g, %.3f draws a key:%s", p, float64(draws)/float64(len(keys)), table)
	if p < 1e-6 {
		t.Errorf("keys of one kind are drawn more often than others: p = %.3g", p)
	}
}

// uniform is the chance that counts are at least as far from these shares of all.
func uniform(counts []int, shares []float64) float64 {
	all := 0
	for _, n := range counts {
		all += n
	}

	chi2 := 0.0
	for i, n := range counts {
		expected := shares[i] * float64(all)
		chi2 += (float64(n) - expected) * (float64(n) - expected) / expected
	}

	return distuv.ChiSquared{K: float64(len(counts) - 1)}.Survival(chi2)
}
