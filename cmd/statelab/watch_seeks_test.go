//go:build linux && amd64

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/internal/ask/watch"
	"github.com/statelab/statelab/internal/explain/watched"
	"github.com/statelab/statelab/internal/subject"
	"github.com/statelab/statelab/result"
)

// TestWatchCountsSeeksInGo: the Seeks of a program with an engine in Go are those that the engine
// counted, of Pebble by its own statistics, and all that iterators read is inside Seeks or where
// these go on.
func TestWatchCountsSeeksInGo(t *testing.T) {
	watching(t)
	dir := t.TempDir()
	put(t, dir, []string{"seeknode"})
	for _, engine := range []string{"pebble1", "pebble2", "goleveldb"} {
		t.Run(engine, func(t *testing.T) {
			const keys, gets, seeks, cacheBytes = 50_000, 1_000, 300, 1_000_000
			db := filepath.Join(t.TempDir(), "db")
			command := exec.Command(filepath.Join(dir, "seeknode"), engine, db, fmt.Sprint(keys),
				fmt.Sprint(gets), fmt.Sprint(seeks), fmt.Sprint(cacheBytes))
			w, told := seeksSeen(t, command, engine, db, gets+seeks, cacheBytes)
			reads := map[string]int64{}
			for _, r := range w.Reads {
				reads[r.Purpose] = int64(r.Reads)
			}

			if w.Gets != gets || reads[subject.ForGets] != told["get_reads"] ||
				reads[subject.ForIterators] != told["seek_reads"] {
				t.Errorf("%d Gets and reads %v; the engine counted %v", w.Gets, reads, told)
			}

			s := w.Seeks
			if s == nil || int64(s.Calls) != told["seeks"] || s.Reads < seeks/4 ||
				int64(s.Reads+s.ReadsBeyond) != told["seek_reads"] {
				t.Fatalf("Seeks: %+v; the engine counted %v", s, told)
			}

			if answer := (watched.Watched{Watch: w}).Answer(); !strings.Contains(answer,
				" are for iterators") {
				t.Error(answer)
			}
		})
	}
}

// seeksSeen watches seeknode from when it says that its tables are open until it ends.
func seeksSeen(
	t *testing.T, command *exec.Cmd, engine, dir string, calls uint64, cacheBytes int64,
) (*result.Watch, map[string]int64) {
	t.Helper()
	in, answer := started(t, command)
	target, p := attach(t, command.Process.Pid, engine)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	told := map[string]int64{}
	reading := make(chan error)
	go func() {
		_, err := in.Write([]byte("\n"))
		if err == nil {
			err = json.NewDecoder(io.LimitReader(answer, 1<<10)).Decode(&told)
		}
		reading <- err
	}()

	options := watch.Options{Share: 1, Tell: func(result.Event) {}}
	seen, err := watch.Traffic(ctx, target, p, dir, watch.LayoutOf(engine, dir),
		watch.CacheOf(target, dir, cacheBytes), options)
	if err != nil {
		t.Fatal(err)
	}

	if err := <-reading; err != nil {
		t.Fatal(err)
	}

	return &seen.Watch, told
}
