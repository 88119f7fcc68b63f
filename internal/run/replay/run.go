// Package replay applies a change set to a state tree and says what it cost.
//
// Goals: only the tree's calls are timed, reading and decoding happen ahead of
// them in memory of a fixed size; the version a commit returns is checked every
// time, roots against the set's own where it has them; a call that does not
// return is a result with the stacks that hang, and a tree that lost versions
// says how many.
// Non-goals: choosing trees and comparing them (plan/replays),
// surviving a tree's crash (runners), explaining figures (report).
//
// Read in this order: run.go, apply.go, guard.go; then figures.go, rows.go, sample.go.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/observe/host"
	"github.com/statelab/statelab/internal/observe/measure"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/internal/run/session"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/tree"
)

// Phases of a replay.
const (
	preparePhase = "prepare"
	replayPhase  = "replay"
	settlePhase  = "settle"
	readPhase    = "read"
	closePhase   = "close"
)

// run is one replay while it is measured.
type run struct {
	*session.Session[tree.Counters]
	spec   *protocol.TreeSpec
	tree   tree.Tree
	forest tree.Forest // nil: not open
	guard  *guard

	info        changeset.Info
	first, last int64 // versions of the set that are wanted
	stores      []string
	ahead       *ahead
	source      changeset.Source
	sample      *sample // nil: no Gets
	roots       *rootBook
	ticks       ticker
	ack         *acknowledged
	rows        rows

	totals  totals
	commits *measure.Histogram
	gets    *measure.Histogram
	counted tree.Counters // at the last tick; in the end of all writes
}

// Run does what spec says and returns the run as far as it came. The run folder
// is written in every case; the error is also in it. After a call of the tree
// that did not return, its goroutine is still there: the process should end.
func Run(
	ctx context.Context, t tree.Tree, spec *protocol.TreeSpec, tell result.EventFunc,
) (*result.Run, error) {
	r := &run{spec: spec, tree: t, commits: measure.NewHistogram(), gets: measure.NewHistogram()}
	r.Session = session.Begin(Blank(spec, t.Info()), spec.Out, spec.Dir, tell,
		session.Subject[tree.Counters]{
			Now:     r.counters,
			Between: host.Between[tree.Counters],
			Note:    note,
		})

	r.guard = watch(func(call string, since time.Duration) {
		tell(result.Event{
			Phase: replayPhase,
			Unit:  "versions",
			Note:  fmt.Sprintf("%s for %v", call, since.Round(time.Second)),
		})
	})

	defer r.guard.close()
	done := make(chan error, 1)
	go func() { done <- r.do(ctx) }()
	var err error
	select {
	case err = <-done:
	case stuck := <-r.guard.stuck:
		err = errors.Join(stuck,
			os.WriteFile(filepath.Join(spec.Out, result.StacksFile), stuck.stacks, 0o644))
		if r.roots != nil {
			err = errors.Join(err, r.roots.close())
		}
	}

	r.figures()
	r.latencies()
	return r.End(ctx, err, spec.WhenDiskIsFull())
}

// do is the replay, from opening to closing. A tree that panics takes the process
// along: closing it as well would only hide where.
func (r *run) do(ctx context.Context) error {
	err := r.work(ctx)
	return errors.Join(err, r.close())
}

func (r *run) work(ctx context.Context) error {
	for _, phase := range []struct {
		name string
		work func(context.Context) error
	}{{preparePhase, r.prepare}, {replayPhase, r.replay}, {settlePhase, r.settle}} {
		if _, err := r.phase(phase.name, func() error { return phase.work(ctx) }); err != nil {
			return err
		}
	}

	if r.sample == nil {
		return nil
	}

	cost, err := r.phase(readPhase, func() error { return r.read(ctx) })
	if err != nil {
		return err
	}

	r.readFigures(cost)
	return nil
}

// prepare opens the change set and the tree and begins to decode ahead.
func (r *run) prepare(ctx context.Context) error {
	if err := os.MkdirAll(r.spec.Dir, 0o755); err != nil {
		return fmt.Errorf("make the tree's folder: %w", err)
	}

	var err error
	if r.source, err = openSet(r.spec.Changes); err != nil {
		return err
	}

	var numbers map[string]int
	r.info = r.source.Info()
	if r.stores, numbers, err = storesOf(r.info, r.spec.Stores); err != nil {
		return err
	}

	if err := r.bounds(); err != nil {
		return err
	}

	r.describeSet()
	if r.ack, err = openAcknowledged(r.spec.Out, r.spec.Resume); err != nil {
		return err
	}

	if err := r.open(ctx); err != nil {
		return err
	}

	at := max(r.forest.Version(), r.first-1)
	if err := r.judgeVersion(at); err != nil {
		return err
	}

	if r.roots, err = openRoots(r.spec.Out, r.stores, r.rootsEvery(), at,
		at >= r.first); err != nil {
		return err
	}

	if err := r.OpenSeries(r.spec.Resume); err != nil {
		return err
	}

	if err := r.rows.open(r.spec.Out, r.first, r.last, at, r.spec.Resume); err != nil {
		return err
	}

	from := at + 1
	if r.spec.Gets > 0 && r.tree.Info().RootRule != result.NoRoots {
		r.sample, from = &sample{
			seed:    r.spec.Seed,
			limit:   math.MaxUint64,
			maximum: maxSample,
			keys:    map[string]expected{},
		}, r.first
	}

	source, err := changeset.From(r.source, from)
	if err != nil {
		return err
	}

	r.totals.version = at
	r.ahead = readAhead(source, window{above: at, last: r.last, stores: numbers, sample: r.sample})
	r.Result.Figures.Record(figure.HarnessTimePerLeaf, HarnessFloor(r.Clock))
	return nil
}

