//go:build linux && amd64

package main

import (
	"bufio"
	"bytes"
	stdcmp "cmp"
	"context"
	"debug/elf"
	"debug/gosym"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aclements/go-moremath/stats"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/testring"
	enginereport "github.com/statelab/statelab/internal/explain/engines"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// watching skips a test where the kernel or the rights do not allow to watch a process, and in the
// inner ring: targets are built with a C compiler, and watched by root.
func watching(t *testing.T) {
	t.Helper()
	testring.Outer(t, "it watches processes, as root, and needs a C compiler")
	if err := probe.Possible(); err != nil {
		t.Skipf("processes cannot be watched here: %v", err)
	}
}

// waiting is a runner that waits for its spec: a target that makes no Get before it is watched.
type waiting struct {
	*exec.Cmd
	out string
	run func(protocol.EngineSpec)
}

func waitingRunner(t *testing.T, runner []string) *waiting {
	t.Helper()
	command := exec.Command(runner[0], runner[1:]...)
	// it decides into how many shards the cache is cut
	command.Env = append(os.Environ(), "GOMAXPROCS=2")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	w := &waiting{Cmd: command, out: t.TempDir()}
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { // it may have ended
		_ = command.Process.Kill()
		_, _ = command.Process.Wait()
	})

	w.run = func(s protocol.EngineSpec) {
		s.Schema, s.Verb, s.Out, s.Command, s.Workload = schema.EngineSpec, protocol.Read, w.out,
			[]string{"statelab"}, "readrandom"
		s.Profile, s.PageCache = stdcmp.Or(s.Profile, "bench-kvdb"),
			stdcmp.Or(s.PageCache, protocol.AsIs)
		s.ReadOnly, s.Handles = true, stdcmp.Or(s.Handles, 1000)
		if err := errors.Join(json.NewEncoder(in).Encode(s), in.Close()); err != nil {
			t.Error(err)
		}
	}

	return w
}

// runnerOf is a command that runs Pebble: built with cgo and with its symbols, or in pure Go and
// stripped.
func runnerOf(t *testing.T, stripped bool) []string {
	t.Helper()
	if !stripped {
		path := filepath.Join(scratch, "watched", "statelab-run-pebble-with-symbols")
		making.Lock()
		defer making.Unlock()
		if _, err := os.Stat(path); err == nil {
			return []string{path}
		}

		// The flags of the Makefile leave the symbols out.
		if err := placed(path, func(path string) error {
			build := exec.Command("go", "build", "-ldflags=", "-o", path, "../statelab-run-pebble")
			build.Env = append(os.Environ(), "CGO_ENABLED=1")
			if text, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%w\n%s", err, text)
			}

			return nil
		}); err != nil {
			t.Fatal(err)
		}

		return []string{path}
	}

	path := filepath.Join(t.TempDir(), "stripped")
	if text, err := exec.Command("strip", "-o", path, binary).CombinedOutput(); err != nil {
		t.Fatalf("strip (make ci installs it with the C compiler): %v\n%s", err, text)
	}

	return []string{path, runnerVerb}
}

// symbols tells whether a program names its functions.
func symbols(t *testing.T, program string) bool {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close() // read only
	named, err := file.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Fatal(err)
	}

	return len(named) > 0
}

// What is seen of a run from outside is exactly what the run counted itself: its Gets, the absent
// keys, and its block reads by type and level.
func TestWatchCountsWhatTheRunCounted(t *testing.T) {
	watching(t)
	for _, stripped := range []bool{false, true} {
		runner := runnerOf(t, stripped)
		if symbols(t, runner[0]) == stripped {
			t.Fatalf("%s has symbols: %v", runner[0], !stripped)
		}

		for _, name := range subject.Pebbles() {
			t.Run(fmt.Sprintf("%s, stripped %v", name, stripped), func(t *testing.T) {
				db, pages := database(t, name), protocol.Cold
				told := deviceTold(t, db)
				if !told {
					pages = protocol.AsIs
				}

				target := waitingRunner(t, runner)
				seen, before := seenBy(t, target.Process.Pid, name, db, func() {
					target.run(protocol.EngineSpec{
						Engine:       name,
						Dir:          db,
						CacheBytes:   1 << 20,
						CacheAsked:   "1MiB",
						Threads:      1,
						Seed:         7,
						Gets:         20_000,
						WarmupRule:   "a count",
						MissingShare: 0.3,
						PageCache:    pages,
					})

					if err := target.Wait(); err != nil {
						t.Error(err)
					}
				})

				run := readRun(t, target.out)
				compareWatched(t, &seen.Watch, run)
				if told {
					compareDevice(t, &seen.Watch, run, before, target.ProcessState, db, runner[0])
				}

				storedWatch(t, seen)
			})
		}
	}
}

