package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Database follows the files of a database while its owner writes into it: it opens tables as they come, so that they can be read when
// their owner has deleted them, and reads what is added to the manifest and the logs. It writes nothing. Times are the caller's. For one
// goroutine.
type Database struct {
	Files map[uint64]*os.File // tables, as soon as they are created

	format   Format
	appeared func() ([]string, error)
	manifest Tail
	name     string // of the manifest
	logs     []*openLog
	failed   error
}

// Format is what an engine's files mean.
type Format interface {
	// Manifest is the path of the present one.
	Manifest() (string, error)
	// Begin comes before the edits of another manifest, which begins with all that there is.
	Begin()
	Edit(record []byte, at time.Duration) error
	// Edited comes behind the edits that were noticed at a time, and names their manifest if it is another one.
	Edited(at time.Duration, another string) error
	// Tables are there by the last edit.
	Tables() iter.Seq[uint64]
	OpenTable(number uint64) (*os.File, error)
	// OldestLog is the oldest one that is not in tables.
	OldestLog() uint64
	LogOpened(number uint64, at time.Duration)
	Wrote(log uint64, batch []byte, at time.Duration) error
}

type openLog struct {
	Tail
	number uint64
}

// attempts bounds how often it begins again because a table goes before it is opened.
const attempts = 20

// Begin begins. appeared returns the paths of files that came into the database's folders since it was last called, or since Begin was.
func (d *Database) Begin(format Format, logs []string, appeared func() ([]string, error)) (err error) {
	d.Files, d.format, d.appeared = map[uint64]*os.File{}, format, appeared
	for attempt := 1; ; attempt++ {
		if err = d.readManifest(0, true); err == nil {
			err = d.openTables()
		}
		if !errors.Is(err, fs.ErrNotExist) || attempt == attempts {
			break
		}
		d.name = ""
	}
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

// Look notices what has changed. An error stays.
func (d *Database) Look(at time.Duration) {
	if d.failed == nil {
		d.failed = d.look(at)
	}
}

// Failed is the error of a Look.
func (d *Database) Failed() error { return d.failed }

func (d *Database) look(at time.Duration) error {
	paths, err := d.appeared()
	if err != nil {
		return err
	}
	renewed := false
	for _, path := range paths {
		renewed = renewed || strings.HasPrefix(filepath.Base(path), "marker.manifest.") || filepath.Base(path) == "CURRENT"
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
	edits, another := 0, ""
	edit := func(record []byte) error {
		edits++
		return d.format.Edit(record, at)
	}
	if d.manifest.File != nil {
		if err := d.manifest.Read(edit); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(d.name), err)
		}
	}
	if renewed {
		path, err := d.format.Manifest()
		if err != nil {
			return err
		}
		if path != d.name {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			err = d.manifest.Close()
			d.name, d.manifest, another = path, Tail{File: file}, path
			d.format.Begin()
			if err := errors.Join(err, d.manifest.Read(edit)); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(path), err)
			}
		}
	}
	if edits == 0 && another == "" {
		return nil
	}
	return d.format.Edited(at, another)
}

// openTables opens all tables that are there; its error may be that one is gone.
func (d *Database) openTables() (gone error) {
	for number := range d.format.Tables() {
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
	file, err := d.format.OpenTable(number)
	if err == nil {
		d.Files[number] = file
	}
	return err
}

func (d *Database) openLog(path string, at time.Duration) error {
	number, kind := numberOf(path)
	known := slices.ContainsFunc(d.logs, func(l *openLog) bool { return l.number == number })
	if kind != ".log" || known || number < d.format.OldestLog() || number != uint64(uint32(number)) {
		return nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		d.logs = append(d.logs, &openLog{Tail{File: file, Number: uint32(number)}, number})
		d.format.LogOpened(number, at)
	}
	return err
}

// readLogs reads on, and closes logs that are in tables.
func (d *Database) readLogs(at time.Duration) error {
	oldest := d.format.OldestLog()
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
		if err := l.Read(func(batch []byte) error { return d.format.Wrote(l.number, batch, at) }); err != nil {
			return fmt.Errorf("read log %06d: %w", l.number, err)
		}
	}
	return nil
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
