package blockbased

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/chain/kvlog"
)

// traced runs a benchmark of Debian's db_bench, which traces its queries, and returns what it says.
func traced(t *testing.T, dir, benchmark string, arguments ...string) (trace []byte, said string) {
	t.Helper()
	program := testring.Program(t, "db_bench")
	file := filepath.Join(dir, benchmark+".trace")
	arguments = append([]string{"--db=" + filepath.Join(dir, "db"), "--num=2000", "--reads=1500",
		"--seed=7", "--threads=1", "--compression_type=none",
		"--statistics", "--value_size=77", "--benchmarks=" + benchmark, "--trace_file=" + file},
		arguments...)

	out, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("db_bench %s: %v\n%s", arguments, err, out)
	}

	if trace, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}

	return trace, string(out)
}

func counted(t *testing.T, said, name string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^rocksdb\.` + regexp.QuoteMeta(name) + ` COUNT : (\d+)$`).
		FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("db_bench tells no %s:\n%s", name, said)
	}

	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}

	return n
}

// operations reads a trace: how many operations of each kind it has, and those that keep keys.
func operations(
	trace []byte, family uint32,
) (kinds map[kvlog.Kind]int, kept map[string]uint64, gets []string, others uint64, err error) {
	kinds, kept = map[kvlog.Kind]int{}, map[string]uint64{}
	s, err := OpenQueryTrace(bufio.NewReader(bytes.NewReader(trace)), "T", family)
	if err != nil {
		return nil, nil, nil, 0, err
	}

	var op kvlog.Op
	for {
		if err := s.Next(&op); err == io.EOF {
			return kinds, kept, gets, s.Others, nil
		} else if err != nil {
			return kinds, kept, gets, s.Others, err
		}

		kinds[op.Kind]++
		switch op.Kind {
		case kvlog.BatchPut:
			kept[string(op.Key)] = op.Number
		case kvlog.Get:
			gets = append(gets, string(op.Key))
		}
	}
}

// TestQueryTraces reads traces that RocksDB's own benchmark has written: the operations are as many
// as it counts, and the Gets of what it wrote before find as many keys as it says.
func TestQueryTraces(t *testing.T) {
	dir := t.TempDir()
	trace, said := traced(t, dir, "fillrandom")
	kinds, kept, _, _, err := operations(trace, 0)
	if n := counted(t, said, "number.keys.written"); err != nil || kinds[kvlog.BatchPut] != n ||
		kinds[kvlog.Commit] != n || len(kinds) != 2 {
		t.Errorf("%v: %v, RocksDB has written %d keys", err, kinds, n)
	}

	for key, size := range kept {
		if size != 77 {
			t.Errorf("key %x: a value of %d bytes", key, size)
		}
	}

	for benchmark, counter := range map[string]string{
		"readrandom":      "number.keys.read",
		"multireadrandom": "number.multiget.keys.read",
	} {
		trace, said := traced(t, dir, benchmark, "--use_existing_db")
		kinds, _, gets, _, err := operations(trace, 0)
		if n := counted(t, said, counter); err != nil || kinds[kvlog.Get] != n || len(kinds) != 1 {
			t.Errorf("%s: %v: %v, RocksDB has read %d keys", benchmark, err, kinds, n)
		}

		found := 0
		for _, key := range gets {
			if _, is := kept[key]; is {
				found++
			}
		}

		if !strings.Contains(said, "("+strconv.Itoa(found)+" of 1500 found)") || found == 0 {
			t.Errorf("%s: %d Gets find a key\n%s", benchmark, found, said)
		}

		if kinds, _, _, others, err := operations(trace, 5); err != nil || len(kinds) != 0 ||
			others != 1500 {
			t.Errorf("another family: %v, %d others, %v", kinds, others, err)
		}

		for _, cut := range []int{len(trace) - 20, len(trace) - 1, 7} {
			_, _, _, _, err := operations(trace[:cut], 0)
			if engine.CodeOf(err) != engine.CodeDamaged ||
				!strings.Contains(err.Error(), "ends early") {
				t.Errorf("%d of %d bytes: %v", cut, len(trace), err)
			}
		}
	}

	trace, said = traced(t, dir, "seekrandom", "--use_existing_db")
	if kinds, _, _, _, err := operations(trace, 0); err != nil ||
		kinds[kvlog.Scan] != counted(t, said, "number.db.seek") {
		t.Errorf("%v: %v", err, kinds)
	}

	trace, _ = traced(t, dir, "deleterandom", "--use_existing_db")
	if kinds, _, _, _, err := operations(trace, 0); err != nil || kinds[kvlog.BatchDelete] != 2000 {
		t.Errorf("%v: %v", err, kinds)
	}

	if _, _, _, _, err := operations([]byte("feedcafe and not a trace"), 0); !errors.As(err,
		new(*engine.Failure)) {
		t.Error(err)
	}
}

func FuzzQueryTrace(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, _, _, _ = operations(text, 0) // it ends
	})
}
