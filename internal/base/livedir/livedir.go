// Package livedir reads folders into which another process writes meanwhile, as a node writes into
// its database: what a listing names can be gone when it is opened.
//
// A reader that needs any file, or all that are there, passes over those that vanish (Walk). One
// that needs files which belong together reads all of them again (Retry): the database's own
// manifest tells which they are.
//
// Non-goals: what the files mean; waiting for a writer to stop.
package livedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/statelab/statelab/engine"
)

// Walk calls visit for root and all that is below it, as filepath.WalkDir does. What vanishes
// before it is visited, or while visit opens it, is passed over; root itself has to be there.
func Walk(root string, visit func(path string, entry fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = visit(path, entry)
		}

		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil
		}

		return err
	})
}

// ReadDir lists dir. A listing made while somebody creates and deletes files can miss both a
// file and its successor, so one without any name that is wanted is made again, a few times at
// most, as long as the folder changes.
func ReadDir(dir string, wanted func(name string) bool) (entries []fs.DirEntry, err error) {
	const listings = 6
	for range listings {
		began := time.Now()
		if entries, err = os.ReadDir(dir); err != nil {
			return nil, err
		}

		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return wanted(e.Name()) }) {
			break
		}

		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}

		// The times of file systems advance in steps of a few milliseconds.
		const step = 20 * time.Millisecond
		if info.ModTime().Before(began.Add(-step)) {
			break
		}

		time.Sleep(pause)
	}

	return entries, nil
}

// Retry reads at most so often, and waits a little longer each time: 0.2 s in all, in which an
// engine replaces its files several times at most.
const (
	attempts = 20
	pause    = time.Millisecond
)

// Retry calls read, and again as long as it fails because a file of dir vanished before it was
// opened, or with one of further errors. If the files in dir change all the time, it gives up with
// a failure that says so; if they do not, the error of read stands: a file is missing, and nobody
// replaced it.
func Retry(dir string, read func() error, further ...error) error {
	further = append(further, fs.ErrNotExist)
	err := read()
	vanished := func() bool {
		return slices.ContainsFunc(further, func(of error) bool { return errors.Is(err, of) })
	}
	if err == nil || !vanished() {
		return err
	}

	before := State(dir)
	for attempt := 1; attempt < attempts; attempt++ {
		time.Sleep(time.Duration(attempt) * pause)
		if err = read(); err == nil || !vanished() {
			return err
		}
	}

	if State(dir) == before {
		return err
	}

	return Busy(dir, attempts, err)
}

// Busy is the failure of reading dir so many times, each while another process replaced files
// there.
func Busy(dir string, attempts int, err error) error {
	return engine.Fail(engine.CodeInUse, "%w; another process changed the files of %s during "+
		"each of %d attempts to read them", err, dir, attempts).
		WithRemedy("stop that process, or read a checkpoint or a copy")
}

// State tells the names, sizes and times of the files below dir: it differs if somebody wrote
// there. What cannot be looked at is left out.
func State(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}

		if info, err := entry.Info(); err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}

		return nil
	})

	return b.String()
}
