//go:build linux

package badger

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
)

// logger passes Badger's messages on and notes what it can do no more: it tells so
// nowhere else.
type logger struct {
	tell   func(string) // may be nil
	failed atomic.Pointer[error]
}

// Errorf notes a failing flush, which Badger tries again for ever.
func (l *logger) Errorf(format string, args ...any) {
	if failure.Badger(format) == engine.CodeIO {
		err := errors.New(message(format, args))
		l.failed.CompareAndSwap(nil, &err)
	}
	l.say(format, args)
}

func (l *logger) Warningf(format string, args ...any) { l.say(format, args) }

func (l *logger) Infof(format string, args ...any) { l.say(format, args) }

// Debugf is dropped: it tells of every batch.
func (*logger) Debugf(string, ...any) {}

func (l *logger) say(format string, args []any) {
	if l.tell != nil {
		l.tell(message(format, args))
	}
}

func message(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
