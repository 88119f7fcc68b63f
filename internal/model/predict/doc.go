// Package predict works out block reads per Get from a database's level table
// alone: no database, no trace.
//
// It draws block accesses at the rates the level table implies (rates.go) and
// plays them to the model of Pebble's cache, shard by shard (shard.go), for as
// many Gets as the run that is predicted makes (predict.go). Closed forms for
// LRU caches do not fit: Pebble's cache keeps the set of blocks it found first,
// and a run on a large database ends long before it is in steady state.
//
// The model is of uniformly random Gets on a database at rest. It knows nothing
// of skewed keys, range reads, or threads that miss one block together.
package predict
