package lsmtail

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/internal/base/livedir"
)

// Database follows the files of a database while its owner writes into it: it opens tables as they
// come, so that they can be read when their owner has deleted them, and reads what is added to the
// manifest and the logs. It writes nothing. Times are the caller's. For one goroutine.
type Database struct {
	Dir   string
	Files map[uint64]*os.File // tables, as soon as they are created
	Live  map[uint64]Facts    // tables that there are by the last edit
	Known map[uint64]Facts    // all that there have been, on the level on which each was first

	format   Format
	appeared func() ([]string, error)
	manifest Tail
	name     string // of the manifest
	minLogs  map[uint32]uint64
	logs     []*openLog
	memories map[uint32]*Memory
	levels   map[uint64]int // the last ones of all tables that there have been
	changes  []change
	failed   error
}

// Format is what an engine's files mean.
type Format struct {
	// Manifest is the path of the present one.
	Manifest func() (string, error)
	// Begin comes before the edits of another manifest, which begins with all that there is.
	Begin func()
	// Edits are those that count from a record of the manifest on.
	Edits func(record []byte) ([]Edit, error)
	// Began comes behind those of the first manifest.
	Began func(manifest string, edits []Edit) error
	// Entries visits those of a batch of a log, which was noticed at a time, but for those that no
	// Get sees. Of the deletion of a range the end follows the key.
	Entries func(
		log uint64, batch []byte, at time.Duration,
		visit func(family uint32, entry Entry, key, end []byte),
	) error
}

// change is an edit, and when it was noticed.
type change struct {
	Edit
	at time.Duration
}

type openLog struct {
	Tail
	number uint64
	from   time.Duration
}

// OpenTable opens a table; it stays readable when its name is deleted. Tables never change once
// written. They are read, not mapped: mapped, all that was ever looked at would count as this
// process's memory.
func OpenTable(dir string, number uint64) (*os.File, error) {
	path := filepath.Join(dir, fmt.Sprintf("%06d.sst", number))
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = os.Open(strings.TrimSuffix(path, "sst") + "ldb"); errors.Is(err,
			fs.ErrNotExist) {
			_, err = os.Stat(path)
		}
	}

	return file, err
}

// TableFile reads a table at any place.
type TableFile interface {
	io.ReaderAt
	io.Closer
}

// Open opens a table as the manifest describes it. One of too many for this process to have open is
// opened again for each read.
func (t *Facts) Open(dir string) (TableFile, error) {
	file, err := OpenTable(dir, t.File)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err == nil && info.Size() != t.Bytes {
		err = fmt.Errorf("%d bytes long, %d in the manifest", info.Size(), t.Bytes)
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	if t.oneOfMany {
		return reopened(file.Name()), file.Close()
	}

	return file, nil
}

// reopened is the path of a table that is opened for each read.
type reopened string

func (path reopened) ReadAt(p []byte, offset int64) (n int, err error) {
	file, err := os.Open(string(path))
	if err != nil {
		return 0, err
	}
	n, err = file.ReadAt(p, offset)
	return n, errors.Join(err, file.Close())
}

func (reopened) Close() error { return nil }

// EachTable reads tables on all processors.
func EachTable[T any](facts []Facts, read func(Facts) (T, error)) ([]T, error) {
	tables := make([]T, len(facts))
	limit, known := maxOpenFiles()
	// half of the files that this process may have open are left for others
	many := known && uint64(len(facts)) > limit/2
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range facts {
		group.Go(func() (err error) {
			table := facts[i]
			table.oneOfMany = many
			tables[i], err = read(table)
			return err
		})
	}

	return tables, group.Wait()
}

// Folders are where files of a database come and go: its own and those of its logs.
func Folders(dir string, logs []string, err error) []string {
	if err != nil {
		logs = nil // Begin says why
	}
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(logs), dir))))
}

