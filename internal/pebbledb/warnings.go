package pebbledb

import "github.com/statelab/statelab/engine"

// UnsettledWarning says that Settle gave up on compactions that are due.
func UnsettledWarning() engine.Warning {
	return engine.Warning{
		Code:   "unsettled",
		Text:   "a level is due for compaction, yet no compaction starts: the shape may change under later writes",
		Remedy: "leave DisableAutomaticCompactions off, or load again",
	}
}

// UnknownLayoutWarning says that new tables could not be learnt.
func UnknownLayoutWarning(err error) engine.Warning {
	return engine.Warning{
		Code:   "layout_unknown",
		Text:   "the layout of a new table could not be learnt, its reads count as meta: " + err.Error(),
		Remedy: "settle the database before measuring",
	}
}
