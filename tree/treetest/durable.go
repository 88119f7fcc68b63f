package treetest

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/statelab/statelab/engine/conformance"
	"github.com/statelab/statelab/tree"
)

// testReopen closes a forest in the middle of the stream: it must come back at
// the same version with the same content, and end with the roots of a forest
// that was never closed.
func (s suite) testReopen(t *testing.T) {
	want := s.uninterrupted(t)
	dir := newDir(t)
	f := s.open(t, tree.Options{Dir: dir, Create: true})
	for v, made := range stream() {
		if v%20 == 10 || v == 1 { // after an empty version, too
			must(t, f.Sync(t.Context()))
			must(t, f.Close())
			f = s.open(t, tree.Options{Dir: dir})
			s.expectVersion(t, f, int64(v))
		}

		must(t, write(f, made))
		if got := commit(t, f); !sameRoots(got, want[v]) {
			t.Fatalf("version %d: roots\n%x, want\n%x", v+1, got, want[v])
		}
	}

	must(t, f.Close())
	f = s.open(t, tree.Options{Dir: dir})
	s.expectVersion(t, f, streamVersions)
	must(t, f.Close())
}

// uninterrupted are the roots of the stream, from another implementation where
// there is one.
func (s suite) uninterrupted(t *testing.T) [][][]byte {
	t.Helper()
	roots, err := goldenRoots(s.info.RootRule)
	must(t, err)
	if roots != nil {
		return roots
	}

	f := s.open(t, tree.Options{Dir: newDir(t), Create: true})
	for _, made := range stream() {
		must(t, write(f, made))
		roots = append(roots, commit(t, f))
	}

	must(t, f.Close())
	return roots
}

// expectVersion wants f to hold what the stream left at version.
func (s suite) expectVersion(t *testing.T, f tree.Forest, version int64) {
	t.Helper()
	if f.Version() != version {
		t.Fatalf("opened at version %d, want %d", f.Version(), version)
	}
	must(t, stateAt(version).compare(f))
	expectShape(t, f, version)
}

func (s suite) testUncommittedIsDropped(t *testing.T) {
	dir := newDir(t)
	f := s.open(t, tree.Options{Dir: dir, Create: true})
	set(t, f, bank, "a", "1")
	commit(t, f)
	set(t, f, bank, "a", "2")
	set(t, f, wasm, "b", "3")
	must(t, f.Sync(t.Context()))
	must(t, f.Close())

	f = s.open(t, tree.Options{Dir: dir})
	if f.Version() != 1 {
		t.Errorf("version %d, want 1", f.Version())
	}

	expect(t, f, bank, "a", "1")
	expectMissing(t, f, wasm, "b")
	commit(t, f)
	must(t, f.Close())
}

func (s suite) testOtherStores(t *testing.T) {
	dir := newDir(t)
	f := s.open(t, tree.Options{Dir: dir, Create: true})
	set(t, f, bank, "a", "1")
	commit(t, f)
	must(t, f.Close())
	for _, stores := range [][]string{
		{"bank", "empty", "staking", "wasm", "new"},
		{"bank", "empty", "staking"},
		{"bank", "empty", "staking", "renamed"},
	} {
		f, err := s.tree.Open(t.Context(), tree.Options{Dir: dir, Stores: stores})
		if err == nil {
			t.Errorf("opens with the stores %v", stores)
			must(t, f.Close())
		}
	}

	f = s.open(t, tree.Options{Dir: dir})
	expect(t, f, bank, "a", "1")
	must(t, f.Close())
}

func (s suite) testNotAForest(t *testing.T) {
	conformance.RefusesForeignFolders(t, conformance.NotADatabase,
		func(dir string) (conformance.Opened, error) {
			return s.tree.Open(t.Context(), tree.Options{Dir: dir, Stores: storeNames()})
		})
}

