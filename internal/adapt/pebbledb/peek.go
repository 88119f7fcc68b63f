package pebbledb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/statelab/statelab/engine"
)

// Found is what a directory holds.
type Found struct {
	FormatMajorVersion uint64 // 1 for the oldest
	// Engine is the adapter for it: pebble1 below format 13, which v2 no longer
	// reads, and pebble2 from there.
	Engine string
}

// FirstFormatOfV2 is the oldest format Pebble v2 opens.
const FirstFormatOfV2 = 13

const formatMarker = "marker.format-version."

// Peek tells what dir holds by its file names alone, without opening a
// database. Any other directory is an engine.NotADatabaseError. Where the process
// that holds the database replaces a file meanwhile, it looks again.
func Peek(dir string) (Found, error) {
	for attempt := 1; ; attempt++ {
		found, err := peek(dir)
		if !errors.Is(err, fs.ErrNotExist) || attempt == vanishedRetries {
			return found, err
		}
	}
}

func peek(dir string) (Found, error) {
	not := func(why string) (Found, error) {
		return Found{}, &engine.NotADatabaseError{Dir: dir, Why: why}
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return not("there is no such directory")
	}
	if err != nil {
		return Found{}, fmt.Errorf("look into %s: %w", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	format, err := newestMarker(names, formatMarker)
	switch {
	case err != nil:
		return not(err.Error())
	case format != "":
		version, err := strconv.ParseUint(format, 10, 32)
		if err != nil {
			return not("its format marker is unreadable: " + format)
		}
		name := "pebble1"
		if version >= FirstFormatOfV2 {
			name = "pebble2"
		}
		return Found{version, name}, nil
	case !slices.Contains(names, "CURRENT"):
		if len(names) == 0 {
			return not("it is empty")
		}
		return not("it has no CURRENT file")
	}
	// LevelDB and RocksDB have a CURRENT too; the options file tells.
	pebble, err := writtenByPebble(dir, names)
	if err != nil {
		return Found{}, err
	}
	if !pebble {
		return not("it has a CURRENT file but no options file of Pebble: another engine wrote it")
	}
	return Found{1, "pebble1"}, nil
}

// newestMarker returns the value of an atomic marker: of the files
// prefix.<iteration>.<value> the one of the highest iteration.
func newestMarker(names []string, prefix string) (value string, err error) {
	newest := int64(-1)
	for _, name := range names {
		rest, is := strings.CutPrefix(name, prefix)
		if !is {
			continue
		}
		iteration, v, is := strings.Cut(rest, ".")
		n, err := strconv.ParseInt(iteration, 10, 63)
		if !is || err != nil {
			return "", fmt.Errorf("unreadable marker file %s", name)
		}
		if n > newest {
			newest, value = n, v
		}
	}
	return value, nil
}

// maxOptionsBytes bounds what is read of an options file.
const maxOptionsBytes = 1 << 20

func writtenByPebble(dir string, names []string) (found bool, err error) {
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		found, err := hasPebbleVersion(filepath.Join(dir, name))
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func hasPebbleVersion(path string) (found bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("read options file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewScanner(io.LimitReader(file, maxOptionsBytes))
	for lines.Scan() {
		if strings.HasPrefix(strings.TrimSpace(lines.Text()), "pebble_version") {
			return true, nil
		}
	}
	return false, lines.Err()
}
