//go:build linux && amd64

package main

import (
	"bufio"
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/base/testring"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

var nodeSeconds = flag.Int("node-seconds", 4, "seconds for which nodes that write are watched "+
	"(make watched: 300)")

// node is a program of somebody else's with a database, which makes Gets and writes until its input
// ends.
type node struct {
	*exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	kill func()
}

// startNode starts a program and waits for its first line.
func startNode(t *testing.T, args ...string) *node {
	t.Helper()
	n := &node{Cmd: exec.Command(args[0], args[1:]...)}
	n.Stderr = os.Stderr
	n.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := n.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	out, err := n.StdoutPipe()
	if err == nil {
		err = n.Start()
	}

	if err != nil {
		t.Fatal(err)
	}

	n.in, n.out = in, bufio.NewReader(out)
	n.kill = sync.OnceFunc(func() {
		_ = n.Process.Kill() // it may have ended
		_ = n.Wait()         // it was killed
	})

	t.Cleanup(n.kill)
	if _, err := n.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}

	return n
}

// end ends its input, and returns what it counted.
func (n *node) end(t *testing.T) map[string]float64 {
	t.Helper()
	if err := n.in.Close(); err != nil {
		t.Fatal(err)
	}

	counts := map[string]float64{}
	for lines := bufio.NewScanner(n.out); lines.Scan(); {
		name, number, _ := strings.Cut(lines.Text(), " ")
		count, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Error(err)
		}

		counts[name] = count
	}

	if err := n.Wait(); err != nil {
		t.Error(err)
	}

	return counts
}

// levelNode is the program levelnode.
func levelNode(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(scratch, "nodes")
	put(t, dir, []string{"levelnode"})
	return filepath.Join(dir, "levelnode")
}

// nodes are programs that read and write, by their engines: how a database of so many keys is
// written, and how a node with a cache is started.
func nodes(t *testing.T) map[string]struct {
	fill  func(dir string, keys int) []string
	start func(dir string, keys, rate, cacheBytes int) *node
} {
	t.Helper()
	level, rocks, library := levelNode(t), rocksGets(t), rocksLibrary(t)
	return map[string]struct {
		fill  func(dir string, keys int) []string
		start func(dir string, keys, rate, cacheBytes int) *node
	}{
		"goleveldb": {
			func(dir string, keys int) []string {
				return []string{level, "fill", dir, fmt.Sprint(keys)}
			},
			func(dir string, keys, rate, cacheBytes int) *node {
				return startNode(t, level, "mix", dir, fmt.Sprint(keys), fmt.Sprint(rate),
					fmt.Sprint(cacheBytes))
			},
		},
		"rocksdb": {
			func(dir string, keys int) []string {
				return []string{rocks, library, "write", dir, "0", "1000000", fmt.Sprint(keys)}
			},
			func(dir string, keys, rate, cacheBytes int) *node {
				n := startNode(t, rocks, library, "mix", dir, fmt.Sprint(rate),
					fmt.Sprint(cacheBytes), fmt.Sprint(keys))
				if _, err := n.in.Write([]byte("\n")); err != nil {
					t.Fatal(err)
				}

				return n
			},
		},
	}
}

