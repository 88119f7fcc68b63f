// Package optionsfile reads the OPTIONS files that RocksDB and Pebble write into a database: what
// the database says of itself.
//
// Non-goals: what the options mean. RocksDB itself reads its own (engines/rocksdb).
package optionsfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/statelab/statelab/internal/base/livedir"
)

// maxBytes bounds what is read of a foreign file; those of databases with tens of families have
// a few hundred KB.
const maxBytes = 16 << 20

// Section is a part of the file, such as [CFOptions "default"].
type Section struct {
	Kind   string // CFOptions
	Name   string // default; "" where the part has none
	Values map[string]string
}

// Newest is the name of the newest OPTIONS file in dir; "" if there is none. A listing can miss a
// file that is being replaced and its successor, so one without any is made again.
func Newest(dir string) (name string, err error) {
	const listings = 3
	for range listings {
		if name, err = newest(dir); err != nil || name != "" {
			break
		}
	}
	return name, err
}

func newest(dir string) (name string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}

	highest := int64(-1)
	for _, entry := range entries {
		number, is := strings.CutPrefix(entry.Name(), "OPTIONS-")
		if n, err := strconv.ParseInt(number, 10, 63); is && err == nil && n > highest {
			highest, name = n, entry.Name()
		}
	}

	return name, nil
}

// errUnwritten is that of a file which its writer has created, but not written yet.
var errUnwritten = errors.New("it is empty")

// Read parses the newest OPTIONS file in dir; no name and no sections if there is none. The owner
// of the database may replace it meanwhile.
func Read(dir string) (name string, sections []Section, err error) {
	err = livedir.Retry(dir, func() (err error) {
		if name, sections, err = read(dir); err == nil && name != "" && len(sections) == 0 {
			err = errUnwritten
		}
		return err
	}, errUnwritten)
	if err == errUnwritten { // and nobody writes it
		err = nil
	}

	return name, sections, err
}

func read(dir string) (name string, sections []Section, err error) {
	if name, err = Newest(dir); err != nil || name == "" {
		return "", nil, err
	}

	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return "", nil, err
	}

	sections, err = Parse(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return name, nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}

	return name, sections, nil
}

// Parse reads the file's sections in their order. Lines that are neither the beginning of a
// section nor name=value are skipped.
func Parse(r io.Reader) (sections []Section, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxBytes))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			kind, name, _ := strings.Cut(strings.Trim(line, "[]"), ` "`)
			name = escapes().Replace(strings.TrimSuffix(name, `"`))
			sections = append(sections, Section{kind, name, map[string]string{}})
			continue
		}

		if key, value, is := strings.Cut(line, "="); is && len(sections) > 0 &&
			!strings.HasPrefix(line, "#") {
			last := sections[len(sections)-1]
			value = strings.TrimSpace(value)
			// RocksDB's
			if strings.HasSuffix(last.Kind, "DBOptions") || last.Kind == "CFOptions" ||
				strings.HasPrefix(last.Kind, "TableOptions") {
				value = escapes().Replace(value)
			}

			last.Values[strings.TrimSpace(key)] = value
		}
	}

	return sections, lines.Err()
}

// escapes are RocksDB's in its OPTIONS files.
func escapes() *strings.Replacer {
	return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\\`, `\`, `\:`, ":", `\#`, "#")
}
