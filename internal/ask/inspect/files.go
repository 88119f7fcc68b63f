package inspect

import (
	"errors"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/observe/blockbased"
	"github.com/statelab/statelab/internal/observe/dbformat"
	"github.com/statelab/statelab/result"
)

// OfFiles is what a run of inspect would tell of the RocksDB database in dir, from its files alone:
// no library of RocksDB is loaded, and the database is not opened.
func OfFiles(dir, engineName string) (*result.Run, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}

	run := &result.Run{Status: result.OK, Engine: result.Engine{Name: engineName}}
	run.Database = result.Database{Dir: dir, Written: "foreign"}
	switch m, err := keyspace.ReadManifest(dir); {
	case err == nil:
		run.Database.Written, run.Engine.Profile = "statelab", m.Profile
	case !errors.Is(err, keyspace.ErrNoManifest):
		return nil, err
	}

	_, sections, err := optionsfile.Read(dir)
	if err != nil {
		return nil, err
	}

	for _, s := range sections {
		if s.Kind == "Version" { // of the owner's library: it decides how caches hash
			run.Engine.Version = s.Values["rocksdb_version"]
		}
	}

	shape, warnings, err := blockbased.ReadShape(dir)
	if err != nil {
		return nil, engine.Fail(engine.CodeUnsupported, "%w", err).WithRemedy("make runners, in " +
			"statelab's source, builds what opens the database with RocksDB itself")
	}

	d := &run.Database
	d.Bytes, d.Files, d.Levels = shape.Bytes, shape.Files, shape.Levels
	d.Tables, d.Values, run.Warnings = shape.Tables, shape.Values, warnings
	if len(d.Levels) > 0 {
		run.Inflection = new(lsm.Inflect(d.Levels, d.Values, d.Bytes))
	}

	listed := d.Files
	if len(d.Tables) > 0 {
		listed = 0
		for _, t := range d.Tables {
			listed += t.Files
		}
	}

	if w, is := dbformat.Unlisted(dir, listed); is && d.Written == "foreign" {
		run.Warnings = append(run.Warnings, w)
	}

	return run, nil
}
