package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/setting"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt with what statelab prints now")

// TestGolden runs every "$ statelab ..." of testdata/*.txt and compares all that
// is printed, stdout before stderr, and the exit code where it is not 0.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}

	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}

			var got strings.Builder
			for _, line := range strings.Split(string(want), "\n") {
				if args, isCommand := strings.CutPrefix(line, "$ statelab"); isCommand {
					transcribe(t, &got, strings.Fields(args))
				}
			}

			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}

			if n, a, b := firstDifference(got.String(), string(want)); n > 0 {
				t.Errorf("%s:%d: printed %q, golden is %q (go test -update rewrites it)", path, n,
					a, b)
			}
		})
	}
}

func transcribe(t *testing.T, out *strings.Builder, args []string) {
	s := start(t, args...)
	o := s.wait()
	machine := strings.NewReplacer(s.command.Dir, "$PWD",
		fmt.Sprintf("this machine's, %d)", runtime.NumCPU()), "this machine's, N)")
	fmt.Fprintf(out, "$ statelab %s\n%s", strings.Join(args, " "),
		machine.Replace(o.stdout+o.stderr))
	if o.exit != exitDone {
		fmt.Fprintf(out, "(exit %d)\n", o.exit)
	}

	out.WriteString("\n")
}

// firstDifference is the number and both versions of the first line that differs.
func firstDifference(a, b string) (line int, inA, inB string) {
	linesA, linesB := strings.Split(a, "\n"), strings.Split(b, "\n")
	at := func(lines []string, i int) string {
		if i < len(lines) {
			return lines[i]
		}
		return ""
	}

	for i := range max(len(linesA), len(linesB)) {
		if at(linesA, i) != at(linesB, i) {
			return i + 1, at(linesA, i), at(linesB, i)
		}
	}

	return 0, "", ""
}

// TestEveryVerbHasItsHelpInGolden keeps testdata/help.txt complete.
func TestEveryVerbHasItsHelpInGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}

	for _, verb := range new(app).root().Commands() {
		if !strings.Contains(string(text), "$ statelab "+verb.Name()+" --help\n") {
			t.Errorf("testdata/help.txt lacks: $ statelab %s --help", verb.Name())
		}
	}
}

func TestMetricsStayOnThisMachine(t *testing.T) {
	for text, want := range map[string]string{
		":9464":        "127.0.0.1:9464",
		"127.0.0.1:0":  "127.0.0.1:0",
		"0.0.0.0:9464": "0.0.0.0:9464",
		"[::1]:9464":   "[::1]:9464",
		"9464":         "",
		":http":        "",
		":70000":       "",
		"":             "",
		"host":         "",
	} {
		got, err := setting.Address.Parse(text)
		if (err == nil) != (want != "") || want != "" && got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestLongListsOfMistakesAreCut(t *testing.T) {
	var caches []string
	for i := range setting.MaxShown + 5 {
		caches = append(caches, fmt.Sprint(i, "XB"))
	}

	o := statelab(t, "sweep", "--keys", "2M", "--cache", strings.Join(caches, ","))
	refused(t, o, exitUsage, fmt.Sprintf("%d mistakes", setting.MaxShown+5), "and 5 more")
	if lines := strings.Count(o.stderr, "\n"); lines > setting.MaxShown+3 {
		t.Errorf("%d lines", lines)
	}
}

// Values that say nothing are defaults or mistakes; neither panics.
func TestEmptyAndImpossibleValues(t *testing.T) {
	must(t, "predict", "--keys", "100k", "--compression", "", "--cores", "2", "--gets", "1k",
		"--cache", "4MiB")
	refused(t, statelab(t, "layouts", "--layout", "flat-pebble", "--accounts", ""), exitUsage,
		`--accounts: invalid number ""`)
	db := small(t, "1k")
	for said, args := range map[string][]string{
		"--set: option blok_size: the prediction does not depend on it": {"--keys", "1k",
			"--engine", "rocksdb", "--set", "blok_size=4096"},
		"--set: option metadata_block_size=0 must be at least 1": {"--keys", "1k",
			"--engine", "rocksdb", "--set", "metadata_block_size=0"},
		"--set block_size: must have one value": {"--keys", "1k",
			"--engine", "rocksdb", "--set", "block_size=4096,8192"},
		"--set block_size: only with --keys and --engine rocksdb": {"--db", db, "--set",
			"block_size=4096"},
		"--engine rocksdb: a level table is one of Pebble's": {"--levels",
			filepath.Join(db, "statelab.json"), "--engine", "rocksdb"},
	} {
		refused(t, statelab(t, append([]string{"predict", "--cache", "1MiB"}, args...)...),
			exitUsage, said)
	}

	refused(t, statelab(t, "inspect", db, "--cache", "1MiB"), exitUsage,
		"--cache: only with --as, or for a database of RocksDB")
	refused(t, statelab(t, "inspect", db, "--as", "geth-1.17-v2", "--cache", "1MiB"), exitUsage,
		"--cache: not with --as PROFILE")
	refused(t, statelab(t, "inspect", db, "--as", "geth-1.17-v2", "--sample-keys", "1"), exitUsage,
		"--sample-keys: not with --as")
	for wrong, value := range map[string]string{
		"--memory":   "NaN",
		"--workload": "nonsense",
		"--metrics":  "nonsense",
		"--cache":    "64",
	} {
		refused(t, statelab(t, "sweep", "--db", db, wrong, value), exitUsage, wrong, value)
	}
}