func (s suite) testCreateNeedsAnEmptyDirectory(t *testing.T) {
	dir := newDir(t)
	f := s.open(t, tree.Options{Dir: dir, Create: true})
	set(t, f, bank, "a", "1")
	commit(t, f)
	must(t, f.Sync(t.Context()))
	must(t, f.Close())
	conformance.RefusesToOverwrite(t, dir, func(dir string) (conformance.Opened, error) {
		return s.tree.Open(t.Context(), tree.Options{
			Dir: dir, Create: true, Stores: storeNames(),
		})
	})

	f = s.open(t, tree.Options{Dir: t.TempDir(), Create: true}) // exists, but is empty
	must(t, f.Close())
}

const (
	childDir = "STATELAB_TREETEST_DIR" // set: be the child that is killed, in this directory

	synced    = "synced"    // said with the version when Sync has returned
	committed = "committed" // said with the version when Commit has returned
)

// syncedAt are the versions after which the child calls Sync.
var syncedAt = []int64{15, 40}

// child plays the stream and waits to be killed. It never returns.
func child(tr tree.Tree, dir string) {
	if err := play(tr, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Minute) // the parent kills us long before
	os.Exit(0)
}

func play(tr tree.Tree, dir string) error {
	ctx := context.Background()
	f, err := tr.Open(ctx, tree.Options{
		Dir:        dir,
		Create:     true,
		Stores:     storeNames(),
		CacheNodes: cacheNodes,
	})
	if err != nil {
		return err
	}

	for _, made := range stream() {
		if err := write(f, made); err != nil {
			return err
		}

		c, err := f.Commit(ctx)
		if err != nil {
			return err
		}

		fmt.Println(committed, c.Version)
		if slices.Contains(syncedAt, c.Version) {
			if err := f.Sync(ctx); err != nil {
				return err
			}
			fmt.Println(synced, c.Version)
		}
	}

	return nil
}

// testSurvivesKill kills a forest at several moments, most of them inside a
// commit: it must open at a version that was committed, no older than the last
// one synced, with exactly its content, and end with the roots of a forest that
// was never killed.
func (s suite) testSurvivesKill(t *testing.T) {
	want := s.uninterrupted(t)
	rng := rand.New(rand.NewPCG(9, 9))
	for _, after := range []int64{15, 21, 33, 40, 46, 57} {
		delay := time.Duration(rng.IntN(8000)) * time.Microsecond
		t.Run(fmt.Sprintf("%v after version %d", delay, after), func(t *testing.T) {
			dir := newDir(t)
			lastSynced, lastCommitted := s.kill(t, dir, after, delay)
			f := s.open(t, tree.Options{Dir: dir})
			version := f.Version()
			t.Logf("synced %d, committed %d, reopened at %d", lastSynced, lastCommitted, version)
			// The commit under way may have ended before the child could say so.
			if version < lastSynced || version > lastCommitted+1 {
				t.Fatalf("opened at version %d; %d was synced and %d committed", version,
					lastSynced, lastCommitted)
			}

			s.expectVersion(t, f, version)
			for v, made := range stream() {
				if int64(v) < version {
					continue
				}

				must(t, write(f, made))
				if got := commit(t, f); !sameRoots(got, want[v]) {
					t.Fatalf("version %d: roots\n%x, want\n%x", v+1, got, want[v])
				}
			}

			must(t, f.Close())
			f = s.open(t, tree.Options{Dir: dir})
			s.expectVersion(t, f, streamVersions)
			must(t, f.Close())
		})
	}
}

// kill starts a child in dir, kills it a delay after it has committed version,
// as kill -9 does, and returns the last versions that it said were synced and
// committed.
func (s suite) kill(
	t *testing.T, dir string, version int64, delay time.Duration,
) (lastSynced, lastCommitted int64) {
	t.Helper()
	cmd := conformance.Child(s.test, childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	killed := false
	words := bufio.NewScanner(out)
	for words.Scan() {
		var what string
		var v int64
		if _, err := fmt.Sscan(words.Text(), &what, &v); err != nil {
			continue // the tree's own words
		}

		switch what {
		case synced:
			lastSynced = v
		case committed:
			lastCommitted = v
			if v == version {
				killed = true
				time.AfterFunc(delay, func() {
					if err := cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}

	must(t, words.Err())
	if err := cmd.Wait(); err == nil || !killed {
		t.Fatalf("the child ended by itself after version %d: %v", lastCommitted, err)
	}

	return lastSynced, lastCommitted
}
