// Package treetest is the conformance suite for trees: what every adapter has to
// show before its figures are worth anything. It runs the real tree on real
// files, and holds its roots against those of another implementation.
//
// Non-goals: speed, and what is special to one tree.
package treetest

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine/conformance"
	"github.com/statelab/statelab/tree"
)

var must, newDir = conformance.Must, conformance.NewDir

// Run tests tr. The suite runs the test that called it again in a child process, to kill it: what
// stands before the call must bear that.
func Run(t *testing.T, tr tree.Tree) {
	if dir := os.Getenv(childDir); dir != "" {
		child(tr, dir)
	}

	s := suite{tree: tr, info: tr.Info(), test: t.Name()}
	lasting := !s.info.Has(tree.IsVolatile)
	run := conformance.Runner(t, s)
	run("Info", suite.testInfo, true)
	run("Check", suite.testCheck, true)
	run("Changes", suite.testChanges, true)
	run("BuffersAreTheCallers", suite.testBuffersAreTheCallers, true)
	run("EmptyStores", suite.testEmptyStores, true)
	run("EmptyVersions", suite.testEmptyVersions, true)
	run("FirstVersion", suite.testFirstVersion, true)
	run("Roots", suite.testRoots, true)
	run("ReadersSideBySide", suite.testReadersSideBySide, true)
	run("CountersOnlyGrow", suite.testCountersOnlyGrow, true)
	run("CloseEndsAllWork", suite.testCloseEndsAllWork, true)

	run("Reopen", suite.testReopen, lasting)
	run("UncommittedIsDropped", suite.testUncommittedIsDropped, lasting)
	run("OtherStores", suite.testOtherStores, lasting)
	run("NotAForest", suite.testNotAForest, lasting)
	run("CreateNeedsAnEmptyDirectory", suite.testCreateNeedsAnEmptyDirectory, lasting)
	run("SurvivesKill", suite.testSurvivesKill, s.info.Has(tree.IsDurable))
	run("Harvest", suite.testHarvest, s.info.Has(tree.Harvests))
}

type suite struct {
	tree tree.Tree
	info tree.Info
	test string // that called Run
}

// cacheNodes is small against what the tests commit.
const cacheNodes = 1000

func (s suite) open(t *testing.T, o tree.Options) tree.Forest {
	t.Helper()
	if o.Stores == nil {
		o.Stores = storeNames()
	}

	if o.CacheNodes == 0 {
		o.CacheNodes = cacheNodes
	}

	f, err := s.tree.Open(t.Context(), o)
	must(t, err)
	return f
}

