package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/explain/tuned"
	"github.com/statelab/statelab/internal/model/cachesim"
	"github.com/statelab/statelab/internal/model/trace"
	"github.com/statelab/statelab/internal/subject"
)

// limitOpenFiles learns whether the limit of open files of the present configuration keeps all
// tables open. If it does not, all other configurations are those with a limit that does.
func (s *search) limitOpenFiles(ctx context.Context) (err error) {
	known := trace.OpenFiles{Limit: s.MaxOpenFiles, Tables: s.Tables}
	switch {
	case s.Trace == "" && !s.OnlyLevels:
		s.limit, err = curve.OpenFiles(ctx, s.Gets)
		return err
	case s.Trace == "" && s.MaxOpenFiles > 0 &&
		s.MaxOpenFiles-advice.OtherHandles < max(s.Tables, advice.LeastOpenTables):
		s.warn(engine.Warning{
			Code: "open_files_not_predicted",
			Text: known.String() + ", so Gets open them again; the database is too large to be " +
				"traced, so these reads are not among those predicted",
			Remedy: fmt.Sprintf("raise max_open_files to at least %d",
				s.Tables+advice.OtherHandles),
		})
	}

	return nil
}

// warn adds warnings of kinds that there are none of yet.
func (s *search) warn(all ...engine.Warning) {
	for _, w := range all {
		if !slices.ContainsFunc(s.Warnings, func(known engine.Warning) bool {
			return known.Code == w.Code
		}) {
			s.Warnings = append(s.Warnings, w)
		}
	}
}

// closeTables makes the present configuration one with its own limit of open files: Gets open
// tables again, and tables that are closed take no memory.
func (s *search) closeTables(ctx context.Context, t *tuned.Tuning) error {
	open, c := t.Present.Reads, s.known[s.Present]
	cache := s.cacheWithClosed()
	c.OpenFiles, c.Cache, t.Over = s.limit.Limit, max(minCache, cache), max(0, minCache-cache)
	points := make([]cachesim.Point, len(s.samples))
	setup := s.setup
	setup.ReservedBytes = s.reserve
	for i := range s.samples {
		o := s.Gets
		o.Spec.Seed, o.Spec.Threads, o.Spec.WarmupAuto = s.Seeds[i], 1, false
		o.Spec.WarmupGets, o.Spec.Gets = t.WarmupGets, t.Gets
		accesses, _, err := curve.Traced(ctx, o, s.Tell)
		if err != nil {
			return err
		}

		replayed, err := cachesim.Curve(ctx, accesses, setup, []int64{c.Cache})
		if err != nil {
			return err
		}

		points[i] = replayed[0]
	}

	summarize(&c, points)
	if err := s.time(&c, s.Present); err != nil {
		return err
	}

	t.Present = c
	t.OpenFiles = &tuned.OpenFiles{
		Option: s.openFilesOption(),
		OpenFileLimit: advice.OpenFileLimit{
			Limit:      s.limit.Limit,
			Tables:     s.limit.Tables,
			Enough:     s.limit.Enough,
			CacheBytes: c.Cache,
			Reads:      c.Reads,
			ReadsOpen:  open,
		},
	}

	return nil
}

// cacheWithClosed is what the present configuration leaves for the cache, whose closed tables take
// nothing: neither a handle nor, where they are outside the cache, filters and indexes.
func (s *search) cacheWithClosed() int64 {
	open := min(max(s.limit.Limit, 1), s.limit.Tables)
	beside := s.cache - s.cacheBeside(s.predicted().Levels(s.Present), s.Present)
	return advice.MaxCache(s.owner, s.MemoryBytes, s.Tables-s.limit.Tables+open) -
		int64(float64(beside)*float64(open)/float64(s.limit.Tables))
}

// openFilesOption is the engine's name of the limit of open files.
func (s *search) openFilesOption() string {
	switch of, _ := subject.EngineOf(s.Gets.Spec.Engine); {
	case of.BlockTables:
		return "max_open_files"
	case of.LevelTables:
		return "OpenFilesCacheCapacity"
	}
	return "MaxOpenFiles"
}

// withOpenFiles sets the limit of open files, too, where the present one does not suffice.
func (s *search) withOpenFiles(snippet string) string {
	if s.limit.Enough == 0 {
		return snippet
	}

	switch of, _ := subject.EngineOf(s.Gets.Spec.Engine); {
	case of.BlockTables:
		const families = "[CFOptions "
		return strings.Replace(snippet, families, fmt.Sprintf("[DBOptions]\n  %s=%d\n%s",
			s.openFilesOption(), s.limit.Enough, families), 1)
	case of.LevelTables:
		return snippet // it says how many tables there are
	}

	return snippet + fmt.Sprintf("options.%s = %d\n", s.openFilesOption(), s.limit.Enough)
}
