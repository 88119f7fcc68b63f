package commandline

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/setting"
)

// Gone is what to say of args that name a command, or one of its flags, which is called otherwise now or was removed; "" of others.
func Gone(args []string, commands map[string]string, flags map[string]map[string]string) string {
	words := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !isWord(arg) })
	if len(words) > 1 && words[0] == "help" {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if text, is := flags[words[0]][flag]; is {
			return text
		}
	}
	return commands[words[0]]
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
