package changeset

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"
)

// followed is what the keys of a set of one store go through.
type followed struct {
	live             map[string]int // key -> times updated
	creates, updates int64
	deletes, empty   int64
	keyBytes, values int64
	valueBytes       float64
	orphans          int // deletes and updates of keys that are not there
	perVersion       []int
}

func follow(t *testing.T, g Generation) followed {
	t.Helper()
	s, err := Generate(g)
	if err != nil {
		t.Fatal(err)
	}

	f := followed{live: map[string]int{}}
	n := 0
	err = Each(s, &Batch{MaxBytes: 10_000}, func(b *Batch) error {
		for _, c := range b.Changes {
			key := string(c.Key)
			_, there := f.live[key]
			switch {
			case c.Delete:
				f.deletes++
				if !there {
					f.orphans++
				}
				delete(f.live, key)
				continue
			case there:
				f.updates++
				f.live[key]++
			default:
				f.creates++
				f.keyBytes += int64(len(key))
				f.live[key] = 0
			}

			f.values++
			f.valueBytes += float64(len(c.Value))
			if len(c.Value) == 0 {
				f.empty++
			}
		}

		if n += len(b.Changes); b.Last {
			f.perVersion, n = append(f.perVersion, n), 0
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return f
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: %v, want %v within %v%%", what, got, want, 100*tolerance)
	}
}

func TestBankIsWhatItsProfileSays(t *testing.T) {
	const scale, versions = .05, 101
	f := follow(t,
		Generation{Profiles: []string{"bank"}, Versions: versions, Scale: scale, Seed: 3})
	// 92 changes a version: 23 deletes, 69 updates, 23 creations in their place, and
	// growth from 1750 keys to 110010.
	if f.perVersion[0] != 1750 || f.orphans != 0 || f.deletes != 23*(versions-1) ||
		f.updates != 69*(versions-1) {
		t.Errorf("first version %d, %d deletes, %d updates, %d orphans", f.perVersion[0],
			f.deletes, f.updates, f.orphans)
	}

	near(t, "keys at the end", float64(len(f.live)), 110_010, .0001)
	near(t, "changes a version", float64(f.perVersion[50]), 92+23+1082.6, .001)
	near(t, "key length", float64(f.keyBytes)/float64(f.creates), 56, .005)
	// The normal's half above 1, and what is drawn again around the mean.
	share := .5 * (1 + math.Erf(99/1200./math.Sqrt2))
	above := 100 + 1200*math.Exp(-.5*math.Pow(99/1200., 2))/math.Sqrt(2*math.Pi)/share
	near(t, "value length", f.valueBytes/float64(f.values), share*above+(1-share)*100, .02)
}

func TestOptionsOfGeneration(t *testing.T) {
	skewed := follow(t,
		Generation{Profiles: []string{"skewed"}, Versions: 200, Scale: .01, Seed: 1})
	uniform := follow(t, Generation{Profiles: []string{"bank"}, Versions: 200, Scale: .01, Seed: 1})
	maximum := func(f followed) (maximum int) {
		for _, updates := range f.live {
			maximum = max(maximum, updates)
		}
		return maximum
	}

	if hot, cold := maximum(skewed), maximum(uniform); hot < 10*cold {
		t.Errorf("the hottest key has %d updates, uniform %d", hot, cold)
	}

	prefix := follow(t, Generation{Profiles: []string{"prefix"}, Versions: 50, Scale: .01, Seed: 1})
	owners := map[string]int{}
	for key := range prefix.live {
		owners[key[:prefixBytes]]++
	}

	near(t, "keys of an owner", float64(len(prefix.live))/float64(len(owners)), 64, .05)
	if prefix.orphans+skewed.orphans > 0 {
		t.Error("updates or deletes of keys that are not there")
	}

	quick := Generation{
		Profiles:     []string{"bank"},
		Versions:     5,
		GrowVersions: 5,
		Scale:        .01,
		Seed:         1,
	}

	grown := follow(t, quick)
	quick.Versions = 50
	near(t, "keys of a store that has grown", float64(len(follow(t, quick).live)),
		float64(len(grown.live)), 0)
	near(t, "keys of a store that grows quickly", float64(len(grown.live)), 22_002, .001)
	empty := follow(t, Generation{
		Profiles:        []string{"bank"},
		Versions:        50,
		Scale:           .01,
		Seed:            1,
		EmptyValueShare: .25,
		EmptyStore:      true,
	})

	near(t, "empty values", float64(empty.empty)/float64(empty.values), .25, .05)
	s, err := Generate(Generation{
		Profiles:   []string{"osmo-like-many"},
		Versions:   1,
		Scale:      1e-4,
		Seed:       1,
		EmptyStore: true,
	})
	if err != nil {
		t.Fatal(err)
	}

	v, err := Verify(s, nil)
	if err != nil {
		t.Fatal(err)
	}

	var sets []int64
	for _, store := range v.Totals.Stores {
		sets = append(sets, store.Sets)
	}

	if fmt.Sprint(sets) != "[850 2340 1 60 1 0]" ||
		strings.Join(s.Info().Stores,
			" ") != "wasm ibc upgrade concentratedliquidity icahost empty" {
		t.Errorf("%v of %v", sets, s.Info().Stores)
	}
}

// A seed gives the same set in every version of statelab: results are compared
// across them.
func TestGeneratedSetsStayWhatTheyAre(t *testing.T) {
	digest := func(seed uint64, batchBytes int) string {
		s, err := Generate(Generation{
			Profiles: []string{"bank", "lockup", "skewed", "prefix"},
			Versions: 20,
			Scale:    .003,
			Seed:     seed,
		})
		if err != nil {
			t.Fatal(err)
		}

		return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, read(t, s, batchBytes))))[:16]
	}

	const want = "7716ac9ac44e0f8a"
	if got := digest(1, 0); got != want {
		t.Errorf("digest %s, was %s", got, want)
	}

	if digest(1, 777) != want {
		t.Error("the set depends on the size of batches")
	}

	if digest(2, 0) == want {
		t.Error("the set does not depend on the seed")
	}
}

func TestImpossibleGenerationsAreRefused(t *testing.T) {
	errs := Generation{
		Profiles:        []string{"bank", "gov", "bank"},
		Scale:           math.NaN(),
		EmptyValueShare: 2,
		GrowVersions:    3,
	}.Check()

	var text []string
	for _, err := range errs {
		text = append(text, err.Error())
	}

	for _, want := range []string{`profile "gov"`, "profile bank twice", "0 versions", "scale NaN",
		"growing in 3 versions", "share of empty values 2"} {
		if !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("%q is not among %q", want, text)
		}
	}

	many := Generation{Profiles: []string{"osmo-like-many"}, Versions: 1, Scale: 1000}
	if errs := many.Check(); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "a smaller --scale") {
		t.Error(errs)
	}

	if _, err := Generate(Generation{}); err == nil {
		t.Error("nothing to generate is no error")
	}
}
