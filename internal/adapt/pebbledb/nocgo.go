//go:build !cgo

package pebbledb

import "github.com/statelab/statelab/engine"

// BuiltAs says that the block cache and memtables lie on the Go heap.
const BuiltAs = engine.PureGo
