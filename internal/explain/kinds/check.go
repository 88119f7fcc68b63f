package kinds

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

// Findings are what a check has found.
type Findings struct {
	Figures  int      `json:"figures"`            // that were computed again
	Problems []string `json:"problems,omitempty"` // none: nothing contradicts
}

// Check computes the figures of a folder again, and collects what contradicts.
type Check struct {
	Dir  string
	Runs map[string]*result.Run // by folder, with slashes
	*Findings
}

// Problem notes what contradicts.
func (c *Check) Problem(where, format string, args ...any) {
	c.Problems = append(c.Problems, strings.TrimPrefix(where, "./")+": "+
		fmt.Sprintf(format, args...))
}

// Figure compares a figure with what the raw files give, to the tolerance that the registry has.
func (c *Check) Figure(where string, of figure.Figure, stored, computed float64) {
	c.Number(where, of.Key, stored, computed, of.Tolerance)
}

// Count compares a whole number with what the raw files give: no difference is tolerated.
func (c *Check) Count(where, name string, stored, computed float64) {
	c.Number(where, name, stored, computed, 0)
}

// Number compares a number with what the raw files give. tolerance is a share of the larger one.
func (c *Check) Number(where, name string, stored, computed, tolerance float64) {
	c.Figures++
	if math.Abs(stored-computed) > tolerance*max(math.Abs(stored), math.Abs(computed)) ||
		math.IsNaN(stored) {
		c.Problem(where, "%s is %v, and the raw files give %v", name, stored, computed)
	}
}

// sweep computes the points and answers of a sweep from its runs.
func (c *Check) sweep() error {
	s, err := result.ReadSweep(c.Dir)
	if err != nil {
		return err
	}

	for i, p := range s.Points {
		where := fmt.Sprintf("%s: point %d", result.SweepFile, i)
		runs, folders := c.ok(where, p.Runs)
		if len(runs) == 0 || s.Source != "measured" {
			continue
		}

		rule := result.PointRule()
		shown, _ := rule.Apply(runs)
		c.summary(where, p.Run, folders[shown], p.Figures, shown.Figures)
		c.holds(where, "spread", rule.Same(p.Spread, runs))
		c.Count(where, "cache_bytes", float64(p.CacheBytes), float64(shown.Cache.Effective))
	}

	limits := doc.Each(s.Answers, func(a result.Answer) float64 { return a.Limit })
	c.same(result.SweepFile, "answers", s.Answers, result.Answers(s.Points, limits...))
	return nil
}

// replay computes what stands for each tree from its runs.
func (c *Check) replay() error {
	r, err := result.ReadReplay(c.Dir)
	if err != nil {
		return err
	}

	for _, t := range r.Trees {
		where := result.ReplayFile + ": " + t.Tree
		if runs, folders := c.ok(where, t.Runs); len(runs) > 0 && t.Status == result.OK {
			rule := result.TreeRule()
			shown, _ := rule.Apply(runs)
			c.summary(where, t.Run, folders[shown], t.Figures, shown.Figures)
			c.holds(where, "spread", rule.Same(t.Spread, runs))
		}
	}

	return nil
}

// layouts compares each row with the runs it names.
func (c *Check) layouts() error {
	l, err := result.ReadLayouts(c.Dir)
	if err != nil {
		return err
	}

	for _, row := range l.Rows {
		if row.Status != result.OK {
			continue
		}

		where := fmt.Sprintf("%s: %s of %d accounts", result.LayoutsFile, row.Layout, row.Accounts)
		read, build := c.Runs[row.Read], c.Runs[row.Build]
		if read == nil || read.Figures.State == nil || build == nil || build.Figures.State == nil {
			c.Problem(where, "its runs %s and %s are missing or have no figures", row.Build,
				row.Read)
			continue
		}

		c.same(where, "lookups", row.Lookups, read.Figures.State.Lookups)
		c.same(where, "updates", row.Updates, build.Figures.State.Updates)
		c.Figure(where, figure.DiskBytes, row.DiskBytes.OrZero(),
			float64(build.Figures.State.DiskBytes))
		c.Figure(where, figure.PeakMemory, row.PeakRSSBytes.OrZero(),
			read.Figures.OrZero(figure.PeakMemory))
	}

	return nil
}

// ok are the runs of folders that succeeded.
func (c *Check) ok(where string, folders []string) (runs []*result.Run, of map[*result.Run]string) {
	of = map[*result.Run]string{}
	for _, folder := range folders {
		run := c.Runs[filepath.ToSlash(folder)]
		if run == nil {
			c.Problem(where, "its run %s is missing", folder)
			continue
		}

		if run.Status == result.OK {
			runs, of[run] = append(runs, run), folder
		}
	}

	return runs, of
}

// summary compares what a summary shows with the run that stands for its repeats.
func (c *Check) summary(where, run, shouldBe string, stored, computed result.Figures) {
	if run != shouldBe {
		c.Problem(where, "it shows run %s, and the one in the middle of its repeats is %s", run,
			shouldBe)
	}
	if c.Figures++; !stored.Equal(computed) {
		c.Problem(where, "its figures: not what its runs give")
	}
}

func (c *Check) same(where, what string, stored, computed any) {
	c.holds(where, what, empty(stored) && empty(computed) || reflect.DeepEqual(stored, computed))
}

// holds notes whether what is stored is what the runs give.
func (c *Check) holds(where, what string, same bool) {
	if c.Figures++; !same {
		c.Problem(where, "its %s: not what its runs give", what)
	}
}

func empty(v any) bool {
	r := reflect.ValueOf(v)
	return (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.Len() == 0
}
