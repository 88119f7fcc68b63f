package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statelab/statelab/internal/chain/changeset"
)

// Change sets by the real binary: made, converted there and back, checked,
// damaged, interrupted.

// newSet generates a small set of three stores, one of them empty.
func newSet(t *testing.T, more ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "set.slcs")
	must(t,
		append([]string{"changeset", "generate", "--profile", "bank,prefix", "--versions", "50",
			"--scale", "0.002", "--seed", "5",
			"--empty-store", "--empty-values", "10%", "--out", out}, more...)...)
	return out
}

func facts(t *testing.T, o outcome) (s changeset.Facts) {
	t.Helper()
	if err := json.Unmarshal([]byte(o.stdout), &s); err != nil {
		t.Fatalf("%v\n%v", err, o)
	}
	return s
}

func TestGeneratedSetIsWhatItSays(t *testing.T) {
	set := newSet(t)
	s := facts(t, must(t, "changeset", "verify", set, "--json"))
	if s.Order != "insertion" || s.First != 1 || s.Last != 50 || *s.Versions != 50 ||
		len(s.Stores) != 3 || s.Verified.MissingVersions != 0 ||
		s.Verified.IsSortedNet {
		t.Errorf("%+v, %+v", s, s.Verified)
	}

	// 70 keys at first; 4 changes a version, one a delete, replaced; growth to 4400.
	bank := s.Stores[0].Totals
	if want := int64(70 + 49*3 + 49 + 4330); bank.Sets != want || bank.Deletes != 49 {
		t.Errorf("bank: %d sets, want %d; %d deletes, want 49", bank.Sets, want, bank.Deletes)
	}

	if empty := s.Stores[2]; empty.Name != "empty" || empty.Totals.Sets != 0 {
		t.Errorf("%+v", empty)
	}

	quick := facts(t, must(t, "changeset", "info", set, "--json"))
	s.Verified = nil
	if diff := cmp.Diff(s, quick); diff != "" {
		t.Errorf("info says otherwise than verify:\n%s", diff)
	}

	again, err := os.ReadFile(newSet(t))
	if err != nil {
		t.Fatal(err)
	}

	if text, err := os.ReadFile(set); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same seed made another file (%v)", err)
	}
}

func TestSetsSurviveOtherForms(t *testing.T) {
	for _, c := range []struct {
		format string
		sort   []string
	}{{"iavl-bench", nil}, {"cronos", []string{"--sort"}}} {
		t.Run(c.format, func(t *testing.T) {
			set := newSet(t, c.sort...)
			dir := filepath.Join(t.TempDir(), "D")
			must(t, "changeset", "export", set, "--format", c.format, "--out", dir)
			back := filepath.Join(t.TempDir(), "back.slcs")
			o := must(t, "changeset", "import", dir, "--out", back)
			if !o.says("in 50 versions (1 to 50)") {
				t.Error(o)
			}

			want, got := facts(t, must(t, "changeset", "info", set, "--json")),
				facts(t, must(t, "changeset", "info", back, "--json"))
			if *got.Changes != *want.Changes || got.Order != want.Order || len(got.Stores) != 3 ||
				got.Provenance != "imported from D ("+c.format+")" {
				t.Errorf("%+v, want %+v", got, want)
			}

			for _, store := range want.Stores {
				for _, s := range got.Stores {
					if s.Name == store.Name && *s.Totals != *store.Totals {
						t.Errorf("%s: %+v, want %+v", s.Name, s.Totals, store.Totals)
					}
				}
			}

			// Once more gives the same files: nothing is lost on the way.
			again := filepath.Join(t.TempDir(), "D2")
			must(t, "changeset", "export", back, "--format", c.format, "--out", again)
			if diff := cmp.Diff(contents(t, dir), contents(t, again)); diff != "" {
				t.Errorf("%.2000s", diff)
			}
		})
	}
}

// contents is every file of dir as text.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path := range fingerprint(t, dir) {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}

	return files
}

