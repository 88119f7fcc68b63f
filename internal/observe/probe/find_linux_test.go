package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
)

// The beginning of a process is that of the process, not of somebody's first look at it.
func TestStarted(t *testing.T) {
	const granularity = time.Second
	sleep := exec.Command("sleep", "60")
	before := time.Now()
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	defer func() {
		_ = sleep.Process.Kill() // it may have ended
		_ = sleep.Wait()         // it was killed
	}()
	started, err := (&Target{PID: sleep.Process.Pid}).Started()
	if err != nil || started.Before(before.Add(-granularity)) || started.After(after.Add(granularity)) {
		t.Errorf("it began at %v (%v), and it was started between %v and %v", started, err, before, after)
	}
	if _, err := (&Target{PID: os.Getpid()}).Started(); err != nil {
		t.Error(err)
	}
}

// An error that has been explained keeps its explanation.
func TestRefusedKeepsWhatIsExplained(t *testing.T) {
	explained := &engine.Failure{Code: engine.CodeUnsupported, Err: fmt.Errorf("no tracepoints: %w", fs.ErrNotExist), Remedy: "mount it"}
	if got := refused(explained); got != error(explained) {
		t.Errorf("%v", got)
	}
	if f, is := errors.AsType[*engine.Failure](refused(fs.ErrPermission)); !is || f.Remedy == "" {
		t.Errorf("%v has no way out", f)
	}
}
