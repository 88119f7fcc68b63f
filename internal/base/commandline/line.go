package commandline

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
)

// Line is a command line that is checked: all that is wrong with it is told together.
type Line struct{ setting.Mistakes }

// Readable notes a path that is not there, as it was typed; flag is "" for an argument.
func (l *Line) Readable(flag, path string) bool { return l.Present(flag, path, engine.CodeNotFound) }

// NoArguments notes arguments of a command that takes none.
func (l *Line) NoArguments(args []string) {
	for _, arg := range args {
		l.Add("%q: unexpected argument; a value follows its flag, as in --db DIR", arg)
	}
}

// One reports whether there is one argument, a path that is there; asked says what to name.
func (l *Line) One(args []string, asked string) bool {
	if len(args) != 1 {
		l.Add("name one %s", asked)
		return false
	}
	return l.Readable("", args[0])
}

// Typed are the flags that were given, of those named; none named: of all.
func Typed(flags *pflag.FlagSet, names ...string) (given []string) {
	flags.Visit(func(flag *pflag.Flag) {
		if len(names) == 0 || slices.Contains(names, flag.Name) {
			given = append(given, flag.Name)
		}
	})
	return given
}

// Refuse notes the flags that were given, of those named.
func (l *Line) Refuse(flags *pflag.FlagSet, why string, names ...string) {
	for _, flag := range Typed(flags, names...) {
		l.Add("--%s: %s", flag, why)
	}
}

// NewFile checks the path of a file to make, and returns it in full; before is what a mistake begins with. force, where the verb has
// that flag, lets it replace one.
func (l *Line) NewFile(before, path string, force *bool) string {
	err := output.File(path, Replaces(force))
	switch {
	case engine.CodeOf(err) == engine.CodeExists && force != nil:
		l.Add("%s%v, or add --force to replace it", before, err)
	case err != nil:
		l.Add("%s%v", before, err)
	}
	return output.Absolute(path)
}

// NewFileIf is NewFile for the value of a flag that may be left out.
func (l *Line) NewFileIf(flag, path string, force *bool) {
	if path != "" {
		l.NewFile("--"+flag+": ", path, force)
	}
}

// NewOut checks the file of --out, which never replaces one, and returns it in full.
func (l *Line) NewOut(out, example string) string {
	if out == "" {
		l.Add("--out is missing: name a new file (example: --out %s)", example)
		return ""
	}
	return l.NewFile("--out: ", out, nil)
}

// NewFolder checks --out of a verb that makes a whole folder, and returns it in full.
func (l *Line) NewFolder(out, example string) string {
	if out == "" {
		l.Add("--out is missing: name a new folder (example: --out %s)", example)
	} else if err := output.NewFolder(out); err != nil {
		l.Add("--out: %v", err)
	}
	return output.Absolute(out)
}

// Results checks --out of a verb that adds to a folder, where it is given.
func (l *Line) Results(out string) {
	if out == "" {
		return
	}
	if err := output.Folder(out); err != nil {
		l.Add("--out: %v", err)
	}
}

// Replaces is what --force allows; nil is a verb without that flag.
func Replaces(force *bool) output.Replaces {
	if force != nil && *force {
		return output.Anything
	}
	return nil
}
