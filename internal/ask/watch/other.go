//go:build !linux

package watch

import (
	"context"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/chain/clients"
)

// Layout and Cache are known of processes of Linux alone, and Gets are watched there.
type (
	Layout     struct{}
	Cache      struct{}
	mappedGets struct{}
)

var errNeedsLinux = engine.Fail(engine.CodeUnsupported,
	"a running process can only be watched on Linux")

// Process needs Linux.
func Process(context.Context, Wanted) (*Seen, error) { return nil, errNeedsLinux }

func possible() error { return errNeedsLinux }

// Unwatched needs Linux.
func Unwatched(string) string { return "" }

// NodeOf needs Linux.
func NodeOf(string, clients.Client) *advice.RunningNode { return nil }