// Nodes that read and write, so that tables come and go all the time: what the simulator says of
// their own cache is what they read, and what it says of half and twice the cache is what nodes
// read that were started with these.
func TestWatchedNodesThatWrite(t *testing.T) {
	watching(t)
	const keys, cacheBytes = 180_000, 4 << 20
	rate, warm, long := 10_000, time.Second, *nodeSeconds >= 60
	if long {
		rate, warm = 1_000, 20*time.Second
	}

	for engine, programs := range nodes(t) {
		t.Run(engine, func(t *testing.T) {
			filled := filepath.Join(t.TempDir(), "db")
			fill := programs.fill(filled, keys)
			if text, err := exec.Command(fill[0], fill[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}

			sizes, running, watchers := []int{cacheBytes / 2, cacheBytes, cacheBytes * 2},
				[]*node{}, []*exec.Cmd{}
			for _, size := range sizes {
				dir := filepath.Join(t.TempDir(), "db")
				if err := os.CopyFS(dir, os.DirFS(filled)); err != nil {
					t.Fatal(err)
				}
				running = append(running, programs.start(dir, keys, rate, size))
			}

			time.Sleep(warm) // until their caches are full
			told := make([]bytes.Buffer, len(sizes))
			for i, n := range running {
				args := []string{"watch", "--pid", fmt.Sprint(n.Process.Pid), "--json", "--sample",
					"100%", "--seconds", fmt.Sprint(*nodeSeconds)}
				if engine == "goleveldb" { // nothing tells of it
					args = append(args, "--cache", fmt.Sprintf("%dKiB", sizes[i]>>10))
				}

				watcher := exec.Command(binary, args...)
				watcher.Stdout, watcher.Stderr = &told[i], os.Stderr
				if err := watcher.Start(); err != nil {
					t.Fatal(err)
				}

				watchers = append(watchers, watcher)
			}

			seen := make([]result.Watch, len(sizes))
			for i, watcher := range watchers {
				if err := watcher.Wait(); err != nil {
					t.Fatal(err)
				}

				if err := json.Unmarshal(told[i].Bytes(), &seen[i]); err != nil {
					t.Fatal(err)
				}
			}

			for i := range seen {
				compareNode(t, &seen[i], sizes[i], running[i].end(t))
				if long &&
					!slices.ContainsFunc(seen[i].Reads, func(r result.WatchedReads) bool {
						return r.Purpose == subject.ForCompaction && r.Reads > 0
					}) {
					t.Errorf("no reads of compactions: %v", seen[i].Reads)
				}
			}

			if t.Failed() {
				return
			}

			// predictions of the middle one are in the order of their sizes
			for i, at := range map[int]int{0: 0, 1: 2} {
				predicted, observed := seen[1].WhatIf[i], seen[at].Simulated.Seen
				t.Logf("%s, %d bytes: predicted %.4f (%.4f to %.4f), observed %.4f: %+.1f %%",
					engine, sizes[at], predicted.BlockReadsPerGet, predicted.Low,
					predicted.High, observed, 100*(predicted.BlockReadsPerGet/observed-1))
				// In a few seconds, three nodes at a time do not come equally far.
				if predicted.CacheBytes != int64(sizes[at]) ||
					long && !near(predicted.BlockReadsPerGet, observed, 0.1) {
					t.Errorf("with %d bytes: predicted %+v, and then observed %v", sizes[at],
						predicted, observed)
				}
			}
		})
	}
}

// compareNode compares what was seen of a node with what was simulated for it, and with what its
// engine counted of all its Gets, if it does.
func compareNode(t *testing.T, w *result.Watch, cacheBytes int, counts map[string]float64) {
	t.Helper()
	if w.Simulated == nil || !w.Has(figure.BlockAccessesPerGet) {
		t.Errorf("not simulated: %v", w.Why)
		return
	}

	s := *w.Simulated
	others := map[string]uint64{}
	for _, r := range w.Reads {
		others[r.Purpose] = r.Reads
	}

	t.Logf("%s, cache of %d bytes: %d Gets, %.4f accesses and %.4f reads a Get, %d unexplained; "+
		"simulated %.4f, seen of the same %.4f: %+.1f %%; "+
		"reads %v; it counted %v", w.Process.Engine, w.Cache.Bytes, w.Gets,
		w.OrZero(figure.BlockAccessesPerGet), w.OrZero(figure.BlockReadsPerGet),
		w.UnexplainedReads,
		s.BlockReadsPerGet, s.Seen, 100*(s.BlockReadsPerGet/s.Seen-1), others, counts)

	// On a busy machine a small table can be gone before the watcher comes to look at it.
	if w.Lost.Gets > 0 || w.Lost.Reads > w.Gets/100 || w.Cache.Bytes != int64(cacheBytes) {
		t.Errorf("lost %+v; a cache of %d bytes, not %d", w.Lost, w.Cache.Bytes, cacheBytes)
	}

	if !near(s.BlockReadsPerGet, s.Seen, 0.05) {
		t.Errorf("simulated %v, and seen %v", s.BlockReadsPerGet, s.Seen)
	}

	// What was read without being asked for: tables that came or went within the Get.
	if w.UnexplainedReads > w.Gets/100 {
		t.Errorf("%d of the reads of %d Gets are not explained", w.UnexplainedReads, w.Gets)
	}

	if counts["gets"] < float64(w.Gets) {
		t.Errorf("the node made %v Gets, of which %d were seen", counts["gets"], w.Gets)
	}
}

// While RocksDB flushes and compacts, what is seen of all Gets of a node is what it counts for
// their thread.
func TestWatchCountsWhatRocksDBCountsWhileItWrites(t *testing.T) {
	watching(t)
	const keys, cacheBytes, fewest = 60_000, 1 << 20, 40_000
	rocks, library, dir := rocksGets(t), rocksLibrary(t), filepath.Join(t.TempDir(), "db")
	if text, err := exec.Command(rocks, library, "write", dir, "0", "1000000", fmt.Sprint(keys)).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	n := startNode(t, rocks, library, "mix", dir, "20000", fmt.Sprint(cacheBytes), fmt.Sprint(keys))
	target, p := attach(t, n.Process.Pid, "rocksdb")
	if _, err := n.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}

	cache := watch.Cache{}
	for began := time.Now(); cache.Bytes != cacheBytes &&
		time.Since(began) < time.Minute; time.Sleep(
		time.Millisecond,
	) {
		cache = watch.CacheOf(target, dir, 0)
	}

	gets, counted := uint64(0), make(chan map[string]float64, 1)
	options := watch.Options{Share: 1, Tell: func(result.Event) {}, Tick: func(tick result.Tick) {
		if gets += tick.Ops; gets >= fewest && gets-tick.Ops < fewest {
			go func() { counted <- n.end(t) }()
		}
	}}

	seen, err := watch.Traffic(t.Context(), target, p, dir, watch.LayoutOf("rocksdb", dir), cache,
		options)
	if err != nil {
		t.Fatal(err)
	}

	w, counts := &seen.Watch, <-counted
	compareNode(t, w, cacheBytes, counts)
	var reads int64
	for _, tally := range w.BlockReads {
		reads += tally.Count
	}

	// A Get can be the first to open a new table, whose end it reads in one call; RocksDB counts
	// each block of it.
	if got := float64(reads) + float64(w.Lost.Reads); float64(w.Gets) != counts["gets"] ||
		!near(got, counts["reads"], 0.005) {
		t.Errorf("%d Gets and %v block reads: RocksDB counted %v", w.Gets, got, counts)
	}

	// It was followed from a little after its first Get on.
	if want := counts["accesses"] / counts["gets"]; !w.Has(figure.BlockAccessesPerGet) ||
		!near(w.OrZero(figure.BlockAccessesPerGet), want, 0.01) {
		t.Errorf("block accesses per Get: %v; RocksDB counted %v",
			w.OrZero(figure.BlockAccessesPerGet), want)
	}
}

