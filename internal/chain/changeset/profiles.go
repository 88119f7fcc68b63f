package changeset

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Shape is one store as a generator makes it. Lengths are normally distributed;
// the counts are those at scale 1.
type Shape struct {
	Store             string
	KeyMean, KeyDev   float64 // bytes
	ValueMean         float64 // bytes
	ValueDev          float64
	Initial, Final    float64 // keys after the first version, after the last
	ChangesPerVersion float64 // updates and deletes; creations come on top
	DeleteShare       float64 // of those changes
	// ZipfTheta above 0 makes some keys hot: those longest there.
	ZipfTheta float64
	// GroupKeys keys in a row share a prefix, and updates come in runs of RunKeys
	// neighbours.
	GroupKeys, RunKeys int
}

// Profile is a named set of shapes.
type Profile struct {
	Name   string
	Of     string // what it is like, in words
	Shapes []Shape
}

// Profiles are those that Generate knows. The first four are iavl-bench's (sizes,
// lengths and shares of its stores); keys there are uniform. The others add what
// chains have and those lack.
func Profiles() []Profile {
	bank := Shape{Store: "bank", KeyMean: 56, KeyDev: 3, ValueMean: 100, ValueDev: 1200, Initial: 35_000, Final: 2_200_200, ChangesPerVersion: 1840,
		DeleteShare: .25}
	skewed, prefix := bank, bank
	skewed.Store, skewed.ZipfTheta = "skewed", .99
	prefix.Store, prefix.GroupKeys, prefix.RunKeys = "prefix", 64, 8
	return []Profile{
		{"bank", "iavl-bench's bank: many small values", []Shape{bank}},
		{"lockup", "iavl-bench's lockup: fewer, longer values", []Shape{
			{Store: "lockup", KeyMean: 56, KeyDev: 3, ValueMean: 1936, ValueDev: 29261, Initial: 35_000, Final: 2_600_200, ChangesPerVersion: 363, DeleteShare: .29}}},
		{"staking", "iavl-bench's staking: short keys, values of 12 kB", []Shape{
			{Store: "staking", KeyMean: 24, KeyDev: 2, ValueMean: 12263, ValueDev: 22967, Initial: 35_000, Final: 1_600_696, ChangesPerVersion: 305, DeleteShare: .25}}},
		{"osmo-like-many", "iavl-bench's five stores of Osmosis, which do not grow", []Shape{
			steady("wasm", 79, 23, 170, 202, 8_500_000), steady("ibc", 58, 4, 22, 29, 23_400_000), steady("upgrade", 8, 0, 8, 0, 60),
			steady("concentratedliquidity", 25, 11, 44, 48, 600_000), steady("icahost", 103, 11, 37, 25, 1_500)}},
		{"skewed", "as bank, with hot keys: zipf 0.99", []Shape{skewed}},
		{"prefix", "as bank, with keys of one owner side by side, written together", []Shape{prefix}},
	}
}

// steady is a store that keeps its size.
func steady(store string, keyMean, keyDev, valueMean, valueDev, keys float64) Shape {
	return Shape{Store: store, KeyMean: keyMean, KeyDev: keyDev, ValueMean: valueMean, ValueDev: valueDev, Initial: keys, Final: keys, ChangesPerVersion: 1000,
		DeleteShare: .2}
}

// Generation says what to generate.
type Generation struct {
	Profiles []string
	Versions int64
	Scale    float64 // of all counts; 1 is the profile's
	Seed     uint64
	// EmptyStore adds a store that never gets a key; EmptyValueShare of all values
	// are empty.
	EmptyStore      bool
	EmptyValueShare float64
}

// emptyStore is the name of the store that EmptyStore adds.
const emptyStore = "empty"

// maxKeys bounds the live keys of all stores: they are numbered in memory.
const maxKeys = 1 << 31

// Check names everything wrong with g.
func (g Generation) Check() (errs []error) {
	if len(g.Profiles) == 0 {
		errs = append(errs, fmt.Errorf("no profile: write --profile %s", profileNames()[0]))
	}
	keys := 0.0
	seen := map[string]bool{}
	for _, name := range g.Profiles {
		profile, known := profileOf(name)
		if !known {
			errs = append(errs, fmt.Errorf("profile %q: write one of %s", name, strings.Join(profileNames(), ", ")))
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("profile %s twice", name))
		}
		seen[name] = true
		for _, shape := range profile.Shapes {
			keys += max(shape.Initial, shape.Final) * g.Scale
		}
	}
	if g.Versions < 1 {
		errs = append(errs, fmt.Errorf("%d versions: at least 1, such as --versions 300", g.Versions))
	}
	if !(g.Scale > 0) || math.IsInf(g.Scale, 0) {
		errs = append(errs, fmt.Errorf("scale %v: above 0, such as --scale 0.01", g.Scale))
	} else if keys > maxKeys {
		errs = append(errs, fmt.Errorf("scale %v: %.0f keys are alive at once, at most %d can be: a smaller --scale", g.Scale, keys, int64(maxKeys)))
	}
	if !(g.EmptyValueShare >= 0 && g.EmptyValueShare <= 1) {
		errs = append(errs, fmt.Errorf("share of empty values %v: from 0%% to 100%%", g.EmptyValueShare))
	}
	return errs
}

// String is g as the provenance of the set.
func (g Generation) String() string {
	text := fmt.Sprintf("generated: profile %s, %d versions, scale %v, seed %d", strings.Join(g.Profiles, ","), g.Versions, g.Scale, g.Seed)
	if g.EmptyStore {
		text += ", with an empty store"
	}
	if g.EmptyValueShare > 0 {
		text += fmt.Sprintf(", %v of the values empty", g.EmptyValueShare)
	}
	return text
}

func profileOf(name string) (Profile, bool) {
	all := Profiles()
	at := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if at < 0 {
		return Profile{}, false
	}
	return all[at], true
}

func profileNames() (names []string) {
	for _, p := range Profiles() {
		names = append(names, p.Name)
	}
	return names
}
