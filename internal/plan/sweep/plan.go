// Package sweep measures an engine along axes: what flags or a file declare as points, the
// databases that they need, and what their runs come to.
//
// Non-goals: the order of runs and what is finished (plan), measuring (bench),
// drawing (explain).
package sweep

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/result"
)

// Sweep is what to measure.
type Sweep struct {
	Name    string // label in charts
	Command []string
	Base    bench.Spec  // what all points share
	Load    *bench.Spec // how to make a database where Base.Dir is empty
	Axes    []Axis
	// Databases is the folder of those that are made; empty: in the folder of the results.
	Databases string
}

// Axis is what varies.
type Axis struct {
	Name   string
	Values []Step
}

// Step is a value of an axis: how it is shown, and what it changes of a setting.
type Step struct {
	Text  string
	apply func(*Setting)
}

// along is the axis of the values of v, which set applies.
func along[T any](name string, v *setting.Value[T], set func(*Setting, T)) Axis {
	axis := Axis{Name: name}
	for i, value := range v.All() {
		axis.Values = append(axis.Values, Step{v.Texts()[i], func(s *Setting) { set(s, value) }})
	}
	return axis
}

// Caches is an axis of cache sizes.
func Caches(v *setting.Value[setting.CacheSize]) Axis {
	return along(CacheAxis, v, func(s *Setting, c setting.CacheSize) { s.Cache, s.Read.CacheBytes = c, c.Bytes })
}

// Setting is one value of every axis.
type Setting struct {
	Number     int // 0, 1, ... in axis order: names the folder
	Values     map[string]string
	Class      string // of hardware; empty: any
	Cache      setting.CacheSize
	Read, Load bench.Spec
}

// maxPoints is far beyond what anybody has the time for.
const maxPoints = 100_000

// Settings lists all combinations of the axes' values, the last axis changing fastest.
func (p Sweep) Settings() []Setting {
	base := Setting{Values: map[string]string{}, Read: p.Base}
	if p.Load != nil {
		base.Load = *p.Load
	}
	settings := []Setting{base}
	for _, axis := range p.Axes {
		var next []Setting
		for _, s := range settings {
			for _, value := range axis.Values {
				t := s
				t.Values = map[string]string{axis.Name: value.Text}
				maps.Copy(t.Values, s.Values)
				value.apply(&t)
				next = append(next, t)
			}
		}
		settings = next
	}
	for i := range settings {
		settings[i].Number = i
	}
	return settings
}

// axes are how the summary names p's.
func (p Sweep) axes() (axes []result.Axis) {
	for _, axis := range p.Axes {
		a := result.Axis{Name: axis.Name}
		for _, value := range axis.Values {
			a.Values = append(a.Values, value.Text)
		}
		axes = append(axes, a)
	}
	return axes
}

// Spec is how s reads; dbBytes turns a share into bytes.
func (s Setting) Spec(dbBytes int64) bench.Spec {
	spec := s.Read
	if s.Cache != (setting.CacheSize{}) {
		spec.CacheAsked, spec.CacheBytes = s.Values[CacheAxis], s.Cache.Of(dbBytes)
	}
	return spec
}

// Made is how the database of a setting is made. Dir is its name among the sweep's databases:
// files depend on the engine, its profile and its options.
func (s Setting) Made() bench.Spec {
	load := s.Load
	load.Engine, load.Profile = s.Read.Engine, s.Read.Profile
	parts := []string{load.Engine, load.Profile, fmt.Sprint(load.Keys), optionsName(load.Overrides)}
	if rounds, _, err := bench.AgeRounds(load.Age); err == nil && rounds > 0 {
		parts = append(parts, "age-"+load.Age)
	}
	load.Dir = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
	return load
}

// with are options and one more, in a map of their own: settings share what the axes before gave
// them.
func with(overrides map[string]string, name, value string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, overrides)
	all[name] = value
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