// storedWatch stores a watch twice: it is reported, compared and packed as any run.
func storedWatch(t *testing.T, seen *watch.Seen) {
	t.Helper()
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, dir := range []string{a, b} {
		if err := errors.Join(os.Mkdir(dir, 0o755),
			seen.Write(dir, []string{"statelab", "watch"})); err != nil {
			t.Fatal(err)
		}
	}

	if text := must(t, "report", a).stdout; !strings.Contains(text, "block reads per Get") ||
		!strings.Contains(text, "Simulated at the present size") {
		t.Error(text)
	}

	if text := must(t, "compare", a, b).stdout; !strings.Contains(text, "block reads per Get") {
		t.Error(text)
	}

	pack := filepath.Join(t.TempDir(), "w.zip")
	must(t, "pack", "create", a, "--out", pack)
	if o := statelab(t, "pack", "verify", pack); o.exit != 0 {
		t.Error(o)
	}

	// The trace is one that simulate reads, and has no keys.
	file := filepath.Join(t.TempDir(), "T")
	if err := os.WriteFile(file, seen.Trace, 0o600); err != nil {
		t.Fatal(err)
	}

	must(t, "simulate", file, "--cache", "1MiB,2MiB")
	// Advice is for a node that writes, for which the second version keeps more of a cache than for
	// a reader: of 1 MiB, too much.
	if seen.Watch.Process.Engine == subject.Pebbles()[0] {
		advised(t, &seen.Watch, file)
	}

	for _, k := range seen.Keys[:100] {
		if bytes.Contains(seen.Trace, k) {
			t.Fatalf("the trace has the key %x", k)
		}
	}
}

// advised asks all who tell what a Get reads with the present cache: they agree. Of the Gets that
// were seen, simulate and advise --trace; of random keys, as these Gets were, advise alone.
func advised(t *testing.T, w *result.Watch, trace string) {
	t.Helper()
	o := must(t, "advise", w.Process.Database, "--trace", trace, "--cache", "1MiB", "--write-rate",
		"0", "--probe-seconds", "0", "--json", "--quiet")
	a := adviceOf(t, o.stdout)
	if a.Now.CacheBytes != w.Cache.Bytes ||
		!near(a.Now.BlockReadsPerGet, w.Simulated.Seen, 0.05) ||
		a.Then.CacheBytes <= a.Now.CacheBytes {
		t.Errorf("advice for the trace: from %+v to %+v; seen with %d bytes: %+v", a.Now.Place,
			a.Then.Place, w.Cache.Bytes, *w.Simulated)
	}

	var s enginereport.Simulation
	if err := json.Unmarshal([]byte(must(t, "simulate", trace, "--cache", "1MiB", "--json").stdout),
		&s); err != nil {
		t.Fatal(err)
	}

	if !near(s.Points[0].ReadsPerGet, w.Simulated.BlockReadsPerGet, 0.02) {
		t.Errorf("simulate says %.4f, watch %+v", s.Points[0].ReadsPerGet, *w.Simulated)
	}

	random := adviceOf(t, must(t, "advise", w.Process.Database, "--cache", "1MiB", "--missing",
		"30%", "--write-rate", "0", "--probe-seconds", "0", "--json", "--quiet").stdout)
	const modelError = 0.07 // docs/prediction.md
	if !near(random.Now.BlockReadsPerGet, w.Simulated.Seen, modelError) {
		t.Errorf("of random keys advise says %.4f, watch %+v", random.Now.BlockReadsPerGet,
			*w.Simulated)
	}
}

