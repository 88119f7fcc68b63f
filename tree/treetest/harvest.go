package treetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/statelab/statelab/tree"
)

// testHarvest reads the stream back: for every version and store its net
// changes, keys ascending.
func (s suite) testHarvest(t *testing.T) {
	harvester, is := s.tree.(tree.Harvester)
	if !is {
		t.Fatal("not a Harvester")
	}
	dir := newDir(t)
	f := s.open(t, tree.Options{Dir: dir, Create: true})
	for _, made := range stream() {
		must(t, write(f, made))
		commit(t, f)
	}
	must(t, f.Sync(t.Context()))
	must(t, f.Close())
	before := fingerprint(t, dir)

	found, err := harvester.Survey(t.Context(), dir)
	must(t, err)
	if slices.Sort(found.Stores); !slices.Equal(found.Stores, storeNames()) || found.First != 1 || found.Last != streamVersions {
		t.Errorf("survey %+v, want the stores %v and versions 1 to %d", found, storeNames(), streamVersions)
	}
	for _, r := range [][2]int64{{1, streamVersions}, {17, 23}, {streamVersions, streamVersions}} {
		var got []string
		must(t, harvester.Harvest(t.Context(), dir, r[0], r[1], func(version int64, store string, c tree.Change) error {
			got = append(got, describe(version, store, c))
			return nil
		}))
		want := netChanges(r[0], r[1])
		for i := range max(len(got), len(want)) {
			if have, should := entry(got, i), entry(want, i); have != should {
				t.Fatalf("versions %d to %d, change %d: %s, want %s", r[0], r[1], i, have, should)
			}
		}
	}
	enough := errors.New("enough")
	calls := 0
	err = harvester.Harvest(t.Context(), dir, 1, streamVersions, func(int64, string, tree.Change) error {
		calls++
		return enough
	})
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("Harvest went on after an error: %d calls, %v", calls, err)
	}
	if after := fingerprint(t, dir); after != before {
		t.Errorf("harvesting changed the directory from\n%s\nto\n%s", before, after)
	}
}

func entry(list []string, i int) string {
	if i >= len(list) {
		return "none"
	}
	return list[i]
}

// netChanges is what is left of versions from..to when each key is written once:
// nothing for a key that is absent before and after. The same value again is a
// change.
func netChanges(from, to int64) (all []string) {
	held := newState()
	for v, made := range stream()[:to] {
		last := make([]map[string]tree.Change, len(held))
		for store := range last {
			last[store] = map[string]tree.Change{}
		}
		for _, c := range made {
			_, had := held[c.store][string(c.key)]
			if c.remove && !had {
				delete(last[c.store], string(c.key))
			} else {
				last[c.store][string(c.key)] = tree.Change{Key: c.key, Value: c.value, Delete: c.remove}
			}
		}
		held.apply(made)
		for store, changed := range last {
			for _, key := range slices.Sorted(maps.Keys(changed)) {
				if int64(v)+1 >= from {
					all = append(all, describe(int64(v)+1, storeNames()[store], changed[key]))
				}
			}
		}
	}
	return all
}

func describe(version int64, store string, c tree.Change) string {
	return fmt.Sprintf("%d %s %x=%x delete %v", version, store, c.Key, c.Value, c.Delete)
}
