package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/chain/accesses"
)

// TestMain is the program itself where a test starts it.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && filepath.Base(os.Args[1]) == fileName {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const fileName = "t.parquet"

// imported reads a file as statelab accesses import does, in a process of its own.
func imported(t *testing.T, text []byte) (blocks int, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), fileName)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}

	p, err := accesses.OpenProgram(t.Context(), os.Args[0], path)
	if err != nil {
		return 0, err
	}

	defer p.Close() // it is only read
	for ; ; blocks++ {
		if err := p.Next(new(accesses.Block)); errors.Is(err, io.EOF) {
			return blocks, nil
		} else if err != nil {
			return blocks, err
		}
	}
}

// TestDamagedTables flips bits of files that ClickHouse and Arrow wrote: what is not read as a list
// is refused by an error that names the file, whatever it asks for.
func TestDamagedTables(t *testing.T) {
	refused := 0
	for n, name := range []string{"storage_reads_none", "storage_reads_arrow1",
		"storage_reads_arrow2", "storage_reads_lz4",
		"canonical_execution_balance_diffs.parquet"} {
		whole, err := os.ReadFile(filepath.Join("../../internal/chain/xatu/testdata", name))
		if err != nil {
			t.Fatal(err)
		}

		if blocks, err := imported(t, whole); err != nil || blocks == 0 {
			t.Fatalf("%s: %d blocks, %v", name, blocks, err)
		}

		random := rand.New(rand.NewPCG(uint64(n), 1))
		for range 40 {
			text := bytes.Clone(whole)
			at, flip := random.IntN(len(text)), []byte{1, 0x40, 0xff}[random.IntN(3)]
			text[at] ^= flip
			if _, err := imported(t, text); err != nil {
				refused++
				if says := err.Error(); !strings.Contains(says, "t.parquet: ") &&
					!strings.Contains(says, "block ") {
					t.Errorf("%s with %#x at %d: %v", name, flip, at, err)
				}
			}
		}
	}

	if refused == 0 {
		t.Error("no damaged file was refused")
	}
}

// TestHostileLengths are files whose lengths ask for more than there is.
func TestHostileLengths(t *testing.T) {
	footer := func(text []byte) []byte {
		n := len(text)
		return append(append([]byte("PAR1"), text...), byte(n), byte(n>>8), byte(n>>16),
			byte(n>>24), 'P', 'A', 'R', '1')
	}

	for what, text := range map[string][]byte{
		"a footer longer than the file": []byte("PAR1\xff\xff\xff\x7fPAR1"),
		"a list of 2^31 columns":        footer([]byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 7}),
		"a text of 2^40 bytes":          footer([]byte{0x68, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20}),
		"structures in structures":      footer(bytes.Repeat([]byte{0x1c}, 1000)),
		"an empty file":                 nil,
		"a file that is not Parquet":    []byte("this is not a Parquet file"),
	} {
		began := time.Now()
		_, err := imported(t, text)
		if err == nil || !strings.Contains(err.Error(), "t.parquet: ") || len(err.Error()) > 600 {
			t.Errorf("%s: %v", what, err)
		}

		t.Logf("%s, after %v: %v", what, time.Since(began).Round(time.Millisecond), err)
	}
}

func FuzzTables(f *testing.F) {
	files, err := filepath.Glob("../../internal/chain/xatu/testdata/*[^y]")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}

	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := imported(t, text); err != nil &&
			!strings.Contains(err.Error(), "t.parquet: ") &&
			!strings.Contains(err.Error(), "block ") {
			t.Error(err)
		}
	})
}