// seenBy watches a process from before its first Get to its end. before is what the kernel had
// counted of it.
func seenBy(
	t *testing.T, pid int, engineName, db string, work func(),
) (seen *watch.Seen, before counted) {
	t.Helper()
	found, err := probe.Find(pid, subject.AllWatched())
	if err == nil {
		err = found.Choose(engineName)
	}

	if err != nil {
		t.Fatal(err)
	}

	p, before := atRest(
		t,
		func() counted { return counted{readBytes: countedOf(t, found).readBytes} },
		func() (*probe.Probe, error) {
			p, err := probe.Open(found)
			if err == nil {
				_ = p.OnDevice(db) // Traffic says why
				err = p.Attach()
			}

			return p, err
		},
	)

	defer p.Close() // after the test has its answer
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()

	cache := watch.Cache{WatchedCache: result.WatchedCache{Bytes: 1 << 20}}
	if !subject.Descriptor(engineName).SimulatesLevels() {
		cache = watch.CacheOf(found, db, 1<<20)
	}

	seen, err = watch.Traffic(context.Background(), found, p, db, watch.LayoutOf(engineName, db),
		cache, watch.Options{Share: 1, Tell: func(result.Event) {}})
	<-done
	if err != nil {
		t.Fatal(err)
	}

	return seen, before
}

// atRest attaches to a process while nothing is counted of it: a runner that still starts does what
// would be counted, and not seen.
func atRest[P interface{ Close() error }](
	t *testing.T, counts func() counted, attached func() (P, error),
) (p P, before counted) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		before = counts()
		p, err := attached()
		if err != nil {
			t.Fatal(err)
		}

		if counts() == before {
			return p, before
		}

		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}

	t.Fatal("the process does not come to rest")
	return p, before
}

// deviceTold reports whether the filesystem of a folder tells on which block device it lies; tmpfs,
// overlayfs and btrfs do not.
func deviceTold(t *testing.T, dir string) bool {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Stat(dir, &stat); err != nil {
		t.Fatal(err)
	}

	_, err := os.Stat(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev),
		unix.Minor(stat.Dev)))
	if err != nil {
		t.Logf("reads of the disk are not compared: the filesystem of %s does not tell its block "+
			"device", dir)
	}

	return err == nil
}

// otherMounts skips a test where processes cannot have mounts of their own.
func otherMounts(t *testing.T) {
	t.Helper()
	testring.Root(t, "mounts of one's own")
	if text, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("unshare --mount: %v: %s", err, text)
	}
}

