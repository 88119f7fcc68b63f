package lookup

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/result"
)

// held keeps the process to its budget.
type held struct {
	hold *host.MemoryHold
	base int64 // anonymous memory before the state was opened: the harness's own
	// follows says that the limit is that of page_cache_bytes.
	follows bool
}

// slackBytes are what the process may grow by before its limit follows, and pages of
// the kernel's that belong to nobody's budget.
const slackBytes = 12 << 20

// pageCacheShare is the share of a layout's memory that the operating system keeps
// for it.
const pageCacheShare = "page cache"

// hold moves the process into a memory control group, without a limit yet: pages
// belong to the group that reads them first, so it comes before the state is opened.
func (r *run) hold() {
	r.result.Memory = &result.Memory{BudgetBytes: r.spec.MemoryBytes, Shares: []engine.MemoryShare{}}
	if r.spec.MemoryBytes == 0 {
		return
	}
	var err error
	if r.held.hold, err = host.HoldMemory(); err == nil {
		r.held.base, err = host.AnonymousBytes()
	}
	if err != nil {
		r.cannotHold(err)
	}
}

// confine holds the process to its budget, once its caches are warm: the peak of
// memory is of what comes after.
func (r *run) confine() {
	r.limit()
	if err := host.ResetPeakRSS(); err != nil {
		r.warn(engine.Warning{Code: "peak_since_start", Text: fmt.Sprintf("the peak of memory is of the whole process, opening and warming included: %v", err)})
	}
}

// limit leaves the page cache what the layout has not spent of its budget.
func (r *run) limit() {
	m := r.result.Memory
	m.Shares = r.state.Memory()
	if r.spec.MemoryBytes == 0 {
		return
	}
	spent := int64(0)
	for _, share := range m.Shares {
		if share.Use != pageCacheShare {
			spent += share.Bytes
		}
	}
	if r.held.hold == nil {
		return
	}
	anonymous, err := host.AnonymousBytes()
	if err != nil {
		r.cannotHold(err)
		return
	}
	// Caches that are not full yet may still grow. A garbage collector needs room to
	// breathe, and must not outgrow it.
	own := max(anonymous, r.held.base+spent)
	debug.SetMemoryLimit(collectorLimit(anonymous, own, own/4))
	pages := max(0, r.spec.MemoryBytes-spent) + slackBytes
	if err := r.held.hold.Follow(pages); err != nil {
		r.cannotHold(err)
		return
	}
	r.held.follows = true
	m.PageCacheBytes, m.HeldBy = &pages, r.held.hold.How
}

// workerBytes are what each lookup in flight but the first is left: stacks, buffers and
// garbage, which so many threads make faster than the limit can follow.
const workerBytes = 1 << 20

// makeRoom leaves room to so many lookups in flight. The page cache can use it too.
func (r *run) makeRoom(inFlight int) error {
	if !r.held.follows {
		return nil
	}
	return r.held.hold.Follow(*r.result.Memory.PageCacheBytes + int64(inFlight-1)*workerBytes)
}

// collectorLimit is what the Go heap may grow to. Caches may lie in C's memory, which
// the collector does not see: then what is still to grow is theirs as well.
func collectorLimit(anonymous, own, room int64) int64 {
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(memory)
	heap := min(int64(memory[0].Value.Uint64()-memory[1].Value.Uint64()), anonymous)
	if anonymous-heap > slackBytes {
		return heap + room/2
	}
	return own + room/2
}

func (r *run) cannotHold(err error) {
	r.result.Absent["page_cache_bytes"] = fmt.Sprintf("the page cache cannot be limited: %v", err)
	r.warn(engine.Warning{Code: "page_cache_unlimited", Text: fmt.Sprintf("the page cache is not held to the budget: %v", err),
		Remedy: "run as root where memory control groups are"})
}

func (h *held) release() error {
	if h.hold == nil {
		return nil
	}
	debug.SetMemoryLimit(math.MaxInt64)
	return h.hold.Release()
}

// evict drops the state's pages and warns of those that stay.
func (r *run) evict(ctx context.Context) error {
	method, err := host.Evict(ctx, r.spec.Dir)
	if err != nil {
		return err
	}
	resident, total, err := host.Resident(r.spec.Dir)
	if err != nil {
		return err
	}
	if total > 0 && float64(resident) > 0.01*float64(total) {
		r.warn(engine.Warning{Code: "not_cold", Text: fmt.Sprintf("%.1f%% of the state is still in the page cache after %s", 100*float64(resident)/float64(total), method),
			Remedy: "end other programs that hold it"})
	}
	return nil
}