// A node that ends while it is watched has its answer so far; started again, it is found by its
// database.
func TestWatchedNodesThatEnd(t *testing.T) {
	watching(t)
	level, dir := levelNode(t), filepath.Join(t.TempDir(), "db")
	if text, err := exec.Command(level, "fill", dir, "10000").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	for range 2 {
		n := startNode(t, level, "mix", dir, "10000", "5000", "100000")
		watcher := exec.Command(binary, "watch", dir, "--json", "--sample", "100%", "--seconds",
			"600", "--cache", "100KB")
		said, err := watcher.StderrPipe()
		var told bytes.Buffer
		watcher.Stdout = &told
		if err == nil {
			err = watcher.Start()
		}

		if err != nil {
			t.Fatal(err)
		}

		lines := bufio.NewScanner(said)
		// one a second says what was seen
		for lines.Scan() && !strings.Contains(lines.Text(), "Gets/s") {
		}
		n.kill()
		for lines.Scan() {
		}
		var w result.Watch
		if err := errors.Join(watcher.Wait(), json.Unmarshal(told.Bytes(), &w)); err != nil {
			t.Fatalf("%v\n%s", err, told.String())
		}

		ended := slices.ContainsFunc(w.Warnings, func(w engine.Warning) bool {
			return w.Code == "process_ended"
		})
		if !ended || !w.Process.Ended || w.Process.PID != n.Process.Pid || w.Gets == 0 ||
			w.Simulated == nil {
			t.Errorf("%+v", w)
		}
	}
}

