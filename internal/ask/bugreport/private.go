package bugreport

import (
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/statelab/statelab/internal/base/output"
)

// Private is what must not be in a report.
type Private struct {
	Hosts   []string // names of the machine
	Users   []string // names of its user
	Folders []string // paths that a text loses whole, whatever is in their names
}

// ThisUser is what is private to whoever started this program, on this machine.
func ThisUser() (p Private) {
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		p.Hosts = append(p.Hosts, name, short)
	}

	if u, err := user.Current(); err == nil {
		p.Users, p.Folders = append(p.Users, u.Username), append(p.Folders, u.HomeDir)
	}

	if home, err := os.UserHomeDir(); err == nil {
		p.Users, p.Folders = append(p.Users, filepath.Base(home)), append(p.Folders, home)
	}

	for _, variable := range []string{"USER", "LOGNAME", "SUDO_USER", "USERNAME"} {
		p.Users = append(p.Users, os.Getenv(variable))
	}

	for _, variable := range []string{"HOSTNAME", "SLURMD_NODENAME"} {
		p.Hosts = append(p.Hosts, os.Getenv(variable))
	}

	return p
}

// usual are names that tell nothing about anybody.
var usual = []string{"", ".", "/", "root", "localhost", "(none)", "statelab"}

var (
	// absolute is a path that begins at the root or on a drive; a rate such as "reads/Get" is none.
	absolute = regexp.MustCompile(`(^|[\s"'(=:,])((?:[A-Za-z]:\\|/)[^\s"',;:()]+)`)
	// public are paths that are the same on every machine.
	public = regexp.MustCompile(
		`^/(proc/(self|sys|[a-z]+)|sys/(kernel|block|class|fs|devices)|dev/(null|shm))(/|$)`)
	// hexadecimal may be a key, unless it is a short number.
	hexadecimal = regexp.MustCompile(`\b(0x)?[0-9a-fA-F]{8,}`)
)

// withoutKeys replaces what may be a key of a database, as errors print them.
func withoutKeys(text string) string {
	return hexadecimal.ReplaceAllStringFunc(text, func(found string) string {
		if len(found) < 16 && strings.Trim(found, "0123456789") == "" {
			return found
		}
		return "KEY"
	})
}

// cleaner makes the function that a text loses with what is private.
func (p Private) cleaner() func(string) string {
	var folders []string
	for _, folder := range p.Folders {
		if folder == "" {
			continue
		}

		full := output.Absolute(folder)
		folders = append(folders, full)
		if real, err := filepath.EvalSymlinks(full); err == nil {
			folders = append(folders, real)
		}
	}

	// The longest first: a folder below another is replaced as a whole.
	slices.SortFunc(folders, func(a, b string) int { return len(b) - len(a) })
	names := words(append(slices.Clone(p.Hosts), p.Users...))
	return func(text string) string {
		for _, folder := range folders {
			if len(folder) > len("/") {
				text = strings.ReplaceAll(text, folder, "FOLDER")
			}
		}

		text = absolute.ReplaceAllStringFunc(text, func(found string) string {
			parts := absolute.FindStringSubmatch(found)
			if public.MatchString(parts[2]) {
				return found
			}
			return parts[1] + "PATH"
		})

		for _, name := range names {
			text = name.ReplaceAllString(text, "${1}NAME${2}")
		}

		return text
	}
}

// words find names: those of few letters as words alone, since they are parts of others.
func words(names []string) (found []*regexp.Regexp) {
	const few = 4
	for _, name := range names {
		if slices.Contains(usual, strings.ToLower(name)) {
			continue
		}

		pattern := "(?i)()" + regexp.QuoteMeta(name) + "()"
		if len(name) <= few {
			pattern = `(?i)(^|[^\pL\pN])` + regexp.QuoteMeta(name) + `($|[^\pL\pN])`
		}
		found = append(found, regexp.MustCompile(pattern))
	}

	return found
}
