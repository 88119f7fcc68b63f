package probe

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/subject"
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
	if err != nil || started.Before(before.Add(-granularity)) ||
		started.After(after.Add(granularity)) {
		t.Errorf("it began at %v (%v), and it was started between %v and %v", started, err, before,
			after)
	}

	if _, err := (&Target{PID: os.Getpid()}).Started(); err != nil {
		t.Error(err)
	}
}

// An error that has been explained keeps its explanation.
func TestRefusedKeepsWhatIsExplained(t *testing.T) {
	explained := &engine.Failure{
		Code:   engine.CodeUnsupported,
		Err:    fmt.Errorf("no tracepoints: %w", fs.ErrNotExist),
		Remedy: "mount it",
	}

	if got := refused(explained); got != error(explained) {
		t.Errorf("%v", got)
	}

	if f, is := errors.AsType[*engine.Failure](refused(fs.ErrPermission)); !is || f.Remedy == "" {
		t.Errorf("%v has no way out", f)
	}
}

// atStart is what Go chose, before the flags of a test change it.
var atStart = runtime.GOMAXPROCS(0)

// The processors of a process are those that Go itself found for it, also under a limit of its
// control group.
func TestCoresAreThoseThatGoFound(t *testing.T) {
	info, _ := debug.ReadBuildInfo()
	if got := (&Target{PID: os.Getpid()}).cores(info); info == nil || got != atStart {
		t.Errorf("%d processors, and Go found %d", got, atStart)
	}
}

// A function of this process is found in the table of its functions, wherever the process was
// loaded.
func TestFunctionsAreFoundWhereverTheyAreLoaded(t *testing.T) {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close() // read only
	own, err := Process(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}

	i := image{file: file}
	if err := i.readFunctions(own); err != nil {
		t.Fatal(err)
	}

	function := runtime.FuncForPC(reflect.ValueOf(calibrated).Pointer())
	known := functions{i.bias, i.table.Funcs}
	if got := known.name(uint64(function.Entry())); got != function.Name() {
		t.Errorf("%s at %#x is told as %q", function.Name(), function.Entry(), got)
	}
}

// target and path are what TestPathBelowAnotherRoot tells itself below another root.
var (
	target = flag.Int("target", 0, "a process with another root")
	path   = flag.String("path", "", "a file that this process sees")
)

// A watcher below a root of its own (chroot) finds the files of a process of the machine, though
// both have one mount namespace.
func TestPathBelowAnotherRoot(t *testing.T) {
	if *target != 0 {
		text, err := os.ReadFile((&Target{PID: *target}).Path(*path))
		if err != nil || string(text) != "the machine's" {
			t.Errorf("%q, %v", text, err)
		}
		return
	}

	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		t.Skip("no mounts of its own, as root has them: ", err)
	}

	self, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}

	defer self.Close()
	if libraries, err := self.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Skip("this test was built with cgo, whose libraries are not below the other root")
	}

	root, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.Mkdir(filepath.Join(root, "proc"), 0o755),
		os.WriteFile(file, []byte("the machine's"), 0o644)); err != nil {
		t.Fatal(err)
	}

	// A namespace of their own for both processes, so that the mount of /proc ends with them.
	const script = `cp /proc/$2/exe "$1/test" && mount -t proc proc "$1/proc" || exit
		sleep 60 &
		PATH=$PATH:/usr/sbin chroot "$1" /test \
			-test.v -test.run TestPathBelowAnotherRoot -target $! -path "$3"
		status=$?; kill $!; exit $status`
	out, err := exec.Command("unshare", "--mount", "sh", "-c", script, "sh",
		root, strconv.Itoa(os.Getpid()), file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestPathBelowAnotherRoot") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOpenTableWhileItsDescriptorChanges: what is opened is the file of the read, whatever the
// process opens with the same descriptor meanwhile.
func TestOpenTableWhileItsDescriptorChanges(t *testing.T) {
	dir := t.TempDir()
	var files []*os.File
	var reads []Read
	for _, name := range []string{"000001.sst", "000002.sst", "MANIFEST-000003"} {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()

		var stat unix.Stat_t
		if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
			t.Fatal(err)
		}

		files = append(files, file)
		reads = append(reads, Read{File: File{Device: stat.Dev, Inode: stat.Ino}})
	}

	changing, err := unix.Dup(int(files[0].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(changing)

	stop := make(chan struct{})
	var change sync.WaitGroup
	change.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				from := int(files[i%len(files)].Fd())
				if err := unix.Dup3(from, changing, unix.O_CLOEXEC); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer change.Wait()
	defer close(stop)

	target := &Target{PID: os.Getpid(), Engine: subject.Watched{TableSuffixes: []string{".sst"}}}
	for i := range 3000 {
		r := &reads[i%len(reads)]
		r.Descriptor = changing
		file, path, gone := target.OpenTable(r, dir)
		want := files[i%len(files)].Name()
		if filepath.Ext(want) != ".sst" {
			if file != nil || path != "" || gone {
				t.Fatalf("%s was opened as a table, with path %q", want, path)
			}
			continue
		}

		if file == nil || path != want || gone {
			t.Fatalf("the path %q, not %s", path, want)
		}

		var stat unix.Stat_t
		if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Ino != r.File.Inode {
			t.Fatalf("another file than %s was opened (%v)", want, err)
		}

		file.Close()
	}
}
