//go:build cgo

// Command rocksfamilies writes a RocksDB database with four column families for tests:
// rocksfamilies DIR KEYS.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/statelab/statelab/engines/rocksdb/familytest"
)

func main() {
	keys, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err == nil {
		err = familytest.Write(context.Background(), os.Args[1], keys)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
