//go:build cgo

package rocksdb

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
)

const (
	// spareFiles are left for logs, the other end of a runner and what else a process opens.
	spareFiles = 64
	// minHandles is what RocksDB takes a lower limit of open files for.
	minHandles = 20
)

// limitHandles lowers the limit of open files where the process may not have as many as RocksDB
// would open, which would fail on one of them. used are those that another handle of the process
// has open.
func (s *settings) limitHandles(used int) (few *engine.Warning) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // as many as there are, then
	}

	tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	need := len(tables)
	if s.handles >= 0 {
		need = min(need, s.handles)
	}

	left := int(min(limit.Cur, 1<<30)) - used - spareFiles
	if err != nil || need <= left {
		return nil
	}

	s.handles = max(minHandles, left/2) // a second handle samples keys
	return &engine.Warning{
		Code: "few_descriptors",
		Text: fmt.Sprintf("%s open files are needed, the process may have %s: RocksDB keeps about "+
			"%s of %s tables open, so that some Gets open a table first, which counts as reads",
			unit.Count(int64(need)), unit.Count(int64(limit.Cur)),
			unit.Count(int64(s.handles)), unit.Count(int64(len(tables)))),
		Remedy: "raise the limit (ulimit -n), or read a copy of the database where it is higher",
	}
}
