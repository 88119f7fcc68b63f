package xatu

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parquet-go/parquet-go"

	"github.com/statelab/statelab/internal/base/mutilate"
)

// readRow is of canonical_execution_storage_reads.
type readRow struct {
	Block    uint64 `parquet:"block_number"`
	Tx       uint64 `parquet:"transaction_index"`
	Internal uint32 `parquet:"internal_index"`
	Address  string `parquet:"contract_address"`
	Slot     string `parquet:"slot"`
	Value    string `parquet:"value"`
	Network  string `parquet:"meta_network_name"`
}

func TestMutilatedTables(t *testing.T) {
	var rows []readRow
	for i := range 20 {
		rows = append(rows, readRow{Block: uint64(100 + i/10), Tx: uint64(i % 10 / 5),
			Internal: uint32(i % 5), Address: "0x" + strings.Repeat("ab", 20),
			Slot: fmt.Sprintf("0x%064x", i), Value: fmt.Sprintf("0x%064x", 7), Network: "mainnet"})
	}

	const notSeen = "rows that are missing cannot be seen; their order does not matter"
	mutilate.Demand(t, rows, 12, func(a, b readRow) readRow { a.Value = b.Value; return a },
		func(rows []readRow) mutilate.Outcome {
			var file bytes.Buffer
			if err := parquet.Write(&file, rows); err != nil {
				t.Fatal(err)
			}

			s, err := Open(fstest.MapFS{"reads.parquet": {Data: file.Bytes()}}, ".")
			if err != nil {
				return mutilate.Outcome{Err: err}
			}

			_, err = all(s)
			return mutilate.Outcome{Err: err, Told: strings.Join(s.Info().NotChecked, "; ")}
		}, map[string]string{
			mutilate.Dropped: notSeen,
			mutilate.Doubled: "refused: block 101, transaction 0: two rows of " +
				"canonical_execution_storage_reads have the internal_index 2",
			mutilate.Merged:    notSeen,
			mutilate.Reordered: notSeen,
			mutilate.Sampled:   notSeen,
		})
}
