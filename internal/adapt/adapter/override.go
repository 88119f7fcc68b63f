package adapter

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
)

// Option is an engine's option that can be overridden.
type Option struct {
	Name    string // the engine's own
	Example string // a legal value
	Set     func(text string) error
}

// Override sets options as overrides say and reports all that are wrong.
func Override(options []Option, overrides map[string]string) (errs []error) {
	names := make([]string, len(options))
	left := maps.Clone(overrides)
	for i, o := range options {
		names[i] = o.Name
		text, given := left[o.Name]
		delete(left, o.Name)
		if !given {
			continue
		}

		if err := o.Set(strings.TrimSpace(text)); err != nil {
			errs = append(errs,
				fmt.Errorf("option %s=%s: %w: write %s=%s", o.Name, text, err, o.Name, o.Example))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(left)) {
		errs = append(errs,
			engine.Fail(engine.CodeOption, "unknown option %q: use one of %s", name,
				strings.Join(names, ", ")))
	}

	return errs
}

// Size is an option in bytes of at least least.
func Size[N int | int64 | uint64](name, example string, to *N, minimum N) Option {
	return Option{name, example, func(text string) error {
		n, err := unit.ParseBytes(unit.WithUnit(text))
		if err != nil {
			return err
		}

		if n < int64(minimum) || n > math.MaxInt {
			return fmt.Errorf("it must be at least %d bytes", minimum)
		}

		*to = N(n)
		return nil
	}}
}

// Count is an option that is a number of at least least.
func Count(name, example string, to *int, minimum int) Option {
	return Option{name, example, func(text string) error {
		n, err := unit.ParseCount(text)
		if err != nil {
			return err
		}

		if n > math.MaxInt32 || int(n) < minimum {
			return fmt.Errorf("it must be at least %d", minimum)
		}

		*to = int(n)
		return nil
	}}
}

// Switch is an option that is true or false.
func Switch(name string, to *bool) Option {
	return Option{name, "true", func(text string) (err error) {
		*to, err = strconv.ParseBool(text)
		return err
	}}
}

// Choice is an option that is one of a few words; the first is the example.
func Choice(name string, to *string, words ...string) Option {
	return Option{name, words[0], func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("it must be one of %s", strings.Join(words, ", "))
		}
		*to = text
		return nil
	}}
}

// PowerOfTwo is an option in bytes that is a power of two between least and most.
func PowerOfTwo(name, example string, to *int, minimum, maximum int) Option {
	return Option{name, example, func(text string) error {
		n, err := unit.ParseBytes(unit.WithUnit(text))
		if err != nil {
			return err
		}

		if n < int64(minimum) || n > int64(maximum) || n&(n-1) != 0 {
			return fmt.Errorf("it must be a power of two from %d to %d", minimum, maximum)
		}

		*to = int(n)
		return nil
	}}
}

// Profile is a named set of an engine's settings.
type Profile[Settings any] struct {
	engine.Profile
	Settings Settings
}

// Named is a profile.
func Named[S any](name, about string, s S) Profile[S] {
	return Profile[S]{engine.Profile{Name: name, About: about}, s}
}

// OfClient is the profile as that of a client's options.
func (p Profile[S]) OfClient(client clients.Client) Profile[S] {
	p.Client = string(client)
	return p
}

// Infos are the profiles without their settings.
func Infos[S any](profiles []Profile[S]) []engine.Profile {
	infos := make([]engine.Profile, len(profiles))
	for i, p := range profiles {
		infos[i] = p.Profile
	}
	return infos
}

// Find returns the settings of the profile of that name; "" is the first. With
// an error they are the first's, so that the rest can be checked too.
func Find[S any](profiles []Profile[S], name string) (S, error) {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		if p.Name == name || name == "" && i == 0 {
			return p.Settings, nil
		}
		names[i] = p.Name
	}

	return profiles[0].Settings, fmt.Errorf("unknown profile %q: use one of %s", name,
		strings.Join(names, ", "))
}

// Resolve returns the settings of o, its profile's changed by overrides of options, and names what
// is wrong with o.
func Resolve[S any](
	info engine.Info, profiles []Profile[S], o engine.Options, options func(*S) []Option,
) (s S, errs []error) {
	s, err := Find(profiles, o.Profile)
	errs = append(Check(info, o), Override(options(&s), o.Overrides)...)
	if err != nil {
		errs = append(errs, err)
	}
	return s, errs
}

// Effective are the exported fields of settings, a struct, by their names or the names that their
// tags have under the key effective.
func Effective(settings any) map[string]string {
	options := map[string]string{}
	of := reflect.ValueOf(settings)
	for i := range of.NumField() {
		if field := of.Type().Field(i); field.IsExported() {
			options[cmp.Or(field.Tag.Get("effective"), field.Name)] = fmt.Sprint(of.Field(i))
		}
	}
	return options
}
