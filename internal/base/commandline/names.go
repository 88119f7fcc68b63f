package commandline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
)

// Names are those that commands and flags had in earlier releases.
type Names struct {
	Commands     map[string]string            // now: a command with flags, perhaps
	Flags        map[string]map[string]string // by the command that has them now
	Removed      map[string]string            // commands, with what to do instead
	RemovedFlags map[string]map[string]string // of commands, with what to do instead
}

// command is the place of the command in args, behind help if help is asked for; -1: there is none.
func command(args []string) (at int, helps bool) {
	at = slices.IndexFunc(args, isWord)
	if helps = at >= 0 && args[at] == "help"; helps {
		next := slices.IndexFunc(args[at+1:], isWord)
		if next < 0 {
			return -1, true
		}
		at += 1 + next
	}
	return at, helps
}

// Current are args with the names of this release, and what to tell the user about those that
// were replaced.
func (n Names) Current(args []string) (now, notes []string) {
	now = slices.Clone(args)
	at, helps := command(now)
	if at < 0 {
		return now, nil
	}
	note := func(before, after string) {
		notes = append(notes, fmt.Sprintf("%q is now %q; the old name works until the next release", before, after))
	}
	if name, is := n.Commands[now[at]]; is {
		note("statelab "+now[at], "statelab "+name)
		words := strings.Fields(name)
		if helps { // help names commands alone
			words = slices.DeleteFunc(words, func(word string) bool { return !isWord(word) || word == "node" })
		}
		now = slices.Replace(now, at, at+1, words...)
	}
	if at >= len(now) {
		return now, notes
	}
	for before, after := range n.Flags[now[at]] {
		for i, arg := range now {
			name, value, together := strings.Cut(arg, "=")
			if name != "--"+before {
				continue
			}
			note(name, "--"+after)
			if now[i] = "--" + after; together {
				now[i] += "=" + value
			}
		}
	}
	return now, notes
}

// Gone is what to say of args that name a command or a flag that was removed; "" of others.
func (n Names) Gone(args []string) string {
	at, _ := command(args)
	if at < 0 {
		return ""
	}
	for flag, text := range n.RemovedFlags[args[at]] {
		if slices.ContainsFunc(args, func(arg string) bool { return arg == "--"+flag || strings.HasPrefix(arg, "--"+flag+"=") }) {
			return text
		}
	}
	return n.Removed[args[at]]
}

func isWord(arg string) bool { return !strings.HasPrefix(arg, "-") }

// AsTyped is a message with paths as args name them: what worked knows full paths only.
func AsTyped(message string, args []string) string {
	for _, arg := range args {
		if _, value, is := strings.Cut(arg, "="); is {
			arg = value
		}
		if arg != "" {
			message = strings.ReplaceAll(message, output.Absolute(arg), arg)
		}
	}
	return message
}

// NamesNothing reports whether err is that one of args names a path that does not exist.
func NamesNothing(err error, args []string) bool {
	at, is := errors.AsType[*fs.PathError](err)
	return is && slices.ContainsFunc(args, func(arg string) bool {
		_, value, _ := strings.Cut(arg, "=")
		full := output.Absolute(at.Path)
		return full == output.Absolute(arg) || value != "" && full == output.Absolute(value)
	})
}

// NotUTF8 refuses paths that plans and result folders, which are JSON, cannot name: a
// runner would be sent to another path.
func NotUTF8(args []string) error {
	here, err := os.Getwd()
	if err != nil {
		return setting.Usage("find the current directory: %v", err)
	}
	for _, path := range append([]string{here}, args...) {
		if !utf8.ValidString(path) {
			return setting.Usage("%q is not valid UTF-8: rename the file or folder, or name it through a link", path)
		}
	}
	return nil
}
