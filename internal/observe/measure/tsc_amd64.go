package measure

const haveTSC = true

// readTSC reads the time-stamp counter once everything before it is done.
//
//go:noescape
func readTSC() int64
