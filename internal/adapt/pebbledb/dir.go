package pebbledb

import (
	"fmt"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/adapter"
	"github.com/statelab/statelab/internal/observe/dbformat"
)

// FirstFormatOfV2 is the oldest format Pebble v2 opens.
const FirstFormatOfV2 = dbformat.FirstOfPebble2

// CheckDir refuses a directory that does not hold what o expects of it, before
// Pebble would create something there. name is pebble1 or pebble2.
func CheckDir(o engine.Options, name string) error {
	switch {
	case o.Create && o.ReadOnly:
		return fmt.Errorf("create %s: the options also say read-only", o.Dir)
	case o.Create:
		return adapter.CheckEmpty(o.Dir)
	}
	found, err := dbformat.Recognise(o.Dir)
	if err != nil {
		return err
	}
	format := found.PebbleFormat
	if format == 0 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: "it is a database of " + found.Engine}
	}
	if name == "pebble1" && format > dbformat.LastOfPebble1 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: fmt.Sprintf("format %d is beyond Pebble v1: use pebble2", format)}
	}
	if name == "pebble2" && format < FirstFormatOfV2 {
		return &engine.NotADatabaseError{Dir: o.Dir, Why: fmt.Sprintf("format %d is older than Pebble v2 reads: use pebble1", format)}
	}
	return nil
}
