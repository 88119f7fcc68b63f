package setting

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
)

// Written knows how a setting is named where it was written: in a file.
type Written interface {
	// Place begins a mistake about the setting of a flag.
	Place(flag string) string
	// Name is how the setting of a flag is written there, with a value, or "" for none.
	Name(flag, value string) string
}

// Flag is a flag as it is typed.
func Flag(flag, value string) string {
	if value == "" {
		return "--" + flag
	}
	return "--" + flag + " " + value
}

// Mistakes collects what is wrong with a command line or a file, each once.
type Mistakes struct {
	Found []string
	Why   *engine.Failure // of the first file that cannot be read
	Typed bool            // not all of it is files that cannot be read
	In    Written         // the file that settings were read from; nil: flags were typed
}

// Name is how a setting is written where the user would change it: --cache 1%, or
// subject.cache: 1% in a file.
func (m *Mistakes) Name(flag, value string) string {
	if m.In == nil {
		return Flag(flag, value)
	}
	return m.In.Name(flag, value)
}

// At notes a mistake about the setting of a flag; value is what it was set to, "" where the text
// says it.
func (m *Mistakes) At(flag, value, format string, args ...any) {
	m.Unread(flag, value, format, args...)
	m.Typed = true
}

// Add notes a mistake that is not about one setting.
func (m *Mistakes) Add(format string, args ...any) { m.At("", "", format, args...) }

// Unread notes a file or folder that cannot be read: no mistake in what was typed as far as
// anybody knows, unless it does not exist. flag "" names no setting.
func (m *Mistakes) Unread(flag, value, format string, args ...any) {
	for _, arg := range args {
		err, _ := arg.(error)
		f := failure.From(err)
		if f == nil || f.Code == "" || m.Why != nil && (m.Why.Remedy != "" || f.Remedy == "") {
			continue
		}

		if f.Code == engine.CodeMissing {
			f.Code = engine.CodeNotFound
		}

		m.Why = f
	}

	text := fmt.Sprintf(format, args...)
	if flag != "" {
		text = m.Name(flag, value) + ": " + text
	}

	if m.In != nil {
		text = m.In.Place(flag) + text
	}

	if !slices.Contains(m.Found, text) {
		m.Found = append(m.Found, text)
	}
}

// Present notes a path that is not there, with the code that says what is missing.
func (m *Mistakes) Present(flag, path string, missing engine.Code) bool {
	_, err := os.Stat(path)
	if err == nil {
		return true
	}

	if at, is := errors.AsType[*fs.PathError](err); is {
		err = at.Err
	}

	if errors.Is(err, fs.ErrNotExist) {
		err = engine.Fail(missing, "%w", err)
	}

	m.Unread(flag, "", "%s: %v", path, err)
	return false
}

// All notes mistakes about the setting of a flag, "" for none.
func (m *Mistakes) All(flag string, errs []error) {
	for _, err := range errs {
		m.At(flag, "", "%v", err)
	}
}

// CheckSetting notes what is wrong with the text of a setting.
func (m *Mistakes) CheckSetting(flag string, s Setting) {
	for _, err := range s.Errs() {
		if wrong, is := errors.AsType[*Mistake](err); is && wrong.Value != "" {
			m.At(flag, fmt.Sprintf("%q", wrong.Value), "%s", wrong.Text)
		} else {
			m.At(flag, "", "%v", err)
		}
	}
}

// UsageError is every mistake on a command line or in a file at once.
type UsageError struct{ Mistakes }

// MaxShown are the mistakes that an error lists; more do not help.
const MaxShown = 30

// Error lists all mistakes, one per line if there are several.
func (e UsageError) Error() string {
	if len(e.Found) == 1 {
		return e.Found[0]
	}

	shown := e.Found
	if len(shown) > MaxShown { // of a long list, or of a file that is no experiment
		shown = append(slices.Clone(shown[:MaxShown]),
			fmt.Sprintf("and %d more", len(e.Found)-MaxShown))
	}

	return fmt.Sprintf("%d mistakes\n  %s", len(e.Found), strings.Join(shown, "\n  "))
}

// Err is nil if nothing is wrong.
func (m *Mistakes) Err() error {
	if len(m.Found) == 0 {
		return nil
	}

	f := &engine.Failure{Err: UsageError{*m}}
	if m.Typed {
		f.Code = engine.CodeUsage
	}

	if m.Why != nil {
		f.Remedy = m.Why.Remedy
		if !m.Typed || failure.OfName(m.Why.Code) {
			f.Code = m.Why.Code
		}
	}

	return f
}

// Usage is one mistake.
func Usage(format string, args ...any) error {
	m := new(Mistakes)
	m.Add(format, args...)
	return m.Err()
}

// Var declares a flag of one value with a default, outside of an experiment.
func Var[T any](
	flags *pflag.FlagSet, v *Value[T], kind Kind[T], name, value, about string,
) *pflag.Flag {
	One(v, kind).SetDefault(value)
	return flags.VarPF(v, name, "", about)
}

// ListVar is Var for several values.
func ListVar[T any](
	flags *pflag.FlagSet, v *Value[T], kind Kind[T], name, value, about string,
) *pflag.Flag {
	Axis(v, kind).SetDefault(value)
	return flags.VarPF(v, name, "", about)
}

// Alias makes flags accept an earlier spelling of one of them. Help and completion do not show it,
// and whoever asks for the flag by either name finds it. A command line that normalizes all names
// in its own way afterwards calls KeepAliases.
func Alias(flags *pflag.FlagSet, earlier, now string) {
	flag := flags.Lookup(now)
	if flag.Annotations == nil {
		flag.Annotations = map[string][]string{}
	}

	flag.Annotations[earlierNames] = append(flag.Annotations[earlierNames], earlier)
	accept(flags, earlier, now)
}

// earlierNames is the annotation of a flag with its earlier spellings.
const earlierNames = "statelab_earlier_names"

// KeepAliases makes flags accept their earlier spellings again.
func KeepAliases(flags *pflag.FlagSet) {
	aliases := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		for _, earlier := range f.Annotations[earlierNames] {
			aliases[earlier] = f.Name
		}
	})

	for earlier, now := range aliases {
		accept(flags, earlier, now)
	}
}

func accept(flags *pflag.FlagSet, earlier, now string) {
	others := flags.GetNormalizeFunc()
	flags.SetNormalizeFunc(func(all *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == earlier {
			name = now
		}

		return others(all, name)
	})
}
