package failure

import (
	"regexp"
	"strings"

	"github.com/statelab/statelab/engine"
)

// rule says what words of another program mean, in lower case.
type rule struct {
	words string
	code  engine.Code
}

// CodeZstd is the code of blocks compressed with zstd that Pebble v1, built with cgo, cannot read.
const CodeZstd engine.Code = "zstd_with_cgo"

// foreign are words of libraries that keep the text of an error alone. Whoever passes an
// errno on is recognised by that. Each has a test, against the library itself where it
// runs in pure Go.
var foreign = []rule{
	{"decompressed into unexpected buffer", CodeZstd},
	// strerror, as RocksDB, LMDB and MDBX pass it on
	{"no space left on device", engine.CodeDiskFull},
	{"input/output error", engine.CodeIO},             // strerror
	{"i/o error", engine.CodeIO},                      // libraries without strerror
	{"read-only file system", engine.CodeIO},          // strerror
	{"no such file or directory", engine.CodeMissing}, // strerror
	{"cannot allocate memory", engine.CodeMemory},     // strerror
	{"sigbus", engine.CodeMappedFile},                 // Go's runtime
	{"bus error", engine.CodeMappedFile},              // the shell
	{"context canceled", engine.CodeInterrupted},      // Go, where the cause is not wrapped
}

// rocksDB are words that mean something in RocksDB's errors alone.
var rocksDB = []rule{
	{"/lock: resource temporarily unavailable", engine.CodeInUse}, // of another process
	{"/lock: no locks available", engine.CodeInUse},               // of this one
	{"could not find option", engine.CodeOption},
	{"not recognized", engine.CodeOption}, // until version 6
	{".sst: no such file or directory", engine.CodeMissing},
	{".blob: no such file or directory", engine.CodeMissing},
	// as one does that stands for code which is not here
	{"merge operator failed", engine.CodeUnsupported},
}

// badger are words of Badger's log, which alone tells of these.
var badger = []rule{
	{"error flushing memtable", engine.CodeIO}, // it tries again for ever
	{"log truncate required", engine.CodeUnsupported},
}

// slurm are words of Slurm's programs about their controller.
var slurm = []rule{
	{"unable to contact", engine.CodeUnavailable},
	{"connection refused", engine.CodeUnavailable},
	{"connect failure", engine.CodeUnavailable},
	{"socket timed out", engine.CodeUnavailable},
	{"transport endpoint", engine.CodeUnavailable},
	{"zero bytes were transmitted", engine.CodeUnavailable},
	{"temporarily unable", engine.CodeUnavailable},
	{"slurmctldhost", engine.CodeUnavailable},
}

// Foreign is the code of another program's text; empty: it says nothing that is known here.
func Foreign(text string) engine.Code { return recognise(text, foreign) }

// RocksDB is the code of the text of one of RocksDB's errors.
func RocksDB(text string) engine.Code { return recognise(text, rocksDB) }

// Badger is the code of a line of Badger's log, or of an error, whose cause its wrapping hides.
func Badger(line string) engine.Code { return recognise(line, badger) }

// Slurm is the code of what one of Slurm's programs says on its standard error.
func Slurm(text string) engine.Code { return recognise(text, slurm) }

func recognise(text string, rules []rule) engine.Code {
	text = strings.ToLower(text)
	for _, r := range rules {
		if strings.Contains(text, r.words) {
			return r.code
		}
	}
	return ""
}

// ofMapped reports whether a text is LMDB's or MDBX's, whose errors have names alone.
func ofMapped(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "mdb_") || strings.Contains(text, "mdbx_")
}

// signalLine is what Go's runtime says of a fatal signal in C code, before it exits
// with a code of its own: "[signal SIGSEGV: segmentation violation code=..." or
// "SIGABRT: abort".
var signalLine = regexp.MustCompile(`(?m)^(?:\[signal )?(SIG[A-Z]+): `)

// Caught is the name of the signal that Go's runtime says it died of; empty: none.
func Caught(text string) string {
	if match := signalLine.FindStringSubmatch(text); match != nil {
		return match[1]
	}
	return ""
}

// LastWord is the line of a dead process's words that says most: a signal's, a panic,
// a fatal error's or a full disk's, else the last.
func LastWord(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if signalLine.MatchString(line) {
			return strings.Trim(line, "[] ")
		}
	}

	for _, line := range lines {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
			Foreign(line) == engine.CodeDiskFull {
			return strings.TrimSpace(line)
		}
	}

	return strings.TrimSpace(lines[len(lines)-1])
}
