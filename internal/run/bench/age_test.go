package bench

import (
	"testing"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func TestSteadyIsWhatStopsChanging(t *testing.T) {
	round := func(amplification float64, levels ...int64) result.AgeRound {
		r := result.AgeRound{WriteAmplification: figure.Known(amplification), LevelBytes: levels}
		for _, bytes := range levels {
			r.Bytes += bytes
		}
		return r
	}

	for name, c := range map[string]struct {
		rounds []result.AgeRound
		want   bool
	}{
		"too few": {[]result.AgeRound{round(5, 10, 90), round(5, 10, 90)}, false},
		"the same": {[]result.AgeRound{round(9, 50, 50), round(5, 10, 90),
			round(5, 10, 90), round(5, 10, 90)}, true},
		"growing": {[]result.AgeRound{round(5, 10, 90), round(5, 11, 99),
			round(5, 12, 108)}, false},
		"bytes between levels": {[]result.AgeRound{round(5, 10, 90), round(5, 13, 87),
			round(5, 10, 90)}, false},
		"amplification": {[]result.AgeRound{round(4, 10, 90), round(5, 10, 90),
			round(5, 10, 90)}, false},
	} {
		if got := isSteady(c.rounds); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAgeRoundsReadsAges(t *testing.T) {
	for text, want := range map[string]int{"": 0, NoAge: 0, Steady: maxSteadyAge, "7": 7} {
		if rounds, _, err := AgeRounds(text); err != nil || rounds != want {
			t.Errorf("%q: %d rounds, %v", text, rounds, err)
		}
	}

	for _, text := range []string{"0", "-1", "old", "401"} {
		if _, _, err := AgeRounds(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// An aged database has its rounds in the manifest, and every Get of it is right.
func TestAnAgedDatabaseIsReadAndKnowsItsAge(t *testing.T) {
	s, read := loaded(t)
	again := &Spec{Schema: schema.EngineSpec, Verb: Load, Out: t.TempDir(), Engine: "shelf",
		Dir: read.Dir, Resume: true, Threads: 2}
	m, err := keyspace.ReadManifest(read.Dir)
	if err != nil {
		t.Fatal(err)
	}

	m.Age, m.Settled = "3", false
	if err := keyspace.WriteManifest(read.Dir, m); err != nil {
		t.Fatal(err)
	}

	run := runOn(t, s, again)
	if len(run.Figures.Age) != 3 || run.Figures.Age[2].Puts != shelfKeys/agePart {
		t.Errorf("%+v", run.Figures.Age)
	}

	if m, err = keyspace.ReadManifest(read.Dir); err != nil || m.Aged != 3 || m.MaxVersion != 3 ||
		!m.Settled {
		t.Errorf("%+v, %v", m, err)
	}

	if run := runOn(t, s, read); run.Status != result.OK || run.Workload.Aged != 3 ||
		run.Figures.Found != run.Figures.Gets {
		t.Errorf("%s (%s), aged %d", run.Status, run.Error, run.Workload.Aged)
	}
}
