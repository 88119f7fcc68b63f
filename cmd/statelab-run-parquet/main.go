// Statelab-run-parquet converts tables of the Xatu data set in Parquet files to an access list,
// which it writes to standard output. statelab accesses import starts it: the library that reads
// Parquet is large, and few need it.
//
// Usage: statelab-run-parquet FILE-OR-FOLDER
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/chain/xatu"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: statelab-run-parquet FILE-OR-FOLDER >list.slal")
		os.Exit(2)
	}
	if err := convert(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// maxMemory is several times what the longest list takes. The library that reads Parquet allocates
// what lengths in a file ask for: beyond the limit this process ends, and statelab says that the
// file is damaged.
const maxMemory = 8 << 30

func limitMemory() error {
	debug.SetMemoryLimit(maxMemory * 3 / 4) // the collector works harder before it comes to that
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: maxMemory, Max: maxMemory})
}

func convert(from string, to io.Writer) (err error) {
	if err := limitMemory(); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}

	tables, err := xatu.Open(os.DirFS(filepath.Dir(from)), filepath.Base(from))
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, tables.Close()) }()
	return accesses.Write(to, tables, tables.Info(), func(uint64) error { return nil })
}
