package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/base/schema"
)

// File names inside a folder.
const (
	RunFile     = "run.json"
	SeriesFile  = "series.jsonl"
	LatencyFile = "latency.hlog"
	SweepFile   = "sweep.json"
	ReportFile  = "report.html"
	PointsDir   = "points"

	// Of what is computed without a run.
	PredictionFile = "prediction.json"
	SimulationFile = "simulation.json"
	AdviceFile     = "advice.json"
)

// WriteRun writes run.json into dir, whole or not at all.
func WriteRun(dir string, r *Run) error {
	r.regime()
	return write(filepath.Join(dir, RunFile), r, &r.Schema, schema.Run, &r.Warnings)
}

// ReadRun reads dir/run.json.
func ReadRun(dir string) (*Run, error) {
	r, err := output.ReadJSON(filepath.Join(dir, RunFile), schema.Run,
		func(v *Run) string { return v.Schema })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &NoRunError{dir, err}
	case err != nil:
		return nil, err
	}

	r.regime() // older versions told that of the whole cache, of which memtables take a part
	return r, nil
}

// NoRunError says that a folder has no run.json. It is an fs.ErrNotExist.
type NoRunError struct {
	Dir string
	err error
}

// Error says what the folder holds instead of a run.
func (e *NoRunError) Error() string {
	switch _, err := os.Stat(e.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s: there is no such folder", e.Dir)
	case e.Begun():
		return fmt.Sprintf("%s has no %s, which holds the figures of the run: the run did not "+
			"finish, or the file was deleted", e.Dir, RunFile)
	}
	return fmt.Sprintf("%s has no %s: it is not the folder of a run", e.Dir, RunFile)
}

// FailureCode is CodeNoResult.
func (*NoRunError) FailureCode() engine.Code { return engine.CodeNoResult }

// Begun reports whether a run has written into the folder.
func (e *NoRunError) Begun() bool {
	for _, name := range []string{SeriesFile, LatencyFile} {
		if _, err := os.Stat(filepath.Join(e.Dir, name)); err == nil {
			return true
		}
	}
	return false
}

// Unwrap is the error of opening run.json.
func (e *NoRunError) Unwrap() error { return e.err }

// ReadSeries reads dir/series.jsonl. A last line cut short by a kill is left
// out; damage anywhere else is an error.
func ReadSeries(dir string) ([]Tick, error) {
	return readLines[Tick](filepath.Join(dir, SeriesFile))
}

// write writes v, a summary with these fields, in the schema of this version.
func write(path string, v any, field *string, schema string, warnings *[]engine.Warning) error {
	*field = schema
	if *warnings == nil {
		*warnings = []engine.Warning{} // [] in JSON, not null
	}
	return output.WriteJSON(path, v)
}

// writeIndex writes a summary without what its rows take from their runs, which stays
// in memory.
func writeIndex[Row any](
	path string, v any, rows *[]Row, index func(Row) Row, field *string, schema string,
	warnings *[]engine.Warning,
) error {
	whole := *rows
	if whole == nil { // [] in JSON: it was interrupted in its first run
		whole = []Row{}
	}

	*rows = make([]Row, len(whole))
	for i, row := range whole {
		(*rows)[i] = index(row)
	}

	defer func() { *rows = whole }()
	return write(path, v, field, schema, warnings)
}

// readBelow reads a run that a summary names.
func readBelow(dir, folder string) (*Run, error) {
	if !filepath.IsLocal(filepath.FromSlash(folder)) {
		return nil, fmt.Errorf("the summary names a run folder %q that is not inside the folder "+
			"of results: not read", folder)
	}
	return ReadRun(filepath.Join(dir, filepath.FromSlash(folder)))
}
