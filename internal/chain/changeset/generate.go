package changeset

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// minKeyBytes keeps generated keys unique: eight of their bytes are a bijection of
// their number.
const minKeyBytes = 8

// Generate makes the set that g describes: the same for the same g.
//
// The first version creates the initial keys. Each later one updates and deletes keys that are
// there, creates as many as it deletes, and some more, so that the final count is reached in the
// last, or in the version that g.GrowVersions names. The operations of all stores are mixed.
func Generate(g Generation) (Source, error) {
	if errs := g.Check(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	s := &generator{plan: g, rng: rand.New(rand.NewPCG(g.Seed, 0))}
	for _, name := range g.Profiles {
		profile, _ := profileOf(name)
		for _, shape := range profile.Shapes {
			s.names = append(s.names, shape.Store)
			s.stores = append(s.stores, newGenerated(shape, g, uint64(len(s.stores))))
		}
	}

	if g.EmptyStore {
		s.names = append(s.names, emptyStore)
	}

	return &reading{form: s}, nil
}

type generator struct {
	plan    Generation
	rng     *rand.Rand
	names   []string
	stores  []*generated
	version int64
	busy    []int // stores with operations left in this version

	key, value []byte // of the newest operation
}

func (s *generator) Info() Info {
	return Info{
		Format:     FormatGenerated,
		Order:      OrderInsertion,
		Stores:     s.names,
		Complete:   true,
		First:      1,
		Last:       s.plan.Versions,
		Provenance: s.plan.String(),
	}
}

func (s *generator) Close() error { return nil }

// begin plans the next version.
func (s *generator) begin() (int64, error) {
	if s.version == s.plan.Versions {
		return 0, io.EOF
	}

	s.version++
	s.busy = s.busy[:0]
	for i, store := range s.stores {
		store.begin(s.version)
		if store.left() > 0 {
			s.busy = append(s.busy, i)
		}
	}

	return s.version, nil
}

// change does one of the operations that are left.
func (s *generator) change() (c Change, more bool, err error) {
	if len(s.busy) == 0 {
		return c, false, nil
	}

	at := s.rng.IntN(len(s.busy))
	c.Store = s.busy[at]
	store := s.stores[c.Store]
	var number uint64
	number, c.Delete = store.operate(s.rng)
	s.key, s.value = store.appendKey(s.key[:0], number), s.value[:0]
	if !c.Delete && !(s.plan.EmptyValueShare > 0 && s.rng.Float64() < s.plan.EmptyValueShare) {
		s.value = appendRandom(s.value, s.rng, valueBytes(s.rng, store.shape))
	}

	c.Key, c.Value = s.key, s.value
	if store.left() == 0 {
		s.busy[at] = s.busy[len(s.busy)-1]
		s.busy = s.busy[:len(s.busy)-1]
	}

	return c, true, nil
}

// generated is one store: the numbers of the keys that are there.
type generated struct {
	shape   Shape
	salt    uint64
	initial int
	changes int
	growth  float64 // keys per version, until version full
	full    int64
	grown   float64 // owed
	deleted float64 // owed

	live []uint64
	made uint64 // keys so far

	creates, updates, deletes int // left in this version
	run, at                   int // of neighbours still to be updated
}

func newGenerated(shape Shape, g Generation, number uint64) *generated {
	s := &generated{
		shape:   shape,
		salt:    mix(g.Seed ^ mix(number+1)),
		initial: max(1, int(math.Round(shape.Initial*g.Scale))),
		changes: max(1, int(math.Round(shape.ChangesPerVersion*g.Scale))),
	}

	if s.full = cmp.Or(g.GrowVersions, g.Versions); s.full > 1 {
		s.growth = max(0, shape.Final*g.Scale-float64(s.initial)) / float64(s.full-1)
	}

	return s
}

func (s *generated) begin(version int64) {
	if version == 1 {
		s.creates = s.initial
		return
	}

	s.deletes = whole(&s.deleted, float64(s.changes)*s.shape.DeleteShare)
	s.updates = s.changes - s.deletes
	s.creates = s.deletes
	if version <= s.full {
		s.creates += whole(&s.grown, s.growth)
	}
}

// whole adds more to what is owed and takes the whole part of it.
func whole(owed *float64, more float64) int {
	*owed += more
	n := math.Floor(*owed)
	*owed -= n
	return int(n)
}

func (s *generated) left() int { return s.creates + s.updates + s.deletes }

// operate chooses an operation that is left and its key.
func (s *generated) operate(rng *rand.Rand) (number uint64, remove bool) {
	kind := rng.IntN(s.left())
	switch {
	case kind < s.creates:
		s.creates--
		return s.create(), false
	case len(s.live) == 0: // nothing to update or delete
		if s.updates > 0 {
			s.updates--
		} else {
			s.deletes--
		}
		return s.create(), false
	case kind < s.creates+s.updates:
		s.updates--
		return s.live[s.choose(rng)], false
	}

	s.deletes--
	at := rng.IntN(len(s.live))
	number = s.live[at]
	s.live[at] = s.live[len(s.live)-1]
	s.live = s.live[:len(s.live)-1]
	return number, true
}

func (s *generated) create() uint64 {
	number := s.made
	s.made++
	s.live = append(s.live, number)
	return number
}

// choose is the place of the key to update.
func (s *generated) choose(rng *rand.Rand) int {
	n := len(s.live)
	switch {
	case s.shape.ZipfTheta > 0:
		return zipf(rng.Float64(), n, s.shape.ZipfTheta)
	case s.shape.RunKeys > 0:
		if s.run == 0 || s.at >= n {
			s.at, s.run = rng.IntN(n), s.shape.RunKeys
		}
		s.run--
		s.at++
		return s.at - 1
	}

	return rng.IntN(n)
}

// zipf turns a uniform u into a rank below n whose density falls as rank^-theta:
// the inverse of the continuous distribution on [1, n+1), theta not 1.
func zipf(u float64, n int, theta float64) int {
	top := math.Pow(float64(n+1), 1-theta)
	rank := int(math.Pow(u*(top-1)+1, 1/(1-theta))) - 1
	return min(max(rank, 0), n-1)
}

// prefixBytes of a key are its group's: a kind and an owner's address.
const prefixBytes = 21

// appendKey is the key of a number: for groups the prefix first, then eight bytes
// that tell all numbers apart, then filling.
func (s *generated) appendKey(dst []byte, number uint64) []byte {
	rng := splitmix(number ^ s.salt)
	length := max(minKeyBytes, int(math.Round(s.shape.KeyMean+s.shape.KeyDev*rng.normal())))
	if s.shape.GroupKeys > 0 {
		length = max(length, prefixBytes+minKeyBytes)
		owner := splitmix(number/uint64(s.shape.GroupKeys) ^ s.salt)
		dst = append(dst, 2)
		dst = owner.append(dst, prefixBytes-1)
		length -= prefixBytes
	}

	dst = binary.BigEndian.AppendUint64(dst, mix(number^s.salt))
	return rng.append(dst, length-minKeyBytes)
}

// valueBytes is a normal length; what falls below 1 is drawn again, closer to the
// mean.
func valueBytes(rng *rand.Rand, shape Shape) int {
	length := int(shape.ValueMean + shape.ValueDev*rng.NormFloat64())
	if length < 1 {
		length = int(shape.ValueMean + shape.ValueMean/3*rng.NormFloat64())
	}
	return min(max(length, 1), MaxValueBytes)
}

func appendRandom(dst []byte, rng *rand.Rand, n int) []byte {
	filler := splitmix(rng.Uint64())
	return filler.append(dst, n)
}

// splitmix is the generator of that name (Steele, Lea, Flood 2014).
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	return mix(uint64(*s))
}

