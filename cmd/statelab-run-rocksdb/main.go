//go:build cgo

// Command statelab-run-rocksdb is the runner for RocksDB, whose library it loads
// at run time. statelab starts it.
package main

import (
	"github.com/statelab/statelab/engines/rocksdb"
	"github.com/statelab/statelab/runner"
)

func main() { runner.Main(rocksdb.Engine{}) }
