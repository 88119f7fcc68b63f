//go:build linux && amd64

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

var serviceGets = flag.Int("service-gets", 20_000, "Gets of each node that is watched as a "+
	"service (make watched: two million)")

// TestWatchAsAService: a watcher that is started again whenever it ends, as the unit for systemd
// does, sees every Get of a node that is restarted ten times and whose database is replaced once.
// Its memory does not grow with the restarts, nor with the Gets beyond those that it keeps.
func TestWatchAsAService(t *testing.T) {
	watching(t)
	const restarts, cacheBytes, kept = 10, 1_000_000, 2_000_000
	dir, db := t.TempDir(), filepath.Join(t.TempDir(), "db")
	put(t, dir, []string{"seeknode"})
	keys := 30_000
	first := int64(0)
	for n := range restarts {
		gets := *serviceGets
		if n == restarts/2 {
			keys *= 2
			if err := os.RemoveAll(db); err != nil {
				t.Fatal(err)
			}
		}

		if n == restarts-1 && gets > kept {
			gets *= 2
		}

		w, memory := servedWatch(t, exec.Command(filepath.Join(dir, "seeknode"), "pebble2", db,
			fmt.Sprint(keys), fmt.Sprint(gets), "0", fmt.Sprint(cacheBytes)))
		if w.Gets+w.Lost.Gets != uint64(gets) || !w.Process.Ended {
			t.Errorf("start %d: %d Gets and %d lost of %d, process: %+v", n, w.Gets, w.Lost.Gets,
				gets, w.Process)
		}

		// The tables are those of this start: what they say of the cache is what was read.
		observed := w.OrZero(figure.BlockReadsPerGet)
		if w.Simulated == nil || !near(w.Simulated.BlockReadsPerGet, observed, 0.05) {
			t.Errorf("start %d: %v block reads per Get, %+v simulated", n, observed, w.Simulated)
		}

		if n == 0 {
			first = memory
		} else if memory > first+first/2 {
			t.Errorf("start %d: the watcher took %d KiB, the first one %d", n, memory, first)
		}
	}
}

// servedWatch starts a node and watches it as the unit does until it ends. It returns what was seen
// and the watcher's peak memory in KiB.
func servedWatch(t *testing.T, node *exec.Cmd) (*result.Watch, int64) {
	t.Helper()
	in, _ := started(t, node)
	watcher := exec.Command(binary, "watch", "--pid", fmt.Sprint(node.Process.Pid), "--seconds",
		"3600", "--sample", "100%", "--metrics", freeAddress(t), "--json")
	var told bytes.Buffer
	watcher.Stdout = &told
	said, err := watcher.StderrPipe()
	if err == nil {
		err = watcher.Start()
	}

	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = watcher.Process.Kill() }) // it may have ended
	var all strings.Builder
	waits := true
	for lines := bufio.NewScanner(said); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if waits && strings.Contains(lines.Text(), "Gets/s") { // a line of each second
			waits = false
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
		}
	}

	var w result.Watch
	err = errors.Join(watcher.Wait(), node.Wait(), json.Unmarshal(told.Bytes(), &w))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, all.String(), told.String())
	}

	//nolint:forcetypeassert // Linux has no other type
	return &w, watcher.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}
