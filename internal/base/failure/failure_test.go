package failure

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/statelab/statelab/engine"
)

// TestEveryCodeHasAMeaning: the list is closed.
func TestEveryCodeHasAMeaning(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../engine/failure.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	known := len([]engine.Code{CodeZstd}) // which the contract does not have
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return true
		}

		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}

		if m, is := meanings[engine.Code(code)]; !is || m.exit == Done {
			t.Errorf("%s has no exit code", code)
		}

		known++
		return true
	})

	if known != len(meanings) || known == 1 {
		t.Errorf("%d codes, %d meanings", known, len(meanings))
	}
}

// locked is a type that knows its code.
type locked struct{}

func (locked) Error() string                 { return "somebody has it" }
func (locked) FailureCode() engine.Code      { return engine.CodeInUse }
func wrapped(err error) error                { return fmt.Errorf("open D: %w", err) }
func free(bytes int64) func() (int64, error) { return func() (int64, error) { return bytes, nil } }

func TestOf(t *testing.T) {
	own := engine.Fail(engine.CodeDiskFull, "write 7: %w", syscall.ENOSPC)
	own.Remedy = "load fewer --keys"
	for _, c := range []struct {
		err    error
		code   engine.Code
		exit   int
		remedy string
	}{
		{errors.New("wrong answer"), "", Failed, ""},
		{wrapped(locked{}), engine.CodeInUse, Failed, ""},
		{wrapped(own), engine.CodeDiskFull, Failed, "load fewer --keys"},
		{errors.Join(errors.New("close"), wrapped(own)), engine.CodeDiskFull, Failed,
			"load fewer --keys"},
		{errors.Join(locked{}, own), engine.CodeInUse, Failed, ""}, // the first
		{engine.Fail(engine.CodeUsage, "--keys 0"), engine.CodeUsage, Usage, ""},
		{engine.Fail(engine.CodeStrict, "2 warnings"), engine.CodeStrict, Strict, ""},
		{wrapped(syscall.ENOSPC), engine.CodeDiskFull, Failed,
			meanings[engine.CodeDiskFull].remedy},
		{&fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}, engine.CodeIO, Failed,
			meanings[engine.CodeIO].remedy},
		{wrapped(fs.ErrNotExist), engine.CodeMissing, Failed, "check the name"},
		{errors.New("IO error: No space left on device: While appending to file: 000012.sst"),
			engine.CodeDiskFull, Failed,
			meanings[engine.CodeDiskFull].remedy},
	} {
		f := From(c.err)
		if f.Code != c.code || Exit(f.Code) != c.exit || f.Remedy != c.remedy ||
			f.Error() != c.err.Error() || !errors.Is(f, c.err) {
			t.Errorf("%v: code %q, exit %d, remedy %q", c.err, f.Code, Exit(f.Code), f.Remedy)
		}
	}

	if From(nil) != nil {
		t.Error("nil is a failure")
	}
}

func TestOn(t *testing.T) {
	const enough = 1 << 30
	for _, c := range []struct {
		text string
		free int64
		full bool
	}{
		{"IO error: No space left on device: While appending", enough, true},
		{"write 000007.log: no space left on device", enough, true},
		{"mdb_txn_commit: Input/output error", 0, true},
		{"SIGBUS: bus error", 0, true},
		{"mdbx_txn_commit: MDBX_EIO", 0, true},
		{"mdbx_txn_commit: MDBX_EIO", enough, false},
		{"key not found", 0, false},
		{"read 000007.sst: input/output error", enough, false},
	} {
		f := ExplainDiskFull(From(errors.New(c.text)), "load less", free(c.free))
		if full := f.Code == engine.CodeDiskFull; full != c.full {
			t.Errorf("%q: %v", c.text, full)
		}

		if c.full && (f.Error() != "the disk is full: "+c.text || f.Remedy != "load less") {
			t.Errorf("%q, %q", f, f.Remedy)
		}
	}

	died := engine.Fail(engine.CodeMappedFile, "killed by signal 7")
	if f := ExplainDiskFull(died, "", free(0)); f.Code != engine.CodeDiskFull {
		t.Errorf("%q", f.Code)
	}
}

