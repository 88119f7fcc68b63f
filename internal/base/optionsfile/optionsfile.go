// Package optionsfile reads the OPTIONS files that RocksDB and Pebble write into a database: what
// the database says of itself.
//
// Non-goals: what the options mean. RocksDB itself reads its own (engines/rocksdb).
package optionsfile

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// Newest is the name of the newest OPTIONS file in dir; "" if there is none.
func Newest(dir string) (name string, err error) {
	names, err := newestFirst(dir)
	if len(names) > 0 {
		name = names[0]
	}
	return name, err
}

// newestFirst are the names of the OPTIONS files in dir, by their numbers.
func newestFirst(dir string) (names []string, err error) {
	entries, err := livedir.ReadDir(dir, func(name string) bool {
		return strings.HasPrefix(name, prefix)
	})
	if err != nil {
		return nil, err
	}

	numbers := map[string]int64{}
	for _, entry := range entries {
		number, is := strings.CutPrefix(entry.Name(), prefix)
		if n, err := strconv.ParseInt(number, 10, 63); is && err == nil {
			numbers[entry.Name()] = n
			names = append(names, entry.Name())
		}
	}

	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numbers[b], numbers[a]) })
	return names, nil
}

const prefix = "OPTIONS-"

// errUnwritten is that of files which their writer has created, but not written yet.
var errUnwritten = errors.New("it is empty")

// Read parses the newest OPTIONS file in dir that is written; no sections if none is, and no name
// if none is there. The owner of the database may replace it meanwhile: it creates the next one,
// writes it, and then deletes the one before.
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
	names, err := newestFirst(dir)
	if err != nil || len(names) == 0 {
		return "", nil, err
	}

	for _, name := range names {
		if sections, err = parseFile(filepath.Join(dir, name)); err != nil || len(sections) > 0 {
			return name, sections, err
		}
	}

	return names[0], nil, nil
}

func parseFile(path string) (sections []Section, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}

	sections, err = Parse(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}

	return sections, nil
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
