//go:build cgo

// Command rocksfamilies writes a RocksDB database for tests, as a client's or with four column
// families: rocksfamilies DIR KEYS besu|nethermind|nethermind-flat|families.
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
		write := map[string]func(context.Context, string, uint64) error{
			"besu": familytest.WriteBesu, "nethermind": familytest.WriteNethermind,
			"nethermind-flat": familytest.WriteNethermindFlat, "families": familytest.Write}[os.Args[3]]
		err = write(context.Background(), os.Args[1], keys)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
