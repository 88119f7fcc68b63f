package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"runtime/debug"
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

// atStart is what Go chose, before the flags of a test change it.
var atStart = runtime.GOMAXPROCS(0)

// The processors of a process are those that Go itself found for it, also under a limit of its control group.
func TestCoresAreThoseThatGoFound(t *testing.T) {
	info, _ := debug.ReadBuildInfo()
	if got := (&Target{PID: os.Getpid()}).cores(info); info == nil || got != atStart {
		t.Errorf("%d processors, and Go found %d", got, atStart)
	}
}

// A function of this process is found in the table of its functions, wherever the process was loaded.
func TestFunctionsAreFoundWhereverTheyAreLoaded(t *testing.T) {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // read only
	i := image{file: file}
	if err := i.readFunctions(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	function := runtime.FuncForPC(reflect.ValueOf(calibrated).Pointer())
	if got := (functions{i.bias, i.table.Funcs}).name(uint64(function.Entry())); got != function.Name() {
		t.Errorf("%s at %#x is told as %q", function.Name(), function.Entry(), got)
	}
}
