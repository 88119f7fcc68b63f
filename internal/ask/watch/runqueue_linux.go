package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/result/figure"
)

// runQueue is what the kernel counts of a thread since it began: how long it ran, and how long it
// waited for a processor to run on.
type runQueue struct{ ran, waited time.Duration }

// runQueues are those of the threads of a process, by the names of their folders in dir, the
// process's /proc/PID/task.
func runQueues(dir string) (map[string]runQueue, error) {
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	all := map[string]runQueue{}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(dir, thread.Name(), "schedstat"))
		if err != nil {
			continue // it has ended
		}

		var q runQueue
		if _, err := fmt.Sscan(string(text), &q.ran, &q.waited); err != nil {
			return nil, fmt.Errorf("%s: %w", thread.Name(), err)
		}
		all[thread.Name()] = q
	}

	if len(all) == 0 {
		return nil, fmt.Errorf("the kernel has no schedstat of threads in %s", dir)
	}

	return all, nil
}

// waitingForProcessor returns what says, later, for what share of the time since in which the
// threads of a process could run they waited for a processor. Threads that have ended by then do
// not count.
func waitingForProcessor(dir string) func() figure.Value {
	before, err := runQueues(dir)
	return func() figure.Value {
		var after map[string]runQueue
		if err == nil {
			after, err = runQueues(dir)
		}

		if err != nil {
			return figure.Unavailable(fmt.Sprintf("the kernel does not tell: %v", err))
		}

		var since runQueue
		for thread, q := range after {
			since.ran += q.ran - before[thread].ran
			since.waited += q.waited - before[thread].waited
		}

		runnable := since.ran + since.waited
		if runnable <= 0 {
			return figure.Unavailable("no thread of the process ran")
		}
		return figure.Known(since.waited.Seconds() / runnable.Seconds())
	}
}
