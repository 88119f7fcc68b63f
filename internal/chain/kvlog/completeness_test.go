package kvlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/statelab/statelab/internal/base/mutilate"
	"github.com/statelab/statelab/internal/base/schema"
)

// gethBlocks is a log of blocks, each with three calls, a second after the other; a record is a
// line, or with byBlock the lines of a block.
func gethBlocks(blocks int, byBlock bool) (records []string) {
	for i := range blocks {
		head := fmt.Sprintf("geth: 2025/02/11 19:18:%02d globalTraceLog.go:30: ", i)
		lines := []string{
			fmt.Sprintf("Processing block (start), ID: %d, hash: 0x%02x", 100+i, i),
			fmt.Sprintf("OPType: Get, key: 41%02x, size: 2", i),
			fmt.Sprintf("OPType: BatchPut, key: 41%02x, size: 2, value: f801, size: 2", i),
			"OPType: BatchPutCommit",
			fmt.Sprintf("Processing block (end), ID: %d, hash: 0x%02x", 100+i, i),
		}

		for k := range lines {
			lines[k] = head + lines[k] + "\n"
		}

		if byBlock {
			lines = []string{strings.Join(lines, "")}
		}

		records = append(records, lines...)
	}

	return records
}

// gethOutcome is what an import of a log tells.
func gethOutcome(t *testing.T) func([]string) mutilate.Outcome {
	return func(records []string) mutilate.Outcome {
		log := logOf(t, []byte(strings.Join(records, "")))
		_, err := readAll(log)
		return mutilate.Outcome{
			Err:  err,
			Told: strings.Join(append(log.Info().NotChecked, log.Doubts()...), "; "),
		}
	}
}

// mergedLines is one line of two.
func mergedLines(a, b string) string { return strings.TrimSuffix(a, "\n") + b }

const callsNotSeen = "a call that is missing, there twice or moved within a second cannot be seen"

func TestMutilatedGethLogs(t *testing.T) {
	t.Run("calls", func(t *testing.T) {
		records := gethBlocks(20, false)
		mutilate.Demand(t, records, 51, mergedLines, gethOutcome(t), map[string]string{
			mutilate.Dropped:   callsNotSeen,
			mutilate.Doubled:   callsNotSeen,
			mutilate.Merged:    "refused: line 52: ",
			mutilate.Reordered: callsNotSeen,
			mutilate.Sampled: "9 blocks missing, in 9 gaps: the first is between blocks " +
				"100 and 102",
		})
	})

	t.Run("marks of blocks", func(t *testing.T) {
		records := gethBlocks(20, false)
		const begins = "refused: block 110 ends, and the line where it begins is missing"
		mutilate.Demand(t, records, 50, mergedLines, gethOutcome(t), map[string]string{
			mutilate.Dropped:   begins,
			mutilate.Doubled:   "refused: line 52: block 110 begins a second time",
			mutilate.Merged:    begins,
			mutilate.Reordered: callsNotSeen, // a call before the mark
			mutilate.Sampled:   "9 blocks missing, in 9 gaps",
		})

		mutilate.Demand(t, records, 54, mergedLines, gethOutcome(t), map[string]string{
			mutilate.Dropped:   "1 blocks do not end before the next begins",
			mutilate.Doubled:   "refused: line 56: block 110 ends a second time",
			mutilate.Merged:    "refused: line 55: ",
			mutilate.Reordered: "refused: line 56: block 110 ends, and the line where it begins",
			mutilate.Sampled:   "9 blocks missing, in 9 gaps",
		})
	})

	t.Run("blocks", func(t *testing.T) {
		concatenated := func(a, b string) string { // the second block's marks are gone
			lines := strings.SplitAfter(b, "\n")
			return strings.Join(strings.SplitAfter(a, "\n")[:4], "") +
				strings.Join(lines[1:5], "")
		}

		mutilate.Demand(t, gethBlocks(20, true), 10, concatenated, gethOutcome(t),
			map[string]string{
				mutilate.Dropped: "1 block missing, in 1 gap: the first is between " +
					"blocks 109",
				mutilate.Doubled: "1 blocks have no higher number than the block before them",
				mutilate.Merged: "refused: block 111 ends, and the line where it begins is " +
					"missing",
				mutilate.Reordered: "1 lines have an earlier time than the line before, first " +
					"line 56",
				mutilate.Sampled: "9 blocks missing, in 1 gap: the first is between " +
					"blocks 100",
			})
	})

	t.Run("head and tail", func(t *testing.T) {
		records := gethBlocks(20, false)
		got := gethOutcome(t)(records[3:53])
		if got.Err != nil || !strings.Contains(got.Told, "begins inside block 100") ||
			!strings.Contains(got.Told, "ends inside block 110") {
			t.Error(got)
		}
	})
}

// ownRecords are the operations of a file of our own, and its header and end.
func ownRecords(t *testing.T, path string) (header []byte, records [][]byte) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close()
	in, err := Decompressed(file)
	if err != nil {
		t.Fatal(err)
	}

	if header, err = in.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}

	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	var op Op
	for f.Next(&op) == nil {
		records = append(records, op.append(nil))
	}

	return header, records
}

func TestMutilatedOwnLogs(t *testing.T) {
	whole := written(t, strings.Join(gethBlocks(20, false), ""))
	header, records := ownRecords(t, whole)
	if err := json.Unmarshal(header, new(map[string]any)); err != nil {
		t.Fatal(err)
	}

	unpacked, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}

	in, err := Decompressed(bytes.NewReader(unpacked))
	if err != nil {
		t.Fatal(err)
	}

	all := new(bytes.Buffer)
	if _, err := all.ReadFrom(bufio.NewReader(in)); err != nil {
		t.Fatal(err)
	}

	last := all.Bytes()[len(header)+len(bytes.Join(records, nil)):]
	imports := func(ending []byte) func([][]byte) mutilate.Outcome {
		return func(records [][]byte) mutilate.Outcome {
			path := filepath.Join(t.TempDir(), "log.slkt")
			packer, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}

			text := bytes.Join([][]byte{header, bytes.Join(records, nil), ending}, nil)
			if err := os.WriteFile(path, packer.EncodeAll(text, nil), 0o644); err != nil {
				t.Fatal(err)
			}

			f, err := Open(path)
			if err != nil {
				return mutilate.Outcome{Err: err}
			}

			defer f.Close()
			_, err = readAll(f)
			return mutilate.Outcome{Err: err, Told: strings.Join(f.Doubts(), "; ")}
		}
	}

	merged := func(a, b []byte) []byte { return append(bytes.Clone(a), b[1:]...) }
	mutilate.Demand(t, records, 41, merged, imports(last), map[string]string{
		mutilate.Dropped: "refused: operation 79: its end counts 80 operations, and 79 are " +
			"before",
		mutilate.Doubled: "refused: operation 81: its end counts 80 operations, and 81 are " +
			"before",
		mutilate.Merged:    "refused: operation ",
		mutilate.Reordered: "refused: the checksum of its operations is wrong",
		mutilate.Sampled: "refused: operation 8: its end counts 80 operations, and 8 are " +
			"before it",
	})

	// A file of an earlier version has no end: it is read, and its user is told.
	const notCounted = "does not count its operations"
	if got := imports(nil)(records); got.Err != nil || !strings.Contains(got.Told, notCounted) {
		t.Error(got)
	}

	if header := string(header); !strings.Contains(header, schema.Traffic) {
		t.Errorf("header %s", header)
	}
}
