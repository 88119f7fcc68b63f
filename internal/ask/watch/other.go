//go:build !linux

package watch

import (
	"context"

	"github.com/statelab/statelab/engine"
)

var errNeedsLinux = engine.Fail(engine.CodeUnsupported,
	"a running process can only be watched on Linux")

// Process needs Linux.
func Process(context.Context, Wanted) (*Seen, error) { return nil, errNeedsLinux }

func possible() error { return errNeedsLinux }

// ArgsOf needs Linux.
func ArgsOf(string) []string { return nil }
