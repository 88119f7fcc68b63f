package session

import (
	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/failure"
	"github.com/statelab/statelab/internal/observe/host"
)

// OnDisk is what err means of something that writes below dir, nil for nil. remedy is
// what the user can do about a full disk.
func OnDisk(err error, dir, remedy string) *engine.Failure {
	return failure.On(failure.Of(err), remedy, func() (int64, error) { return host.FreeBytes(host.Existing(dir)) })
}
