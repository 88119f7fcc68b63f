package pebbledb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// FirstFormatOfV2 is the oldest format Pebble v2 opens.
const FirstFormatOfV2 = dbformat.FirstOfPebble2

// CheckDir refuses a directory that does not hold what o expects of it, before
// Pebble would create something there. adapter is pebble1 or pebble2.
func CheckDir(o engine.Options, adapter string) error {
	if o.Create {
		return checkEmpty(o)
	}
	found, err := dbformat.Recognise(o.Dir)
	if err != nil {
		return err
	}
	format := found.PebbleFormat
	if format == 0 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: "it is a database of " + found.Engine}
	}
	if adapter == "pebble1" && format > dbformat.LastOfPebble1 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: fmt.Sprintf("format %d is beyond Pebble v1: use pebble2", format)}
	}
	if adapter == "pebble2" && format < FirstFormatOfV2 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: fmt.Sprintf("format %d is older than Pebble v2 reads: use pebble1", format)}
	}
	return nil
}

func checkEmpty(o engine.Options) error {
	if o.ReadOnly {
		return fmt.Errorf("create %s: the options also say read-only", o.Dir)
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create %s: %w", o.Dir, err)
	}
	for _, entry := range entries {
		if !engine.MayBeIn(entry.Name()) {
			return fmt.Errorf("create %s: the directory is not empty: it holds %s", o.Dir, entry.Name())
		}
	}
	return nil
}