// elsewhere is a command that runs a program with dir at another place, which it alone sees.
func elsewhere(dir, place string, program []string) []string {
	return append([]string{"unshare", "--mount", "sh", "-c",
		`mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", dir, place}, program...)
}

// A process in a container is found by the path that its database has here, and its reads are seen.
func TestWatchFindsTheDatabaseOfAContainer(t *testing.T) {
	watching(t)
	otherMounts(t)
	const name = "pebble1"
	db, inside := database(t, name), filepath.Join(t.TempDir(), "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}

	target := waitingRunner(t, elsewhere(db, inside, runnerOf(t, false)))
	target.run(protocol.EngineSpec{
		Engine:     name,
		Dir:        inside,
		CacheBytes: 1 << 20,
		CacheAsked: "1MiB",
		Threads:    1,
		Seed:       7,
		Gets:       1 << 40,
		WarmupRule: "a count",
	})

	for began := time.Now(); ; {
		var w result.Watch
		o := statelab(t, "watch", db, "--json", "--seconds", "1", "--cache", "1MiB")
		if err := json.Unmarshal([]byte(o.stdout), &w); err == nil &&
			w.Process.PID == target.Process.Pid && w.BlockReads["data"].Count > 0 &&
			w.Simulated != nil {
			return
		}

		if time.Since(began) > time.Minute {
			t.Fatalf("%+v", o)
		}
	}
}

func compareWatched(t *testing.T, w *result.Watch, run *result.Run) {
	t.Helper()
	if w.Lost != (result.WatchLost{}) {
		t.Errorf("lost: %+v", w.Lost)
	}

	f := run.Figures
	got, want := [3]uint64{w.Gets, w.Found, w.Missing}, [3]uint64{f.Gets, f.Found, f.Missing}
	if got != want || w.Missing == 0 {
		t.Errorf("Gets, found, absent: %v, and the run has %v", got, want)
	}

	var measured result.Phase
	for _, p := range run.Phases {
		if p.Name == "measure" {
			measured = p
		}
	}

	if diff := cmp.Diff(measured.Reads, w.BlockReads); diff != "" || len(w.BlockReads) < 3 {
		t.Errorf("block reads by type (-run +watch):\n%s", diff)
	}

	levels := map[string]int64{}
	for name, per := range f.BlockReadsPerGetByLevel {
		if n := int64(per*float64(f.Gets) + 0.5); n > 0 {
			levels[name] = n
		}
	}

	if diff := cmp.Diff(levels, w.BlockReadsByLevel); diff != "" {
		t.Errorf("block reads by level (-run +watch):\n%s", diff)
	}

	// Pebble counts the accesses itself, as hits and misses, and those that open its tables with
	// them.
	const opening = 1e-3
	accesses := float64(measured.Engine["cache_hits"]+measured.Engine["cache_misses"]) / float64(
		f.Gets,
	)
	if !w.Has(figure.BlockAccessesPerGet) {
		t.Fatalf("no block accesses: %v", w.Why)
	}

	if seen := w.OrZero(figure.BlockAccessesPerGet); !near(seen, accesses, opening) {
		t.Errorf("block accesses per Get: %v; Pebble counted %v", seen, accesses)
	}

	if s := w.Simulated; s == nil || !near(s.BlockReadsPerGet, f.OrZero(figure.BlockReadsPerGet),
		0.05) {
		t.Errorf("simulated: %+v (%v); the run read %v", s, w.Why,
			f.OrZero(figure.BlockReadsPerGet))
	}
}

func near(a, b, within float64) bool { return a-b <= within*b && b-a <= within*b }

// kernelPrograms are the programs in the kernel that a process holds.
func kernelPrograms(t *testing.T, pid int) (ids []ebpf.ProgramID) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}

	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has been closed
		}

		for line := range strings.Lines(string(text)) {
			var id ebpf.ProgramID
			if _, err := fmt.Sscanf(line, "prog_id:%d", &id); err == nil {
				ids = append(ids, id)
			}
		}
	}

	return ids
}

// inKernel are those of some programs that are still in the kernel.
func inKernel(ids []ebpf.ProgramID) []ebpf.ProgramID {
	return slices.DeleteFunc(ids, func(id ebpf.ProgramID) bool {
		p, err := ebpf.NewProgramFromID(id)
		if err == nil {
			_ = p.Close() // only looked at
		}
		return err != nil
	})
}

// A watcher that is killed leaves nothing in the kernel, and the process that it watched goes on.
func TestKilledWatchersLeaveNothing(t *testing.T) {
	watching(t)
	const name = "pebble1"
	db := database(t, name)
	target := waitingRunner(t, runnerOf(t, false))
	target.run(protocol.EngineSpec{
		Engine:     name,
		Dir:        db,
		CacheBytes: 1 << 20,
		CacheAsked: "1MiB",
		Threads:    2,
		Seed:       7,
		Gets:       1 << 40,
		WarmupRule: "a count",
	})

	for i := range *killed {
		watcher := exec.Command(binary, "watch", "--pid", fmt.Sprint(target.Process.Pid),
			"--sample", "100%", "--seconds", "0")
		said, err := watcher.StderrPipe()
		if err == nil {
			err = watcher.Start()
		}

		if err != nil {
			t.Fatal(err)
		}

		// A line about a second says that it is attached.
		attached, text := false, ""
		for lines := bufio.NewScanner(said); !attached && lines.Scan(); {
			text += lines.Text() + "\n"
			attached = strings.Contains(lines.Text(), "Gets/s")
		}

		if !attached {
			t.Errorf("watcher %d says %q", i, text)
		}

		programs := kernelPrograms(t, watcher.Process.Pid)
		if len(programs) < 4 {
			t.Errorf("in the kernel while it watches: %v", programs)
		}

		if err := watcher.Process.Kill(); err != nil {
			t.Fatal(err)
		}

		_ = watcher.Wait() // it was killed
		if left := eventuallyNone(programs); len(left) > 0 {
			t.Fatalf("left in the kernel: %v", left)
		}
	}

	answersRight(t, target)
}

// answersRight ends a runner that was watched: its code is that of its file, and all its answers
// were right, which it checks itself.
func answersRight(t *testing.T, w *waiting) {
	t.Helper()
	if memory, file := codeOf(t, w.Process.Pid); len(file) == 0 || !bytes.Equal(memory, file) {
		t.Error("the code of the process is not that of its file any more")
	}

	if err := w.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}

	_ = w.Wait() // interrupted
	if run := readRun(t, w.out); run.Status != result.Interrupted || run.Figures.FailedGets > 0 ||
		run.Figures.Gets == 0 {
		t.Errorf("the watched run: %s, %d Gets, %s", run.Status, run.Figures.Gets, run.Error)
	}
}

// codeOf is the code of a process, in its memory and in the file of its program.
func codeOf(t *testing.T, pid int) (memory, file []byte) {
	t.Helper()
	at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	maps, err := os.ReadFile(at("maps"))
	if err != nil {
		t.Fatal(err)
	}

	program, err := os.Readlink(at("exe"))
	if err != nil {
		t.Fatal(err)
	}

	read := func(name string, offset int64, bytes uint64) []byte {
		from, err := os.Open(at(name))
		if err != nil {
			t.Fatal(err)
		}

		defer from.Close() // read only
		content := make([]byte, bytes)
		if _, err := from.ReadAt(content, offset); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}

		return content
	}

	for line := range strings.Lines(string(maps)) {
		var low, high, offset uint64
		if _, err := fmt.Sscanf(line, "%x-%x r-xp %x", &low, &high, &offset); err == nil &&
			strings.HasSuffix(strings.TrimSpace(line), program) {
			memory, file = append(memory, read("mem", int64(low), high-low)...),
				append(file, read("exe", int64(offset), high-low)...)
		}
	}

	return memory, file
}

// eventuallyNone waits for the kernel to free what no process holds.
func eventuallyNone(left []ebpf.ProgramID) []ebpf.ProgramID {
	const looks = 600
	for range looks {
		if left = inKernel(left); len(left) == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return left
}

// How often what must never go wrong is tried.
var (
	attachments = flag.Int("attachments", 100, "times that a process is attached to and detached "+
		"from (make watched: 10,000)")
	killed   = flag.Int("killed", 5, "watchers that are killed (make watched: 100)")
	overhead = flag.Int("overhead", 0, "pairs of runs, watched and not, to measure what "+
		"watching costs (make watched: 10)")
)

// Several watchers attach and detach, again and again, while goroutines of the process come, go and
// grow their stacks: its answers stay right, and nothing is left behind, neither here, nor in the
// kernel, nor in the code of the process.
func TestWatchInShortWindows(t *testing.T) {
	watching(t)
	const name = "pebble2"
	watchers := min(16, 4+*attachments/500)
	db, runner := database(t, name), runnerOf(t, true)
	t.Setenv("GODEBUG", "adaptivestackstart=0") // the stack of each goroutine begins small
	target := waitingRunner(t, runner)
	found, err := probe.Find(target.Process.Pid, subject.AllWatched())
	if err == nil {
		err = found.Choose(name)
	}

	if err != nil {
		t.Fatal(err)
	}

	grown, stop := grownStacks(t, runner[0], target.Process.Pid)
	// Batches of Gets: each is a goroutine of its own, with a small stack.
	target.run(protocol.EngineSpec{
		Engine:       name,
		Dir:          db,
		CacheBytes:   1 << 20,
		CacheAsked:   "1MiB",
		Threads:      4,
		Seed:         7,
		Gets:         1 << 40,
		WarmupRule:   "a count",
		MissingShare: 0.3,
		BatchGets:    64,
		InFlight:     8,
	})

	probes, seen := make([]*probe.Probe, watchers), make([]counting, watchers)
	for i := range probes {
		if probes[i], err = probe.Open(found); err != nil {
			t.Fatal(err)
		}
	}

	watch := func(i, windows int) error {
		// It may take a while until the first Get.
		for began := time.Now(); windows > 0 ||
			seen[i].gets == 0 && time.Since(began) < time.Minute; windows-- {
			ctx, stop := context.WithTimeout(context.Background(), 5*time.Millisecond)
			err := probes[i].Watch(ctx, 1, &seen[i])
			if stop(); err != nil {
				return err
			}
		}

		return nil
	}

	all := func(windows int) {
		var watching errgroup.Group
		for i := range probes {
			watching.Go(func() error { return watch(i, windows) })
		}

		if err := watching.Wait(); err != nil {
			t.Fatal(err)
		}
	}

	all(1)
	programs, descriptors, memory, stacks, began := kernelPrograms(t, os.Getpid()),
		openDescriptors(t), heapBytes(), grown(), time.Now()
	all((*attachments + watchers - 1) / watchers)
	took, after := time.Since(began), grown()
	if after == stacks {
		t.Error("no stack grew")
	}

	if now := openDescriptors(t); now > descriptors {
		t.Errorf("%d descriptors are open, and %d were before all windows", now, descriptors)
	}

	if now := kernelPrograms(t, os.Getpid()); len(now) != len(programs) {
		t.Errorf("%d programs in the kernel, and %d before all windows", len(now), len(programs))
	}

	const mostBytes = 1 << 20
	if now := heapBytes(); now > memory+mostBytes {
		t.Errorf("%d bytes of memory, and %d before all windows", now, memory)
	}

	gets := 0
	for i, p := range probes {
		lost, err := p.Lost()
		if err = errors.Join(err, p.Close()); err != nil || lost != (probe.Lost{}) {
			t.Errorf("lost: %+v, %v", lost, err)
		}

		gets += seen[i].gets
		if seen[i].gets == 0 || seen[i].outside > 0 {
			t.Errorf("%d Gets were seen, and %d events began outside of their window",
				seen[i].gets, seen[i].outside)
		}
	}

	stop()
	if left := eventuallyNone(programs); len(left) > 0 {
		t.Errorf("left in the kernel: %v", left)
	}

	t.Logf("%d windows in %v, in which %d Gets were seen and stacks changed %d times",
		*attachments, took, gets, after-stacks)
	answersRight(t, target)
}

// grownStacks counts how often goroutines of a process get another stack, until it is stopped.
func grownStacks(t *testing.T, program string, pid int) (count func() uint64, stop func()) {
	t.Helper()
	counter, err := ebpf.NewMap(&ebpf.MapSpec{
		Type:       ebpf.Array,
		KeySize:    4,
		ValueSize:  8,
		MaxEntries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}

	counts, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.Kprobe,
		License: "GPL",
		Instructions: asm.Instructions{asm.LoadMapValue(asm.R1, counter.FD(), 0),
			asm.Mov.Imm(asm.R2, 1), asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}

	executable, err := link.OpenExecutable(program)
	if err != nil {
		t.Fatal(err)
	}

	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}

	defer file.Close() // read only
	lines, err := file.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}

	text := file.Section(".text")
	functions, err := gosym.NewTable(nil, gosym.NewLineTable(lines, text.Addr))
	if err != nil {
		t.Fatal(err)
	}

	at := functions.LookupFunc("runtime.copystack").Entry - text.Addr + text.Offset
	attached, err := executable.Uprobe("", counts, &link.UprobeOptions{PID: pid, Address: at})
	if err != nil {
		t.Fatal(err)
	}

	return func() (n uint64) {
			if err := counter.Lookup(uint32(0), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}, func() {
			if err := errors.Join(attached.Close(), counts.Close(), counter.Close()); err != nil {
				t.Error(err)
			}
		}
}

// heapBytes are those of this process that are in use.
func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// One reader of 100,000 Gets a second is watched with the default sampling and left alone, in turn.
// What it costs is told, as CPU time of the reader; the figures must be what the run counted,
// within the error that they state: of 95 in 100.
func TestWatchCostsLittle(t *testing.T) {
	watching(t)
	if *overhead == 0 {
		t.Skip("it is a measurement: -overhead 10")
	}

	const name, cacheBytes, cacheAsked, rate, each = "pebble2", 48 << 20, "48MiB", 100_000, 10
	const warmup = 5 * rate
	db := database(t, name)
	neverIdle(t)
	target := waitingRunner(t, runnerOf(t, false))
	target.run(protocol.EngineSpec{
		Engine:     name,
		Dir:        db,
		CacheBytes: cacheBytes,
		CacheAsked: cacheAsked,
		Threads:    2,
		Seed:       1,
		WarmupGets: warmup,
		Gets:       uint64(rate * each * (2**overhead + 1)),
		WarmupRule: "a count",
		Rate:       rate,
	})

	time.Sleep((warmup/rate + 1) * time.Second)
	var core [2][]float64 // of a core that the reader took, left alone and watched
	var seen []result.Watch
	for i := range 2 * *overhead {
		watched := i%4 == 1 || i%4 == 2 // neither is always the first
		before, began := cpuTime(t, target.Process.Pid), time.Now()
		at := 0
		if watched {
			out, err := exec.Command(binary, "watch", "--pid", fmt.Sprint(target.Process.Pid),
				"--seconds", fmt.Sprint(each-1), "--cache", cacheAsked, "--json").Output()
			var w result.Watch
			if err := errors.Join(err, json.Unmarshal(out, &w)); err != nil {
				t.Fatal(err)
			}

			at, seen = 1, append(seen, w)
		} else {
			time.Sleep(each * time.Second)
		}

		core[at] = append(core[at], (cpuTime(t, target.Process.Pid)-before).Seconds()/time.Since(
			began,
		).Seconds())
	}

	if err := target.Wait(); err != nil {
		t.Fatal(err)
	}

	figures := readRun(t, target.out).Figures
	within, judged := 0, 0
	for _, w := range seen {
		t.Logf("seen: %d Gets in %.2f of %.1f s, %.4f of a core as it reckons, %v lost", w.Gets,
			w.Watched, w.Seconds, w.Cost.Core, w.Lost)
		if !w.Has(figure.BlockReadsPerGet) || !w.Has(figure.BlockReadsPerGet.Error()) {
			t.Error("no error is stated")
			continue
		}

		judged++
		if near(w.OrZero(figure.BlockReadsPerGet), figures.OrZero(figure.BlockReadsPerGet),
			w.OrZero(figure.BlockReadsPerGet.Error())/figures.OrZero(figure.BlockReadsPerGet)) {
			within++
		}
	}

	var loss []float64
	for i := range *overhead {
		loss = append(loss, core[1][i]-core[0][i])
	}

	mean, low, high := stats.MeanCI(loss, 0.95)
	t.Logf("%.0f Gets/s; of a core, left alone %.4f, watched %.4f",
		figures.OrZero(figure.GetsPerSecond), core[0], core[1])
	t.Logf("watching takes %.4f of a core (95 %%: %.4f to %.4f); %d of %d figures within their "+
		"error", mean, low, high, within, judged)
	if within < judged*8/10 {
		t.Error("the error is more than stated")
	}
}

// cpuTime is what the threads of a process have used, to the nanosecond.
func cpuTime(t *testing.T, pid int) (all time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range threads {
		text, err := os.ReadFile(path)
		var used int64
		if _, err2 := fmt.Sscan(string(text), &used); errors.Join(err, err2) != nil {
			continue // the thread ended
		}

		all += time.Duration(used)
	}

	return all
}

// neverIdle keeps the processors busy with work that gives way to any other. A paced reader sleeps
// and wakes; how much of its CPU time its scheduler then spends looking for work depends on how
// fast an idle processor wakes up, which a second program changes by its presence.
func neverIdle(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
		if err := unix.SchedSetAttr(c.Process.Pid,
			&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// openDescriptors are those of this process: of probes, too, which stay in the kernel as long.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// counting counts Gets, and what began outside of its window.
type counting struct {
	gets, outside int
	from          time.Duration
	starts        []time.Duration
}

func (c *counting) Get(g *probe.Get) {
	c.gets++
	c.starts = append(c.starts, g.Start)
}

func (*counting) Together(*probe.Together) {}
func (*counting) Seek(*probe.Seek)         {}

func (c *counting) Read(r *probe.Read) {
	if r.Get == (probe.GetID{}) {
		c.starts = append(c.starts, r.Start)
	}
}

func (c *counting) Window(open bool, at time.Duration) {
	if open {
		c.from = at
		return
	}

	for _, start := range c.starts {
		if start < c.from || start > at {
			c.outside++
		}
	}

	c.starts = nil
}

func (c *counting) Second() error { return nil }

// Each mistake is one sentence with the way out.
func TestWatchRefuses(t *testing.T) {
	refused(t, statelab(t, "watch"), 2, "name one process", "--pid 4242")
	refused(t, statelab(t, "watch", "--pid", "4194303"), 2, "no process has the number 4194303")
	refused(t, statelab(t, "watch", "--name", "no-such-node"), 2,
		"no process has the name no-such-node")
	refused(t, statelab(t, "watch", filepath.Join(t.TempDir(), "none")), 2, "is not there")
	if os.Geteuid() != 0 {
		return
	}

	dir := t.TempDir()
	refused(t, statelab(t, "watch", dir), 1, "holds no database")
	db := filepath.Join(dir, "db")
	must(t, "load", "--db", db, "--keys", "1k", "--quiet")
	refused(t, statelab(t, "watch", dir), 1, db+" is a database: give that folder")
	refused(t, statelab(t, "watch", db), 2, "no process has the database", "start its node")
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}

	defer sleep.Process.Kill() // it may have ended
	refused(t, statelab(t, "watch", "--pid", fmt.Sprint(sleep.Process.Pid)), 1,
		"contains no engine that can be watched")
}
