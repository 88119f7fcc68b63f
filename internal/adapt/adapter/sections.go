package adapter

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// Sections are the tables of a database without tables: keys of a kind, which a client writes
// under a prefix of their own. Keys are whole, so the tables decide only which keys are sampled.
type Sections struct {
	Text string    // as it was asked for; "" is all keys
	Mix  []Portion // of Text
}

// Option is the override that sets s.
func (s *Sections) Option() Option {
	return NewOption("table", "flat accounts", "a name, a prefix such as 0x41, or a mix such as "+
		"a=70;b=30", "", s.Set).
		Means("the kinds of keys that are looked up; of another program's database")
}

// Set reads the option: the names of kinds as inspect lists them, or prefixes such as 0x41.
// A text with a mistake changes nothing, so that Check does not report it again.
func (s *Sections) Set(text string) error {
	mix, err := ParseMix(text)
	if err != nil {
		return err
	}

	for _, p := range mix {
		if digits, is := strings.CutPrefix(p.Name, "0x"); is {
			if _, err := hex.DecodeString(digits); err != nil || digits == "" {
				return fmt.Errorf("prefix %s: not bytes in hexadecimal (example: 0x41)", p.Name)
			}
		}
	}

	s.Text, s.Mix = text, mix
	return nil
}

// Check refuses tables where keys are not sampled.
func (s *Sections) Check(o engine.Options) error {
	if s.Text == "" || o.Foreign || o.IgnoreLock {
		return nil
	}
	return fmt.Errorf("option table=%s: chooses among the keys of a database that statelab did "+
		"not load: add --use-existing", s.Text)
}

// kinds tells which portion a key belongs to: the first that fits; -1 for none.
func (s *Sections) kinds(client clients.Client) func(key []byte) int {
	prefixes := make([][]byte, len(s.Mix))
	for i, p := range s.Mix {
		if digits, is := strings.CutPrefix(p.Name, "0x"); is {
			prefixes[i], _ = hex.DecodeString(digits) // Set has checked it
		}
	}

	return func(key []byte) int {
		name := dbformat.Section(client, key)
		for i, p := range s.Mix {
			if prefixes[i] != nil && bytes.HasPrefix(key, prefixes[i]) ||
				name != "" && name == p.Name {
				return i
			}
		}

		return -1
	}
}

const (
	// minDrawn keys are drawn at a time, so that few draws say what a database holds.
	minDrawn = 20_000
	// maxRounds of draws search for the keys of a rare table; the first fewRounds tell
	// whether they can find enough.
	maxRounds, fewRounds = 64, 4
	// sectionStream is the stream of random numbers that chooses among too many keys.
	sectionStream = 0x7461626c65
)

// Sample calls yield with each table's share of n keys. draw samples the keys of the whole database
// in dir, of an engine; its order does not matter.
func (s *Sections) Sample(
	ctx context.Context, dir, engineName string, n int, seed uint64,
	draw func(ctx context.Context, n int, seed uint64, yield func([]byte) error) error,
	yield func([]byte) error,
) error {
	if s.Text == "" {
		return draw(ctx, n, seed, yield)
	}

	client := dbformat.Client(dir, dbformat.Found{Engine: engineName}, nil)
	kind, names := s.kinds(client), map[string]bool{}
	found, open := make([][][]byte, len(s.Mix)), slices.Repeat([]bool{true}, len(s.Mix))
	drawn := 0
	for round := 0; slices.Contains(open, true); round++ {
		for i, p := range s.Mix {
			// All rounds together find about as many times more as there are more of them. Where
			// they find a thousand, the first has fifteen.
			none := round > 0 && len(found[i]) == 0 && p.of(n) >= 1000
			if open[i] &&
				(none || round == fewRounds && len(found[i])*maxRounds/fewRounds < p.of(n) ||
					round == maxRounds) {
				return tooFew(p, len(found[i]), p.of(n), drawn, slices.Sorted(maps.Keys(names)))
			}
		}

		size := minDrawn
		if round > 0 {
			size = max(n, minDrawn)
		}

		err := draw(ctx, size, seed+uint64(round)<<32, func(key []byte) error {
			drawn++
			names[dbformat.Section(client, key)] = true
			if i := kind(key); i >= 0 && open[i] {
				found[i] = append(found[i], bytes.Clone(key))
			}

			return nil
		})
		if err != nil {
			return err
		}

		for i := range open {
			open[i] = len(found[i]) < s.Mix[i].of(n)
		}
	}

	rng := rand.New(rand.NewPCG(seed, sectionStream))
	for i, keys := range found {
		slices.SortFunc(keys, bytes.Compare) // an engine's goroutines find them in any order
		rng.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
		for _, key := range keys[:s.Mix[i].of(n)] {
			if err := yield(key); err != nil {
				return err
			}
		}
	}

	return nil
}

