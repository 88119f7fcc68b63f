package changeset

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/statelab/statelab/engine"
)

// DamageError says where a set is not what its format promises.
type DamageError struct {
	File    string // "" if the reader knows no name
	Offset  int64  // in the file as stored or, behind a compression, as decompressed; -1 if unknown
	Version int64  // the one being read; 0 before the first
	Err     error
}

func (e *DamageError) Error() string {
	var where []string
	if e.File != "" {
		where = append(where, e.File)
	}
	if e.Offset >= 0 {
		where = append(where, fmt.Sprintf("offset %d", e.Offset))
	}
	if e.Version > 0 {
		where = append(where, fmt.Sprintf("version %d", e.Version))
	}
	return strings.Join(append(where, e.Err.Error()), ": ")
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

// FailureCode is CodeDamaged.
func (*DamageError) FailureCode() engine.Code { return engine.CodeDamaged }

var (
	errShort    = errors.New("cut short: it ends inside a record")
	errVarint   = errors.New("a number of more than 64 bits")
	errEmptyKey = errors.New("an empty key, which no tree takes")
)

// checkKey and checkValue stand before every allocation that a length asks for.
func checkKey(length uint64) error {
	switch {
	case length == 0:
		return errEmptyKey
	case length > MaxKeyBytes:
		return fmt.Errorf("a key of %d bytes, at most %d are believed", length, MaxKeyBytes)
	}
	return nil
}

func checkValue(length uint64) error {
	if length > MaxValueBytes {
		return fmt.Errorf("a value of %d bytes, at most %d are believed", length, MaxValueBytes)
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > MaxNameBytes || strings.ContainsAny(name, "/\x00\n") {
		return fmt.Errorf("%.40q is not a name of a store, which has 1 to %d bytes without / or line breaks", name, MaxNameBytes)
	}
	return nil
}

// short turns the ends of a file inside a record into errShort.
func short(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errShort
	}
	return err
}