// Begin begins with the database in dir. appeared returns the paths of files that came into its
// folders since it was last called, or since Begin was.
func (d *Database) Begin(
	dir string, format Format, logs []string, appeared func() ([]string, error),
) error {
	d.Dir, d.format, d.appeared = dir, format, appeared
	d.Files, d.Live, d.Known, d.levels = map[uint64]*os.File{}, map[uint64]Facts{},
		map[uint64]Facts{}, map[uint64]int{}
	d.memories = map[uint32]*Memory{}
	err := livedir.Retry(dir, func() error {
		d.name = ""
		if err := d.readManifest(0, true); err != nil {
			return err
		}
		return d.openTables()
	})
	if err != nil {
		return err
	}

	for _, dir := range logs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			return err
		}

		for _, path := range paths {
			if err := d.openLog(path, 0); err != nil {
				return err
			}
		}
	}

	return d.readLogs(0)
}

// Poll notices what has changed. An error stays.
func (d *Database) Poll(at time.Duration) {
	if d.failed == nil {
		d.failed = d.poll(at)
	}
}

// LiveTables are the file numbers of the tables that there are, ascending.
func (d *Database) LiveTables() []uint64 { return slices.Sorted(maps.Keys(d.Live)) }

// Failed is the error of a Look.
func (d *Database) Failed() error { return d.failed }

func (d *Database) poll(at time.Duration) error {
	paths, err := d.appeared()
	if err != nil {
		return err
	}

	renewed := false
	for _, path := range paths {
		renewed = renewed || strings.HasPrefix(filepath.Base(path), "marker.manifest.") ||
			filepath.Base(path) == "CURRENT"
		switch number, kind := numberOf(path); kind {
		case ".sst", ".ldb":
			if err := d.openTable(number); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case ".log":
			if err := d.openLog(path, at); err != nil {
				return err
			}
		}
	}

	// What is in memory is in the log first, and in the log before it is in a table.
	if err := d.readLogs(at); err != nil {
		return err
	}

	if err := d.readManifest(at, renewed); err != nil {
		return err
	}

	if err := d.openTables(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return nil // the edit that took it away comes next
}

// numberOf is that of a file, and what kind of file it is.
func numberOf(path string) (number uint64, kind string) {
	kind = filepath.Ext(path)
	digits, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), kind), "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, ""
	}
	return number, kind
}

