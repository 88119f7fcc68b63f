// Package harvest recovers the change set of a chain from the database of a node that has
// kept all versions: ranges of versions are read by processes of the tree's runner, and
// what is finished stays finished.
//
// Non-goals: reading the database (runner); dividing the work among nodes (slurm).
package harvest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/output"
	"github.com/statelab/statelab/internal/chain/changeset"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/run/protocol"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/tree"
)

// Harvest is a range of versions to recover.
type Harvest struct {
	Tree     *runners.Found[tree.Info]
	DB       string // the database; nobody else has it open
	From, To int64  // versions; 0: the first, the last
	Part     engine.Part
	Jobs     int    // processes at a time
	Out      string // file of the set
	Tell     result.EventFunc
	Copied   func(changeset.Info) changeset.ProgressFunc // hears how far the set is written

	whole       bool  // the set begins where the chain did
	begins      int64 // first version of the set; that of a part may be later
	first, last int64 // versions to read
}

// ranges is into how many the versions are cut: some per process, so that none waits
// long for the last, and what a crash loses is small.
const ranges = 32

// Survey finds the versions to harvest, how many there are, and what the set will lack.
func (h *Harvest) Survey(
	ctx context.Context,
) (versions int64, warnings []engine.Warning, err error) {
	survey, err := h.ask(ctx, protocol.HarvestOrder{})
	if err != nil {
		return 0, nil, err
	}

	h.first, h.last = max(h.From, survey.First), survey.Last
	if h.To > 0 {
		h.last = min(h.To, h.last)
	}

	h.whole, h.begins = h.first == survey.First && !survey.Pruned, h.first
	if h.last < h.first {
		return 0, nil, fmt.Errorf("%s has the versions %d to %d, and none in the range of --from "+
			"and --to", h.DB, survey.First, survey.Last)
	}

	return h.last - h.first + 1, h.judge(survey), nil
}

// judge warns of versions that were asked for and cannot be had, and of a set without
// the state that it begins on.
func (h *Harvest) judge(survey tree.Survey) (warnings []engine.Warning) {
	if h.From > 0 && h.From < h.first || h.To > h.last {
		warnings = append(warnings, engine.Warning{Code: "versions_missing",
			Text: fmt.Sprintf("the database can tell the changes of versions %d to %d only: the "+
				"set holds %d to %d", survey.First, survey.Last, h.first, h.last)})
	}

	if !h.whole {
		why := "earlier versions were left out"
		if survey.Pruned {
			why = "earlier versions were pruned"
		}

		warnings = append(warnings, engine.Warning{Code: "no_base_state",
			Text: fmt.Sprintf("the set begins with version %d on a state that it does not hold "+
				"(%s): trees replay it on an empty state, so their roots are not the "+
				"chain's, and keys of the earlier state are deleted without effect", h.first, why),
			Remedy: "harvest a database that keeps all versions (pruning = \"nothing\") from its " +
				"first one"})
	}

	return warnings
}

// Run harvests what Survey found, or the part of it.
func (h *Harvest) Run(ctx context.Context) error {
	if n := h.last - h.first + 1; h.Part.Of > 0 {
		if n < int64(h.Part.Of) {
			return fmt.Errorf("%d versions cannot be divided into %d parts", n, h.Part.Of)
		}
		from, to := h.Part.Range(uint64(n))
		h.first, h.last = h.first+int64(from), h.first+int64(to)-1
	}

	dir := fmt.Sprintf("%s.parts-%d-%d", h.Out, h.first, h.last)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	held, err := output.LockDir(dir)
	if err != nil {
		return err
	}

	defer held.Close() // its lock goes with it
	paths, err := h.read(ctx, dir)
	if err != nil {
		return fmt.Errorf("%w (finished ranges are kept: run the same command again to continue)",
			err)
	}

	note := ""
	if !h.whole {
		note = fmt.Sprintf(", %s %d", changeset.WithoutBase, h.begins)
	}

	if err := Join(h.Out, paths, note, h.Copied); err != nil {
		return err
	}

	return os.RemoveAll(dir)
}

// read has the runner read a range after the other into files of dir.
func (h *Harvest) read(parent context.Context, dir string) (paths []string, err error) {
	group, ctx := errgroup.WithContext(parent)
	group.SetLimit(h.Jobs)
	var done atomic.Int64
	step := (h.last-h.first)/ranges + 1
	for first := h.first; first <= h.last; first += step {
		last := min(first+step-1, h.last)
		path := filepath.Join(dir, fmt.Sprintf("%012d-%012d.slcs", first, last))
		paths = append(paths, path)
		group.Go(func() error {
			// it appears when it is whole
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				if _, err := h.ask(ctx, protocol.HarvestOrder{
					First: first,
					Last:  last,
					Out:   path,
					Whole: h.whole,
				}); err != nil {
					return err
				}
			} else if err != nil {
				return err
			}

			h.Tell(result.Event{
				Phase: "harvest",
				Done:  uint64(done.Add(last - first + 1)),
				Total: uint64(h.last - h.first + 1),
				Unit:  "versions",
			})

			return nil
		})
	}

	err = group.Wait()
	if cause := context.Cause(parent); cause != nil {
		err = cause
	}

	return paths, err
}

// ask gives an order to a process of the tree's runner.
func (h *Harvest) ask(
	ctx context.Context, order protocol.HarvestOrder,
) (harvested tree.Survey, err error) {
	order.Tree, order.Dir = h.Tree.Info.Name, h.DB
	err = h.Tree.Ask(ctx, protocol.Harvest, order, &harvested)
	return harvested, err
}

// Join writes harvested sets, which follow each other without a gap, as one; note is added to
// its provenance.
func Join(
	out string, paths []string, note string, copied func(changeset.Info) changeset.ProgressFunc,
) error {
	set, err := changeset.JoinFiles(paths)
	if err != nil {
		return err
	}

	defer set.Close() // nothing was written
	info := set.Info()
	return output.Write(out, nil, func(f *os.File) error {
		return changeset.Write(f, set, info.Provenance+note, copied(info))
	})
}