// TestPrometheusScrapesAWatch: every query of the dashboard of watched nodes gives a series, but
// those of a database that is mapped into memory.
func TestPrometheusScrapesAWatch(t *testing.T) {
	watching(t)
	testring.Program(t, "prometheus")
	examples, err := filepath.Abs("../../examples/grafana")
	if err != nil {
		t.Fatal(err)
	}

	waiting := queries(t, filepath.Join(examples, "watch.json"))
	for query := range waiting {
		if strings.Contains(query, "page_") || strings.Contains(query, "memory_") {
			delete(waiting, query)
		}
	}

	db := database(t, "pebble2")
	target := waitingRunner(t, runnerOf(t, true))
	watchAt, promAt := freeAddress(t), freeAddress(t)
	watched := start(t, "watch", "--pid", strconv.Itoa(target.Process.Pid), "--seconds", "0",
		"--sample", "100%", "--cache", "1MiB", "--metrics", watchAt)
	runPrometheus(t, promAt, examples, watchAt)
	go target.run(protocol.EngineSpec{
		Engine:       "pebble2",
		Dir:          db,
		CacheBytes:   1 << 20,
		CacheAsked:   "1MiB",
		Threads:      1,
		Seed:         7,
		Gets:         60_000,
		Rate:         1000,
		WarmupRule:   "a count",
		MissingShare: 0.3,
	})
	seriesFor(t, promAt, waiting, watched)
	if !processGone(watched) {
		watched.signal(syscall.SIGINT)
	}

	watched.wait()
}

// TestWatchPredictsForItsMetrics: while a watch goes on, its metrics have what caches would read of
// the Gets of a period: what is observed at the present size, and at others what the answer says.
func TestWatchPredictsForItsMetrics(t *testing.T) {
	watching(t)
	db := filepath.Join(t.TempDir(), "db")
	must(t, "load", "--db", db, "--engine", "pebble2", "--keys", "30k", "--quiet")
	target := waitingRunner(t, runnerOf(t, true))
	found, p := attach(t, target.Process.Pid, "pebble2")
	done := make(chan struct{})
	go func() {
		defer close(done)
		target.run(protocol.EngineSpec{
			Engine:     "pebble2",
			Dir:        db,
			CacheBytes: 2 << 20,
			CacheAsked: "2MiB",
			Threads:    1,
			Seed:       7,
			Gets:       25_000,
			Rate:       1000,
			WarmupRule: "a count",
		})

		if err := target.Wait(); err != nil {
			t.Error(err)
		}
	}()

	var told *result.WatchPredicted
	seen, err := watch.Traffic(t.Context(), found, p, db, watch.LayoutOf("pebble2", db),
		watch.Cache{WatchedCache: result.WatchedCache{Bytes: 2 << 20}},
		watch.Options{
			Share:  1,
			Tell:   func(result.Event) {},
			Counts: func(c result.WatchCounts) { told = stdcmp.Or(c.Predicted, told) },
		})
	<-done
	if err != nil {
		t.Fatal(err)
	}

	w := &seen.Watch
	if told == nil {
		t.Fatalf("nothing was predicted in %.0f s and %d Gets", w.Seconds, w.Gets)
	}

	if told.Gets >= w.Gets || len(told.Caches) < 3 {
		t.Errorf("%d of %d Gets: %+v", told.Gets, w.Gets, told.Caches)
	}

	const ofOtherGets = 0.05
	for i, c := range append([]result.WatchSimulated{*w.Simulated}, w.WhatIf...) {
		at := slices.IndexFunc(told.Caches, func(s result.WatchSimulated) bool {
			return s.CacheBytes == c.CacheBytes
		})
		if at < 0 {
			continue // the working set of all Gets is larger
		}

		p := told.Caches[at]
		if i == 0 && at != 0 || p.Low > c.High+ofOtherGets || p.High < c.Low-ofOtherGets {
			t.Errorf("predicted %+v, answered %+v", p, c)
		}
	}
}

