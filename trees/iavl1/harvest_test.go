package iavl1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cosmos/iavl"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/tree"
)

const (
	legacyDir  = "testdata/iavl0" // made by iavl v0.21.1
	legacyLast = 12
)

// TestHarvestOfIAVL0 reads what the other version of the library wrote, as it was
// written.
func TestHarvestOfIAVL0(t *testing.T) {
	want, err := os.ReadFile(legacyDir + "/changes.txt")
	must(t, err)
	for _, dir := range []string{legacyDir, legacyDir + "/application.db"} {
		survey, err := Tree{}.Survey(t.Context(), dir)
		must(t, err)
		if fmt.Sprint(survey) != "{[bank staking] 1 12 false}" {
			t.Errorf("survey %v", survey)
		}

		if got := harvested(t, dir, 1, legacyLast); got != string(want) {
			t.Errorf("harvested\n%s, want\n%s", got, want)
		}
	}
}

// TestContinueIAVL0 commits to a database of v0, as a node does after an upgrade,
// and harvests both parts.
func TestContinueIAVL0(t *testing.T) {
	dir := legacyCopy(t)
	f, err := Tree{}.Open(t.Context(), tree.Options{Dir: dir, Stores: []string{"bank", "staking"}})
	must(t, err)
	if f.Version() != legacyLast {
		t.Fatalf("opened at version %d, want %d", f.Version(), legacyLast)
	}

	must(t, f.Set(0, []byte("key00"), []byte("new")))
	must(t, f.Set(1, []byte("zzz"), []byte("new")))
	commit(t, f)
	must(t, f.Remove(1, []byte("zzz")))
	commit(t, f)
	must(t, f.Close())
	want, err := os.ReadFile(legacyDir + "/changes.txt")
	must(t, err)
	want = append(want, "13 bank set key00 new\n13 staking set zzz new\n14 staking delete zzz\n"...)
	if got := harvested(t, dir, 1, 14); got != string(want) {
		t.Errorf("harvested\n%s, want\n%s", got, want)
	}
}

// TestHarvestOfPruned: what the first version that is left removed cannot be
// told, so it is not offered.
func TestHarvestOfPruned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "forest")
	f, err := Tree{}.Open(t.Context(), tree.Options{
		Dir:    dir,
		Create: true,
		Stores: []string{"bank"},
	})

	must(t, err)
	for v := range 10 {
		must(t, f.Set(0, fmt.Appendf(nil, "key%d", v), []byte("x")))
		commit(t, f)
	}

	must(t, f.Close())
	level, err := openLevelDB(dir, "application", false)
	must(t, err)
	below := prefixed(level, "bank")
	old := iavl.NewMutableTree(below, 100, true, iavl.NewNopLogger())
	_, err = old.LoadVersion(10)
	must(t, err)
	must(t, old.DeleteVersionsTo(4))
	must(t, errors.Join(old.Close(), level.Close()))

	survey, err := Tree{}.Survey(t.Context(), dir)
	must(t, err)
	if survey.First != 6 || survey.Last != 10 {
		t.Errorf("survey %+v, want versions 6 to 10", survey)
	}

	if got := harvested(t, dir, 6, 7); got != "6 bank set key5 x\n7 bank set key6 x\n" {
		t.Errorf("harvested %q", got)
	}

	err = Tree{}.Harvest(t.Context(), dir, 5, 7, func(int64, string, tree.Change) error {
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "versions 6 to 10") {
		t.Errorf("error %v, want the versions that can be had", err)
	}
}

func TestHarvestOfNoDatabase(t *testing.T) {
	dir := t.TempDir()
	_, err := Tree{}.Survey(t.Context(), dir)
	var not *engine.NotADatabaseError
	if !errors.As(err, &not) {
		t.Errorf("error %v, want a NotADatabaseError", err)
	}

	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func harvested(t *testing.T, dir string, from, to int64) string {
	t.Helper()
	var text strings.Builder
	must(t,
		Tree{}.Harvest(t.Context(), dir, from, to, func(
			version int64, store string, c tree.Change,
		) error {
			if c.Delete {
				fmt.Fprintf(&text, "%d %s delete %s\n", version, store, c.Key)
			} else {
				fmt.Fprintf(&text, "%d %s set %s %s\n", version, store, c.Key, c.Value)
			}

			return nil
		}))

	return text.String()
}

func legacyCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(legacyDir)))
	return dir
}

func commit(t *testing.T, f tree.Forest) {
	t.Helper()
	_, err := f.Commit(t.Context())
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