func (s *splitmix) append(dst []byte, n int) []byte {
	for ; n >= 8; n -= 8 {
		dst = binary.LittleEndian.AppendUint64(dst, s.next())
	}

	if n > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], s.next())
		dst = append(dst, last[:n]...)
	}

	return dst
}

// normal is Box and Muller's.
func (s *splitmix) normal() float64 {
	const unit = 1.0 / (1 << 53)
	u := float64(s.next()>>11+1) * unit
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*float64(s.next()>>11)*unit)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

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
	bank := Shape{
		Store:             "bank",
		KeyMean:           56,
		KeyDev:            3,
		ValueMean:         100,
		ValueDev:          1200,
		Initial:           35_000,
		Final:             2_200_200,
		ChangesPerVersion: 1840,
		DeleteShare:       .25,
	}

	skewed, prefix := bank, bank
	skewed.Store, skewed.ZipfTheta = "skewed", .99
	prefix.Store, prefix.GroupKeys, prefix.RunKeys = "prefix", 64, 8
	return []Profile{
		{"bank", "iavl-bench's bank: many small values", []Shape{bank}},
		{"lockup", "iavl-bench's lockup: fewer, longer values", []Shape{
			{
				Store:             "lockup",
				KeyMean:           56,
				KeyDev:            3,
				ValueMean:         1936,
				ValueDev:          29261,
				Initial:           35_000,
				Final:             2_600_200,
				ChangesPerVersion: 363,
				DeleteShare:       .29,
			}}},
		{"staking", "iavl-bench's staking: short keys, values of 12 kB", []Shape{
			{
				Store:             "staking",
				KeyMean:           24,
				KeyDev:            2,
				ValueMean:         12263,
				ValueDev:          22967,
				Initial:           35_000,
				Final:             1_600_696,
				ChangesPerVersion: 305,
				DeleteShare:       .25,
			}}},
		{"osmo-like-many", "iavl-bench's five stores of Osmosis, which do not grow", []Shape{
			steady("wasm", 79, 23, 170, 202, 8_500_000), steady("ibc", 58, 4, 22, 29, 23_400_000),
			steady("upgrade", 8, 0, 8, 0, 60),
			steady("concentratedliquidity", 25, 11, 44, 48, 600_000),
			steady("icahost", 103, 11, 37, 25, 1_500)}},
		{"skewed", "as bank, with hot keys: zipf 0.99", []Shape{skewed}},
		{"prefix", "as bank, with keys of one owner side by side, written together",
			[]Shape{prefix}},
	}
}

