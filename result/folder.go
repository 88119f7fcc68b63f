package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
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

// maxJSONBytes bounds what is read from a folder that may lie.
const maxJSONBytes = 256 << 20

// WriteRun writes run.json into dir, whole or not at all.
func WriteRun(dir string, r *Run) error {
	r.regime()
	return write(filepath.Join(dir, RunFile), r, &r.Schema, RunSchema, &r.Warnings)
}

// ReadRun reads dir/run.json.
func ReadRun(dir string) (*Run, error) {
	r, err := readOf(filepath.Join(dir, RunFile), RunSchema, func(v *Run) string { return v.Schema })
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

func (e *NoRunError) Error() string {
	switch _, err := os.Stat(e.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s: there is no such folder", e.Dir)
	case e.Begun():
		return fmt.Sprintf("%s has no %s, which holds the figures of the run: the run did not finish, or the file was deleted", e.Dir, RunFile)
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

func (e *NoRunError) Unwrap() error { return e.err }

// ReadSeries reads dir/series.jsonl. A last line cut short by a kill is left
// out; damage anywhere else is an error.
func ReadSeries(dir string) ([]Tick, error) { return readLines[Tick](filepath.Join(dir, SeriesFile)) }

// write writes v, a summary with these fields, in the schema of this version.
func write(path string, v any, field *string, schema string, warnings *[]engine.Warning) error {
	*field = schema
	if *warnings == nil {
		*warnings = []engine.Warning{} // [] in JSON, not null
	}
	return WriteSummary(path, v)
}

// writeIndex writes a summary without what its rows take from their runs, which stays
// in memory.
func writeIndex[Row any](path string, v any, rows *[]Row, index func(Row) Row, field *string, schema string, warnings *[]engine.Warning) error {
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
		return nil, fmt.Errorf("the summary names a run folder %q that is not inside the folder of results: not read", folder)
	}
	return ReadRun(filepath.Join(dir, filepath.FromSlash(folder)))
}

// WriteSummary writes v as JSON, whole or not at all; the folder is the caller's. It
// leaves the old file or none where it fails.
func WriteSummary(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return output.Atomically(path, func(f *os.File) error {
		_, err := f.Write(append(text, '\n'))
		return err
	})
}

// readOf reads a summary, whose schema must be the one of this version.
func readOf[T any](path, schema string, schemaOf func(*T) string) (*T, error) {
	v := new(T)
	if err := ReadSummary(path, v); err != nil {
		return nil, err
	}
	if found := schemaOf(v); found != schema {
		return nil, engine.Fail(engine.CodeUnsupported, "%s: schema is %q, this version reads %q", path, found, schema)
	}
	return v, nil
}

// ReadSummary reads what WriteSummary wrote.
func ReadSummary(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJSONBytes))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		if !bytes.HasSuffix(text, []byte("}\n")) { // how WriteSummary ends a file
			return fmt.Errorf("%s is damaged: it is cut short", path)
		}
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}
