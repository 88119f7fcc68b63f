package dbformat

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
)

// Codes of warnings about options of a database's owner.
const (
	UnknownOptions   = "unknown_options"
	UnobeyedOptions  = "unobeyed_options"
	compareWithOwner = "compare the figures with the owner's own counters, such as its misses of " +
		"the block cache per Get"
)

// OptionWarnings are about options in a database's OPTIONS file, of the whole database and of the
// column families that count (nil: all), that may change what a Get reads and are neither obeyed
// when Gets are measured nor simulated.
func OptionWarnings(
	file string, sections []optionsfile.Section, counts func(family string) bool,
) (warnings []engine.Warning) {
	var unknown, unobeyed []string
	for _, d := range optionsfile.Doubts(sections, counts) {
		option := d.Name + "=" + d.Value
		if d.Section.Name != "" {
			option += " (" + strings.TrimSuffix(d.Section.Kind, "Options") + " " +
				unit.Printable(d.Section.Name) + ")"
		}

		if d.Known != nil && d.Known.Class == optionsfile.Unmodelled {
			unobeyed = append(unobeyed, option+": "+d.Known.Why)
		} else {
			unknown = append(unknown, option)
		}
	}

	unobeyed = append(unobeyed, loggedDoubts(filepath.Dir(file))...)
	if len(unknown) > 0 {
		warnings = append(warnings, engine.Warning{
			Code: UnknownOptions,
			Text: fmt.Sprintf("%s has options or values that are unknown here, so what Gets "+
				"read may differ: %s", file, strings.Join(unknown, ", ")),
			Remedy: compareWithOwner,
		})
	}

	if len(unobeyed) > 0 {
		warnings = append(warnings, engine.Warning{
			Code: UnobeyedOptions,
			Text: fmt.Sprintf("%s has options that change what Gets read and are neither obeyed "+
				"nor simulated: %s", file, strings.Join(unobeyed, "; ")),
			Remedy: compareWithOwner,
		})
	}

	return warnings
}

// loggedDoubts are settings that the owner's LOG tells, and that are neither obeyed nor simulated.
func loggedDoubts(dir string) (unobeyed []string) {
	logged, _ := optionsfile.ReadLog(dir) // without a LOG, nothing is known
	if rows := logged.RowCacheBytes; rows > 0 {
		unobeyed = append(unobeyed, fmt.Sprintf("row_cache=%d (LOG): a cache of rows answers Gets "+
			"before they read blocks", rows))
	}
	return unobeyed
}

// HighShareWarning is about a RocksDB database in dir whose owner gives blocks of high priority
// another share of the block cache than RocksDB's default, for those that cannot give it that.
func HighShareWarning(dir string, sections []optionsfile.Section) (engine.Warning, bool) {
	cached := slices.ContainsFunc(sections, func(s optionsfile.Section) bool {
		return s.Values["cache_index_and_filter_blocks"] == "true" ||
			s.Values["partition_filters"] == "true" ||
			s.Values["index_type"] == "kTwoLevelIndexSearch" // partitions are always cached
	})

	const share = 0.5                  // RocksDB's default
	log, _ := optionsfile.ReadLog(dir) // without a LOG, nothing is known
	logged, known := log.HighPriorityShare()
	if !cached || !known || logged == share {
		return engine.Warning{}, false
	}

	stay := "longer"
	if logged > share {
		stay = "for less long"
	}

	return engine.Warning{
		Code: UnobeyedOptions,
		Text: fmt.Sprintf("the owner's block cache reserves %s of itself for filters and indexes "+
			"(high_pri_pool_ratio=%g in LOG); the cache of this command reserves %s, so that they "+
			"stay in it %s", unit.Percent(logged), logged, unit.Percent(share), stay),
		Remedy: compareWithOwner,
	}, true
}