// steady is a store that keeps its size.
func steady(store string, keyMean, keyDev, valueMean, valueDev, keys float64) Shape {
	return Shape{
		Store:             store,
		KeyMean:           keyMean,
		KeyDev:            keyDev,
		ValueMean:         valueMean,
		ValueDev:          valueDev,
		Initial:           keys,
		Final:             keys,
		ChangesPerVersion: 1000,
		DeleteShare:       .2,
	}
}

// Generation says what to generate.
type Generation struct {
	Profiles []string
	Versions int64
	Scale    float64 // of all counts; 1 is the profile's
	Seed     uint64
	// GrowVersions is the version in which stores have their final size, which they keep; 0: the
	// last.
	GrowVersions int64
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
			errs = append(errs,
				fmt.Errorf("profile %q: write one of %s", name, strings.Join(profileNames(), ", ")))
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
		errs = append(errs,
			fmt.Errorf("%d versions: at least 1, such as --versions 300", g.Versions))
	}

	if !(g.Scale > 0) || math.IsInf(g.Scale, 0) {
		errs = append(errs, fmt.Errorf("scale %v: above 0, such as --scale 0.01", g.Scale))
	} else if keys > maxKeys {
		errs = append(errs,
			fmt.Errorf(
				"scale %v: %.0f keys are alive at once, at most %d can be: a smaller --scale",
				g.Scale,
				keys,
				int64(maxKeys),
			))
	}

	if g.GrowVersions < 0 || g.GrowVersions == 1 || g.GrowVersions > max(g.Versions, 1) {
		errs = append(errs,
			fmt.Errorf("growing in %d versions: from 2 to the number of versions", g.GrowVersions))
	}

	if !(g.EmptyValueShare >= 0 && g.EmptyValueShare <= 1) {
		errs = append(errs,
			fmt.Errorf("share of empty values %v: from 0%% to 100%%", g.EmptyValueShare))
	}

	return errs
}

// String is g as the provenance of the set.
func (g Generation) String() string {
	text := fmt.Sprintf("generated: profile %s, %d versions, scale %v, seed %d",
		strings.Join(g.Profiles, ","), g.Versions, g.Scale, g.Seed)
	if g.GrowVersions > 0 {
		text += fmt.Sprintf(", grown in %d versions", g.GrowVersions)
	}

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
