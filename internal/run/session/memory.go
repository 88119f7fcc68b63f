package session

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// memory keeps the process to its budget: docs/comparing-engines.md says by which rule,
// the same one for engines, trees and layouts.
type memory struct {
	limit *host.MemoryLimit // nil: none
	base  int64             // anonymous memory before the subject was opened: the harness's own
}

const (
	// slackBytes are what the process may grow by before its limit follows, and pages of
	// the kernel's that belong to nobody's budget.
	slackBytes = 12 << 20
	// workerBytes are what each worker but the first is left: stacks, buffers and garbage,
	// which so many threads make faster than the limit can follow.
	workerBytes = 256 << 10
	// collectorBytes are what the collector of garbage is left for each worker.
	collectorBytes = 1 << 20
)

// pageCacheShare is the share of a subject's memory that the operating system keeps
// for it.
const pageCacheShare = "page cache"

// BeginBudget moves the process into a memory control group, without a limit yet.
// Pages belong to the group that reads them first, so it comes before the subject is
// opened, and those that are there already are dropped.
func (s *Session[C]) BeginBudget(ctx context.Context, bytes int64) error {
	s.Result.Memory = &result.Memory{BudgetBytes: bytes, Shares: []engine.MemoryShare{}}
	if bytes == 0 {
		return nil
	}
	if err := s.Evict(ctx); err != nil {
		return err
	}
	var err error
	if s.memory.limit, err = host.LimitMemory(); err == nil {
		s.memory.base, _, err = host.AnonymousBytes()
	}
	if err != nil {
		s.cannotLimit(err)
		return nil
	}
	if least := s.memory.limit.Within; least > 0 && least < bytes {
		s.Warn(engine.Warning{Code: "memory_limit_below_budget",
			Text:   fmt.Sprintf("the budget is %s, but a limit of %s was already in force (of a Slurm job or a container)", unit.Bytes(bytes), unit.Bytes(least)),
			Remedy: "allow the process more memory (Slurm: --sbatch=--mem=0 asks for all of the node's), or choose a smaller --memory"})
	}
	return nil
}

// LimitPageCache leaves the page cache what the subject has not spent of its budget,
// by the shares in run.json, while workers are at work.
func (s *Session[C]) LimitPageCache(workers int) {
	if s.memory.limit == nil {
		return
	}
	if err := s.limitPageCache(workers); err != nil {
		s.cannotLimit(err)
	}
}

func (s *Session[C]) limitPageCache(workers int) error {
	debug.FreeOSMemory() // what earlier workers have left
	anonymous, _, err := host.AnonymousBytes()
	if err != nil {
		return err
	}
	m, spent := s.Result.Memory, int64(0)
	for _, share := range m.Shares {
		if share.Use != pageCacheShare {
			spent += share.Bytes
		}
	}
	// Caches that are not full yet may still grow.
	own := max(anonymous, s.memory.base+spent)
	debug.SetMemoryLimit(collectorLimit(anonymous, own) + int64(workers)*collectorBytes)
	pages := max(0, m.BudgetBytes-spent) + slackBytes + int64(workers-1)*workerBytes
	if err := s.memory.limit.Follow(pages); err != nil {
		return err
	}
	if m.PageCacheBytes == nil || *m.PageCacheBytes > pages {
		m.PageCacheBytes = &pages
	}
	m.HeldBy = s.memory.limit.How
	return nil
}

// collectorLimit is what the Go heap may grow to: a garbage collector needs room, and
// must not outgrow it. Caches may lie in C's memory, which the collector does not see:
// then what is still to grow is theirs as well.
func collectorLimit(anonymous, own int64) int64 {
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(memory)
	heap := min(int64(memory[0].Value.Uint64()-memory[1].Value.Uint64()), anonymous)
	if anonymous-heap > slackBytes {
		return heap + own/8
	}
	return own + own/8
}

func (s *Session[C]) cannotLimit(err error) {
	s.Absent(fmt.Sprintf("the page cache cannot be limited: %v", err), "page_cache_bytes")
	s.Warn(engine.Warning{Code: "page_cache_unlimited", Text: fmt.Sprintf("the page cache is not limited to the budget: %v", err),
		Remedy: "run as root where memory control groups are, or --page-cache direct for the engines that can"})
}

func (s *Session[C]) releaseMemory() error {
	if s.memory.limit == nil {
		return nil
	}
	debug.SetMemoryLimit(math.MaxInt64)
	err := s.memory.limit.Release()
	s.memory.limit = nil
	return err
}

// withoutOwn subtracts what looking after the limit has cost the process.
func (m *memory) withoutOwn(io *result.ProcessIO) {
	if m.limit == nil {
		return
	}
	calls, chars := m.limit.Reads()
	io.ReadCalls -= calls
	io.ReadChars -= chars
	io.VoluntarySwitches -= calls // it sleeps between two reads
}
