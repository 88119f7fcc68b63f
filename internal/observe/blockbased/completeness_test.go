package blockbased

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/mutilate"
	"github.com/statelab/statelab/internal/chain/kvlog"
)

// recordsOf cuts a trace of RocksDB into its header and its other records.
func recordsOf(trace []byte) (header []byte, records [][]byte) {
	for len(trace) > 0 {
		n := traceHeadBytes + int(binary.LittleEndian.Uint32(trace[traceHeadBytes-4:]))
		records, trace = append(records, trace[:n]), trace[n:]
	}
	return records[0], records[1:]
}

// mergedRecords is one record with the payloads of two.
func mergedRecords(a, b []byte) []byte {
	merged := bytes.Clone(a[:traceHeadBytes])
	binary.LittleEndian.PutUint32(merged[traceHeadBytes-4:],
		uint32(len(a)+len(b)-2*traceHeadBytes))
	return append(append(merged, a[traceHeadBytes:]...), b[traceHeadBytes:]...)
}

// blockOutcome is what an import of a trace of blocks or files tells.
func blockOutcome(header []byte) func(records [][]byte) mutilate.Outcome {
	return func(records [][]byte) mutilate.Outcome {
		got, err := readBlocks(append(bytes.Clone(header), bytes.Join(records, nil)...))
		if err != nil {
			return mutilate.Outcome{Err: err}
		}
		return mutilate.Outcome{Told: strings.Join(got.NotChecked, "; ")}
	}
}

// middleOf is the first record, from the middle on, that is as wanted together with the next.
func middleOf(t *testing.T, records [][]byte, wanted func(a, b []byte) bool) int {
	t.Helper()
	for i := len(records) / 2; i+1 < len(records); i++ {
		if wanted(records[i], records[i+1]) {
			return i
		}
	}
	t.Fatal("no such records")
	return 0
}

// tracedBlocks are block-cache traces of the same Gets, with sampling frequencies of blocks. Index
// and filter are in the cache, so that a Get accesses several blocks.
func tracedBlocks(t *testing.T, frequencies ...int) (traces [][]byte) {
	t.Helper()
	dir := t.TempDir()
	const keys, filters, blocks = "--num=20000", "--bloom_bits=10", "--block_size=256"
	traced(t, dir, "fillrandom", keys, filters, blocks)
	for _, frequency := range frequencies {
		file := filepath.Join(dir, "blocks.trace")
		traced(t, dir, "readrandom", keys, filters, blocks, "--use_existing_db",
			"--cache_index_and_filter_blocks", "--cache_size=262144", "--cache_numshardbits=0",
			"--block_cache_trace_file="+file,
			fmt.Sprintf("--block_cache_trace_sampling_frequency=%d", frequency))

		trace, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		traces = append(traces, trace)
	}

	return traces
}

// sameGet tells whether two records of a block-cache trace are of one Get, at different times.
func sameGet(t *testing.T, header []byte) func(a, b []byte) bool {
	return func(a, b []byte) bool {
		got, err := readBlocks(bytes.Join([][]byte{header, a, b}, nil))
		return err == nil && len(got.Gets) == 1 && len(got.Accesses) == 2 &&
			binary.LittleEndian.Uint64(a) < binary.LittleEndian.Uint64(b)
	}
}

// A block-cache trace that is not as RocksDB wrote it is refused, or the answer says that this
// cannot be seen.
func TestMutilatedBlockTraces(t *testing.T) {
	header, records := recordsOf(tracedBlocks(t, 1)[0])
	const notSeen = "no numbers of records, no count and no end: accesses that are missing, at " +
		"its end or between others, cannot be seen"
	mutilate.Demand(t, records, middleOf(t, records, sameGet(t, header)), mergedRecords,
		blockOutcome(header), map[string]string{
			mutilate.Dropped:   notSeen,
			mutilate.Doubled:   "refused: by the same Get and at the same time: it is there twice",
			mutilate.Merged:    "refused: several records in one",
			mutilate.Reordered: "refused: not in the order in which they were written",
			mutilate.Sampled:   "of which",
		})
}

// ioTrace is an I/O trace of so many reads of a table, record by record as IOTraceWriter::WriteIOOp
// of RocksDB writes them.
func ioTrace(reads int) (trace []byte) {
	record := func(time uint64, kind byte, payload []byte) {
		trace = binary.LittleEndian.AppendUint64(trace, time)
		trace = binary.LittleEndian.AppendUint32(append(trace, kind), uint32(len(payload)))
		trace = append(trace, payload...)
	}

	version := append([]byte{byte(len(cacheTraceMagic))}, cacheTraceMagic...)
	record(1, traceBegin, append(version, 7, 0, 0, 0, 8, 0, 0, 0))
	text := func(to []byte, s string) []byte { return append(append(to, byte(len(s))), s...) }
	for i := range reads {
		payload := binary.LittleEndian.AppendUint64(nil, 1<<1|1<<2) // length and offset
		payload = binary.LittleEndian.AppendUint64(text(payload, "Read"), 900)
		payload = text(text(payload, "OK"), "000012.sst")
		payload = binary.LittleEndian.AppendUint64(payload, 4096)
		payload = binary.LittleEndian.AppendUint64(payload, uint64(i*4096))
		record(uint64(1000+7*i), traceIO, payload)
	}

	return trace
}

