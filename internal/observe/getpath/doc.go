// Package getpath holds what resolvers of all table formats share: the recording of many Gets on
// all cores (record.go), the search in sorted keys, and range deletions.
//
// A resolver tells which blocks a Get asks for without making the Get. Those of Pebble's tables are
// in package resolve, those of block-based tables in package blocktable.
package getpath