// With two databases in a process, one has to be named, unless it has nearly all bytes; that one is
// watched.
func TestWatchAsksWhichDatabase(t *testing.T) {
	watching(t)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	n := startNode(t, levelNode(t), "hold", a, b)
	refused(t, statelab(t, "watch", "--pid", fmt.Sprint(n.Process.Pid)), 2,
		"has 2 databases open: name one of them instead of the process", a, b)
	var w result.Watch
	o := statelab(t, "watch", b, "--seconds", "0.5", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &w); err != nil || w.Process.Database != b ||
		w.Process.PID != n.Process.Pid {
		t.Error(o)
	}

	// geth's chaindata, beside its database of peers
	if err := os.WriteFile(filepath.Join(a, "LOG.old"), make([]byte, 8<<20), 0o644); err != nil {
		t.Fatal(err)
	}

	o = statelab(t, "watch", "--pid", fmt.Sprint(n.Process.Pid), "--seconds", "0.5", "--json")
	if err := json.Unmarshal([]byte(o.stdout), &w); err != nil || w.Process.Database != a {
		t.Error(o)
	}
}

// A stripped program with a version of an engine, or of Go, that is not known is refused by that
// version.
func TestWatchRefusesUnknownVersions(t *testing.T) {
	watching(t)
	program := levelNode(t)
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}

	stripped := filepath.Join(t.TempDir(), "stripped")
	if text, err := exec.Command("strip", "-o", stripped, program).CombinedOutput(); err != nil {
		t.Fatalf("strip (make ci installs it with the C compiler): %v\n%s", err, text)
	}

	if text, err = os.ReadFile(stripped); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct{ was, is, says string }{
		{"goleveldb\tv1.0.", "goleveldb\tv9.0.", "goleveldb v9.0."},
		{"go1.2", "go9.2", "was built with go9.2"},
	} {
		t.Run(c.says, func(t *testing.T) {
			other := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(other, bytes.ReplaceAll(text, []byte(c.was), []byte(c.is)),
				0o755); err != nil {
				t.Fatal(err)
			}

			n := startNode(t, other, "hold", filepath.Join(t.TempDir(), "db"))
			refused(t, statelab(t, "watch", "--pid", fmt.Sprint(n.Process.Pid)), 1, c.says,
				"use a newer statelab")
		})
	}
}

// Without rights, without the kernel's description of its types, or without its tracepoints, the
// answer says which of them is missing.
func TestWatchNeedsRightsAndTheKernel(t *testing.T) {
	watching(t)
	n := startNode(t, levelNode(t), "hold", filepath.Join(t.TempDir(), "db"))
	pid := fmt.Sprint(n.Process.Pid)
	without := func(t *testing.T, program string, args ...string) outcome {
		t.Helper()
		command := exec.Command(program,
			append(args, binary, "watch", "--pid", pid, "--seconds", "1")...)
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr, command.Dir = &stdout, &stderr, "/"
		_ = command.Run() // the exit code tells
		return outcome{command.Args, command.ProcessState.ExitCode(), stdout.String(),
			stderr.String(), 0}
	}

	const (
		noTypes  = `mount -t tmpfs none /sys/kernel/btf && exec "$@"`
		noTraces = `umount -l /sys/kernel/tracing /sys/kernel/debug 2>/dev/null; exec "$@"`
	)

	t.Run("rights", func(t *testing.T) {
		if os.Geteuid() == 0 {
			refused(t,
				without(t, "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
				1, "needs rights", "sudo")
		}
	})

	otherMounts(t)
	t.Run("types", func(t *testing.T) {
		refused(t, without(t, "unshare", "--mount", "sh", "-c", noTypes, "sh"), 1,
			"does not describe its types (BTF)", "CONFIG_DEBUG_INFO_BTF")
	})

	t.Run("tracepoints", func(t *testing.T) {
		refused(t, without(t, "unshare", "--mount", "sh", "-c", noTraces, "sh"), 1,
			"the kernel's tracepoint of", "mount -t tracefs none /sys/kernel/tracing")
	})
}