// create makes a forest that is closed when the test ends.
func (s suite) create(t *testing.T) tree.Forest {
	t.Helper()
	f := s.open(t, tree.Options{Dir: newDir(t), Create: true})
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func set(t *testing.T, f tree.Forest, store int, key, value string) {
	t.Helper()
	must(t, f.Set(store, []byte(key), []byte(value)))
}

func remove(t *testing.T, f tree.Forest, store int, key string) {
	t.Helper()
	must(t, f.Remove(store, []byte(key)))
}

// commit wants the next version and a root for every store.
func commit(t *testing.T, f tree.Forest) [][]byte {
	t.Helper()
	want := f.Version() + 1
	c, err := f.Commit(t.Context())
	must(t, err)
	must(t, complete(c, f, want))
	return c.Roots
}

func complete(c tree.Commit, f tree.Forest, want int64) error {
	if c.Version != want || f.Version() != want {
		return fmt.Errorf("the commit returned version %d and the forest is at %d, want %d",
			c.Version, f.Version(), want)
	}

	if len(c.Roots) != len(storeNames()) {
		return fmt.Errorf("version %d has %d roots for %d stores", want, len(c.Roots),
			len(storeNames()))
	}

	for store, root := range c.Roots {
		if len(root) != 32 {
			return fmt.Errorf("version %d: root %x of %s", want, root, storeNames()[store])
		}
	}

	return nil
}

func reader(t *testing.T, f tree.Forest) tree.Reader {
	t.Helper()
	r, err := f.Reader()
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// expect fails unless f holds exactly value under key.
func expect(t *testing.T, f tree.Forest, store int, key, value string) {
	t.Helper()
	got, found, err := reader(t, f).Get(store, []byte(key), nil)
	must(t, err)
	if !found || string(got) != value {
		t.Errorf("%s %q holds %q, %v; want %q", storeNames()[store], key, got, found, value)
	}
}

func expectMissing(t *testing.T, f tree.Forest, store int, key string) {
	t.Helper()
	got, found, err := reader(t, f).Get(store, []byte(key), []byte("old"))
	must(t, err)
	if found || len(got) > 0 {
		t.Errorf("%s %q holds %q, %v; want nothing", storeNames()[store], key, got, found)
	}
}

func expectLeaves(t *testing.T, f tree.Forest, want ...int64) {
	t.Helper()
	shape, err := f.Shape()
	must(t, err)
	if len(shape) != len(want) {
		t.Fatalf("%d stores have a shape, want %d", len(shape), len(want))
	}

	for i, s := range shape {
		if s.Leaves != want[i] {
			t.Errorf("%s has %d leaves, want %d", storeNames()[i], s.Leaves, want[i])
		}
	}
}

func sameRoots(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

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
	before := conformance.Fingerprint(t, dir)

	found, err := harvester.Survey(t.Context(), dir)
	must(t, err)
	if slices.Sort(found.Stores); !slices.Equal(found.Stores, storeNames()) || found.First != 1 ||
		found.Last != streamVersions {
		t.Errorf("survey %+v, want the stores %v and versions 1 to %d", found, storeNames(),
			streamVersions)
	}

	for _, r := range [][2]int64{{1, streamVersions}, {17, 23}, {streamVersions, streamVersions}} {
		var got []string
		must(t,
			harvester.Harvest(t.Context(), dir, r[0], r[1], func(
				version int64, store string, c tree.Change,
			) error {
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
	err = harvester.Harvest(t.Context(), dir, 1, streamVersions, func(
		int64, string, tree.Change,
	) error {
		calls++
		return enough
	})

	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("Harvest went on after an error: %d calls, %v", calls, err)
	}

	conformance.ExpectSame(t, dir, before)
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
				last[c.store][string(c.key)] = tree.Change{
					Key:    c.key,
					Value:  c.value,
					Delete: c.remove,
				}
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

// Roots that one implementation gave for the stream, by root rule: lines of
// "version store root". Those of rule iavl come from iavl v1.3.6.
//
//go:embed testdata
var golden embed.FS

// writeRoots names a file to write the roots to, in the form of testdata.
const writeRoots = "STATELAB_TREETEST_WRITE_ROOTS"

// goldenRoots are by version (the first is 1) and store; nil where no
// implementation has told them.
func goldenRoots(rule string) ([][][]byte, error) {
	file, err := golden.Open("testdata/" + rule + ".txt")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	roots := make([][][]byte, streamVersions)
	lines := bufio.NewScanner(file)
	n := 0
	for ; lines.Scan(); n++ {
		version, store := n/len(storeNames()), n%len(storeNames())
		text, is := strings.CutPrefix(lines.Text(),
			fmt.Sprintf("%d %s ", version+1, storeNames()[store]))
		root, err := hex.DecodeString(text)
		if !is || err != nil || version >= streamVersions {
			return nil, fmt.Errorf("roots of rule %s: line %d: %q", rule, n+1, lines.Text())
		}

		roots[version] = append(roots[version], root)
	}

	if want := streamVersions * len(storeNames()); n != want {
		return nil, fmt.Errorf("roots of rule %s: %d lines, want %d", rule, n, want)
	}

	return roots, errors.Join(lines.Err(), file.Close())
}

// testRoots plays the stream in every profile: all must end with the same roots
// as the implementation that told them first.
func (s suite) testRoots(t *testing.T) {
	want, err := goldenRoots(s.info.RootRule)
	must(t, err)
	for _, p := range s.info.Profiles {
		t.Run(p.Name, func(t *testing.T) {
			f := s.open(t, tree.Options{Dir: newDir(t), Create: true, Profile: p.Name})
			var got [][][]byte
			for v, made := range stream() {
				must(t, write(f, made))
				got = append(got, commit(t, f))
				if want != nil && !sameRoots(got[v], want[v]) {
					t.Fatalf("version %d: roots\n%x, want\n%x", v+1, got[v], want[v])
				}
			}

			must(t, stateAt(streamVersions).compare(f))
			expectShape(t, f, streamVersions)
			must(t, f.Close())
			if path := os.Getenv(writeRoots); path != "" {
				must(t, os.WriteFile(path, formatRoots(got), 0o644))
			}

			if want == nil {
				want = got // the next profile's
			}
		})
	}
}

func formatRoots(roots [][][]byte) (text []byte) {
	for v := range roots {
		for store, root := range roots[v] {
			text = fmt.Appendf(text, "%d %s %x\n", v+1, storeNames()[store], root)
		}
	}
	return text
}

// expectShape wants as many leaves as the stream left at version, in trees of
// the height that AVL trees of so many can have.
func expectShape(t *testing.T, f tree.Forest, version int64) {
	t.Helper()
	leaves := stateAt(version).leaves()
	expectLeaves(t, f, leaves...)
	shape, err := f.Shape()
	must(t, err)
	for store, s := range shape {
		low, high := 0, 0
		for ; 1<<low < s.Leaves; low++ {
		}
		for a, b := int64(1), int64(2); b <= s.Leaves; a, b = b, a+b {
			high++
		}

		if s.Leaves == 0 {
			low, high = 0, 0
		}

		if s.Height < low || s.Height > high {
			t.Errorf("%s: height %d with %d leaves, want %d to %d", storeNames()[store], s.Height,
				s.Leaves, low, high)
		}
	}
}
