package engine

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Code says what kind of failure an error is. The list is closed: exit codes and remedies
// follow from it, and result files store it beside the text, which may be reworded.
type Code string

// Codes of failures that adapters report, where a user can act on the kind of failure. Other errors
// need no code. Those of the operating system (a full disk, an I/O error) are recognised by what
// they wrap: errors.Is(err, syscall.ENOSPC).
const (
	CodeOption      Code = "option"       // an engine has no option of this name
	CodeInUse       Code = "in_use"       // another process holds the database: LockedError
	CodeNotDatabase Code = "not_database" // it is none that the engine opens: NotADatabaseError
	CodeUnsupported Code = "unsupported"  // a format, or a version of one, that is not read
	CodeDamaged     Code = "damaged"      // a file is not what its format says
	CodeNoDirect    Code = "no_direct"    // the file system refuses O_DIRECT
	CodeDiskFull    Code = "disk_full"    // no space left
	CodeIO          Code = "io_error"     // the file system reports errors
	// a file that is mapped into memory could not be read or written
	CodeMappedFile Code = "mapped_file"
	CodeMemory     Code = "memory"        // memory ran out
	CodeNotHere    Code = "not_installed" // a program or library that is needed is not here
)

// Codes of failures that statelab itself finds, and package measure returns.
const (
	CodeUsage       Code = "usage"       // a mistake on the command line, or in a call
	CodeNotFound    Code = "not_found"   // a path on the command line does not exist
	CodeNoDatabase  Code = "no_database" // the database on the command line does not exist
	CodeStrict      Code = "strict"      // warnings that --strict made fatal
	CodeInterrupted Code = "interrupted" // somebody ended it
	CodeMissing     Code = "missing"     // a file that has to be there is not
	CodeExists      Code = "exists"      // a file is in the way
	CodeNoResult    Code = "no_result"   // a folder holds no finished result
	// a process was killed, as the kernel does where memory runs out
	CodeKilled      Code = "killed"
	CodeWrongAnswer Code = "wrong_answer" // a subject gave another answer than it must
	CodeCrashed     Code = "crashed"      // a process died of a fault of its own
	CodeHung        Code = "hung"         // a process made no progress and was killed
	CodeUnavailable Code = "away"         // a service does not answer and may come back
	CodeOtherEngine Code = "other_engine" // another engine wrote the database
	CodeNoBlocks    Code = "no_room"      // nothing of the cache is left for blocks
)

// Failure is an error that says what kind it is. Make it where the kind is known; whoever
// wraps it keeps the code.
type Failure struct {
	Code   Code
	Remedy string // what the user can do; empty: what the code says
	Err    error  // what happened, and why
}

// Fail makes a failure with a text as of fmt.Errorf, so %w keeps its cause.
func Fail(code Code, format string, args ...any) *Failure {
	return &Failure{Code: code, Err: fmt.Errorf(format, args...)}
}

// WithRemedy is f with a remedy of its own.
func (f *Failure) WithRemedy(remedy string, args ...any) *Failure {
	f.Remedy = fmt.Sprintf(remedy, args...)
	return f
}

// Error is the text of the wrapped error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is the wrapped error.
func (f *Failure) Unwrap() error { return f.Err }

// FailureCode is f's.
func (f *Failure) FailureCode() Code { return f.Code }

// stored is a failure in JSON.
type stored struct {
	Code   Code   `json:"code,omitempty"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// MarshalJSON keeps the text of the error alone.
func (f *Failure) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{f.Code, f.Error(), f.Remedy})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Failure) UnmarshalJSON(text []byte) error {
	var s stored
	err := json.Unmarshal(text, &s)
	*f = Failure{Code: s.Code, Remedy: s.Remedy, Err: errors.New(s.Text)}
	return err
}

// Coded is an error that knows its code: a Failure, or a type with fields of its own.
type Coded interface {
	error
	FailureCode() Code
}

// CodeOf is the code of the first error of err's tree that has one, else empty.
func CodeOf(err error) Code {
	if coded, is := errors.AsType[Coded](err); is {
		return coded.FailureCode()
	}
	return ""
}