// TestWordsOfTheSystem: Go has the words of strerror, in lower case.
func TestWordsOfTheSystem(t *testing.T) {
	for err, code := range map[error]engine.Code{
		syscall.ENOSPC:   engine.CodeDiskFull,
		syscall.EIO:      engine.CodeIO,
		syscall.EROFS:    engine.CodeIO,
		syscall.ENOENT:   engine.CodeMissing,
		syscall.ENOMEM:   engine.CodeMemory,
		context.Canceled: engine.CodeInterrupted,
	} {
		if found := Foreign("put key 7: " + err.Error()); found != code {
			t.Errorf("%v: %q", err, found)
		}

		if found := Foreign(strings.ToUpper(err.Error())); found != code {
			t.Errorf("%v: %q", err, found)
		}
	}

	if found := Foreign("Unexpected EOF"); found != "" {
		t.Errorf("%q", found)
	}
}

// TestWordsOfOthers that run in no test here as they are: engines/rocksdb and plan/slurm ask the
// real ones.
func TestWordsOfOthers(t *testing.T) {
	for text, code := range map[string]engine.Code{
		"IO error: While lock file: /db/LOCK: Resource temporarily unavailable": engine.CodeInUse,
		"IO error: lock hold by current process, acquire time 7 acquiring thread 9: /db/LOCK: No " +
			"locks available": engine.CodeInUse,
		"IO error: While open a file for lock: /db/LOCK: Permission denied": "",
		"Invalid argument: Could not find option: : speed":                  engine.CodeOption,
		"NotFound: Unrecognized option  BlockBasedTableOptions:: speed":     "",
		"Corruption: bad block contents":                                    "",
	} {
		if found := RocksDB(text); found != code {
			t.Errorf("%q: %q", text, found)
		}
	}

	for _, text := range []string{
		"slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
		"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
		"sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
		"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
		"squeue: error: resolve_ctls_from_dns_srv: no SlurmctldHost found",
		"scontrol: error: Transport endpoint is not connected",
		"sinfo: error: Connection refused",
	} {
		if found := Slurm(text); found != engine.CodeUnavailable {
			t.Errorf("%q: %q", text, found)
		}
	}

	const refusal = "sbatch: error: Batch job submission failed: Invalid partition name specified"
	if found := Slurm(refusal); found != "" {
		t.Errorf("%q: %q", refusal, found)
	}

	const unpacked = "pebble: corruption: Decompressed into unexpected buffer: 0xc000 != 0xc001"
	if found := Foreign(unpacked); found != CodeZstd {
		t.Errorf("%q", found)
	}
}

// TestWordsOfGo's runtime, which dies of a fault in a mapped file.
func TestWordsOfGo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the file is mapped as on Linux")
	}

	if path := os.Getenv("STATELAB_TEST_FAULT"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}

		page, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}

		t.Log(page[0]) // behind the end of the file
		return
	}

	child := exec.Command(os.Args[0], "-test.run=^TestWordsOfGo$")
	child.Env = append(os.Environ(), "STATELAB_TEST_FAULT="+filepath.Join(t.TempDir(), "empty"))
	words, err := child.CombinedOutput()
	if err == nil || Caught(string(words)) != "SIGBUS" ||
		Foreign(LastWord(string(words))) != engine.CodeMappedFile {
		t.Errorf("%v, %q, %q", err, Caught(string(words)), LastWord(string(words)))
	}
}

func TestLastWord(t *testing.T) {
	for text, says := range map[string]string{
		"":                               "",
		"opened\nengine: cannot go on\n": "engine: cannot go on",
		"panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n": "panic: index out " +
			"of range",
		"assertion failed\nSIGABRT: abort\nPC=0x7f m=5": "SIGABRT: abort",
		"write 7.log: no space left on device\nretrying\n": "write 7.log: no " +
			"space left on device",
	} {
		if got := LastWord(text); got != says {
			t.Errorf("%q: %q", text, got)
		}
	}
}