// readManifest takes the edits that came since; renewed: there may be another manifest.
func (d *Database) readManifest(at time.Duration, renewed bool) error {
	edited := false
	read := func() error {
		err := d.manifest.Read(func(record []byte) error {
			edits, err := d.format.Edits(record)
			for _, e := range edits {
				edited = true
				d.apply(e, at)
			}

			return err
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", filepath.Base(d.name), err)
		}

		return err
	}

	if d.manifest.File != nil {
		if err := read(); err != nil {
			return err
		}
	}

	if renewed {
		path, file, err := d.openManifest()
		if err != nil {
			return err
		}

		if file != nil {
			err = d.manifest.Close()
			was, before := d.Live, len(d.changes)
			d.name, d.manifest, d.Live, d.minLogs, edited = path, Tail{File: file},
				map[uint64]Facts{}, map[uint32]uint64{0: 0}, true
			d.format.Begin()
			if err := errors.Join(err, read(), d.renewed(at, was, before)); err != nil {
				return err
			}
		}
	}

	if !edited {
		return nil
	}

	for family, memory := range d.memories {
		for _, l := range memory.Logs {
			if l.Until == 0 && l.Number < d.minLogs[family] {
				l.Until = at
			}
		}
	}

	return nil
}

// openManifest opens the present manifest; no file if it is the one that is read already. The
// database's owner may delete it for the next one before it is open.
func (d *Database) openManifest() (path string, file *os.File, err error) {
	err = livedir.Retry(d.Dir, func() (err error) {
		if path, err = d.format.Manifest(); err == nil && path != d.name {
			file, err = os.Open(path)
		}
		return err
	})
	return path, file, err
}

// apply takes an edit.
func (d *Database) apply(e Edit, at time.Duration) {
	if e.Dropped {
		for _, t := range d.Live {
			if t.Family == e.Family {
				e.Removed = append(e.Removed, Place{t.Level, t.File, t.Family})
			}
		}

		delete(d.minLogs, e.Family)
	}

	for _, t := range e.Removed {
		delete(d.Live, t.File)
	}

	for _, t := range e.Added {
		d.Live[t.File], d.levels[t.File] = t, t.Level
		if _, known := d.Known[t.File]; !known {
			d.Known[t.File] = t
		}
	}

	if e.Name != "" || e.MinLog > 0 {
		d.minLogs[e.Family] = max(d.minLogs[e.Family], e.MinLog)
	}

	d.changes = append(d.changes, change{e, at})
}

// renewed makes one change of what another manifest begins with: what differs from what there was
// before.
func (d *Database) renewed(at time.Duration, was map[uint64]Facts, before int) error {
	whole, edits := change{at: at}, []Edit(nil)
	for _, c := range d.changes[before:] {
		whole.Unresolved = errors.Join(whole.Unresolved, c.Unresolved)
		edits = append(edits, c.Edit)
	}

	for file, t := range was {
		if now, is := d.Live[file]; !is || now.Level != t.Level {
			whole.Removed = append(whole.Removed, Place{t.Level, file, t.Family})
		}
	}

	for file, t := range d.Live {
		if before, was := was[file]; !was || before.Level != t.Level {
			whole.Added = append(whole.Added, t)
		}
	}

	d.changes = append(d.changes[:before], whole)
	if before > 0 {
		return nil
	}

	return d.format.Began(filepath.Base(d.name), edits)
}

// openTables opens all tables that are there; its error may be that one is gone.
func (d *Database) openTables() (gone error) {
	for number := range d.Live {
		if err := d.openTable(number); errors.Is(err, fs.ErrNotExist) {
			gone = err
		} else if err != nil {
			return err
		}
	}
	return gone
}

func (d *Database) openTable(number uint64) error {
	if d.Files[number] != nil {
		return nil
	}
	file, err := OpenTable(d.Dir, number)
	if err == nil {
		d.Files[number] = file
	}
	return err
}

// oldestLog is the oldest one that is not in tables: some family needs it.
func (d *Database) oldestLog() uint64 {
	first := uint64(math.MaxUint64)
	for _, number := range d.minLogs {
		first = min(first, number)
	}
	return first
}

func (d *Database) openLog(path string, at time.Duration) error {
	number, kind := numberOf(path)
	known := slices.ContainsFunc(d.logs, func(l *openLog) bool { return l.number == number })
	if kind != ".log" || known || number < d.oldestLog() || number != uint64(uint32(number)) {
		return nil
	}

	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err == nil {
		d.logs = append(d.logs, &openLog{Tail{File: file, Number: uint32(number)}, number, at})
		d.Memory(0).log(number, at)
	}

	return err
}

// readLogs reads on, and closes logs that are in tables.
func (d *Database) readLogs(at time.Duration) error {
	oldest := d.oldestLog()
	for _, l := range d.logs {
		if l.File == nil {
			continue
		}

		if l.number < oldest {
			if err := l.Close(); err != nil {
				return err
			}
			continue
		}

		var failed error
		err := l.Read(func(batch []byte) error {
			return d.format.Entries(l.number, batch, at, func(
				family uint32, entry Entry, key, end []byte,
			) {
				memory := d.Memory(family)
				failed = cmp.Or(failed,
					memory.wrote(memory.log(l.number, l.from), at, entry, key, end))
			})
		})

		if err := cmp.Or(failed, err); err != nil {
			return fmt.Errorf("read log %06d: %w", l.number, err)
		}
	}

	return nil
}

// Memory is what a family has in memory.
func (d *Database) Memory(family uint32) *Memory {
	memory := d.memories[family]
	if memory == nil {
		memory = new(Memory)
		d.memories[family] = memory
	}
	return memory
}

// Close closes the manifest, the logs and the Files.
func (d *Database) Close() error {
	errs := []error{d.manifest.Close()}
	for _, l := range d.logs {
		errs = append(errs, l.Close())
	}
	for _, file := range d.Files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
