// Package interleave measures two settings of a sweep in turns until their figures are decided.
//
// Non-goals: what decides a figure (explain/compare), and what a run is (plan/sweep).
package interleave

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/base/console"
	"github.com/statelab/statelab/internal/explain/compare"
	"github.com/statelab/statelab/internal/model/difference"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/sweep"
	"github.com/statelab/statelab/result"
)

// Side is what is measured in turns with another.
type Side struct {
	Plan plan.Plan
	Work *sweep.Work
}

// Run measures two sides in turns until the figures of the limits (none: all) are decided by
// judge, which gets the part of the false alarms that a look may have; 0: all. It returns how many
// pairs were measured; of an interrupted comparison what they say, if one is complete.
//
// Sides of several loads are measured until more repeats would not help. That depends on the spread
// of the runs and not on the change, so the last look may have all of the false alarms.
func Run(ctx context.Context, sides [2]Side, maximum int, limits []compare.Limit,
	judge func(alpha float64) (*compare.Comparison, error),
	p *console.Progress) (*compare.Comparison, int, error) {
	var names []string
	for _, limit := range limits {
		names = append(names, limit.Figure)
	}

	// The pairs of runs after which is judged, as long as nothing is decided. Each judges with its
	// part of the accepted false alarms.
	first, looks, loads := 1, []int{6, 10, 20, 40}, sides[0].Plan.Loads
	if loads > 1 {
		first, looks = loads, []int{2 * loads, 3 * loads, 4 * loads, 6 * loads, 8 * loads}
	}

	at := append(slices.DeleteFunc(looks, func(n int) bool { return n >= maximum }), maximum)
	for pair := 1; pair <= maximum; pair++ {
		for n := range sides {
			s := &sides[(n+pair-1)%2] // A B, B A, ...: drift meets both alike
			s.Plan.Now = pair
			so, err := plan.Run(ctx, s.Plan, s.Work, func(at plan.Progress) {
				p.Report(fmt.Sprintf("pair %d, %s", pair, filepath.Base(s.Plan.Out)), at.Event)
			})
			p.Done()
			done := s.Work.Result
			switch {
			case so.Status == result.Interrupted:
				err := engine.Fail(engine.CodeInterrupted, "interrupted")
				if pair == 1 {
					p.Printf("interrupted before the first pair was complete: nothing can be " +
						"judged; run the command again")
					return nil, 0, err
				}
				found, wrong := judge(0)
				return found, pair - 1, errors.Join(err, wrong)
			case err != nil:
				return nil, 0, err
			case so.Status != result.OK:
				for _, point := range done.Points {
					if point.Status != result.OK {
						return nil, 0, fmt.Errorf("%s: %w", done.Name, point.Failure(point.Error))
					}
				}
				return nil, 0, fmt.Errorf("%s: %w", done.Name, so.Failure(so.Error))
			}
		}

		if pair != first && !slices.Contains(at, pair) {
			continue
		}

		alpha, enough := difference.Alpha/float64(len(at)), (*compare.Comparison).Decided
		if loads > 1 {
			alpha, enough = 0, func(c *compare.Comparison, names ...string) bool {
				return !c.RepeatsHelp(names...)
			}
		}

		found, err := judge(alpha)
		if err != nil || pair == maximum || enough(found, names...) {
			return found, pair, err
		}
	}

	return nil, 0, nil // most is at least 1
}
