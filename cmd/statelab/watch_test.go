//go:build linux && amd64

package main

import (
	"bufio"
	"bytes"
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/observe/probe"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// watching skips a test where the kernel or the rights do not allow to watch a process.
func watching(t *testing.T) {
	t.Helper()
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
	command.Env = append(os.Environ(), "GOMAXPROCS=2") // it decides into how many shards the cache is cut
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &waiting{Cmd: command, out: t.TempDir()}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it may have ended
		_ = command.Process.Kill()
		_, _ = command.Process.Wait()
	})
	w.run = func(s protocol.EngineSpec) {
		s.Schema, s.Verb, s.Out, s.Command, s.Workload = protocol.EngineSchema, protocol.Read, w.out, []string{"statelab"}, "readrandom"
		s.Profile, s.PageCache = stdcmp.Or(s.Profile, "bench-kvdb"), stdcmp.Or(s.PageCache, protocol.AsIs)
		s.ReadOnly, s.Handles = true, 1000
		if err := errors.Join(json.NewEncoder(in).Encode(s), in.Close()); err != nil {
			t.Error(err)
		}
	}
	return w
}

// runnerOf is a command that runs Pebble: built with cgo and with its symbols, or in pure Go and stripped.
func runnerOf(t *testing.T, stripped bool) []string {
	t.Helper()
	if !stripped {
		const name = "statelab-run-pebble"
		dir := filepath.Join(scratch, "watched")
		put(t, dir, []string{name})
		return []string{filepath.Join(dir, name)}
	}
	path := filepath.Join(t.TempDir(), "stripped")
	if text, err := exec.Command("strip", "-o", path, binary).CombinedOutput(); err != nil {
		t.Fatalf("strip (make test installs it with the C compiler): %v\n%s", err, text)
	}
	return []string{path, runnerVerb}
}

