// Package lookup builds a state in a layout, changes it block by block and looks it
// up, and says what that cost.
//
// Goals: only the layout's calls are timed; every value looked up is compared with the
// generator's; "held" lookups have warm caches and limited memory, cold ones have nothing
// cached; layouts of one rule of roots agree after every sampled block.
// Non-goals: choosing layouts and comparing them (plan/layouts),
// surviving their crashes (runners), explaining (report).
//
// Read in this order: run.go, chain.go, build.go, lookup.go, gets.go.
package lookup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/layout"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// run is one stage of a layout while it is measured.
type run struct {
	*session.Session[layout.Counters]
	spec      *protocol.LayoutSpec
	layout    layout.Layout
	state     layout.State // nil: not open
	generator *Generator   // of the newest block
	traffic   *traffic     // nil: none
	keepsCode bool         // the layout has code in its trie
	inMemory  bool         // the filesystem of the state keeps its files there
}

// Run does what spec says and returns the run as far as it came. The run folder is
// written in every case; the error is also in it.
func Run(
	ctx context.Context, layout layout.Layout, spec *protocol.LayoutSpec, tell result.EventFunc,
) (*result.Run, error) {
	r := &run{spec: spec, layout: layout}
	r.Session = session.Begin(Blank(spec, layout.Info()), spec.Out, spec.Dir, tell, r.subject())
	err := r.do(ctx)
	if r.state != nil {
		_, closeErr := r.phase("close", func() (uint64, error) { return 0, r.close() })
		err = errors.Join(err, closeErr)
	}
	return r.End(ctx, err, spec.WhenDiskIsFull())
}

func (r *run) do(ctx context.Context) error {
	if errs := r.spec.Check(); len(errs) > 0 {
		return errors.Join(errs...)
	}

	if r.spec.Accesses != "" {
		var err error
		if r.traffic, err = readTraffic(r.spec.Accesses); err != nil {
			return err
		}

		if len(r.traffic.blocks) < 2 {
			r.Warn(engine.Warning{
				Code: "short_list",
				Text: "the access list has only one block, so nothing warms the cache before " +
					"warm lookups",
				Remedy: "use a list of more blocks",
			})
		}
	}

	if err := os.MkdirAll(r.spec.Dir, 0o755); err != nil {
		return fmt.Errorf("make the state's folder: %w", err)
	}

	if !r.Device.Private {
		r.MarkUnavailable("the state is on no device of its own: statelab volume makes one",
			figure.DeviceReadsPerLookup)
	}

	if err := r.OpenSeries(false); err != nil {
		return err
	}

	switch r.spec.Stage {
	case protocol.Build:
		return r.build(ctx)
	case protocol.Lookup:
		return r.lookUp(ctx)
	}

	return fmt.Errorf("this runner knows no stage %q", r.spec.Stage)
}

func (r *run) open(ctx context.Context) error {
	opened, err := r.layout.Open(ctx, options(r.spec, r.traffic))
	if err != nil {
		return fmt.Errorf("open %s with %s: %w", r.spec.Dir, r.spec.Layout, err)
	}

	r.state = opened
	if c, is := r.layout.(layout.Coder); is {
		r.keepsCode = c.KeepsCode()
	}

	r.Result.Engine.Options, r.Result.Engine.Overrides = opened.Effective(), r.spec.Overrides
	return nil
}

func (r *run) close() error {
	state := r.state
	r.state = nil
	if err := state.Close(); err != nil {
		return fmt.Errorf("close %s: %w", r.spec.Dir, err)
	}
	return nil
}

// settle waits for background work, has everything written to the device, and
// measures what the state takes.
func (r *run) settle(ctx context.Context) error {
	if err := r.state.Settle(ctx); err != nil {
		return err
	}

	if err := host.SyncFilesystem(r.spec.Dir); err != nil {
		return fmt.Errorf("sync the filesystem: %w", err)
	}

	bytes, err := r.state.DiskBytes()
	if err != nil {
		return fmt.Errorf("measure the state's files: %w", err)
	}

	f, accounts := r.Result.Figures.State, options(r.spec, r.traffic).Accounts
	f.DiskBytes, f.DiskBytesPerAccount = bytes, float64(bytes)/float64(max(1, accounts))
	return nil
}

func (r *run) noteRoot(root layout.Hash) {
	if r.layout.Info().Root == layout.NoRoot {
		return
	}
	r.Result.Figures.State.Root = hex.EncodeToString(root[:])
	r.noteRootAfter(root)
}

// noteRootAfter is of a block that came after the state was looked up.
func (r *run) noteRootAfter(root layout.Hash) {
	if r.layout.Info().Root == layout.NoRoot {
		return
	}
	f := r.Result.Figures.State
	f.Roots = append(f.Roots, result.StateAt{
		Block: r.state.Block(),
		Root:  hex.EncodeToString(root[:]),
	})
}

// summed is a histogram's summary, and keeps the histogram for latency.hlog.
func (r *run) summed(tag string, h *measure.Histogram) *result.Latency {
	if h.N() == 0 {
		return nil
	}
	r.Latency(measure.LogEntry{Tag: tag, Start: r.Result.Started, End: time.Now(), Durations: h})
	return new(h.Summary())
}

// Verb is what a run is called in run.json.
const Verb = "layouts"

// InFlight are the lookups at once that are measured.
func InFlight() []int { return []int{1, 64} }

func options(s *protocol.LayoutSpec, t *traffic) layout.Options {
	o := layout.Options{
		Dir:         s.Dir,
		Profile:     s.Profile,
		Create:      s.Stage == protocol.Build,
		MemoryBytes: s.MemoryBytes,
		Overrides:   s.Overrides,
		Accounts:    s.Chain.Accounts,
		Slots:       expectedSlots(s.Chain),
	}

	if t != nil {
		o.Accounts, o.Slots = o.Accounts+uint64(len(t.initial)), o.Slots+t.slots
	}

	return o
}

// Blank is a run of which only the plan is known.
func Blank(spec *protocol.LayoutSpec, info layout.Info) *result.Run {
	return &result.Run{
		Status: result.Failed, Verb: Verb, Started: time.Now().UTC(), Command: spec.Command,
		Engine: result.Engine{
			Name:       spec.Layout,
			Version:    info.Version,
			Profile:    spec.Profile,
			Options:    map[string]string{},
			RootRule:   string(info.Root),
			Durability: info.Durability,
			History:    info.History,
		},
		Workload: result.Workload{
			Name:    spec.Stage,
			Keys:    spec.Chain.Accounts,
			Threads: 1,
			Gets:    spec.Reads,
			Seed:    spec.Chain.Seed,
		},
		PageCache: "cold",
		Database:  result.Database{Dir: spec.Dir},
		Figures:   result.Figures{State: &result.State{Accounts: spec.Chain.Accounts}},
		Absent:    map[string]string{},
	}
}
