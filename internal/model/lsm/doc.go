// Package lsm knows the shape of an LSM tree: what levels a load settles into,
// what a printed level table says, and which cache sizes change what a lookup
// costs.
//
// It is pure: level tables in, level tables and sizes out. It opens no
// database (engines do) and predicts no block reads (package predict does).
//
// Index sizes in a level table are those of Pebble's table properties, which
// are taken before compression: what a cache holds, not what the file holds.
package lsm
