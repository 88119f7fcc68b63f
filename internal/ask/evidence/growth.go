package evidence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/adapt/pebbledb"
	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/result"
)

// grow predicts the database of a state that has grown; nil if that was not asked for.
func (a *Request) grow(
	ctx context.Context, run *result.Run, model advise.Model, present advise.Place,
) (*advise.Growth, error) {
	if a.Growth.Factor == 0 {
		return nil, nil
	}

	if err := advise.OnlyLevels(a.Dir, run.Database.Values); err != nil {
		return nil, err
	}

	if !slices.ContainsFunc(run.Database.Levels, func(l engine.Level) bool {
		return l.Level > 0 && l.Keys > 0
	}) {
		return nil, engine.Fail(engine.CodeUsage, "--state-growth: %s has no tables below L0, "+
			"from whose sizes those of a larger state follow", a.Dir).
			WithRemedy("let compactions finish first")
	}

	how, err := a.compaction(run)
	if err != nil {
		return nil, fmt.Errorf("--state-growth: %w", err)
	}

	return advise.Grow(ctx, model, present, how.Levels, a.Growth, func(done int) {
		a.Tell(result.Event{Phase: "predicting growth", Done: uint64(done), Unit: "points"})
	})
}

// Pebble's own options where nothing else is set.
const (
	libraryLBaseMaxBytes  = 64 << 20
	libraryTargetFileSize = 2 << 20 // of L0 and the base level; each further one has twice as much
)

// compaction is how the database is compacted: by the newest OPTIONS file of a node's, and by the
// profile of one that statelab loaded, or of a level table.
func (a *Request) compaction(run *result.Run) (g lsm.Growth, err error) {
	o := engine.Options{Profile: run.Engine.Profile}
	switch {
	case a.Table:
		o.Profile = a.Gets.Spec.Profile
	case run.Database.Written != "foreign":
		manifest, err := keyspace.ReadManifest(run.Database.Dir)
		if err != nil {
			return g, err
		}
		o.Overrides = manifest.Overrides
	default:
		name, file, err := optionsfile.Read(run.Database.Dir)
		if err == nil && name != "" {
			return compactionOf(file)
		}
	}

	s, errs := pebbledb.Resolve(pebbledb.Profiles(), o)
	if len(errs) > 0 {
		return g, errs[0]
	}

	g.LBaseMaxBytes = cmp.Or(s.LBaseMaxBytes, libraryLBaseMaxBytes)
	for n := range g.TargetFileBytes {
		g.TargetFileBytes[n] = cmp.Or(s.Levels[n].TargetFileSize, libraryTargetFileSize<<n)
	}

	return g, nil
}

// compactionOf reads it from an OPTIONS file, which has every option.
func compactionOf(file []optionsfile.Section) (g lsm.Growth, err error) {
	number := func(text, name string) int64 {
		n, wrong := strconv.ParseInt(text, 10, 64)
		if wrong != nil || n <= 0 {
			err = cmp.Or(err, fmt.Errorf("%s=%.40q of the OPTIONS file is not a size", name, text))
		}
		return n
	}

	for n := range g.TargetFileBytes {
		g.TargetFileBytes[n] = libraryTargetFileSize << n
	}

	g.LBaseMaxBytes = libraryLBaseMaxBytes
	for _, section := range file {
		if text, is := section.Values["lbase_max_bytes"]; is && section.Kind == "Options" {
			g.LBaseMaxBytes = number(text, "lbase_max_bytes")
		}

		level, wrong := strconv.Atoi(section.Name)
		text, is := section.Values["target_file_size"]
		if section.Kind == "Level" && is && wrong == nil && level >= 0 &&
			level < len(g.TargetFileBytes) {
			g.TargetFileBytes[level] = number(text, "target_file_size")
		}
	}

	return g, err
}
