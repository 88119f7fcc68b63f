//go:build cgo

package pebbledb

import "github.com/statelab/statelab/engine"

// BuiltAs says that the block cache and memtables lie in C's memory.
const BuiltAs = engine.WithCgo