// bounds are the versions to replay.
func (r *run) bounds() (err error) {
	if r.first = r.info.First; r.first == 0 {
		if r.first, err = firstVersion(r.spec.Changes); err != nil {
			return err
		}
	}

	r.last = math.MaxInt64
	if r.info.Last > 0 { // some forms tell only when they are read to their end
		r.last = r.info.Last
	}

	if r.spec.Versions > 0 {
		r.last = min(r.last, r.first+r.spec.Versions-1)
	}

	return nil
}

func (r *run) describeSet() {
	r.Result.Changes = &result.ChangeSet{
		Path:       r.spec.Changes,
		Format:     string(r.info.Format),
		Order:      r.info.Order.String(),
		Stores:     r.stores,
		First:      r.first,
		RootRule:   r.info.RootRule,
		Provenance: r.info.Provenance,
	}

	if r.last != math.MaxInt64 {
		r.Result.Changes.Last = r.last
	}

	if r.info.Damage != nil {
		r.Warn(engine.Warning{
			Code: "damaged_set",
			Text: fmt.Sprintf("the change set is damaged and can be read in part only: %v",
				r.info.Damage),
			Remedy: "fetch it again",
		})
	}
}

// rootsEvery is the distance of the versions whose roots are stored.
func (r *run) rootsEvery() int64 {
	if r.spec.RootsEvery > 0 {
		return r.spec.RootsEvery
	}
	if r.last == math.MaxInt64 {
		return 100
	}
	return max(1, (r.last-r.first)/maxRoots+1)
}

func (r *run) open(ctx context.Context) error {
	entries, err := os.ReadDir(r.spec.Dir)
	if err != nil {
		return err
	}

	create := len(entries) == 0
	if !r.spec.Resume && !create {
		return fmt.Errorf(
			"%s is not empty: a replay begins with a new tree; --resume continues one",
			r.spec.Dir,
		)
	}

	if r.spec.MemoryBytes > 0 {
		if err := r.BeginBudget(ctx, r.spec.MemoryBytes); err != nil {
			return err
		}

		r.Warn(engine.Warning{Code: "memory_not_reported",
			Text: "trees do not report how much memory they use: the page cache gets the whole " +
				"budget, in addition to their memory",
			Remedy: "compare " + figure.PeakMemory.Key + " as well"})
	}

	r.guard.enter("Open", r.first, 0)
	forest, err := r.tree.Open(ctx, tree.Options{
		Dir:          r.spec.Dir,
		Profile:      r.spec.Profile,
		Create:       create,
		Stores:       r.stores,
		FirstVersion: r.first,
		CacheNodes:   r.spec.CacheNodes,
		MemoryBytes:  r.spec.MemoryBytes,
		Overrides:    r.spec.Overrides,
		Log:          func(string) {},
		Tell:         r.rows.tell,
	})

	r.guard.leave()
	if err != nil && !create {
		return fmt.Errorf("open %s with %s: %w; to replay from the start instead, remove that "+
			"folder", r.spec.Dir, r.spec.Tree, err)
	} else if err != nil {
		return fmt.Errorf("open %s with %s: %w", r.spec.Dir, r.spec.Tree, err)
	}

	r.forest = forest
	r.Result.Engine.Options, r.Result.Engine.Overrides = forest.Effective(), r.spec.Overrides
	r.LimitPageCache(1)
	return nil
}

// judgeVersion compares where the tree is with what was acknowledged before.
func (r *run) judgeVersion(at int64) error {
	figures := r.Result.Figures.Replay
	figures.FirstVersion = at + 1
	if !r.spec.Resume {
		if at != r.first-1 {
			return fmt.Errorf("a new tree is at version %d", r.forest.Version())
		}
		return nil
	}

	figures.ResumedAt = &at
	r.Warn(engine.Warning{
		Code: "resumed",
		Text: fmt.Sprintf("the replay went on at version %d: its figures are of the versions "+
			"after it", at),
		Remedy: "for figures of the whole set, replay it without a break",
	})

	if !r.ack.known {
		return nil
	}

	lost := r.ack.version - at
	switch {
	case lost < -1: // a commit may have ended whose return nobody saw
		return fmt.Errorf("the tree is at version %d, but only %d was ever committed here: it is "+
			"another replay's", at, r.ack.version)
	case lost > 0:
		r.Warn(engine.Warning{Code: "lost_versions",
			Text: fmt.Sprintf("%s was reopened at version %d: it lost %d versions that it had "+
				"acknowledged", r.spec.Tree, at, lost),
			Remedy: "what survives a kill is the tree's durability: " + r.tree.Info().Durability})
	default:
		lost = 0
	}

	figures.LostVersions = &lost
	return nil
}