func TestWindowsOfASet(t *testing.T) {
	set := newSet(t)
	dir := t.TempDir()
	part := filepath.Join(dir, "part.slcs")
	must(t, "changeset", "import", set, "--from", "10", "--to", "19", "--sort", "--out", part)
	s := facts(t, must(t, "changeset", "verify", part, "--json"))
	if s.First != 10 || s.Last != 19 || *s.Versions != 10 || s.Order != "sorted-net" ||
		!s.Verified.IsSortedNet {
		t.Errorf("%+v, %+v", s, s.Verified)
	}

	refused(t, statelab(t, "changeset", "import", set, "--out", part), exitUsage, "--out", part,
		"already exists")
	refused(t,
		statelab(t, "changeset", "import", set, "--from", "9", "--to", "8", "--out",
			filepath.Join(dir, "x")), exitUsage,
		"--to 8: must be at least --from (9)")
}

func TestDamagedSets(t *testing.T) {
	set := newSet(t)
	cut := filepath.Join(t.TempDir(), "cut.slcs")
	text, err := os.ReadFile(set)
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(cut, text[:len(text)*2/3], 0o644); err != nil {
		t.Fatal(err)
	}

	o := statelab(t, "changeset", "verify", cut, "--json")
	refused(t, o, exitFailed, "cut.slcs: offset ", "version ", "cut short")
	if s := facts(t, o); s.Damage == "" || s.Last < 2 || s.Last >= 50 || *s.Versions != s.Last {
		t.Errorf("%+v", s)
	}

	if o := must(t, "changeset", "info", cut); !o.says("damaged: cut.slcs: offset ") {
		t.Error(o)
	}

	// What is whole can be saved; all of it cannot.
	saved := filepath.Join(t.TempDir(), "saved.slcs")
	refused(t, statelab(t, "changeset", "import", cut, "--out", saved), exitFailed, "cut short")
	last := facts(t, statelab(t, "changeset", "info", cut, "--json")).Last
	must(t, "changeset", "import", cut, "--to", strconv.FormatInt(last, 10), "--out", saved)
	must(t, "changeset", "verify", saved)

	flip(t, cut, size(t, cut)/2)
	refused(t, statelab(t, "changeset", "verify", cut), exitFailed, "cut.slcs: offset ", "checksum")
	refused(t, statelab(t, "changeset", "info", t.TempDir()), exitFailed,
		"no change set of a known form")
	refused(t, statelab(t, "changeset", "info", filepath.Join(t.TempDir(), "missing")), exitUsage,
		"missing")
	refused(t, statelab(t, "changeset", "info", cut, "--format", "cronos"), exitFailed, "cut.slcs")
}

func TestMissingVersionsAreSeen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "D")
	must(t, "changeset", "export", newSet(t), "--format", "iavl-bench", "--out", dir)
	remove(t, filepath.Join(dir, "000000007.delimpb"))
	refused(t, statelab(t, "changeset", "verify", dir), exitFailed, "000000007.delimpb: version 7",
		"no such file")

	diffs := t.TempDir()
	for _, block := range []string{"17.json", "19.json"} {
		if err := os.WriteFile(filepath.Join(diffs, block),
			[]byte(`[{"result":{"pre":{},"post":{}}}]`), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if o := must(t, "changeset", "verify", diffs); !o.says("1 missing (the first gap: 18 to 18)") {
		t.Error(o)
	}

	refused(t, statelab(t, "changeset", "verify", diffs, "--strict"), exitStrict, "1 warning")
}

func TestInterruptedGenerationLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "changeset", "generate", "--profile", "staking", "--versions", "100000",
		"--scale", "1", "--out", filepath.Join(dir, "set.slcs"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) == 1 &&
			time.Now().Before(deadline) {
			if info, err := entries[0].Info(); err == nil && info.Size() > 1<<20 {
				break
			}
		} else if time.Now().After(deadline) {
			t.Fatal("nothing is written")
		}
	}

	s.signal(syscall.SIGINT)
	refused(t, s.wait(), exitFailed, "interrupted")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v is left behind (%v)", entries, err)
	}
}
