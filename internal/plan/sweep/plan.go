// Package sweep measures an engine along axes: the points of read and sweep, the
// databases that they need, and what their runs come to.
//
// Non-goals: the order of runs and what is finished (plan), measuring (bench),
// drawing (explain).
package sweep

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// Axes by name, in the order they nest.
const (
	EngineAxis  = "engine"
	ProfileAxis = "profile"
	KeysAxis    = "keys"
	HandlesAxis = "handles"
	ThreadsAxis = "threads"
	MemoryAxis  = "memory"
	RateAxis    = "rate"
	CacheAxis   = "cache"
	ClassAxis   = "class" // of hardware

	PageCacheAxis  = "page-cache"
	BatchGetsAxis  = "batch-gets"
	BatchOrderAxis = "batch-order"
	InFlightAxis   = "in-flight"
	ProcsAxis      = "procs"
	AgeAxis        = "age"
)

// Orders of the keys in a batch of Gets.
const (
	RandomOrder = "random"
	SortedOrder = "sorted"
)

// OptionAxis begins the name of an axis of an engine option.
const OptionAxis = "set."

// Sweep is what to measure.
type Sweep struct {
	Name    string // label in charts
	Command []string
	Base    bench.Spec  // what all points share
	Load    *bench.Spec // how to make a database where Base.Dir is empty
	Axes    []result.Axis
	// Databases is the folder of those that are made; empty: in the folder of the results.
	Databases string
}

// maxPoints is far beyond what anybody has the time for.
const maxPoints = 100_000

// Check names everything wrong with the axes' values as typed. Stored plans may
// hold sizes without a unit.
func (p Sweep) Check() (errs []error) {
	points := 1
	for _, axis := range p.Axes {
		points *= max(1, len(axis.Values))
		if points > maxPoints {
			return append(errs, fmt.Errorf("the lists make more than %d points: shorten --%s", maxPoints, axis.Name))
		}
		if len(axis.Values) == 0 {
			errs = append(errs, fmt.Errorf("--%s is empty", axis.Name))
		}
		for _, value := range axis.Values {
			if err := checkTyped(axis.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", axis.Name, err))
			}
		}
	}
	return errs
}

func checkTyped(axis, value string) (err error) {
	switch axis {
	case CacheAxis:
		_, _, err = ParseCache(value)
	case MemoryAxis:
		_, err = ParseMemory(value)
	default:
		_, err = SettingOf(axis, value)
	}
	return err
}

// Setting is one value of every axis.
type Setting struct {
	Number  int // 0, 1, ... in axis order: names the folder
	Values  map[string]string
	Engine  string
	Profile string
	Class   string // of hardware; empty: any
	Keys    uint64
	Handles int
	Threads int
	// MemoryBytes is one budget for all that the engine keeps in memory.
	MemoryBytes int64
	// Rate is Gets a second, issued whether answered or not.
	Rate float64
	// Cache is a size, or a share of the database.
	CacheBytes int64
	CacheShare float64
	PageCache  string
	BatchGets  int
	BatchOrder string
	InFlight   int
	Procs      int
	Age        string
	Options    map[string]string // of OptionAxis
}

// SettingOf is the setting of one axis' value.
func SettingOf(axis, value string) (s Setting, err error) {
	err = s.set(axis, value)
	return s, err
}

func (s *Setting) set(axis, value string) (err error) {
	if option, is := strings.CutPrefix(axis, OptionAxis); is {
		s.Options = maps.Clone(s.Options) // settings share what the axes before gave them
		if s.Options == nil {
			s.Options = map[string]string{}
		}
		s.Options[option] = value
		return nil
	}
	switch axis {
	case EngineAxis:
		s.Engine, s.Profile, err = ParseEngine(value, s.Profile)
	case ProfileAxis:
		s.Profile = value
	case ClassAxis:
		s.Class = value
	case MemoryAxis:
		s.MemoryBytes, err = ParseMemory(unit.WithUnit(value))
	case RateAxis:
		s.Rate, err = ParseRate(value)
	case KeysAxis:
		s.Keys, err = unit.ParseCount(value)
	case HandlesAxis:
		s.Handles, err = positive(value, "1000")
	case ThreadsAxis:
		s.Threads, err = positive(value, "8")
	case AgeAxis:
		s.Age = value
		_, _, err = bench.AgeRounds(value)
	case BatchGetsAxis:
		s.BatchGets, err = positive(value, "16")
	case BatchOrderAxis:
		if s.BatchOrder = value; value != RandomOrder && value != SortedOrder {
			err = fmt.Errorf("%q: %s, %s", value, RandomOrder, SortedOrder)
		}
	case InFlightAxis:
		s.InFlight, err = upTo(value, maxInFlight)
	case ProcsAxis:
		s.Procs, err = upTo(value, maxInFlight)
	case CacheAxis:
		s.CacheBytes, s.CacheShare, err = ParseCache(unit.WithUnit(value))
	case PageCacheAxis:
		if s.PageCache = value; !slices.Contains(bench.PageCacheModes(), value) {
			err = fmt.Errorf("%q: %s", value, strings.Join(bench.PageCacheModes(), ", "))
		}
	default:
		err = fmt.Errorf("no axis is called %q", axis)
	}
	return err
}

// ParseEngine reads an engine, or an engine with its profile: NAME:PROFILE.
func ParseEngine(value, otherwise string) (name, profile string, err error) {
	name, profile, given := strings.Cut(value, ":")
	if name == "" || given && profile == "" {
		return "", "", fmt.Errorf("invalid engine %q: write NAME or NAME:PROFILE; statelab engines lists them", value)
	}
	if !given {
		profile = otherwise
	}
	return name, profile, nil
}