// settle waits until everything is as safe as the tree can make it.
func (r *run) settle(ctx context.Context) error {
	// Syncing may end the snapshots and checkpoints of many versions.
	r.guard.enter("Sync", r.totals.version, 10*time.Duration(r.spec.CommitLimitNanos))
	start := r.Clock.Ticks()
	err := r.forest.Sync(ctx)
	nanos := r.Clock.Nanos(r.Clock.Ticks() - start)
	r.guard.leave()
	r.totals.syncNanos = nanos
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}

	if r.Device.Private { // it counts what was written
		if err := host.SyncFilesystem(r.spec.Dir); err != nil {
			return err
		}
	}

	r.counted = r.forest.Counters()
	leaves, height, err := r.shape()
	if leaves != nil {
		r.Result.Figures.Record(figure.TreeSize, float64(*leaves))
		r.Result.Figures.Record(figure.TreeHeight, float64(*height))
	}

	return err
}

// shape is the size of all stores and the height of the highest.
func (r *run) shape() (*int64, *int, error) {
	shapes, err := r.forest.Shape()
	if err != nil {
		return nil, nil, fmt.Errorf("read the tree's size: %w", err)
	}

	if shapes == nil {
		return nil, nil, nil
	}

	leaves, height := int64(0), 0
	for _, s := range shapes {
		leaves += s.Leaves
		height = max(height, s.Height)
	}

	return &leaves, &height, nil
}

// close lets go of everything, the tree last.
func (r *run) close() error {
	_, err := r.phase(closePhase, r.closeAll)
	return err
}

func (r *run) closeAll() error {
	var errs []error
	if r.ahead != nil {
		r.ahead.close()
	}

	if r.source != nil {
		errs = append(errs, r.source.Close())
	}

	if r.roots != nil {
		errs = append(errs, r.roots.close())
	}

	if r.ack != nil {
		errs = append(errs, r.ack.file.Close())
	}

	if forest := r.forest; forest != nil {
		r.Warn(forest.Warnings()...)
		r.forest = nil
		r.guard.enter("Close", r.totals.version, 10*time.Duration(r.spec.CommitLimitNanos))
		err := forest.Close()
		r.guard.leave()
		if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", r.spec.Dir, err))
		}
	}

	// closing the tree may end work in the background
	return errors.Join(append(errs, r.rows.close(r.totals))...)
}

// latencies keeps the times of Gets and commits.
func (r *run) latencies() {
	for _, of := range []measure.LogEntry{
		{Durations: r.gets},
		{Tag: "commit", Durations: r.commits},
	} {
		if of.Durations.N() > 0 {
			of.Start, of.End = r.Result.Started, time.Now()
			r.Latency(of)
		}
	}
}

// Verb is what a replay is called in run.json.
const Verb = "replay"

// Blank is a run of which only the plan is known; info is empty where the tree
// could not be asked.
func Blank(spec *protocol.TreeSpec, info tree.Info) *result.Run {
	return &result.Run{
		Status: result.Failed, Verb: Verb, Started: time.Now().UTC(), Command: spec.Command,
		Engine: result.Engine{
			Name:       spec.Tree,
			Version:    info.Version,
			Profile:    spec.Profile,
			Options:    map[string]string{},
			RootRule:   info.RootRule,
			Durability: info.Durability,
			History:    info.History,
		},
		Workload:  result.Workload{Name: Verb, Threads: 1, Gets: spec.Gets, Seed: spec.Seed},
		PageCache: "asis",
		Database:  result.Database{Dir: spec.Dir},
		Changes:   &result.ChangeSet{Path: spec.Changes},
		Figures:   result.Figures{Replay: new(result.Replay)},
		Absent:    map[string]string{},
	}
}

// openSet opens the change set at path, in whatever form it is.
func openSet(path string) (changeset.Source, error) {
	return changeset.Open(os.DirFS(filepath.Dir(path)), filepath.Base(path), "")
}

// firstVersion reads the first version of a set that does not tell.
func firstVersion(path string) (version int64, err error) {
	source, err := openSet(path)
	if err != nil {
		return 0, err
	}

	defer func() { err = errors.Join(err, source.Close()) }()
	var batch changeset.Batch
	if err := source.Next(&batch); err == io.EOF {
		return 0, errors.New("the change set has no versions")
	} else if err != nil {
		return 0, fmt.Errorf("read the change set: %w", err)
	}

	return batch.Version, nil
}
