// Package kvdblog turns the published logs of bench_kvdb, the tool of the study
// "Demystifying Blockchain KV Lookups", into sweep and run folders, so that its
// figures and ours stand in one picture.
//
// Only what a log says is taken: what it cannot tell is absent with the reason,
// what is doubtful is a warning, and totals that two lines of a log both give
// are held against each other.
// Non-goals: logs of other tools; correcting what the tool measured.
package kvdblog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/result"
)

// loadDir is the run folder of a dataset's Write log, beside the points.
const loadDir = "load"

var readLogName = regexp.MustCompile(`^RadmonRead_([0-9]+[KMB])_([0-9]+)M\.log$`)

// dataset is what one database's logs say, keyed by the keys in their names.
type dataset struct {
	keys    uint64
	text    string // "200M"
	reads   []logFile
	levels  []engine.Level
	written *writeLog
}

type logFile struct {
	name       string
	cacheBytes int64
	log        *readLog
}

// Import reads the logs in dir and writes a sweep folder per dataset below out,
// named after its keys ("200M"). It returns the folders, smallest dataset first. Nothing is written unless
// every log could be read.
func Import(dir fs.FS, out string) ([]string, error) {
	sets, err := readAll(dir)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, set := range sets {
		folder := filepath.Join(out, set.text)
		if err := set.write(folder); err != nil {
			return folders, fmt.Errorf("import the %s-key logs: %w", set.text, err)
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

// readAll parses every RadmonRead log with its properties and load logs.
func readAll(dir fs.FS) ([]*dataset, error) {
	names, err := fs.Glob(dir, "RadmonRead_*.log")
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	if len(names) == 0 {
		return nil, errors.New("no RadmonRead_<keys>_<cache>M.log here: these are what bench_kvdb's run_bench writes")
	}
	byKeys := map[string]*dataset{}
	for _, name := range names {
		m := readLogName.FindStringSubmatch(name)
		if m == nil {
			return nil, fmt.Errorf("%s: the name does not say keys and cache, as in RadmonRead_200M_135M.log", name)
		}
		set := byKeys[m[1]]
		if set == nil {
			if set, err = openDataset(dir, m[1]); err != nil {
				return nil, err
			}
			byKeys[m[1]] = set
		}
		file, err := openReadLog(dir, name, set.keys, m[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		set.reads = append(set.reads, file)
	}
	for _, set := range byKeys {
		slices.SortFunc(set.reads, func(a, b logFile) int { return cmp.Compare(a.cacheBytes, b.cacheBytes) })
	}
	return slices.SortedFunc(maps.Values(byKeys), func(a, b *dataset) int { return cmp.Compare(a.keys, b.keys) }), nil
}

// openDataset reads what is said of the database itself.
func openDataset(dir fs.FS, text string) (*dataset, error) {
	keys, err := unit.ParseCount(text)
	if err != nil || keys == 0 {
		return nil, fmt.Errorf("dataset %q: no number of keys", text)
	}
	set := &dataset{keys: keys, text: text}
	properties := "Properties_" + text + ".log"
	content, err := readFile(dir, properties)
	if err != nil {
		return nil, fmt.Errorf("the layout of the %s-key database: %w", text, err)
	}
	if set.levels, err = lsm.ParseProperties(bytes.NewReader(content)); err != nil {
		return nil, fmt.Errorf("%s: %w", properties, err)
	}
	load := "Write_" + text + ".log"
	content, err = readFile(dir, load)
	if errors.Is(err, fs.ErrNotExist) {
		return set, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the load of the %s-key database: %w", text, err)
	}
	if set.written, err = parseWriteLog(bytes.NewReader(content)); err != nil {
		return nil, fmt.Errorf("%s: %w", load, err)
	}
	if set.written.keys != keys {
		return nil, fmt.Errorf("%s: the log is of %d keys", load, set.written.keys)
	}
	return set, nil
}

// openReadLog reads one point and holds the log against its name.
func openReadLog(dir fs.FS, name string, keys uint64, mebibytes string) (logFile, error) {
	content, err := readFile(dir, name)
	if err != nil {
		return logFile{}, err
	}
	log, err := parseReadLog(bytes.NewReader(content))
	if err != nil {
		return logFile{}, err
	}
	cache, err := strconv.ParseInt(mebibytes, 10, 32)
	if err != nil || cache == 0 {
		return logFile{}, fmt.Errorf("%s MiB is not a cache size", mebibytes)
	}
	file := logFile{name: name, cacheBytes: cache << 20, log: log}
	if log.keys != keys {
		return logFile{}, fmt.Errorf("the log is of %d keys", log.keys)
	}
	// Both are rounded to two or three digits.
	if float64(log.cacheUsedBytes) > 1.1*float64(file.cacheBytes) {
		return logFile{}, fmt.Errorf("the log's cache holds %s at the end", unit.Bytes(log.cacheUsedBytes))
	}
	return file, nil
}

func readFile(dir fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxLogBytes {
		return nil, fmt.Errorf("%s: longer than %s: no log of this tool", name, unit.Bytes(maxLogBytes))
	}
	return fs.ReadFile(dir, name)
}

// write makes the sweep folder.
func (s *dataset) write(folder string) error {
	database := s.database()
	inflection := lsm.Inflect(s.levels, database.Bytes)
	sweep := &result.Sweep{
		Status:     result.OK,
		Source:     fmt.Sprintf("imported from the published logs of bench_kvdb, %s keys", s.text),
		Name:       "study " + s.name(),
		Command:    []string{},
		Database:   database,
		Inflection: &inflection,
		Warnings:   warnings(),
	}
	axis := result.Axis{Name: "cache"}
	for i, file := range s.reads {
		run := file.run(database)
		run.Inflection = &inflection
		dir := path.Join(result.PointsDir, fmt.Sprintf("%03d", i+1))
		if err := writeRun(filepath.Join(folder, filepath.FromSlash(dir)), run); err != nil {
			return err
		}
		axis.Values = append(axis.Values, run.Cache.Requested)
		point := result.Point{Axes: map[string]string{"cache": run.Cache.Requested}, Run: dir, Runs: []string{dir}, Status: result.OK}
		point.Show(run)
		sweep.Points = append(sweep.Points, point)
	}
	sweep.Axes = []result.Axis{axis}
	sweep.Answers = result.Answers(sweep.Points, 2, 1.1)
	if s.written != nil {
		if err := writeRun(filepath.Join(folder, loadDir), s.written.run(s.text)); err != nil {
			return err
		}
	}
	return result.WriteSweep(folder, sweep)
}

func writeRun(dir string, run *result.Run) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make run folder: %w", err)
	}
	return result.WriteRun(dir, run)
}

// name is what the study calls the dataset.
func (s *dataset) name() string {
	return cmp.Or(map[string]string{"200M": "Small", "2B": "Medium", "20B": "Large"}[s.text], s.text)
}

func (s *dataset) database() result.Database {
	d := result.Database{Levels: s.levels, Written: "bench_kvdb", Format: "pebble v1.1.5"}
	for _, level := range s.levels {
		d.Bytes += level.Bytes
		d.Files += level.Files
	}
	return d
}
