package bench

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/result"
)

// Ages of a database, besides a number of rounds.
const (
	NoAge  = "none"
	Steady = "steady" // until its level sizes and its write amplification stop changing
)

// The rule of steady, told in docs/reads.md.
const (
	agePart       = 4   // a round overwrites one in so many keys
	fewestRounds  = 3   // compared
	mostAgeRounds = 40  // of steady
	maxAgeRounds  = 400 // of a number that is asked for
	steadyShift   = .02 // share of the bytes that a level may have more or less of
	steadyAmplify = .05 // of the write amplification
)

// AgeRounds reads an age: the most rounds, and whether they may end before.
func AgeRounds(age string) (rounds int, steady bool, err error) {
	switch age {
	case "", NoAge:
		return 0, false, nil
	case Steady:
		return mostAgeRounds, true, nil
	}
	if rounds, err = strconv.Atoi(age); err != nil || rounds < 1 || rounds > maxAgeRounds {
		return 0, false, fmt.Errorf("invalid age %q: %s, %s, or a number of rounds up to %d", age, NoAge, Steady, maxAgeRounds)
	}
	return rounds, false, nil
}

// age overwrites random keys in rounds, each settled, until the database is as old as its
// manifest says it is to become.
func (r *run) age(ctx context.Context, m *keyspace.Manifest, values *keyspace.Values) error {
	rounds, steady, err := AgeRounds(m.Age)
	if err != nil {
		return err
	}
	for int(m.Aged) < rounds {
		round, err := r.ageRound(ctx, m, values)
		if err != nil {
			return err
		}
		f := &r.Result.Figures
		f.Age = append(f.Age, round)
		if steady && isSteady(f.Age) {
			return nil
		}
	}
	if steady {
		r.Absent(fmt.Sprintf("after %d rounds the database was still changing: it is as old as --age %d makes it", rounds, rounds), "steady_age")
	}
	return nil
}

// ageRound is one round, after which the manifest has it.
func (r *run) ageRound(ctx context.Context, m *keyspace.Manifest, values *keyspace.Values) (round result.AgeRound, err error) {
	round.Round = int(m.Aged) + 1
	keys := &keyset{choice: workload.Choice{Keys: m.Keys, Seed: m.Seed + uint64(round.Round)*0x9e3779b97f4a7c15}, space: m.KeySpace(), values: values}
	r.spec.Writers, r.spec.BatchKeys = max(1, r.spec.Threads), m.BatchKeys
	puts := max(1, m.Keys/agePart)
	made, err := r.write(ctx, "age", keys, puts)
	if err != nil {
		return round, err
	}
	settled, err := r.Phase("settle", func(*atomicCount) error { return r.settle(ctx) })
	if err != nil {
		return round, err
	}
	database, err := r.describe()
	if err != nil {
		return round, err
	}
	round.Puts, round.Bytes = made.puts, database.Bytes
	for _, level := range database.Levels {
		for len(round.LevelBytes) <= level.Level {
			round.LevelBytes = append(round.LevelBytes, 0)
		}
		round.LevelBytes[level.Level] = level.Bytes
	}
	if wrote := engineWrites(made.Subject) + engineWrites(settled.Subject); wrote > 0 && made.userBytes > 0 {
		round.WriteAmplification = ratio(wrote, float64(made.userBytes))
	}
	again, err := keyspace.ReadManifest(r.spec.Dir) // has the version of this round
	if err != nil {
		return round, err
	}
	m.MaxVersion, m.Aged = again.MaxVersion, m.Aged+1
	r.Result.Workload.Aged = int(m.Aged)
	return round, keyspace.WriteManifest(r.spec.Dir, m)
}

// isSteady compares the newest rounds with each other: the size of the database, what
// each level has of it, and the write amplification.
func isSteady(rounds []result.AgeRound) bool {
	if len(rounds) < fewestRounds {
		return false
	}
	newest := rounds[len(rounds)-fewestRounds:]
	last := newest[len(newest)-1]
	share := func(r result.AgeRound, level int) float64 {
		if level >= len(r.LevelBytes) {
			return 0
		}
		return float64(r.LevelBytes[level]) / math.Max(1, float64(r.Bytes))
	}
	for _, r := range newest {
		if math.Abs(float64(r.Bytes)/math.Max(1, float64(last.Bytes))-1) > steadyShift {
			return false
		}
		for level := range max(len(r.LevelBytes), len(last.LevelBytes)) {
			if math.Abs(share(r, level)-share(last, level)) > steadyShift {
				return false
			}
		}
		if (r.WriteAmplification == nil) != (last.WriteAmplification == nil) ||
			r.WriteAmplification != nil && math.Abs(*r.WriteAmplification / *last.WriteAmplification - 1) > steadyAmplify {
			return false
		}
	}
	return true
}
