package optionsfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// LogName is the file to which RocksDB logs its options when it opens a database.
const LogName = "LOG"

// Log is what the LOG of a RocksDB database tells of the program that opened the database last:
// among others, settings that its OPTIONS file lacks.
type Log struct {
	Version string       // of RocksDB
	Caches  []BlockCache // of all column families, each once: families can share one

	RowCacheBytes  int64 // 0: there is no row cache, or it is not known
	OpenFiles      int   // max_open_files; 0: not known; below 0: no limit
	TableShardBits int   // table_cache_numshardbits; 0: not known
}

// BlockCache is a block cache of RocksDB, with the shares of it that blocks of high and of low
// priority have.
type BlockCache struct {
	Kind      string
	Bytes     int64
	HighShare float64 // high_pri_pool_ratio; 0 also where the LOG tells none
	LowShare  float64 // low_pri_pool_ratio, likewise

	highKnown bool
	address   string // of the owner's, by which families name it
}

// OnlyCache is the block cache of all column families; false if there are several, or none is
// known.
func (l *Log) OnlyCache() (only BlockCache, is bool) {
	if len(l.Caches) != 1 {
		return BlockCache{}, false
	}
	return l.Caches[0], true
}

// HighPriorityShare is the share that blocks of high priority have of the first cache that tells
// it.
func (l *Log) HighPriorityShare() (share float64, known bool) {
	for _, c := range l.Caches {
		if c.highKnown {
			return c.HighShare, true
		}
	}
	return 0, false
}

// ReadLog reads the LOG in dir. What it does not tell is not known; what is not a number is an
// error, besides which the rest holds.
func ReadLog(dir string) (l Log, err error) {
	file, err := os.Open(filepath.Join(dir, LogName))
	if err != nil {
		return l, err
	}

	defer file.Close() // read only
	return parseLog(file)
}

// parseLog reads entries that begin with a time, such as
//
//	2026/11/21-13:27:13.132055 139858 Options.max_open_files: -1
//
// and the options of table factories, one on a line that begins with a space. Column families are
// created, and logged, at any time, so all of it is read.
func parseLog(from io.Reader) (l Log, err error) {
	const longest = 64 << 10 // of a line that tells an option; the rest of a longer one is nothing
	lines := bufio.NewReaderSize(from, longest)
	at := -1 // the cache whose options come
	for within := false; ; {
		line, more, failed := lines.ReadLine()
		if failed == io.EOF {
			return l, err
		} else if failed != nil {
			return l, errors.Join(err, failed)
		}

		begins := !within
		within = more
		switch {
		case !begins || len(line) == 0:
		case line[0] == ' ':
			name, value, _ := strings.Cut(string(line), ":")
			at, failed = l.tableOption(at, strings.TrimSpace(name), strings.TrimSpace(value))
		case bytes.Contains(line, []byte("RocksDB version: ")):
			_, version, _ := strings.Cut(string(line), "RocksDB version: ")
			l, at = Log{Version: version}, -1 // it was opened once more
		default:
			_, option, _ := bytes.Cut(line, []byte("Options."))
			name, value, is := bytes.Cut(option, []byte(":"))
			if is {
				failed = l.databaseOption(string(name), strings.TrimSpace(string(value)))
			}
		}

		err = errors.Join(err, failed)
	}
}

// databaseOption takes an option of the whole database.
func (l *Log) databaseOption(name, value string) (err error) {
	switch name {
	case "row_cache":
		if value != "None" {
			l.RowCacheBytes, err = strconv.ParseInt(value, 10, 64)
		}
	case "max_open_files":
		l.OpenFiles, err = strconv.Atoi(value)
	case "table_cache_numshardbits":
		l.TableShardBits, err = strconv.Atoi(value)
	}

	return unreadable(name, err)
}

// tableOption takes an option of a table factory, or of its block cache, which is that of number
// at; below 0: of none. It returns the cache whose options can follow.
func (l *Log) tableOption(at int, name, value string) (now int, err error) {
	switch name {
	case "block_cache":
		at = slices.IndexFunc(l.Caches, func(c BlockCache) bool { return c.address == value })
		if at < 0 {
			l.Caches, at = append(l.Caches, BlockCache{address: value}), len(l.Caches)
		}
		return at, nil
	case "persistent_cache":
		return -1, nil // what follows is not of the block cache
	}

	if at < 0 {
		return at, nil
	}

	cache := &l.Caches[at]
	switch name {
	case "block_cache_name":
		cache.Kind = value
	case "capacity":
		cache.Bytes, err = strconv.ParseInt(value, 10, 64)
	case "high_pri_pool_ratio":
		cache.HighShare, err = strconv.ParseFloat(value, 64)
		cache.highKnown = err == nil
	case "low_pri_pool_ratio":
		cache.LowShare, err = strconv.ParseFloat(value, 64)
	}

	return at, unreadable(name, err)
}

// unreadable is an option's value that is not a number.
func unreadable(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: option %s: %w", LogName, name, err)
}
