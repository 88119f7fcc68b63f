package watch

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/subject"
)

// logName is the file to which RocksDB logs.
const logName = "LOG"

const unknownCache = "the size of its cache is not known (%s): name it with --cache"

// CacheOf is the block cache of a process, from what it wrote when it opened its database; given is what the user says instead, 0: nothing.
func CacheOf(t *probe.Target, dir string, given int64) (c Cache) {
	switch of, _ := subject.EngineOf(t.Engine.Engine); {
	case of.BlockTables:
		c = loggedCache(t, dir)
	case of.LevelTables:
		c = Cache{MemTable: noMemTable, Absent: fmt.Sprintf(unknownCache, "its engine keeps no record of it")}
	default:
		c = optionsCache(t, dir)
	}
	if given > 0 {
		c.Bytes, c.Source, c.Absent = given, "--cache", ""
	}
	return c
}

// noMemTable: memtables are not in the cache.
func noMemTable(int64) int64 { return 0 }

// optionsCache is of Pebble: its OPTIONS file.
func optionsCache(t *probe.Target, dir string) Cache {
	var settings advise.Settings
	name, file, err := optionsfile.Read(dir)
	switch {
	case err == nil && name == "":
		err = errors.New("there is no OPTIONS file")
	case err == nil:
		settings, err = advise.SettingsOf(file)
	}
	c := Cache{}
	readOnly := err == nil && olderThan(filepath.Join(dir, name), t)
	if err == nil && !readOnly {
		c.MemTable = settings.MemTables(advise.Writes{}).Each
	}
	switch {
	case err != nil:
		c.Absent = fmt.Sprintf(unknownCache, err)
	case readOnly:
		c.Absent = fmt.Sprintf(unknownCache, name+" is older than the process, which has opened the database for reading only")
	default:
		c.Bytes, c.Source = settings.CacheBytes, name
	}
	return c
}

// loggedCache is of RocksDB: its LOG, to which it writes its options when it opens a database, for each family.
func loggedCache(t *probe.Target, dir string) Cache {
	c := Cache{MemTable: noMemTable}
	logged, err := readLog(filepath.Join(dir, logName))
	var caches []pooledCache
	for _, of := range logged.caches {
		caches = append(caches, *of)
	}
	switch {
	case err != nil:
		c.Absent = fmt.Sprintf(unknownCache, err)
	case olderThan(filepath.Join(dir, logName), t):
		c.Absent = fmt.Sprintf(unknownCache, logName+" is older than the process, which logs elsewhere")
	case len(caches) != 1:
		c.Absent = fmt.Sprintf(unknownCache, fmt.Sprintf("%s tells of %s", logName, unit.Plural(len(caches), "cache")))
	case caches[0] != pooledCache{"LRUCache", caches[0].bytes, 0.5, 0}:
		c.Absent = fmt.Sprintf("its cache is of a kind that is not modelled (%+v)", caches[0])
	default:
		c.Bytes, c.Source = caches[0].bytes, logName
	}
	return c
}

// pooledCache is what RocksDB logs of a block cache: for high and for low priority it has shares.
type pooledCache struct {
	Kind      string
	bytes     int64
	High, Low float64
}

// databaseLog is what the LOG of a database tells of its last opening.
type databaseLog struct {
	version string
	caches  map[string]*pooledCache // by their addresses: families can share one
}

func readLog(path string) (log databaseLog, err error) {
	file, err := os.Open(path)
	if err != nil {
		return log, err
	}
	defer file.Close() // read only
	var at *pooledCache
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if _, version, is := strings.Cut(lines.Text(), "RocksDB version: "); is {
			log, at = databaseLog{version, map[string]*pooledCache{}}, nil
			continue
		}
		option, value, is := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		if option = strings.TrimSpace(option); is && option == "block_cache" && log.caches != nil {
			at = new(pooledCache)
			log.caches[value] = at
		}
		if at == nil {
			continue
		}
		var failed error
		switch option {
		case "block_cache_name":
			at.Kind = value
		case "capacity":
			at.bytes, failed = strconv.ParseInt(value, 10, 64)
		case "high_pri_pool_ratio":
			at.High, failed = strconv.ParseFloat(value, 64)
		case "low_pri_pool_ratio":
			at.Low, failed = strconv.ParseFloat(value, 64)
		case "persistent_cache":
			at = nil // what follows is not of the cache
		}
		err = errors.Join(err, failed)
	}
	return log, err
}

// olderThan reports whether a file was written before the process began.
func olderThan(path string, t *probe.Target) bool {
	info, err := os.Stat(path)
	started, err2 := t.Started()
	const granularity = time.Second // of both times
	return err == nil && err2 == nil && info.ModTime().Add(granularity).Before(started)
}
