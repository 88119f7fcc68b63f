package replay

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/result"
)

// guard watches the calls of a tree: one that does not return in time is
// reported, and whoever made it never comes back from leave.
type guard struct {
	mutex sync.Mutex
	call  string // "": none is under way
	of    int64  // version
	began time.Time
	limit time.Duration // 0: for ever

	stuck chan *stuckError
	stop  chan struct{}
}

// stuckError is a call that did not return.
type stuckError struct {
	call   string
	after  time.Duration
	stacks []byte
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("%s did not return within %v: the goroutines that hang are in %s", e.call,
		e.after, result.StacksFile)
}

// FailureCode is CodeHung.
func (*stuckError) FailureCode() engine.Code { return engine.CodeHung }

const (
	guardEvery = 100 * time.Millisecond
	aliveEvery = 10 * time.Second
)

// watch begins watching; alive is told of a call that takes long.
func watch(alive func(call string, since time.Duration)) *guard {
	g := &guard{stuck: make(chan *stuckError, 1), stop: make(chan struct{})}
	go g.run(alive)
	return g
}

// enter says that a call is about to be made for a version; leave that it has
// returned.
func (g *guard) enter(call string, version int64, limit time.Duration) {
	g.mutex.Lock()
	g.call, g.of, g.began, g.limit = call, version, time.Now(), limit
	g.mutex.Unlock()
}

func (g *guard) leave() {
	g.mutex.Lock()
	g.call = ""
	g.mutex.Unlock()
}

func (g *guard) close() { close(g.stop) }

func (g *guard) run(alive func(string, time.Duration)) {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	var told time.Time
	for {
		select {
		case <-g.stop:
			return
		case now := <-ticker.C:
			g.mutex.Lock()
			call, since := "", now.Sub(g.began)
			if g.call != "" {
				call = fmt.Sprintf("%s at version %d", g.call, g.of)
			}

			if call != "" && g.limit > 0 && since > g.limit {
				g.stuck <- &stuckError{call, g.limit, hanging()}
				return // with the lock: the call's end comes too late
			}

			g.mutex.Unlock()
			if call != "" && since > aliveEvery && now.Sub(told) > aliveEvery {
				told = now
				alive(call, since)
			}
		}
	}
}

// hanging are the stacks of the goroutines that may be to blame: the one in the
// tree's call first, then all that run a tree's or a library's code.
func hanging() []byte {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		return []byte(err.Error())
	}

	var caller, others []string
	for _, stack := range strings.Split(strings.TrimSpace(all.String()), "\n\n") {
		switch {
		case strings.Contains(stack, "replay.(*run).do("):
			caller = append(caller, stack)
		case foreign(stack):
			others = append(others, stack)
		}
	}

	return []byte(strings.Join(append(caller, others...), "\n\n") + "\n")
}

// foreign reports whether a stack runs code other than Go's own and the
// harness'.
func foreign(stack string) bool {
	for _, line := range strings.Split(stack, "\n")[1:] {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "created by ") {
			continue
		}

		path, _, _ := strings.Cut(line, "(")
		host, _, isModule := strings.Cut(path, "/")
		if isModule && strings.Contains(host, ".") &&
			!strings.Contains(path, "/internal/run/replay.") &&
			!strings.Contains(path, "/internal/chain/changeset.") &&
			!strings.Contains(path, "/internal/observe/host.") &&
			!strings.HasPrefix(path, "github.com/statelab/statelab/runner.") {
			return true
		}
	}

	return false
}
