// Package churn is for tests of what reads a folder: it plays the process that writes there.
package churn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/statelab/statelab/engine"
)

// Times is how often a few small files are read, and replaced, in a test: less than a second.
const Times = 500

// Replace makes new versions of a file in dir as fast as it can, as databases do with their logs,
// tables and options, while it calls read so many times at least: it creates the file of the next
// number, then deletes the one before. pattern has one %d for the number; every version has that
// content.
func Replace(t *testing.T, dir, pattern, content string, times int, read func() error) {
	t.Helper()
	name := func(number int) string { return filepath.Join(dir, fmt.Sprintf(pattern, number)) }
	replace := func(number int) error {
		if err := os.WriteFile(name(number), []byte(content), 0o644); err != nil {
			return err
		}

		if err := os.Remove(name(number - 1)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		return nil
	}

	if err := replace(1); err != nil {
		t.Fatal(err)
	}

	if err := read(); err != nil {
		t.Fatalf("at rest: %v", err)
	}

	RunBeside(t, func(number int) error { return replace(number + 1) }, times, read)
}

// RunBeside calls write with 1, 2, ... in the background, without a pause, while it calls read,
// each so many times at least. read fails if it gives another answer than at rest. A refusal that
// names the other process is fit; if all reads were refused, one more has to answer after the
// writer has stopped.
func RunBeside(t *testing.T, write func(number int) error, times int, read func() error) {
	t.Helper()
	var wrote atomic.Int64
	var stop atomic.Bool
	var failed error
	var writer sync.WaitGroup
	writer.Go(func() {
		for number := 1; !stop.Load(); number++ {
			if failed = write(number); failed != nil {
				stop.Store(true)
			}
			wrote.Store(int64(number))
		}
	})

	end := func() {
		stop.Store(true)
		writer.Wait()
	}
	defer func() {
		if end(); failed != nil {
			t.Errorf("the writer failed: %v", failed)
		}
	}()

	reads, refused := 0, 0
	for reads < times || wrote.Load() < int64(times) && !stop.Load() {
		reads++
		err := read()
		if engine.CodeOf(err) == engine.CodeInUse {
			refused++
		} else if err != nil {
			t.Errorf("read %d, beside write %d: %v", reads, wrote.Load(), err)
			return
		}
	}

	t.Logf("%d reads, %d of them refused, beside %d writes", reads, refused, wrote.Load())
	if refused == reads {
		end()
		if err := read(); err != nil {
			t.Errorf("all %d reads were refused, and after the last write: %v", reads, err)
		}
	}
}
