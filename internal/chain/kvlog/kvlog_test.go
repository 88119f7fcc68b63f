package kvlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
)

const lineHead = "geth: 2025/02/11 19:18:38 globalTraceLog.go:30: "

// goodLog has each line of tinoryj/EthAnalysis's store once.
const goodLog = lineHead + `Global log file opened successfully
` + lineHead + `OPType: NewBatch
` + lineHead + `OPType: NewBatchWithSize, size: 102400
` + lineHead + `Processing block (start), ID: 20500000, hash: 0x00ff
` + lineHead + `OPType: Has, key: 6c00, size: 2
` + lineHead + `OPType: Get, key: 4100ff, size: 3
` + lineHead + `OPType: BatchPut, key: 4100ff, size: 3, value: f801, size: 2
` + lineHead + `OPType: BatchDelete, key: 4f00, size: 2
` + lineHead + `OPType: GetBatchValueSize, size: 7
` + lineHead + `OPType: BatchPutCommit
` + lineHead + `OPType: Put, key: 4c617374, size: 4, value: , size: 0
` + lineHead + `OPType: Delete, key: 4f01, size: 2
` + lineHead + `OPType: NewIterator, prefix: 61, start key: 02
` + lineHead + `OPType: IteratorNext
` + lineHead + `OPType: Compact, start key: , end key: ff
` + lineHead + `Processing block (end), ID: 20500000, hash: 0x00ff
` + lineHead + `Closing database
`

const goodOps = `b "" 20500000
h "l\x00" 0
g "A\x00\xff" 0
P "A\x00\xff" 2
D "O\x00" 0
c "" 0
p "Last" 0
d "O\x01" 0
s "a\x02" 0
n "" 0
`

func readAll(s Source) (text string, err error) {
	var op Op
	for {
		if err := s.Next(&op); err == io.EOF {
			return text, nil
		} else if err != nil {
			return text, err
		}

		text += fmt.Sprintf("%c %q %d\n", op.Kind, op.Key, op.Number)
	}
}

func logOf(t *testing.T, text []byte) *GethLog {
	t.Helper()
	in, err := Decompressed(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return NewGethLog(in, "L")
}

func zipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

func TestLogs(t *testing.T) {
	for name, text := range map[string][]byte{"plain": []byte(goodLog), "gzip": zipped(goodLog)} {
		if got, err := readAll(logOf(t, text)); err != nil || got != goodOps {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// A value can be longer than any buffer; of its digits each is looked at.
func TestLongValues(t *testing.T) {
	const size = 3 << 20
	long := lineHead + "OPType: Put, key: 4c, size: 1, value: " + strings.Repeat("0f", size) +
		fmt.Sprintf(", size: %d\n", size)
	got, err := readAll(logOf(t, []byte(goodLog+long)))
	if want := goodOps + fmt.Sprintf("p \"L\" %d\n", size); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}

	wrong := []byte(goodLog + long)
	wrong[len(wrong)-2000] = 'g'
	if _, err := readAll(logOf(t, wrong)); engine.CodeOf(err) != engine.CodeDamaged ||
		!strings.Contains(err.Error(), "line 18:") {
		t.Error(err)
	}
}

// What is wrong is named with its line, and the way out is the lines before it.
func TestWrongLogs(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"OPType: Get, key: 4100ff, si", `line 18: it ends early`},
		{"OPType: Get, key: 4100ff, size: 4\n",
			`line 18: its key has 3 bytes, and its size says 4`},
		{"OPType: Get, key: 4100f, size: 3\n", `line 18: an odd number of hexadecimal digits (5)`},
		{"OPType: Get, key: 4x, size: 1\n", `line 18: an odd number of hexadecimal digits (1)`},
		{"OPType: Get, key: 41, size: 1x\n",
			`line 18: the end of the line is expected, and "x" found`},
		{"OPType: Put, key: 41, size: 1, value: f801, size: 3\n",
			`line 18: its value has 4 hexadecimal digits, and its size says 3 bytes`},
		{"OPType: Put, key: 41, size: 1, value: fx01, size: 2\n",
			`line 18: ", size: " is expected, and "x01, size: 2" found`},
		{"OPType: Put, key: 41, size: 1\n", `line 18: it ends early`},
		{"OPType: Merge, key: 41, size: 1\n", `line 18: unknown operation "Merge"`},
		{"Processing block (begin), ID: 7, hash: 0x00\n",
			`line 18: "end" is expected, and "begin), ID: 7`},
		{"Processing block (start), ID: 7x, hash: 0x00\n", `line 18: ", hash: 0x" is expected`},
		{"something else\n",
			`line 18: "geth: 2025/02/11 19:18:38 globalTraceLog.go:30: something else" is not a ` +
				`line of such a log`},
		{"OPType: Get, key: " + strings.Repeat("41", 1<<18) + ", size: 262144\n",
			`line 18: it is too long`},
	} {
		got, err := readAll(logOf(t, []byte(goodLog+lineHead+c.line)))
		if got != goodOps || engine.CodeOf(err) != engine.CodeDamaged ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v", c.line, err)
			continue
		}

		if remedy := remedyOf(err); !strings.Contains(remedy, "head -n 17 LOG") ||
			engine.CodeOf(err) != engine.CodeDamaged {
			t.Errorf("%.60q: remedy %q, code %v", c.line, remedy, engine.CodeOf(err))
		}
	}

	var blocks strings.Builder
	for i := range 50 {
		blocks.WriteString(strings.ReplaceAll(goodLog, "20500000", strconv.Itoa(20500000+i)))
	}

	cut := zipped(blocks.String())
	_, err := readAll(logOf(t, cut[:len(cut)-12]))
	if engine.CodeOf(err) != engine.CodeDamaged ||
		!strings.Contains(err.Error(), "the compressed file ends early") {
		t.Error(err)
	}
}