// ParseMemory reads a budget such as 512MiB.
func ParseMemory(value string) (int64, error) {
	bytes, err := unit.ParseSize("memory budget", value, "512MiB, 2GiB")
	if err == nil && bytes == 0 {
		err = fmt.Errorf("the memory budget must be larger than 0 (example: 512MiB)")
	}
	return bytes, err
}

// ParseRate reads Gets a second such as 20k or 20k/s.
func ParseRate(value string) (float64, error) {
	n, err := unit.ParseCount(strings.TrimSuffix(value, "/s"))
	if err != nil {
		return 0, fmt.Errorf("invalid rate %q: Gets per second (example: 20k)", value)
	}
	return float64(n), nil
}

// ParseCache reads a size such as 64MiB, or a share of the database such as 1%.
func ParseCache(value string) (bytes int64, share float64, err error) {
	if share, ok, err := unit.ParsePercent(value); ok {
		if err == nil && (share == 0 || share > 1) {
			err = fmt.Errorf("invalid cache size %q: a share of the database is above 0%% and at most 100%%", value)
		}
		return 0, share, err
	}
	bytes, err = unit.ParseSize("cache size", value, "64MiB, 0.1%")
	if err == nil && bytes == 0 {
		err = fmt.Errorf("the cache must be larger than 0 (examples: 64MiB, 0.1%%)")
	}
	return bytes, 0, err
}

// maxInFlight is far beyond what any device answers at once.
const maxInFlight = 4096

// upTo reads a number that may be 0.
func upTo(value string, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("invalid number %q: a whole number from 0 to %d", value, most)
	}
	return n, nil
}

func positive(value, example string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > 1<<20 {
		return 0, fmt.Errorf("invalid number %q: a whole number from 1 (example: %s)", value, example)
	}
	return n, nil
}

// Settings lists all combinations of the axes' values, the last axis changing
// fastest.
func (p Sweep) Settings() ([]Setting, error) {
	settings := []Setting{{Values: map[string]string{}}}
	for _, axis := range p.Axes {
		var next []Setting
		for _, s := range settings {
			for _, value := range axis.Values {
				t := s
				t.Values = map[string]string{axis.Name: value}
				maps.Copy(t.Values, s.Values)
				if err := t.set(axis.Name, value); err != nil {
					return nil, fmt.Errorf("--%s: %w", axis.Name, err)
				}
				next = append(next, t)
			}
		}
		settings = next
	}
	for i := range settings {
		settings[i].Number = i
	}
	return settings, nil
}

// Spec is the base with a setting applied; dbBytes turns a share into bytes.
func (p Sweep) Spec(s Setting, dbBytes int64) bench.Spec {
	spec := p.Base
	if s.Engine != "" {
		spec.Engine = s.Engine
	}
	if s.Profile != "" {
		spec.Profile = s.Profile
	}
	if s.Handles != 0 {
		spec.Handles = s.Handles
	}
	if s.Threads != 0 {
		spec.Threads = s.Threads
	}
	if asked, ok := s.Values[MemoryAxis]; ok {
		spec.MemoryAsked, spec.MemoryBytes = asked, s.MemoryBytes
	}
	if _, ok := s.Values[RateAxis]; ok {
		spec.Rate = s.Rate
	}
	if asked, ok := s.Values[CacheAxis]; ok {
		spec.CacheAsked, spec.CacheBytes = asked, s.CacheBytes
	}
	if s.PageCache != "" {
		spec.PageCache = s.PageCache
	}
	if s.BatchGets != 0 {
		spec.BatchGets = s.BatchGets
	}
	if s.BatchOrder != "" {
		spec.BatchSorted = s.BatchOrder == SortedOrder
	}
	if _, ok := s.Values[InFlightAxis]; ok {
		spec.InFlight = s.InFlight
	}
	if _, ok := s.Values[ProcsAxis]; ok {
		spec.Procs = s.Procs
	}
	spec.Overrides = s.overrides(spec.Overrides)
	if s.CacheShare > 0 {
		spec.CacheBytes = int64(s.CacheShare * float64(dbBytes))
	}
	return spec
}

// LoadOf is how the database of a setting is made. Dir is its name among the sweep's
// databases: files depend on the engine, its profile and its options.
func (p Sweep) LoadOf(s Setting) bench.Spec {
	point, load := p.Spec(s, 0), *p.Load
	load.Engine, load.Profile = point.Engine, point.Profile
	load.Keys = cmp.Or(s.Keys, load.Keys)
	load.Age = cmp.Or(s.Age, load.Age)
	load.Overrides = s.overrides(load.Overrides)
	parts := []string{load.Engine, load.Profile, fmt.Sprint(load.Keys), optionsName(load.Overrides)}
	if rounds, _, err := bench.AgeRounds(load.Age); err == nil && rounds > 0 {
		parts = append(parts, "age-"+load.Age)
	}
	load.Dir = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
	return load
}

// overrides are those of all settings with the setting's own.
func (s Setting) overrides(common map[string]string) map[string]string {
	if len(s.Options) == 0 {
		return common
	}
	all := map[string]string{}
	maps.Copy(all, common)
	maps.Copy(all, s.Options)
	return all
}

// longestName is how much of a folder's name options may take.
const longestName = 100

// optionsName is the part of a folder's name that tells options apart: the options
// themselves where they can stand in a name.
func optionsName(overrides map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		parts = append(parts, name+"="+overrides[name])
	}
	text := strings.Join(parts, "-")
	if len(text) <= longestName && !strings.ContainsFunc(text, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("=-_.[]", r)
	}) {
		return text
	}
	return fmt.Sprintf("options-%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:len("options-")+16]
}