// What is seen of a run from outside is exactly what the run counted itself: its Gets, the absent keys, and its
// block reads by type and level.
func TestWatchCountsWhatTheRunCounted(t *testing.T) {
	watching(t)
	for _, stripped := range []bool{false, true} {
		runner := runnerOf(t, stripped)
		for _, name := range subject.Pebbles() {
			t.Run(fmt.Sprintf("%s, stripped %v", name, stripped), func(t *testing.T) {
				db, pages := database(t, name), protocol.Cold
				told := deviceTold(t, db)
				if !told {
					pages = protocol.AsIs
				}
				target := waitingRunner(t, runner)
				seen, before := seenBy(t, target.Process.Pid, name, db, func() {
					target.run(protocol.EngineSpec{Engine: name, Dir: db, CacheBytes: 1 << 20, CacheAsked: "1MiB", Threads: 1, Seed: 7, Gets: 20_000,
						WarmupRule: "a count", MissingShare: 0.3, PageCache: pages})
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
		if err := errors.Join(os.Mkdir(dir, 0o755), seen.Write(dir, []string{"statelab", "watch"})); err != nil {
			t.Fatal(err)
		}
	}
	if text := must(t, "report", a).stdout; !strings.Contains(text, "block reads per Get") || !strings.Contains(text, "Simulated at the present size") {
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
	for _, k := range seen.Keys[:100] {
		if bytes.Contains(seen.Trace, k.Key) {
			t.Fatalf("the trace has the key %x", k.Key)
		}
	}
}

// seenBy watches a process from before its first Get to its end. before is what the kernel had counted of it.
func seenBy(t *testing.T, pid int, engineName, db string, work func()) (seen *watch.Seen, before counted) {
	t.Helper()
	found, err := probe.Find(pid, subject.AllWatched())
	if err == nil {
		err = found.Choose(engineName)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, before := atRest(t, func() counted { return counted{readBytes: countedOf(t, found).readBytes} }, func() (*probe.Probe, error) {
		p, err := probe.Open(found)
		if err == nil {
			_ = p.OnDevice(db) // Traffic says why
			err = p.Attach()
		}
		return p, err
	})
	defer p.Close() // after the test has its answer
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	cache := watch.Cache{WatchedCache: result.WatchedCache{Bytes: 1 << 20}}
	if !subject.IsPebble(engineName) {
		cache = watch.CacheOf(found, db, 1<<20)
	}
	seen, err = watch.Traffic(context.Background(), found, p, db, watch.LayoutOf(engineName, db), cache, watch.Options{Share: 1, Tell: func(result.Event) {}})
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return seen, before
}

// atRest attaches to a process while nothing is counted of it: a runner that still starts does what would be counted, and not seen.
func atRest[P interface{ Close() error }](t *testing.T, counts func() counted, attached func() (P, error)) (p P, before counted) {
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

// deviceTold reports whether the filesystem of a folder tells on which block device it lies; tmpfs, overlayfs and btrfs do not.
func deviceTold(t *testing.T, dir string) bool {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Stat(dir, &stat); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
	if err != nil {
		t.Logf("reads of the disk are not compared: the filesystem of %s does not tell its block device", dir)
	}
	return err == nil
}

// otherMounts skips a test where processes cannot have mounts of their own.
func otherMounts(t *testing.T) {
	t.Helper()
	if text, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("unshare --mount: %v: %s", err, text)
	}
}

// elsewhere is a command that runs a program with dir at another place, which it alone sees.
func elsewhere(dir, place string, program []string) []string {
	return append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", dir, place}, program...)
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
	target.run(protocol.EngineSpec{Engine: name, Dir: inside, CacheBytes: 1 << 20, CacheAsked: "1MiB", Threads: 1, Seed: 7, Gets: 1 << 40, WarmupRule: "a count"})
	for began := time.Now(); ; {
		var w result.Watch
		o := statelab(t, "watch", db, "--json", "--seconds", "1", "--cache", "1MiB")
		if err := json.Unmarshal([]byte(o.stdout), &w); err == nil && w.Process.PID == target.Process.Pid && w.BlockReads["data"].Count > 0 && w.Simulated != nil {
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
	if got, want := [3]uint64{w.Gets, w.Found, w.Missing}, [3]uint64{f.Gets, f.Found, f.Missing}; got != want || w.Missing == 0 {
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
	// Pebble counts the accesses itself, as hits and misses, and those that open its tables with them.
	const opening = 1e-3
	accesses := float64(measured.Engine["cache_hits"]+measured.Engine["cache_misses"]) / float64(f.Gets)
	if w.BlockAccessesPerGet == nil {
		t.Fatalf("no block accesses: %v", w.Why)
	}
	if seen := *w.BlockAccessesPerGet; !near(seen, accesses, opening) {
		t.Errorf("block accesses per Get: %v; Pebble counted %v", seen, accesses)
	}
	if s := w.Simulated; s == nil || !near(s.BlockReadsPerGet, *f.BlockReadsPerGet, 0.05) {
		t.Errorf("simulated: %+v (%v); the run read %v", s, w.Why, *f.BlockReadsPerGet)
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
	target.run(protocol.EngineSpec{Engine: name, Dir: db, CacheBytes: 1 << 20, CacheAsked: "1MiB", Threads: 2, Seed: 7, Gets: 1 << 40, WarmupRule: "a count"})
	kills := 100
	if testing.Short() {
		kills = 5
	}
	timely := inTime(t)
	for i := 0; i < kills && timely(); i++ {
		watcher := exec.Command(binary, "watch", "--pid", fmt.Sprint(target.Process.Pid), "--sample", "100%", "--seconds", "0")
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
	if err := target.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the watched process: %v", err)
	}
	if err := target.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = target.Wait() // interrupted
	if run := readRun(t, target.out); run.Status != result.Interrupted || run.Figures.FailedGets > 0 {
		t.Errorf("the watched run: %s, %s", run.Status, run.Error)
	}
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

// Attaching and detaching, again and again, while goroutines of the process come, go and grow their stacks.
func TestWatchInShortWindows(t *testing.T) {
	watching(t)
	const name = "pebble2"
	db := database(t, name)
	target := waitingRunner(t, runnerOf(t, true))
	found, err := probe.Find(target.Process.Pid, subject.AllWatched())
	if err == nil {
		err = found.Choose(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Batches of Gets: each is a goroutine of its own, with a small stack.
	target.run(protocol.EngineSpec{Engine: name, Dir: db, CacheBytes: 1 << 20, CacheAsked: "1MiB", Threads: 4, Seed: 7, Gets: 1 << 40, WarmupRule: "a count",
		BatchGets: 64, InFlight: 8})
	p, err := probe.Open(found)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() // after the test has its answer
	rounds, seen := 10_000, 0
	if testing.Short() {
		rounds = 50
	}
	before := openDescriptors(t)
	// It may take a while until the first Get.
	timely := inTime(t)
	for began := time.Now(); rounds > 0 && timely() || seen == 0 && time.Since(began) < time.Minute; rounds-- {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Millisecond)
		counts := &counting{}
		err := p.Watch(ctx, 1, counts)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		seen += counts.gets
		if counts.outside > 0 {
			t.Fatalf("%d events began outside of their window", counts.outside)
		}
	}
	if seen == 0 {
		t.Error("no Get was seen")
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are open, and %d were before all windows", after, before)
	}
	if err := target.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = target.Wait() // interrupted
	if run := readRun(t, target.out); run.Status != result.Interrupted || run.Figures.FailedGets > 0 {
		t.Errorf("the watched run: %s, %s", run.Status, run.Error)
	}
}

// inTime reports, for what is repeated very often, whether there is time for more: it may take a third of what is left for all tests.
func inTime(t *testing.T) func() bool {
	t.Helper()
	began, told := time.Now(), false
	end, limited := t.Deadline()
	return func() bool {
		in := !limited || time.Since(began) < end.Sub(began)/3
		if !in && !told {
			told = true
			t.Logf("it ends after %v: give it more time with -timeout", time.Since(began))
		}
		return in
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
	refused(t, statelab(t, "watch", "--name", "no-such-node"), 2, "no process has the name no-such-node")
	refused(t, statelab(t, "watch", filepath.Join(t.TempDir(), "none")), 2, "is not there")
	if os.Geteuid() != 0 {
		return
	}
	refused(t, statelab(t, "watch", t.TempDir()), 2, "no process has the database", "start its node")
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Process.Kill() // it may have ended
	refused(t, statelab(t, "watch", "--pid", fmt.Sprint(sleep.Process.Pid)), 1, "contains no engine that can be watched")
}
