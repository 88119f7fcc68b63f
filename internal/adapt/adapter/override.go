package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/spelling"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
)

// Option is an engine's option that can be overridden. Of engine.Option, Default is what the
// settings held from which it was made.
type Option struct {
	engine.Option
	Example string // a legal value
	Set     func(text string) error
}

// Means is o with what it decides.
func (o Option) Means(about string) Option {
	o.About = about
	return o
}

// OptionsOf describes the options of settings, with the defaults of the first profile.
func OptionsOf[S any](profiles []Profile[S], options func(*S) []Option) []engine.Option {
	var described []engine.Option
	for _, o := range options(&profiles[0].Settings) {
		described = append(described, o.Option)
	}
	return described
}

// NewOption is an option whose values and default are described in words.
func NewOption(name, example, values, initial string, set func(text string) error) Option {
	return Option{engine.Option{Name: name, Values: values, Default: initial}, example, set}
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
		errs = append(errs, Unknown(name, names))
	}

	return errs
}

// Unknown is the error of an option that is none of those that are legal.
func Unknown(name string, legal []string) error {
	near := ""
	if likely := spelling.Nearest(legal, name); likely != "" {
		near = fmt.Sprintf(" (did you mean %s?)", likely)
	}
	return engine.Fail(engine.CodeOption, "unknown option %q%s: use one of %s", name, near,
		strings.Join(legal, ", "))
}

// set is a default as text; "", where 0 leaves it to the engine.
func set(n int64, text func(int64) string) string {
	if n == 0 {
		return ""
	}
	return text(n)
}

// Size is an option in bytes of at least least.
func Size[N int | int64 | uint64](name, example string, to *N, minimum N) Option {
	values := "a size"
	if minimum > 0 {
		values += " of at least " + unit.ExactBytes(int64(minimum))
	}

	initial := set(int64(*to), unit.ExactBytes)
	return NewOption(name, example, values, initial, func(text string) error {
		n, err := unit.ParseBytes(unit.WithUnit(text))
		if err != nil {
			return err
		}

		if n < int64(minimum) || n > math.MaxInt {
			return fmt.Errorf("it must be at least %d bytes", minimum)
		}

		*to = N(n)
		return nil
	})
}

// Count is an option that is a number of at least least.
func Count(name, example string, to *int, minimum int) Option {
	values := fmt.Sprintf("a number of at least %d", minimum)
	return NewOption(name, example, values, strconv.Itoa(*to), func(text string) error {
		n, err := unit.ParseCount(text)
		if err != nil {
			return err
		}

		if n > math.MaxInt32 || int(n) < minimum {
			return fmt.Errorf("it must be at least %d", minimum)
		}

		*to = int(n)
		return nil
	})
}

// Switch is an option that is true or false.
func Switch(name string, to *bool) Option {
	initial := strconv.FormatBool(*to)
	return NewOption(name, "true", "true or false", initial, func(text string) (err error) {
		*to, err = strconv.ParseBool(text)
		return err
	})
}

// Choice is an option that is one of a few words; the first is the example.
func Choice(name string, to *string, words ...string) Option {
	legal := "one of " + strings.Join(words, ", ")
	return NewOption(name, words[0], legal, *to, func(text string) error {
		if !slices.Contains(words, text) {
			return errors.New("it must be " + legal)
		}
		*to = text
		return nil
	})
}

// PowerOfTwo is an option in bytes that is a power of two between least and most.
func PowerOfTwo(name, example string, to *int, minimum, maximum int) Option {
	legal := fmt.Sprintf("a power of two from %d to %d", minimum, maximum)
	initial := set(int64(*to), unit.ExactBytes)
	return NewOption(name, example, legal, initial, func(text string) error {
		n, err := unit.ParseBytes(unit.WithUnit(text))
		if err != nil {
			return err
		}

		if n < int64(minimum) || n > int64(maximum) || n&(n-1) != 0 {
			return errors.New("it must be " + legal)
		}

		*to = int(n)
		return nil
	})
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