func written(t *testing.T, log string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.slkt")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := Write(
		file,
		logOf(t, []byte(log)),
		Info{Form: "f", Provenance: "p", Client: "geth"},
		func(uint64) error { return nil },
	); err != nil {
		t.Fatal(err)
	}

	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestOwnForm(t *testing.T) {
	path := written(t, goodLog)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}

	defer f.Close()
	if got, err := readAll(f); err != nil || got != goodOps ||
		!reflect.DeepEqual(f.Info(), Info{Form: "f", Provenance: "p", Client: "geth"}) ||
		len(f.Doubts()) > 0 {
		t.Errorf("%v %v\n%s", err, f.Info(), got)
	}

	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	for cut := range whole { // no part of it passes for the whole
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}

		f, err := Open(path)
		if err == nil {
			_, err = readAll(f)
			f.Close()
		}

		if err == nil {
			t.Errorf("%d of %d bytes are read as a whole file", cut, len(whole))
		}
	}
}

// The counts follow from how the log is made: key i of 50,000 is written, read in the next block,
// and one in ten read once more 300 blocks later.
func TestCount(t *testing.T) {
	const keys = 50_000
	var log strings.Builder
	for block := range 400 {
		fmt.Fprintf(&log, "Processing block (start), ID: %d, hash: 0x00\n", 1000+block)
		for i := range keys / 50 {
			key := fmt.Sprintf("%s%06x", []string{"61", "6f"}[i%2], block*keys/50+i)
			switch {
			case block < 50:
				fmt.Fprintf(&log, "OPType: Put, key: %s, size: 4, value: 0000, size: 2\n", key)
			case block < 100:
				key = fmt.Sprintf("%s%06x", []string{"61", "6f"}[i%2], (block-50)*keys/50+i)
				fmt.Fprintf(&log, "OPType: Get, key: %s, size: 4\n", key)
			case block == 399 && i < keys/100:
				fmt.Fprintf(&log, "OPType: Get, key: %s%06x, size: 4\n", []string{"61", "6f"}[i%2],
					i)
				fmt.Fprintf(&log, "OPType: Get, key: %s%06x, size: 4\n", []string{"61", "6f"}[i%2],
					i)
			}
		}
	}

	path := written(t, log.String())
	for _, maximum := range []int{1 << 20, 1000} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}

		facts, err := count(
			path,
			f,
			func(key []byte) string { return string(key[:1]) },
			func(uint64) error { return nil },
			maximum,
		)

		f.Close()
		if err != nil {
			t.Fatal(err)
		}

		if facts.Blocks != 400 || facts.First != 1000 || facts.Last != 1399 ||
			facts.Operations != 2*keys+keys/50 || facts.Reads != keys+keys/50 {
			t.Errorf("%+v", facts)
		}

		for _, c := range append(facts.Classes, facts.All) {
			half := 0.5
			if c.Class == "all" {
				half = 1
			}

			if c.OfAll != half || c.KeyBytes != 4 || c.ValueBytes != 2 || c.Unwritten != 0 ||
				c.Deleted != 0 {
				t.Errorf("%+v", c)
			}

			// 500 second reads in block 1399 follow the first; the first come 349 blocks after the
			// one before.
			again, tolerance := float64(keys/100)/float64(keys+keys/50), 0.0
			if maximum < keys {
				tolerance = 0.02
			}

			if d := c.Again - again; d > tolerance || -d > tolerance {
				t.Errorf("at most %d keys followed: %v is read again, of %v", maximum, c.Again,
					again)
			}

			if d := c.Keys/(half*keys) - 1; d > 10*tolerance || -d > 10*tolerance {
				t.Errorf("at most %d keys followed: %v keys", maximum, c.Keys)
			}
		}
	}
}

func FuzzGethLog(f *testing.F) {
	f.Add([]byte(goodLog))
	f.Fuzz(func(t *testing.T, text []byte) {
		var op Op
		log := NewGethLog(bufio.NewReaderSize(bytes.NewReader(text), 64), "L")
		for log.Next(&op) == nil {
			if len(op.Key) > MaxKeyBytes ||
				op.Kind.numbered() && op.Kind != Block && op.Number > MaxValueBytes {
				t.Fatalf("%+v", op)
			}
		}
	})
}

func remedyOf(err error) string {
	if f, is := errors.AsType[*engine.Failure](err); is {
		return f.Remedy
	}
	return ""
}
