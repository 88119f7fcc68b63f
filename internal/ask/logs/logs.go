// Package logs opens what programs logged of their calls of a key-value store, in the forms that
// --from names.
//
// Non-goals: the forms themselves (chain/kvlog, observe/blockbased), and access lists of blocks
// (chain/accesses).
package logs

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/curve"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/kvlog"
	"github.com/statelab/statelab/internal/observe/blockbased"
)

// Forms that --from names: those of access lists, which tell themselves apart, and logs of a
// key-value store.
const (
	Lists  = "lists"
	geth   = "geth-log"
	traces = "rocksdb-trace"
	blocks = "rocksdb-block-trace"
	calls  = "rocksdb-io-trace"
)

// Forms are all of them; the first one is the default.
func Forms() []string { return []string{Lists, geth, traces, blocks, calls} }

// Form is how a log is read.
type Form struct {
	Name   string
	Family uint32 // column family, of a trace
}

// Blocks tells whether it has accesses to blocks, not operations on keys.
func (f Form) Blocks() bool { return f.Name == blocks || f.Name == calls }

// opened closes the file of a log, too.
type opened struct {
	kvlog.Source
	file io.Closer
}

func (o opened) Close() error { return errors.Join(o.Source.Close(), o.file.Close()) }

// Open opens a log: statelab's own, or in another form from a file or standard input.
func (f Form) Open(path string) (kvlog.Source, error) {
	if f.Name == Lists && path != curve.Pipe {
		return kvlog.Open(path)
	}

	in, file, err := input(path)
	if err != nil {
		return nil, err
	}

	var log kvlog.Source
	if f.Name == traces {
		log, err = blockbased.OpenQueryTrace(in, path, f.Family)
	} else {
		log = kvlog.NewGethLog(in, path)
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return opened{log, file}, nil
}

// ReadBlocks reads what Gets asked of RocksDB's block cache.
func ReadBlocks(path string, told func(ops uint64) error) (*blockbased.BlockTrace, error) {
	in, file, err := input(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it is only read
	return blockbased.ReadBlockTrace(in, path, told)
}

func input(path string) (in *bufio.Reader, file *os.File, err error) {
	if file = os.Stdin; path != curve.Pipe {
		if file, err = os.Open(path); err != nil {
			return nil, nil, err
		}
	}

	if in, err = kvlog.Decompressed(file); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}

	return in, file, nil
}

// LeftOut warns, of a log that was read to its end, of operations that were not read, and of what
// was found to be missing or could not be checked.
func LeftOut(log kvlog.Source) (warnings []engine.Warning) {
	if of, is := log.(opened); is {
		log = of.Source
	}

	if t, is := log.(*blockbased.QueryTrace); is && t.Others > 0 {
		warnings = append(warnings, engine.Warning{
			Code: "left_out",
			Text: unit.Count(t.Others) + " operations on other column families, or deletions " +
				"of ranges, are left out",
			Remedy: "--family N",
		})
	}

	if d, is := log.(kvlog.Doubtful); is {
		for _, doubt := range d.Doubts() {
			warnings = append(warnings, engine.Warning{Code: "incomplete_log", Text: doubt})
		}
	}

	return warnings
}
