// Package failure tells what kind of failure an error is, and what follows from that:
// the exit code and what the user can do.
//
// Goals: nothing depends on the text of an error, so every text can be reworded.
// Texts of other programs, which have no codes, are recognised in foreign.go alone.
// Non-goals: the type and the list of codes (engine.Failure), which adapters need too.
package failure

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/statelab/statelab/engine"
)

// Exit codes of statelab.
const (
	Done   = 0
	Failed = 1
	Usage  = 2
	Strict = 3 // done, but a warning was made fatal by --strict
)

const again = ", then run the command again, with --resume if it was measuring"

// Measure is the remedy where the blocks that Gets access cannot be worked out; %s is the folder of
// the database.
const Measure = "measure caches instead: statelab sweep --use-existing --db %s --cache " +
	"64MiB,256MiB,1GiB"

// meaning is what follows from a code.
type meaning struct {
	exit   int
	remedy string
}

var meanings = map[engine.Code]meaning{
	engine.CodeUsage:    {exit: Usage},
	engine.CodeNotFound: {Usage, "check the name"},
	engine.CodeNoDatabase: {Usage, "make a database first (statelab load --db DIR --keys N), or " +
		"check the name"},
	engine.CodeStrict:      {exit: Strict},
	engine.CodeInterrupted: {exit: Failed},
	engine.CodeMissing:     {Failed, "check the name"},
	engine.CodeExists:      {exit: Failed},
	engine.CodeNoResult:    {exit: Failed},
	engine.CodeDamaged:     {exit: Failed},
	engine.CodeUnsupported: {exit: Failed},
	engine.CodeDiskFull:    {Failed, "the disk is full: free some space" + again},
	engine.CodeIO: {Failed, "the file system reports errors (dmesg names the cause): " +
		"repair it" + again},
	engine.CodeMappedFile: {Failed, "a file that is mapped into memory could not be read or " +
		"written, because the disk is full or fails " +
		"(dmesg names the cause): remove the cause" + again},
	engine.CodeMemory: {Failed, "memory ran out: free some, or lower --cache or --memory" +
		again},
	engine.CodeKilled: {Failed, "if nobody killed it, memory ran out (dmesg names the limit): " +
		"raise --memory if it was given, else free some or lower --cache" + again},
	engine.CodeNotHere:     {exit: Failed}, // the text says how to get it
	engine.CodeWrongAnswer: {exit: Failed},
	engine.CodeCrashed:     {exit: Failed},
	engine.CodeHung:        {exit: Failed},
	engine.CodeUnavailable: {exit: Failed},
	engine.CodeInUse:       {exit: Failed}, // each engine says its own way out
	engine.CodeNotDatabase: {exit: Failed},
	engine.CodeOtherEngine: {exit: Failed},
	engine.CodeOption:      {exit: Failed},
	engine.CodeNoDirect:    {exit: Failed},
	engine.CodeNoBlocks:    {exit: Failed},
	CodeZstd: {Failed, "Pebble v1 built with cgo cannot read these zstd blocks: " +
		"set STATELAB_CGO=0 to measure in pure Go"},
}

// Exit is the exit code of a failure.
func Exit(code engine.Code) int { return cmp.Or(meanings[code].exit, Failed) }

// OfName reports whether a failure is that what a name on the command line stands for does not
// exist.
func OfName(code engine.Code) bool {
	return slices.Contains([]engine.Code{engine.CodeNotFound, engine.CodeNoDatabase,
		engine.CodeMissing}, code)
}

// Relative reports whether all that f says of a remedy is to check a name, which is relative to a
// folder.
func Relative(f *engine.Failure) bool {
	return OfName(f.Code) && f.Remedy == meanings[f.Code].remedy
}

// errnos are the codes of what the operating system answers.
var errnos = []struct {
	is   error
	code engine.Code
}{
	{syscall.ENOSPC, engine.CodeDiskFull},
	{syscall.EDQUOT, engine.CodeDiskFull},
	{syscall.EIO, engine.CodeIO},
	{syscall.EROFS, engine.CodeIO},
	{syscall.ENOMEM, engine.CodeMemory},
	{fs.ErrNotExist, engine.CodeMissing},
}

// From returns err as a failure, with the remedy of its code where it has none of its own; nil
// for nil. The code is that of an error that err wraps, what the operating system
// answered, or what the text of another program means.
func From(err error) *engine.Failure {
	if err == nil {
		return nil
	}

	f := &engine.Failure{Code: engine.CodeOf(err), Err: err}
	if own, is := errors.AsType[*engine.Failure](err); is && own.Code == f.Code {
		f.Remedy = own.Remedy
	}

	for _, no := range errnos {
		if f.Code == "" && errors.Is(err, no.is) {
			f.Code = no.code
		}
	}

	f.Code = cmp.Or(f.Code, Foreign(err.Error()))
	f.Remedy = cmp.Or(f.Remedy, meanings[f.Code].remedy)
	return f
}

// minFree is less than any file system or engine can go on with.
const minFree = 1 << 20

// ExplainDiskFull returns the failure f of something that writes to a disk with so much free. A
// full disk can show itself as an I/O error, a code of LMDB's or MDBX's, or SIGBUS where a mapped
// file cannot grow; all have other causes as well. What the user can do then is remedy.
func ExplainDiskFull(f *engine.Failure, remedy string, free func() (int64, error)) *engine.Failure {
	if f == nil {
		return nil
	}

	if f.Code == engine.CodeIO || f.Code == engine.CodeMappedFile || ofMapped(f.Error()) {
		if bytes, err := free(); err == nil && bytes < minFree {
			f.Code = engine.CodeDiskFull
		}
	}

	if f.Code != engine.CodeDiskFull {
		return f
	}

	full := engine.Fail(engine.CodeDiskFull, "the disk is full: %w", f.Err)
	full.Remedy = cmp.Or(remedy, f.Remedy)
	return full
}