func TestMutilatedIOTraces(t *testing.T) {
	header, records := recordsOf(ioTrace(400))
	const notSeen = "no count and no end: reads that are missing, at its end or between others, " +
		"cannot be seen"
	mutilate.Demand(t, records, 200, mergedRecords, blockOutcome(header), map[string]string{
		mutilate.Dropped:   notSeen,
		mutilate.Doubled:   "refused: record 203: the same as the record before it",
		mutilate.Merged:    "refused: record 202: bytes behind its last field",
		mutilate.Reordered: "1 of 400 records are earlier than the record before them",
		mutilate.Sampled:   notSeen,
	})
}

// RocksDB's own sample of blocks is found by the hashes of the blocks, with its exact rate; a
// trace of all blocks, or with too few to tell, is not taken for one.
func TestSampledBlockTraces(t *testing.T) {
	// About 1,200 blocks are accessed. RocksDB draws which of them a sample has at each run: these
	// rates leave four times as many blocks as are needed to find them out, and the one below too
	// few of them, but never so few that they could be of any rate.
	rates := []int{1, 2, 4}
	for i, trace := range tracedBlocks(t, rates...) {
		got, err := readBlocks(trace)
		if err != nil {
			t.Fatal(err)
		}

		if got.SampledBlocks != int64(rates[i]) {
			t.Errorf("one block in %d: %d (%d blocks, %d Gets)", rates[i], got.SampledBlocks,
				len(got.Trace.Blocks), len(got.Gets))
		}

		// Gets without a block of the sample are there, too, but for those at both ends.
		if len(got.Gets) < 1400 || len(got.Gets) > 1500 {
			t.Errorf("one block in %d: %d of 1500 Gets", rates[i], len(got.Gets))
		}
	}

	_, err := readBlocks(tracedBlocks(t, 30)[0])
	if engine.CodeOf(err) != engine.CodeUnsupported ||
		!strings.Contains(err.Error(), "about one block in ") ||
		!strings.Contains(err.Error(), "too few") {
		t.Errorf("too small a sample: %v", err)
	}
}

func TestMutilatedQueryTraces(t *testing.T) {
	dir := t.TempDir()
	traced(t, dir, "fillrandom")
	trace, _ := traced(t, dir, "readrandom", "--use_existing_db")
	header, records := recordsOf(trace)
	end := records[len(records)-1]
	if end[8] != traceEnd {
		t.Fatalf("the last record is of kind %d", end[8])
	}

	imports := func(end []byte) func(records [][]byte) mutilate.Outcome {
		return func(records [][]byte) mutilate.Outcome {
			whole := bytes.Join([][]byte{header, bytes.Join(records, nil), end}, nil)
			s, err := OpenQueryTrace(bufio.NewReader(bytes.NewReader(whole)), "T", 0)
			if err != nil {
				return mutilate.Outcome{Err: err}
			}

			for op := (kvlog.Op{}); err == nil; {
				err = s.Next(&op)
			}

			if err == io.EOF {
				err = nil
			}

			return mutilate.Outcome{
				Err:  err,
				Told: strings.Join(append(s.Info().NotChecked, s.Doubts()...), "; "),
			}
		}
	}

	records = records[:len(records)-1]
	middle := middleOf(t, records, func(a, b []byte) bool {
		return binary.LittleEndian.Uint64(a) < binary.LittleEndian.Uint64(b)
	})
	const notSeen = "neither how many there are nor whether all queries were traced"
	mutilate.Demand(t, records, middle, mergedRecords, imports(end), map[string]string{
		mutilate.Dropped:   notSeen,
		mutilate.Doubled:   "records are the same as the record before them",
		mutilate.Merged:    "refused: several records in one",
		mutilate.Reordered: "refused: records have changed places",
		mutilate.Sampled:   notSeen,
	})

	if got := imports(nil)(records); got.Err != nil || !strings.Contains(got.Told, "has no end") {
		t.Errorf("without its end: %v", got)
	}

	if got := imports(append(bytes.Clone(end), records[0]...))(records); got.Err == nil ||
		!strings.Contains(got.Err.Error(), "several traces") {
		t.Errorf("two traces in one file: %v", got)
	}
}
