// Package lookuppath holds what resolvers of all table formats share: the recording of many Gets on
// all cores (record.go), tables by the numbers of their blocks (table.go), what is in memory only,
// the search in sorted keys, and range deletions.
//
// A resolver tells which blocks a Get asks for without making the Get. Those of Pebble's tables are
// in package resolve, those of block-based tables in package blockbased.
package lookuppath
