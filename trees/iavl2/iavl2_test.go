//go:build cgo

package iavl2

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bvinc/go-sqlite-lite/sqlite3"
	"github.com/rs/zerolog"

	"github.com/statelab/statelab/tree"
	"github.com/statelab/statelab/tree/treetest"
)

// The library tells of every checkpoint on standard error.
func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.WarnLevel)
	os.Exit(m.Run())
}

func TestTree(t *testing.T) { treetest.Run(t, Tree{}) }

// TestReplaysNetChanges opens a forest whose only checkpoint is that of the first
// version: all others are replayed, and nothing had to be forced.
func TestReplaysNetChanges(t *testing.T) {
	o := options(t)
	f := open(t, o)
	for v := range 40 {
		for i := range 50 {
			key := fmt.Appendf(nil, "key %d", (v*7+i)%90)
			if (v+i)%5 == 0 {
				must(t, f.Remove(0, key))
			} else {
				// every other value is empty
				must(t, f.Set(0, key, fmt.Appendf(nil, "%d", v)[:(v+i)%2]))
			}
		}

		commit(t, f, int64(v+1))
	}

	if doubts := f.Warnings(); len(doubts) > 0 {
		t.Errorf("warnings of net changes: %v", doubts)
	}

	shape, err := f.Shape()
	must(t, err)
	want := commit(t, f, 41)
	must(t, f.Close())

	o.Create = false
	f = open(t, o)
	if f.Version() != 41 {
		t.Errorf("opened at version %d, want 41", f.Version())
	}

	if got, err := f.Shape(); err != nil || fmt.Sprint(got) != fmt.Sprint(shape) {
		t.Errorf("opened with the shape %v, %v; want %v", got, err, shape)
	}

	if got := commit(t, f, 42); got != want {
		t.Errorf("root %s, want %s", got, want)
	}

	must(t, f.Close())
}

// TestCheckpointsWhatCannotBeReplayed writes a key twice, and sets and removes
// one: neither version can be replayed, and each makes its own checkpoint.
func TestCheckpointsWhatCannotBeReplayed(t *testing.T) {
	for force, doubt := range map[string]string{
		"1": "iavl2_forced_checkpoints",
		"0": "iavl2_unreplayable",
	} {
		t.Run("ForceCheckpoints="+force, func(t *testing.T) {
			o := options(t)
			o.Overrides = map[string]string{"ForceCheckpoints": force}
			f := open(t, o)
			want := writeUnreplayable(t, f)
			doubts := f.Warnings()
			if len(doubts) != 1 || doubts[0].Code != doubt || doubts[0].Text[:2] != "2 " {
				t.Errorf("warnings %v, want 2 of %s", doubts, doubt)
			}

			must(t, f.Close())

			o.Create = false
			if force == "0" {
				if _, err := (Tree{}).Open(t.Context(), o); err == nil {
					t.Error("a forest that cannot be replayed opens: nothing has to be forced " +
						"any more")
				}
				return
			}

			f = open(t, o)
			if got := commit(t, f, 4); got != want {
				t.Errorf("root %s, want %s", got, want)
			}

			must(t, f.Close())
		})
	}
}

func writeUnreplayable(t *testing.T, f tree.Forest) string {
	t.Helper()
	set := func(key, value string) { must(t, f.Set(0, []byte(key), []byte(value))) }
	set("a", "1")
	set("b", "1")
	commit(t, f, 1)
	set("a", "2")
	set("a", "3")
	set("c", "3")
	commit(t, f, 2)
	writeThird(t, f)
	return commit(t, f, 3)
}

func writeThird(t *testing.T, f tree.Forest) {
	t.Helper()
	must(t, f.Set(0, []byte("b"), []byte("4")))
	must(t, f.Remove(0, []byte("b")))
	must(t, f.Remove(0, []byte("c")))
	must(t, f.Set(0, []byte("c"), []byte("5")))
}

// TestCheckpointCutShort leaves of the newest checkpoint what a kill between its two last
// steps does: its root, and no line in its shard. The version before it opens.
func TestCheckpointCutShort(t *testing.T) {
	o := options(t)
	f := open(t, o)
	want := writeUnreplayable(t, f)
	must(t, f.Close())
	db, err := sqlite3.Open(filepath.Join(o.Dir, "bank", "tree_0000000000001.sqlite"))
	must(t, err)
	must(t, db.Exec("DELETE FROM checkpoints WHERE version = 3"))
	must(t, db.Close())

	o.Create = false
	for range 2 {
		f = open(t, o)
		if f.Version() == 2 {
			writeThird(t, f)
			if got := commit(t, f, 3); got != want {
				t.Errorf("root %s, want %s", got, want)
			}
		}

		must(t, f.Close())
	}

	if got := f.Version(); got != 3 {
		t.Errorf("ended at version %d, want 3", got)
	}
}

func TestFirstCommitCutShort(t *testing.T) {
	o := options(t)
	f := open(t, o)
	_, err := f.(*forest).stores[0].commit(1, true) // the other one's never came
	must(t, err)
	must(t, f.Close())
	o.Create = false
	if _, err := (Tree{}).Open(t.Context(), o); err == nil {
		t.Error("opens without a version and with a store that cannot start over")
	}
}

func options(t *testing.T) tree.Options {
	return tree.Options{
		Dir:    filepath.Join(t.TempDir(), "forest"),
		Create: true,
		Stores: []string{"bank", "empty"},
	}
}

func open(t *testing.T, o tree.Options) tree.Forest {
	t.Helper()
	f, err := Tree{}.Open(t.Context(), o)
	must(t, err)
	return f
}

// commit returns the roots.
func commit(t *testing.T, f tree.Forest, want int64) string {
	t.Helper()
	c, err := f.Commit(t.Context())
	must(t, err)
	if c.Version != want {
		t.Fatalf("version %d, want %d", c.Version, want)
	}
	return fmt.Sprintf("%x", c.Roots)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
