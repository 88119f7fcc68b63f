package adapter

import (
	"fmt"
	"strings"

	"github.com/statelab/statelab/engine"
)

// Profile is a named set of an engine's settings.
type Profile[Settings any] struct {
	engine.Profile
	Settings Settings
}

// Named is a profile.
func Named[S any](name, about string, s S) Profile[S] {
	return Profile[S]{engine.Profile{Name: name, About: about}, s}
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
	return profiles[0].Settings, fmt.Errorf("unknown profile %q: use one of %s", name, strings.Join(names, ", "))
}

// Resolve returns the settings of o, its profile's changed by overrides of options, and names what is
// wrong with o.
func Resolve[S any](info engine.Info, profiles []Profile[S], o engine.Options, options func(*S) []Option) (s S, errs []error) {
	s, err := Find(profiles, o.Profile)
	errs = append(Check(info, o), Override(options(&s), o.Overrides)...)
	if err != nil {
		errs = append(errs, err)
	}
	return s, errs
}