func tooFew(p Portion, found, want, drawn int, names []string) error {
	if found > 0 {
		return fmt.Errorf("table %s: only %d of %d keys belong to it, too few to sample %d: give "+
			"it a smaller share, or lower --sample-keys",
			p.Name, found, drawn, want)
	}

	if names = slices.DeleteFunc(names,
		func(name string) bool { return name == "" }); len(names) == 0 {
		return fmt.Errorf("table %s: none of %d keys belongs to it, and the client that wrote "+
			"the database is not known: name the prefix of keys (example: 0x41)",
			p.Name, drawn)
	}

	return fmt.Errorf("table %s: none of %d keys belongs to it; they are of: %s; or name the "+
		"prefix of keys (example: 0x41)",
		p.Name, drawn, strings.Join(names, ", "))
}

// ChooseTable is the error of a database whose keys are in tables where none was
// chosen, or one that is not there.
func ChooseTable(chosen string, tables []engine.Table) error {
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}

	if chosen != "" {
		return fmt.Errorf("there is no table %s: the tables are %s", chosen,
			strings.Join(names, ", "))
	}

	return fmt.Errorf("its keys are in tables: choose one with --table NAME: %s",
		strings.Join(names, ", "))
}

// Portion is a table and its share of the Gets.
type Portion struct {
	Name  string
	Share float64 // all of a mix together: 1
}

// of is the portion of n keys, at least one.
func (p Portion) of(n int) int { return max(1, int(p.Share*float64(n)+0.5)) }

// ParseMix reads a table's name, or several with their proportions: a=70;b=30. The shares are
// of the sum, whatever it is. A name that is not a mix may hold any sign.
func ParseMix(text string) ([]Portion, error) {
	if !strings.Contains(text, clients.MixSeparator) {
		return []Portion{{text, 1}}, nil
	}

	var mix []Portion
	sum := 0.0
	for part := range strings.SplitSeq(text, clients.MixSeparator) {
		at := strings.LastIndex(part, "=")
		if at < 1 {
			return nil, fmt.Errorf("table %q: a mix needs the proportion of each table (example: "+
				"a=70,b=30)", part)
		}

		share, err := strconv.ParseFloat(strings.TrimSuffix(part[at+1:], "%"), 64)
		if err != nil || !(share > 0 && share < 1e9) {
			return nil, fmt.Errorf("table %s: invalid proportion %q (example: a=70,b=30)",
				part[:at], part[at+1:])
		}

		if slices.ContainsFunc(mix, func(p Portion) bool { return p.Name == part[:at] }) {
			return nil, fmt.Errorf("table %s is listed twice", part[:at])
		}

		mix, sum = append(mix, Portion{part[:at], share}), sum+share
	}

	if len(mix) > maxPortions {
		return nil, fmt.Errorf("a mix of %d tables: at most %d", len(mix), maxPortions)
	}

	for i := range mix {
		mix[i].Share /= sum
	}

	return mix, nil
}

// maxPortions can be told apart by the byte that a mixed key begins with.
const maxPortions = 256

// SampleMix samples each table's share of n keys. Keys of a mix begin with the number of their
// table: Unmix takes it away.
func SampleMix(
	mix []Portion, n int, sample func(table, n int, yield func([]byte) error) error,
	yield func([]byte) error,
) error {
	if len(mix) < 2 {
		return sample(0, n, yield)
	}

	var mixed []byte
	for i, p := range mix {
		err := sample(i, p.of(n), func(key []byte) error {
			mixed = append(append(mixed[:0], byte(i)), key...)
			return yield(mixed)
		})
		if err != nil {
			return fmt.Errorf("table %s: %w", p.Name, err)
		}
	}

	return nil
}

// Unmix is the table that a key of a mix of so many is looked up in, and the key there; false
// for a key that belongs to none, such as a short one that was changed to be absent.
func Unmix(tables int, mixed []byte) (table int, key []byte, known bool) {
	if tables == 1 {
		return 0, mixed, true
	}
	if len(mixed) == 0 || int(mixed[0]) >= tables {
		return 0, nil, false
	}
	return int(mixed[0]), mixed[1:], true
}
