//go:build cgo

package sharedlib

/*
#include <stdlib.h>
#include "statelab_engine.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/statelab/statelab/engine"
)

// Attempt makes a call that may leave a sentence, and returns it as the error. E is
// the caller's statelab_error.
func Attempt[E any, Code ~int32](doing string, call func(*E) Code) error {
	_, err := attempt(doing, call)
	return err
}

// Open is Attempt for the call that opens dir and says whether it was given a handle:
// its errors are those of package engine.
func Open[E any, Code ~int32](library, dir string, call func(*E) (given bool, code Code)) error {
	var given bool
	code, err := attempt("open "+dir, func(sentence *E) (code Code) {
		given, code = call(sentence)
		return code
	})

	switch {
	case err == nil && given:
		return nil
	case err == nil:
		return fmt.Errorf("%s: open said it was done but gave nothing", library)
	case code == C.STATELAB_LOCKED:
		return &engine.LockedError{Dir: dir, Hint: fmt.Sprintf("stop it first (%v)", err)}
	case code == C.STATELAB_NOT_A_DATABASE:
		return &engine.NotADatabaseError{Dir: dir, Why: err.Error()}
	}

	return fmt.Errorf("%s: %w", library, err)
}

// Check is Attempt for the call that names what is wrong with options, a mistake a
// line.
func Check[E any, Code ~int32](call func(*E) Code) (mistakes []error) {
	_, err := attempt("check the options", call)
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		mistakes = append(mistakes, errors.New(strings.TrimSpace(line)))
	}
	return mistakes
}

// settleWaitMillis is how long one call waits: so often ctx is looked at.
const settleWaitMillis = 200

// Settle calls until nothing is left to do. L is the caller's statelab_settling.
func Settle[L, E any, Code ~int32](
	ctx context.Context, call func(waitMillis int64, left *L, sentence *E) Code,
	progress func(engine.Settling),
) error {
	for {
		var left C.statelab_settling
		code, err := attempt("settle", func(sentence *E) Code {
			return call(settleWaitMillis, (*L)(unsafe.Pointer(&left)), sentence)
		})
		if code != C.STATELAB_WORKING {
			return err
		}

		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if progress != nil {
			progress(engine.Settling{
				PendingBytes: int64(left.pending_bytes),
				Running:      int(left.jobs),
			})
		}
	}
}

func attempt[E any, Code ~int32](doing string, call func(*E) Code) (int32, error) {
	sentence := C.calloc(1, C.sizeof_statelab_error)
	defer C.free(sentence)
	code := int32(call((*E)(sentence)))
	return code, Answered((*E)(sentence), doing, code)
}

// Answered is the error of a call that answered code, nil for OK. E is the caller's
// statelab_error.
func Answered[E any, Code ~int32](sentence *E, doing string, code Code) error {
	if code == C.STATELAB_OK {
		return nil
	}

	if code < C.STATELAB_NOT_A_DATABASE || code >= 0 {
		return fmt.Errorf("%s: the library answered %d, which means nothing here", doing, code)
	}

	said := clip((*C.statelab_error)(unsafe.Pointer(sentence)).text[:])
	if said == "" {
		said = fmt.Sprintf("the library returned error %d without a message", code)
	}

	return errors.New(said)
}

// clip is the text up to its NUL, or all of it where the library forgot the NUL.
func clip(text []C.char) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(text))), len(text))
	n := slices.Index(b, 0)
	if n < 0 {
		n = len(b)
	}
	return strings.ToValidUTF8(string(b[:n]), "?")
}

// Text is a string of the library's. Char is the caller's char; NULL is "".
func Text[Char any](c *Char) string {
	return strings.ToValidUTF8(C.GoString((*C.char)(unsafe.Pointer(c))), "?")
}
