package adapter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// ChooseTable is the error of a database whose keys are in tables where none was
// chosen, or one that is not there.
func ChooseTable(chosen string, tables []engine.Table) error {
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}
	if chosen != "" {
		return fmt.Errorf("there is no table %s: the tables are %s", chosen, strings.Join(names, ", "))
	}
	return fmt.Errorf("its keys are in tables: choose one with --table NAME: %s", strings.Join(names, ", "))
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
	if !strings.Contains(text, engine.MixSeparator) {
		return []Portion{{text, 1}}, nil
	}
	var mix []Portion
	sum := 0.0
	for part := range strings.SplitSeq(text, engine.MixSeparator) {
		at := strings.LastIndex(part, "=")
		if at < 1 {
			return nil, fmt.Errorf("table %q: a mix needs the proportion of each table (example: a=70,b=30)", part)
		}
		share, err := strconv.ParseFloat(strings.TrimSuffix(part[at+1:], "%"), 64)
		if err != nil || !(share > 0 && share < 1e9) {
			return nil, fmt.Errorf("table %s: invalid proportion %q (example: a=70,b=30)", part[:at], part[at+1:])
		}
		if slices.ContainsFunc(mix, func(p Portion) bool { return p.Name == part[:at] }) {
			return nil, fmt.Errorf("table %s is listed twice", part[:at])
		}
		mix, sum = append(mix, Portion{part[:at], share}), sum+share
	}
	if len(mix) > mostPortions {
		return nil, fmt.Errorf("a mix of %d tables: at most %d", len(mix), mostPortions)
	}
	for i := range mix {
		mix[i].Share /= sum
	}
	return mix, nil
}

// mostPortions can be told apart by the byte that a mixed key begins with.
const mostPortions = 256

// SampleMix samples each table's share of n keys. Keys of a mix begin with the number of their
// table: Unmix takes it away.
func SampleMix(mix []Portion, n int, sample func(table, n int, yield func([]byte) error) error, yield func([]byte) error) error {
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
