//go:build cgo

package rocksdb

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxLogBytes is far beyond where RocksDB has logged its options.
const maxLogBytes = 1 << 20

// readEffective reads the options that RocksDB logged when it opened dir for
// writing.
func readEffective(dir string) (options map[string]string, err error) {
	file, err := os.Open(filepath.Join(dir, "LOG"))
	if err != nil {
		return nil, fmt.Errorf("read the options in force: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return parseEffective(io.LimitReader(file, maxLogBytes))
}

// inForce are the options as the database's OPTIONS file has them and as they were given. RocksDB
// logs nothing of a database that it opens for reading only, and tells them no other way.
func (d *db) inForce() map[string]string {
	s := &d.settings
	options := d.kept.inForce(d.own().name, s.layout)
	options[tableOption] = cmp.Or(s.chosen, defaultFamily)
	options["use_direct_reads"], options["max_open_files"] = strconv.FormatBool(s.direct),
		strconv.Itoa(s.handles)
	return options
}

// parseEffective reads lines such as
//
//	2026/11/21-13:27:13.132055 139858 Options.max_open_files: -1
//	  block_size: 4096
//
// the second kind in the table factory's block. What comes first counts: other
// column families follow.
func parseEffective(log io.Reader) (map[string]string, error) {
	options := map[string]string{}
	inTable := false
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		line := lines.Text()
		_, option, is := strings.Cut(line, " Options.")
		if is {
			inTable = false
		} else if _, first, begins := strings.Cut(line, " table_factory options: "); begins {
			option, inTable = first, true
		} else if inTable && strings.HasPrefix(line, "  ") {
			option = line
		} else {
			inTable = false
			continue
		}

		name, value, is := strings.Cut(option, ":")
		if !is {
			continue
		}

		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, have := options[name]; !have && !strings.HasPrefix(value, "0x") { // not addresses
			options[name] = value
		}
	}

	return options, lines.Err()
}
